"""What the estimators share: from constructor arguments and rows to one charged release."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, validate_data

from eigenveil.data.gram import second_moment
from eigenveil.data.source import ArraySource, RowSource, as_table, is_streamed, open_rows
from eigenveil.estimators.bounds import StatedBounds
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.base import Gate, Mechanism
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, CentredResult
from eigenveil.mechanisms.mean import GaussianMean
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource
from eigenveil.numerics.symmetric import noise_floor
from eigenveil.privacy.accounting import split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import gaussian_mu
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.privacy.ledger import Ledger

__all__ = ["Outcome", "PrivateEstimator"]

Result = TypeVar("Result")
Build = Callable[[float, int], Mechanism[Result]]  # from mu and the number of columns


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[Result]):
    """Everything a fit may look at after the noise; no raw data is in it."""

    result: CentredResult[Result]
    stated: StatedBounds
    guarantee: Guarantee

    @property
    def per_row(self) -> float:
        """Turns a released sum into a mean where the number of rows is private."""
        count = self.result.noisy_count
        return 1.0 if count is None else 1.0 / count


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Constructor arguments and the road from rows to a release."""

    mechanisms: ClassVar[Mapping[str, Callable[..., Any]]]
    shrink: ClassVar[float]  # where rows are clipped, as a share of the reach of the stated box

    epsilon: float | None
    delta: float | None
    rho: float | None
    mechanism: str
    row_norm: float | None
    bounds: Any
    assume_centered: bool
    adjacency: str
    on_invalid: Literal["raise", "zero"]
    ledger: Ledger | str | Path | None
    random_state: int | None

    def _factory(self) -> Callable[..., Any]:
        try:
            return self.mechanisms[self.mechanism]
        except (KeyError, TypeError):
            known = ", ".join(map(repr, self.mechanisms))
            raise InvalidParameterError(f"mechanism must be one of: {known}") from None

    def _release(self, X: Any, build: Build[Result]) -> Outcome[Result]:
        """Check everything public, read the rows, charge, add noise."""
        budget = Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)
        adjacency = Adjacency.parse(self.adjacency)
        mu = gaussian_mu(budget, self.mechanism)
        noise, ledger = self._noise_and_ledger()
        source = self._open(X)
        stated = StatedBounds.resolve(
            self.row_norm,
            self.bounds,
            n_columns=source.n_columns,
            assume_centered=self.assume_centered,
            on_invalid=self.on_invalid,
            mechanism=self.mechanism,
            shrink=self.shrink,
        )

        def gate(cost: Cost) -> Gate:
            return Gate(cost, label=self.mechanism, adjacency=adjacency, ledger=ledger, noise=noise)

        # Under add/remove the first step is needed for its count even about a known centre.
        if self.assume_centered and adjacency.count_is_public:
            opened, result = _about_origin(build(mu, source.n_columns), source, stated, gate)
        else:
            opened, result = self._about_mean(build, mu, source, stated, gate)
        del X, source  # post-processing only from here
        guarantee = Guarantee(
            budget=budget,
            cost=opened.total,
            adjacency=adjacency,
            bounds=stated.words,
            numerics=Numerics.EXACT if opened.exact else Numerics.IDEALISED,
            simulated=noise.simulated,
            ledger=opened.receipt,
        )
        return Outcome(result, stated, guarantee)

    def _about_mean(
        self,
        build: Build[Result],
        mu: float,
        source: RowSource,
        stated: StatedBounds,
        gate: Callable[[Cost], Gate],
    ) -> tuple[Gate, CentredResult[Result]]:
        if not source.rereadable:
            raise InvalidDataError(
                "rows that can be read once allow no private centring: pass "
                "assume_centered=True with adjacency='replace-one', or a file or array"
            )
        mean_mu, inner_mu = split(mu, (CENTRE_SHARE, 1 - CENTRE_SHARE))
        composite = Centred(
            mean=GaussianMean(mu=mean_mu),
            inner=build(inner_mu, source.n_columns),
            row_norm=stated.clip.row_norm,
            fixed_centre=self.assume_centered,
        )
        opened = gate(composite.cost())
        return opened, composite.run(source, stated.start, opened)

    def _noise_and_ledger(self) -> tuple[NoiseSource, Ledger | None]:
        ledger = Ledger(self.ledger) if isinstance(self.ledger, (str, Path)) else self.ledger
        if not (ledger is None or isinstance(ledger, Ledger)):
            raise InvalidParameterError("ledger must be a Ledger or the path of one")
        if self.random_state is None:
            return SystemSource(), ledger
        if ledger is not None:
            raise InvalidParameterError(
                "a seeded run is a simulation and protects nobody: drop random_state to release, "
                "or drop the ledger to simulate"
            )
        return SimulationSource(self.random_state), None

    def _open(self, X: Any) -> RowSource:
        """Files, sources and iterators chunk by chunk; anything else as an array."""
        if not is_streamed(X):
            return ArraySource(self._check_table(X, reset=True))
        source = open_rows(X)
        self.n_features_in_ = source.n_columns
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return source

    def _check_columns(self, source: RowSource) -> None:
        """Whether a streamed table has the columns of the fit, in their order."""
        if source.n_columns != self.n_features_in_:
            raise InvalidDataError(
                f"X has {source.n_columns} features, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_}"
            )
        fitted: Any = getattr(self, "feature_names_in_", None)
        known = source.feature_names is not None and fitted is not None
        if known and tuple(fitted) != source.feature_names:
            raise InvalidDataError("the columns are not those of the fit, in the same order")

    def _check_table(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """A table of numbers that scikit-learn has checked for names and size.

        scikit-learn quotes entries in some of its messages, so it is shown numbers only.
        """
        table = as_table(X)
        named = X if hasattr(X, "columns") else table
        validate_data(self, named, reset=reset, skip_check_array=True)
        # Whether there are rows at all is private under add/remove: the sums decide.
        checked = check_array(table, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        return np.asarray(checked)

    def _settings(self, outcome: Outcome[Any], noise_scale: float) -> dict[str, Any]:
        """Set the public noise attributes and return the settings of the release."""
        result = outcome.result
        self.noise_scale_ = noise_scale * outcome.per_row
        self.noise_floor_ = noise_floor(self.n_features_in_, self.noise_scale_, result.centre_error)
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features": int(self.n_features_in_),
            "n_rows": result.n_rows,
            **outcome.stated.as_dict(),
            "assume_centered": bool(self.assume_centered),
            "on_invalid": self.on_invalid,
            "noise_scale": self.noise_scale_,
            "noise_floor": self.noise_floor_,
            "feature_names": None if names is None else [str(name) for name in names],
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.on_invalid == "zero"
        return tags


def _about_origin(
    inner: Mechanism[Result],
    source: RowSource,
    stated: StatedBounds,
    gate: Callable[[Cost], Gate],
) -> tuple[Gate, CentredResult[Result]]:
    opened = gate(inner.cost())
    query = second_moment(source, stated.clip, opened.adjacency)
    origin = np.zeros(source.n_columns)
    released = opened.draw(inner, query)
    return opened, CentredResult(origin, 0.0, query.count, None, released)
