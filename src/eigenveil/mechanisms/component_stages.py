r"""Stages of a release of components: rank, components, variances and shown scores.

`PrivateVariances`: the last step of mechanisms that release directions alone; [Spiked] section 7.2
has the same aim.

.. math:: \hat v_j = u_j' S u_j + \text{noise}, \qquad
          \Delta_2 = \sqrt2 R^2/n, \quad \Delta_1 = 2 R^2/n

for replace-one and orthonormal directions u_j, :math:`R^2/n` in both norms for a single one, and
R^2 on sums under add/remove. Results are not below zero. Proof: docs/proofs/variances.md.

`ComponentStages` does one after the other:

1. The rank: noisy eigenvalues of the second moment, and the largest of their ratios (`rank`).
2. The components.
3. Variances along them in the units of the data, which normalised rows do not have: private
   distances from the centre, and the variance inside the components of rows clipped where noise
   and loss are least. One number has less noise than one for each component; their shares of it
   are those of the second stage.
4. The variance of rows as they were clipped that the components hold, beside the rest and what the
   best as many hold (`captured`).
5. Counts of rows on the plane of the first two components, to be shown (`score-histogram`).

Stages that were not asked for cost nothing. Proof: docs/proofs/staged.md.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.products import moment_products
from eigenveil.exact.spectrum import eigenvalues, inside
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import NoisyVector, VectorNoise
from eigenveil.mechanisms.analyze_gauss import directions
from eigenveil.mechanisms.captured import Captured, CapturedVariance
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.distances import PrivateDistances
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.rank import PrivateRank
from eigenveil.mechanisms.score_map import ScoreHistogram, ScoreMap
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateVariances:
    """Add noise to second moments along directions. Fields are public, never data."""

    proof: ClassVar[str] = "variances"
    name: ClassVar[str] = "variances"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    @property
    def rows(self) -> float:
        """The noise on one of them, as a number of rows on the sphere."""
        return self.noise.on_one_number

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return variances in the caller's units, by direction; ``query`` is from `along`."""
        noisy = self.noise.perturb(query, noise)
        return replace(noisy, values=np.maximum(noisy.values, 0.0))


RANK_SHARE = 0.1  # of mu^2, or of a pure epsilon
VARIANCE_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Variances:
    """How far rows reach, then their variance inside released directions. Fields are public."""

    proof: ClassVar[str] = "staged"
    distances: PrivateDistances
    values: PrivateVariances

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.distances.cost(), self.values.cost())

    def run(
        self, source: RowSource, clip: Clip, gate: Gate, basis: NDArray[np.float64], lazy: bool
    ) -> tuple[float, float]:
        """Return the variance about the centre of ``clip`` in squared units, and where rows were
        clipped.

        A sum over rows where their number is private.
        """
        found = self.distances.run(source, clip, gate)
        if not found.found:
            raise NothingFoundError(
                "no distance of rows stood out, and the budget is spent: leave variances out, or "
                "give more rows; half of the rows may be equal"
            )
        beyond = replace(clip, row_norm=found.clipping(self.values.rows / max(1.0, found.rows), 2))
        moment = moment_products if lazy else second_moment
        query = inside(moment(source, beyond, gate.adjacency), basis)
        return float(gate.draw(self.values, query).values[0]), beyond.row_norm


@dataclass(frozen=True, slots=True, eq=False)
class StagedComponents:
    """Components, and what the other stages released."""

    components: NoisyComponents
    variance: float | None  # inside all components, in squared units; a sum if n is private
    row_norm: float | None  # where rows were clipped for it
    captured: Captured | None = None  # None where it was not bought, or noise hides it
    scores: ScoreMap | None = None  # where rows lie on a plane, to be shown
    deviations: NDArray[np.float64] | None = None  # what scaled columns were divided by once more
    standardised_norm: float | None = None  # where rows divided by them were clipped
    hidden: NDArray[np.bool_] | None = None  # columns of which noise hides the variance

    def standardised(
        self, scale: NDArray[np.float64], centre: NDArray[np.float64], error: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return scales, centre and its squared error in the units of the components.

        ``scale`` is what columns were divided by before the deviations were released.
        """
        if self.deviations is None:
            return scale, centre, error
        kept = np.isfinite(self.deviations)
        deviations = self.deviations[kept]
        whole = np.array(scale)
        whole[np.isfinite(scale)] *= self.deviations
        return whole, centre[kept] / deviations, error / float(np.mean(deviations**2))

    def hidden_columns(self, scale: NDArray[np.float64]) -> list[int]:
        """Return the columns of which noise hides the variance, among all with a finite scale."""
        return (
            [] if self.hidden is None else np.flatnonzero(np.isfinite(scale))[self.hidden].tolist()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What is bought about components once they are released. Fields are public, never data.

    With ``holding`` the shares are those of as many components as hold this share of the noisy
    variance, ``fewest`` or more.
    """

    proof: ClassVar[str] = "staged"
    captured: CapturedVariance | None = None
    holding: float | None = None
    fewest: int = 1
    scores: ScoreHistogram | None = None

    def cost(self) -> Cost:
        """Return the cost of what is bought, composed."""
        return compose(*(one.cost() for one in (self.captured, self.scores) if one is not None))

    def run(
        self,
        source: RowSource,
        clip: Clip,
        gate: Gate,
        released: NoisyComponents,
        mean_of: int | None = None,
    ) -> tuple[Captured | None, ScoreMap | None]:
        """Return the shares of variance, and the map, of rows bounded by ``clip``.

        ``mean_of`` is a released number of rows where eigenvalues are means of so many rows while
        the query is a sum.
        """
        captured = shown = None
        if self.captured is not None:
            kept = len(released.components)
            if self.holding is not None:
                kept = released.count_holding(self.holding, self.fewest)
            along = float(np.maximum(released.eigenvalues[:kept], 0.0).sum()) * (mean_of or 1)
            captured = self.captured.run(source, clip, gate, released.components[:kept], along)
        if self.scores is not None and len(released.components) > 1:  # columns may be left out
            shown = self.scores.run(source, clip, gate, released)
        return captured, shown


NOTHING_FURTHER = Further()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStages:
    """A rank, components of that rank, variances along them. Fields are public, never data.

    ``inner`` has a field ``n_components``, on which its cost does not depend if there is a rank.
    With ``normalise`` all but the variances see directions of rows only.
    """

    proof: ClassVar[str] = "staged"
    name: ClassVar[str] = "staged"
    inner: Any
    normalise: bool = False
    rank: PrivateRank | None = None
    variances: Variances | None = None
    lazy: bool = False
    further: Further = NOTHING_FURTHER

    def cost(self) -> Cost:
        """Return the cost of all stages, composed."""
        stages = (self.rank, self.inner, self.variances, self.further)
        return compose(*(stage.cost() for stage in stages if stage is not None))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> StagedComponents:
        """Read the rows about the centre of ``clip``."""
        inner = self.inner
        bounded = directions(clip) if self.normalise else clip
        if self.rank is not None:
            inner = replace(inner, n_components=self._found(source, bounded, gate, self.rank))
        elif getattr(inner, "n_components", 0) > source.n_columns:  # some have been left out
            inner = replace(inner, n_components=source.n_columns)
        released = inner.run(source, bounded, gate)
        variance = reach = None
        if self.variances is not None:
            variance, reach = self.variances.run(source, clip, gate, released.components, self.lazy)
        captured, shown = self.further.run(source, bounded, gate, released)
        return StagedComponents(released, variance, reach, captured, shown)

    def _found(self, source: RowSource, clip: Clip, gate: Gate, rank: PrivateRank) -> int:
        """Return the private rank, of the columns that are left."""
        most = min(rank.max_rank, source.n_columns - 1)
        if most < 1:
            raise NothingFoundError(
                "only one column has a scale that stands out, so no rank is found, and the budget "
                "is spent: state scales, give more rows or a larger budget"
            )
        moment = second_moment(source, clip, gate.adjacency)
        found = gate.draw(replace(rank, max_rank=most), eigenvalues(moment)).rank
        if found is None:
            raise NothingFoundError(
                "no component stands out from the noise, so there is no rank, and the budget is "
                "spent: state ",
                option("n_components"),
                ", or give more rows or a larger budget",
            )
        return found
