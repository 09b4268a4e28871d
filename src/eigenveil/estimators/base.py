"""What the estimators share: from constructor arguments and rows to one charged release."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from eigenveil.data.gram import second_moment
from eigenveil.data.source import ArraySource, RowSource, open_rows
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

_VALUE_FREE = (
    "sample(s)",
    "feature(s)",
    "features, but",
    "feature names",
    "contains NaN",
    "contains infinity",
    "Complex data",
)

Result = TypeVar("Result")
Build = Callable[[float, int], Mechanism[Result]]  # from mu and the number of columns


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[Result]):
    """Everything a fit may look at after the noise; no raw data is in it."""

    released: Result
    centre: NDArray[np.float64]
    centre_error: float
    per_row: float  # turns a released sum into a mean where the number of rows is private
    n_rows: int | None
    row_norm: float
    guarantee: Guarantee


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Constructor arguments and the road from rows to a release."""

    mechanisms: ClassVar[Mapping[str, Callable[..., Any]]]

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
        )

        def gate(cost: Cost) -> Gate:
            return Gate(cost, label=self.mechanism, adjacency=adjacency, ledger=ledger, noise=noise)

        # Under add/remove the first step is needed for its count even about a known centre.
        if self.assume_centered and adjacency.count_is_public:
            inner = build(mu, source.n_columns)
            query = second_moment(source, stated.clip, adjacency)
            opened = gate(inner.cost())
            result = CentredResult(
                np.zeros(source.n_columns), 0.0, query.count, None, opened.draw(inner, query)
            )
            del query
        else:
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
            result = composite.run(source, stated.start, adjacency, opened)
        del X, source  # post-processing only from here
        guarantee = Guarantee(
            budget=budget,
            cost=opened.total,
            adjacency=adjacency,
            bounds=stated.words,
            numerics=Numerics.EXACT if opened.exact else Numerics.IDEALISED,
            simulated=noise.simulated,
            ledger=_receipt(opened),
        )
        return Outcome(
            released=result.inner,
            centre=result.centre,
            centre_error=result.centre_error,
            per_row=1.0 if result.noisy_count is None else 1.0 / result.noisy_count,
            n_rows=result.n_rows,
            row_norm=stated.clip.row_norm,
            guarantee=guarantee,
        )

    def _noise_and_ledger(self) -> tuple[NoiseSource, Ledger | None]:
        ledger = Ledger(self.ledger) if isinstance(self.ledger, (str, Path)) else self.ledger
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
        if not isinstance(X, (str, Path, Iterator, RowSource)):
            return ArraySource(self._validate(X, reset=True))
        source = open_rows(X)
        self.n_features_in_ = source.n_columns
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return source

    def _validate(self, X: Any, *, reset: bool) -> NDArray[np.float64]:
        try:
            # In fit, non-finite rows are the clip's decision.
            checked = validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite=not reset
            )
        except ValueError as error:
            # scikit-learn and numpy quote entries in some messages: pass on those that cannot.
            if any(phrase in str(error) for phrase in _VALUE_FREE):
                raise
            raise InvalidDataError(
                "rows must be a two-dimensional table of numbers. Reshape your data if it is "
                "flat; encode or drop text columns"
            ) from None
        return np.asarray(checked)

    def _describe_noise(self, outcome: Outcome[Any], noise_scale: float) -> dict[str, Any]:
        """Set the public noise attributes and return the settings of the release."""
        self.noise_scale_ = noise_scale * outcome.per_row
        self.noise_floor_ = noise_floor(
            self.n_features_in_, self.noise_scale_, outcome.centre_error
        )
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features": int(self.n_features_in_),
            "n_rows": outcome.n_rows,
            "row_norm": outcome.row_norm,
            "noise_scale": self.noise_scale_,
            "noise_floor": self.noise_floor_,
            "feature_names": None if names is None else [str(name) for name in names],
        }


def _receipt(gate: Gate) -> str | None:
    entry = gate.entry
    return None if entry is None else f"entry {entry.number} of the ledger (hash {entry.hash[:16]})"
