r"""Spiked: noise on the spectral projector, calibrated to an assumed law of rows. Model-based.

Source: Cai, Xia, Zha 2024 [Spiked], Algorithm 1; sections 5.1 (condition number) and 5.2
(sub-Gaussian rows).

.. math:: \tilde U = \text{top-}k\,(\hat U \hat U' + Z), \quad
          \tilde L = \tilde U'(S - \sigma^2 I)\tilde U + E, \quad
          \tilde\Sigma = \tilde U \tilde L \tilde U' + \sigma^2 I

:math:`\hat U` are the leading eigenvectors of S; Z and E are isotropic symmetric Gaussian noise at
the sensitivities Delta_1 of the projector and Delta_2 = sqrt(2) R^2/n of S.

The first release is private for tables that follow `SpikedModel`, with the stated probability, and
for no others: an unlikely row can turn the eigenvectors further than Delta_1. The second one is on
rows clipped at a public R and worst-case. The numbers of the model are public, or released before.
Replace-one only: Delta_1 needs the number of rows. In a federation the two releases are apart.
Proof: docs/proofs/spiked.md.

The forms "printed" and "federated" of the model are NOT private: they run in simulations alone,
for comparisons with the papers.

Differences from the source
---------------------------
1. Delta_1 has explicit constants at a stated failure probability (`SpikedModel`); the source's
   formula with the constant of its experiments is ``form="printed"``, for comparisons.
2. Rows are clipped where the model has none, so that the second release is worst-case.
3. The noise is that of GaussCov: isotropic, exactly calibrated. Each release has half of mu^2,
   where the source halves epsilon and delta.
4. The components are turned to the eigenvectors of :math:`\tilde L`: post-processing.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import public_rows, second_moment
from eigenveil.exact.spectrum import compressed, projector
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.messages import REPLACE_ONE, SINGLE_ROWS, option
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import Kind, Numerics
from eigenveil.rows.base import RowSource

if TYPE_CHECKING:
    from eigenveil.planning.request import Request


_MARGIN = 1 + 2.0**-10  # rows are clipped a little inside their ball; none of the model's may be


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikedProjector:
    """The projector on the leading directions, as a noisy matrix. Fields are public, never data."""

    proof: ClassVar[str] = "spiked"
    name: ClassVar[str] = "spiked-projector"
    kind: ClassVar[Kind] = Kind.MODEL_BASED
    mu: float
    model: SpikedModel

    @property
    def assumption(self) -> str:
        """What the tables must follow for the promise to hold, in words."""
        return self.model.assumption

    def cost(self) -> Cost:
        """Return the cost of one release."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Read the rows about the centre of ``clip``; its ``row_norm`` is the model's."""
        return self.of(_moment(self.model, source, clip, gate), gate)

    def of(self, moment: Bounded, gate: Gate) -> NoisyMatrix:
        """Release from the second moment of rows of the model."""
        _require_proven(self.model, gate)
        assert moment.count is not None  # `_moment` has checked
        sensitivity = self.model.projector_sensitivity(moment.count, len(moment.value.units))
        return gate.draw(GaussCov(mu=self.mu), projector(moment, self.model.rank, sensitivity))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpikedValues:
    """The second moment along released directions. Fields are public, never data.

    ``basis`` has them as orthonormal columns.
    """

    proof: ClassVar[str] = "spiked"
    name: ClassVar[str] = "spiked-values"
    kind: ClassVar[Kind] = Kind.MODEL_BASED
    mu: float
    model: SpikedModel
    basis: NDArray[np.float64]

    def __post_init__(self) -> None:
        # The projection of a row onto longer columns, or skew ones, would be longer than the row.
        gram = self.basis.T @ self.basis
        if not np.allclose(gram, np.eye(len(gram)), rtol=0.0, atol=1e-9):
            raise InvalidParameterError("columns of a basis must be orthonormal")

    @property
    def assumption(self) -> str:
        """What the tables must follow for the promise to hold, in words."""
        return self.model.assumption

    def cost(self) -> Cost:
        """Return the cost of one release."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Read the rows about the centre of ``clip``; its ``row_norm`` is the model's."""
        return self.of(_moment(self.model, source, clip, gate), gate)

    def of(self, moment: Bounded, gate: Gate) -> NoisyMatrix:
        """Release from the second moment of rows of the model."""
        _require_proven(self.model, gate)
        assert moment.count is not None  # `_moment` has checked
        inside = compressed(moment, self.basis)
        largest = self.model.moment_sensitivity(moment.count, len(moment.value.units))
        if largest is not None:
            bound = min(largest / moment.unit, moment.sensitivity("frobenius"))
            inside = replace(inside, sensitivities={"frobenius": bound})
        return gate.draw(GaussCov(mu=self.mu), inside)


@dataclass(frozen=True, kw_only=True)
class Spiked(ComponentMechanism):
    """Components of tables that follow a stated spiked model, and promise nothing to others.

    Attributes
    ----------
    model : SpikedModel
        The law that rows are assumed to follow; it has the number of components.
    share : float
        Of mu^2, that buys the projector.

    """

    proof: ClassVar[str] = "spiked"
    name = "spiked"
    about = "model-based: for tables of a stated law; Python only"
    source = "Cai, Xia, Zha 2024, Algorithm 1"
    numerics = Numerics.IDEALISED
    kind = Kind.MODEL_BASED
    reads_once = False
    pays_per_component = True
    unpredicted = "is not predicted: its promise is about tables of a model"
    model: SpikedModel | None = None
    share: float = 0.5

    @property
    def assumption(self) -> str | None:  # type: ignore[override]
        """The law of rows in words."""
        return None if self.model is None else self.model.assumption

    @property
    def own_components(self) -> int | None:
        """One for each spike."""
        return None if self.model is None else self.model.rank

    def check(self, request: "Request") -> None:
        """Refuse what the model says nothing about."""
        if self.model is None:
            raise InvalidParameterError(
                "'spiked' protects tables of a stated model only: pass "
                "mechanism=Spiked(model=SpikedModel(...)), or leave the mechanism out for a "
                "promise that holds for every table"
            )
        if not self.model.proven:
            raise InvalidParameterError(
                f"form={self.model.form!r} is not private and serves comparisons alone: leave form "
                "out of the model"
            )
        if request.unit.owns_many:
            raise UnsupportedNotionError(
                "'spiked' assumes rows that are independent, not several of one person: ",
                SINGLE_ROWS,
                ", or choose another mechanism",
            )
        if request.centring != "none":
            raise InvalidParameterError(
                "'spiked' assumes rows of mean zero: pass ", option("centring", "none")
            )
        scaled = request.scale is not None or request.private_scale
        if request.row_norm is not None or request.box is not None or scaled:
            raise InvalidParameterError(
                "the model of 'spiked' bounds rows as they are: leave ",
                option("row_norm"),
                ", ",
                option("bounds"),
                " and ",
                option("scale"),
                " out",
            )
        if request.on_missing == "centre":
            raise InvalidParameterError(
                "the model of 'spiked' is one of complete rows: leave ",
                option("on_missing"),
                " out",
            )
        if not request.adjacency.count_is_public:
            raise UnsupportedNotionError(
                "'spiked' needs a public number of rows: use ", REPLACE_ONE
            )
        if request.n_components not in (None, self.model.rank):
            raise InvalidParameterError(
                "the model has the number of components: leave ", option("n_components"), " out"
            )

    def cost(self) -> Cost:
        """Return the cost of both releases, composed."""
        return compose(*map(Gaussian, self._split()))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Read the rows, about the centre of ``clip``; its ``row_norm`` is the model's."""
        assert self.model is not None  # `check` has looked
        k, model = self.model.rank, self.model
        moment = _moment(model, source, clip, gate)
        directions, values = self._split()
        noisy = SpikedProjector(mu=directions, model=model).of(moment, gate)
        _, basis = top_eigenpairs(noisy.matrix, k)
        inside = SpikedValues(mu=values, model=model, basis=basis.T).of(moment, gate)
        eigenvalues, rotation = top_eigenpairs(inside.matrix, k)
        trace = float(eigenvalues.sum()) + (source.n_columns - k) * model.noise_variance
        assert noisy.law is not None  # GaussCov always states it
        return NoisyComponents(
            components=rotation @ basis,
            eigenvalues=eigenvalues,
            trace=trace,
            noise_scale=inside.noise_scale,
            law=None,
            reliability=np.full(k, noisy.law.overlap(1.0)),
        )

    def covariance(self, released: NoisyComponents) -> NDArray[np.float64]:
        """Return the spiked covariance of a release: post-processing."""
        assert self.model is not None  # of which it is a release
        noise, components = self.model.noise_variance, released.components
        spiked = (components.T * (released.eigenvalues - noise)) @ components
        return spiked + noise * np.eye(components.shape[1])

    def _split(self) -> tuple[float, ...]:
        return split(self.mu, (self.share, 1 - self.share))


def _require_proven(model: SpikedModel, gate: Gate) -> None:
    """Refuse a form without a proof, but in simulations."""
    if not model.proven:
        gate.require_comparison(Spiked.name)


def _moment(model: SpikedModel, source: RowSource, clip: Clip, gate: Gate) -> Bounded:
    """Return the second moment of rows in the model's ball."""
    _require_proven(model, gate)
    if not gate.adjacency.count_is_public:
        raise UnsupportedNotionError("'spiked' needs a public number of rows: use ", REPLACE_ONE)
    if source.units.protects.owns_many:
        raise UnsupportedNotionError(
            "'spiked' assumes rows that are independent, not several of one person: ",
            SINGLE_ROWS,
            ", or choose another mechanism",
        )
    if clip.box is not None or clip.lift or clip.transform is not None:
        raise InvalidParameterError(
            "'spiked' assumes rows of unbounded entries: leave the bounds out"
        )
    k, n, d = model.rank, public_rows(source), source.n_columns
    if k > d:
        raise InvalidParameterError(f"a spiked model of rank {k} needs at least {k} columns")
    reach = _MARGIN * model.row_norm(n, d)
    return second_moment(source, replace(clip, row_norm=reach), gate.adjacency)
