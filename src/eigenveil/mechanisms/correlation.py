r"""Components of standardised columns: eigenvectors of the correlations of a released covariance.

.. math:: \tilde C_{jk} = \frac{\tilde S_{jk}}{\sqrt{\tilde v_j \tilde v_k}}, \qquad
          \hat V = \text{top-}k\, \tilde C

The covariance is released first, by any mechanism, with its own scales, centre and bounds. Its
variances v standardise it, so that no scale has to be exact: dividing by released numbers is
post-processing. A variance that noise hides is taken as large as noise makes it (`softened`), so
that its column is never blown up. New here; section 12 of the contract.
Proof: docs/proofs/correlation.md.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.row_maps import Limit
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.component_stages import NOTHING_FURTHER, Further, StagedComponents
from eigenveil.mechanisms.components import NoisyComponents, leading
from eigenveil.mechanisms.elliptical import CLEAR_VARIANCE, Elliptical
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.rank import MAX_PRIVATE_RANK, leading_rank
from eigenveil.mechanisms.registry import NOT_AN_OPTION, BuildContext, ComponentMechanism
from eigenveil.mechanisms.wishart import Wishart
from eigenveil.messages import option
from eigenveil.numerics.column_limits import ColumnLimits
from eigenveil.numerics.component_law import ComponentStatement, correlation_statement
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Allotment, Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide

_HIDDEN_LOADINGS = 0.1  # squared, beyond which nothing is stated of a component
_RAISED = 1 + 1e-9  # from here on a variance to divide by is larger than the released one
_HIDDEN_VARIANCE = 5.0  # deviations of the noise
WIDE_COLUMNS, MAX_COLUMNS = 1000, 2048  # up to the second a matrix is affordable
_MAX_VARIANCE_NOISE = 0.2  # of a variance in its own units, were the whole budget spent on it


def needed_strength(columns: int) -> float:
    """Return the least product of rows and mu at which noise does not drown correlations.

    It keeps q, the noise of a variance in its own units, at a fifth.
    """
    return math.sqrt(2) * columns / _MAX_VARIANCE_NOISE


def drowned_rows(budget: Budget, columns: int) -> int:
    """Return the number of rows below which noise drowns the correlations of so many columns."""
    return math.ceil(needed_strength(columns) / whole_strength(budget, pure=budget.is_pure))


@dataclass(frozen=True, kw_only=True)
class Correlation(ComponentMechanism):
    """Components of standardised columns, from the default covariance.

    What `at` returns is that covariance. A plan sets the other fields: ``inner`` releases it in all
    its stages, from ``rows`` rows, and ``further`` is what is bought about the components, of
    standardised rows. Without ``n_components`` there are as many as stand out from the noise.
    """

    name = "correlation"
    about = "components of standardised columns"
    source = "eigenvectors of the correlations of a released covariance; new here"
    auto = "with private scales, where rows suffice for a matrix"
    pure_numerics = Numerics.IDEALISED
    reads_once = False
    unit_rows = True
    allows_for_missing = True
    standardises = True
    has_pure = True
    inner: Procedure[CentredResult[NoisyMatrix]] | None = field(
        default=None, repr=False, metadata=NOT_AN_OPTION
    )
    rows: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)
    further: Further = field(default=NOTHING_FURTHER, repr=False, metadata=NOT_AN_OPTION)

    def at(self, strength: Allotment, context: BuildContext) -> Any:
        """Return the covariance that runs at a strength."""
        covariance = Wishart if isinstance(strength, Pure) else Elliptical
        return covariance().at(strength, context)

    def cost(self) -> Cost:
        """Return the cost of all steps, composed; the components themselves cost nothing."""
        assert self.inner is not None  # a plan sets it
        return compose(self.inner.cost(), self.further.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[StagedComponents]:
        """Release the covariance; centre and components are those of standardised columns."""
        assert self.inner is not None  # a plan sets it
        found = self.inner.run(source, start, gate)
        if found.drawn_rows == 0:
            raise NothingFoundError(
                "a noisy count of the rows is too small for components, and the budget is spent: "
                "give more rows or a larger budget"
            )
        noisy = found.inner.allowing_for(found.pairs_present)
        variances = _softened(noisy) if noisy.variances is None else noisy.variances
        if not variances.any():
            raise NothingFoundError(
                "no column's variance stands out from the noise, and the budget is spent: give "
                "more rows or a larger budget"
            )
        deviations = np.sqrt(np.where(variances > 0, variances, np.inf))
        released = self._components(standardised(noisy, deviations))
        hidden = (variances > 0) & (variances > noisy.matrix.diagonal() * _RAISED)
        released = replace(released, single=_stated(noisy, deviations, released.components, hidden))
        captured = shown = norm = None
        if not found.differences:
            rows, clip = standardised_rows(source, start, found, deviations)
            captured, shown = self.further.run(rows, clip, gate, released, mean_of=found.drawn_rows)
            norm = clip.row_norm
        staged = StagedComponents(
            released,
            None,
            noisy.row_norm,
            captured,
            shown,
            deviations=deviations,
            standardised_norm=norm,
            hidden=hidden,
        )
        whole: CentredResult[Any] = found
        return replace(whole, inner=staged)

    def _components(self, noisy: NoisyMatrix) -> NoisyComponents:
        """Return the leading components, or as many as stand out."""
        d = len(noisy.matrix)
        if self.n_components:
            return leading(noisy, min(self.n_components, d), states=False)
        assert noisy.law is not None  # there is noise
        values = np.asarray(np.linalg.eigvalsh(noisy.matrix), dtype=np.float64)[::-1]
        most = min(MAX_PRIVATE_RANK, d - 1)
        rank = leading_rank(values, self.rows, most, noisy.law.floor()) if most else None
        if rank is None:
            raise NothingFoundError(
                "no component stands out from the noise, so there is no rank, and the budget is "
                "spent: state ",
                option("n_components"),
                ", or give more rows or a larger budget",
            )
        return leading(noisy, rank, states=False)


def _stated(
    noisy: NoisyMatrix,
    deviations: NDArray[np.float64],
    components: NDArray[np.float64],
    hidden: NDArray[np.bool_],
) -> ComponentStatement:
    """Return what holds of single components, about the same matrix without noise.

    It is divided by the same deviations. Nothing is stated of a component that lies in columns of
    which noise hides the variance.
    """
    assert noisy.law is not None  # there is noise
    moment = noisy.matrix if noisy.unbiased is None else noisy.unbiased
    # Gaussian noise whose spectrum ends where that of other noise does turns as much as that.
    noise: Any = noisy.law.edge / math.sqrt(2 * noisy.law.d)
    kept = np.flatnonzero(np.isfinite(deviations))
    among = np.ix_(kept, kept)
    if noisy.entry_noise is not None:
        noise = noisy.entry_noise[among] * noise / noisy.law.deviation
    stated = correlation_statement(moment[among], noise, deviations[kept] ** 2, components)
    unsure = np.sum(components[:, hidden[kept]] ** 2, axis=1) > _HIDDEN_LOADINGS
    return stated.reduced(np.where(unsure, np.nan, 1.0))


def standardised_rows(
    source: RowSource,
    start: Clip,
    found: CentredResult[NoisyMatrix],
    deviations: NDArray[np.float64],
) -> tuple[RowSource, Clip]:
    """Return standardised rows as the covariance saw them, and their centre and bound."""
    if found.turn is not None:
        assert found.scale is not None  # all three come together
        assert found.column_limit is not None
        limits = ColumnLimits(
            scale=found.scale,
            centre=found.centre,
            turn=found.turn,
            limit=found.column_limit,
            fills=start.on_missing == "centre",
        )
        source = source.map(Limit(limits))
    elif found.scale is not None:
        source = source.map(Divide(found.scale))
    norm = start.row_norm if found.inner.row_norm is None else found.inner.row_norm
    kept = np.isfinite(deviations)
    bound = norm / math.sqrt(float(np.mean(deviations[kept] ** 2)))
    box = start.box
    if box is not None:
        low, high = (np.broadcast_to(edge, kept.shape)[kept] / deviations[kept] for edge in box)
        box = (low, high)
    clip = replace(
        start,
        row_norm=min(bound, LARGEST_NORM),
        centre=found.centre[kept] / deviations[kept],
        box=box,
        present=None,
        pairs_present=None,
    )
    return source.map(Divide(deviations)), clip


def _softened(noisy: NoisyMatrix) -> NDArray[np.float64]:
    """Return variances to divide by: what noise hides is as large as noise could make it."""
    variances = noisy.matrix.diagonal()
    least = _HIDDEN_VARIANCE * noisy.noise_scale
    clear = (variances > CLEAR_VARIANCE * noisy.noise_scale) | (variances == 0)
    return np.asarray(np.where(clear, variances, np.maximum(variances, least)))


def standardised(noisy: NoisyMatrix, deviations: NDArray[np.float64]) -> NoisyMatrix:
    """Return the correlations of columns with these finite released deviations.

    The stated law of the noise has the largest mean square of any row.
    """
    kept = np.isfinite(deviations)
    units = np.outer(deviations[kept], deviations[kept])
    matrix = noisy.matrix[np.ix_(kept, kept)] / units
    np.fill_diagonal(matrix, np.minimum(matrix.diagonal(), 1.0))
    matrix = np.clip(matrix, -1.0, 1.0)
    more = math.sqrt(float(np.max(np.mean(units**-2.0, axis=0))))
    assert noisy.law is not None  # columns without noise are left out
    law = replace(noisy.law.scaled(more), d=len(matrix))
    return NoisyMatrix(matrix, noisy.noise_scale * more, law)
