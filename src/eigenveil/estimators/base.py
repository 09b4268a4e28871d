"""What the estimators share: from constructor arguments and rows to one charged release."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from eigenveil.data.clip import LARGEST_NORM, SMALLEST_NORM
from eigenveil.data.gram import public_rows
from eigenveil.data.sources import (
    ArraySource,
    GroupedSource,
    RowSource,
    ScaledSource,
    as_table,
    is_streamed,
    open_rows,
    require_hidden_count,
)
from eigenveil.data.sources.frames import is_frame, native
from eigenveil.estimators.bounds import RowNorm, StatedBounds, ranges_by_name
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, CentredResult, Uncentred
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.numerics.noise import NoiseLaw
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource
from eigenveil.numerics.spiked_model import SpikedModel
from eigenveil.planner import Choice, Situation, choose
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Guarantee, Kind, Numerics
from eigenveil.privacy.ledger import Balance, Ledger

__all__ = [
    "Asked",
    "Family",
    "Outcome",
    "PrivateEstimator",
    "mean_score",
    "standing_out",
    "without_law",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """What a release was asked for; all of it public, but for the rows that can be read."""

    budget: Budget
    adjacency: Adjacency
    mechanism: str
    family: "Family[Any]"
    pure: bool
    stated: StatedBounds
    source: RowSource
    n_rows: int | None = None  # or persons: where their number is public and was needed
    n_components: int = 0  # of a release of components
    lazy: bool = False
    model: SpikedModel | None = None
    alone: bool = False  # nothing is bought beside what the family builds

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.source.n_columns

    @property
    def protects(self) -> Unit:
        """One row, or all rows of one person."""
        return self.source.protects


Build = Callable[[float, Asked], Procedure[Result]]  # from a strength


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[Result]):
    """How a mechanism is built for a budget.

    Attributes
    ----------
    gaussian : callable, optional
        The version for ``(epsilon, delta)`` and ``rho``; its strength is a mu.
    pure : callable, optional
        The version with a pure guarantee; its strength is an epsilon.
    lifted : callable, optional
        The pure version that releases the mean too, from an epsilon and a row norm.
    one_pass : bool
        Whether the rows are read once.
    semidefinite : bool
        Whether a released matrix is positive semi-definite.
    normalises : bool
        Whether rows are scaled to unit length where no length is stated.
    lazy : bool
        Whether wide tables need no d x d matrix.
    batches : bool
        Whether rows are used in batches, each once.

    """

    gaussian: Build[Result] | None = None
    pure: Build[Result] | None = None
    lifted: Callable[[float, float], Procedure[CentredResult[Result]]] | None = None
    one_pass: bool = True
    semidefinite: bool = False
    normalises: bool = False
    lazy: bool = False
    batches: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Generic[Result]):
    """Everything a fit may look at after the noise; no raw data is in it."""

    result: CentredResult[Result]
    n_rows: int | None  # or persons: where their number is public
    mechanism: str
    reason: str  # why the planner chose it; empty where the caller did
    stated: StatedBounds
    guarantee: Guarantee
    balance: Balance | None  # of the ledger that was charged

    @property
    def per_row(self) -> float:
        """Turns a released sum into a mean where the number of rows is private."""
        count = self.result.noisy_count
        return 1.0 if count is None else 1.0 / count


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Constructor arguments and the road from rows to a release."""

    mechanisms: ClassVar[Mapping[str, Family[Any]]]
    pure_default: ClassVar[str]  # where a pure guarantee is asked for
    subject: ClassVar[str]  # what needs a bound
    one_pass: ClassVar[str]  # a mechanism that reads centred rows once
    shrink: ClassVar[float]  # where rows are clipped, as a share of the reach of the stated box

    epsilon: float | None
    delta: float | None
    rho: float | None
    mechanism: str
    row_norm: RowNorm | None
    bounds: Any
    assume_centered: bool
    scale: Any
    adjacency: str
    on_invalid: Literal["raise", "zero"]
    on_missing: Literal["invalid", "centre"]
    ledger: Ledger | str | Path | None
    random_state: int | None

    # Of the budget, by an earlier release of the same rows: a fit buys what is left beside it.
    _spent: Cost | None = None
    # What a ledger calls the release, and charges once, if it is not called by its mechanism.
    _label: str | None = None
    # What the ledger is charged, where that is not the cost of the release alone.
    _charge: Cost | None = None

    def _family(self, name: str) -> Family[Any]:
        try:
            return self.mechanisms[name]
        except (KeyError, TypeError):
            known = ", ".join(map(repr, ("auto", *self.mechanisms)))
            raise InvalidParameterError(f"mechanism must be one of: {known}") from None

    @abstractmethod
    def _situation(self, budget: Budget, adjacency: Adjacency, source: RowSource) -> Situation:
        """What the planner may know: public numbers."""

    def _bounds(self, name: str, n_columns: int, trace_bound: float | None) -> StatedBounds:
        return StatedBounds.resolve(
            self.row_norm,
            self._ranges(),
            n_columns=n_columns,
            scale=self._public_scale(n_columns),
            assume_centered=self.assume_centered,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
            subject=self.subject,
            shrink=self.shrink,
            trace_bound=trace_bound,
        )

    def _ranges(self) -> Any:
        """The stated bounds; those of a mapping in the order of the columns."""
        if not isinstance(self.bounds, Mapping):
            return self.bounds
        return ranges_by_name(self.bounds, getattr(self, "feature_names_in_", None))

    def _public_rows(self, adjacency: Adjacency, source: RowSource) -> int | None:
        """Number of rows, or of groups, where it is public and reading it uses nothing up."""
        public = adjacency.count_is_public and source.rereadable
        return public_rows(source) if public else None

    @contextmanager
    def _renewed(self) -> Iterator[None]:
        """Attributes of an earlier fit go, unless this one fails: what was paid for is kept."""
        earlier = dict(vars(self))
        for name in earlier:
            if name.endswith("_"):
                delattr(self, name)
        try:
            yield
        except BaseException:
            self.__dict__ = earlier
            raise

    def _price(self, X: Any) -> Cost:
        """What a fit will be charged, as far as it gets: it follows from public numbers."""
        return self._steps(X, None, None)[1].cost()

    def _steps(
        self, X: Any, groups: Any, trace_bound: float | None
    ) -> tuple[Asked, Procedure[CentredResult[Any]], str]:
        """Check everything public; all steps, and why they were chosen."""
        budget = Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)
        adjacency = Adjacency.parse(self.adjacency)
        automatic = isinstance(self.mechanism, str) and self.mechanism == "auto"
        choice = None if automatic else Choice(mechanism=self.mechanism, reason="")
        if choice is not None:
            self._family(choice.mechanism)  # a mistyped name is found before the rows are
        source = self._open(X, groups)
        require_hidden_count(source, adjacency)
        n_rows = None
        if choice is None:
            situation = self._situation(budget, adjacency, source)
            choice, n_rows = choose(situation), situation.n
        name, family = choice.mechanism, self._family(choice.mechanism)
        pure = budget.is_pure or family.gaussian is None
        if pure and family.pure is None:
            raise self._not_pure(name)
        asked = self._consider(
            Asked(
                budget=budget,
                adjacency=adjacency,
                mechanism=name,
                family=family,
                pure=pure,
                stated=self._bounds(name, source.n_columns, trace_bound),
                source=source,
                n_rows=n_rows,
            )
        )
        procedure = self._calibrated(asked)
        if not (source.rereadable or self._reads_once(asked, procedure)):
            raise self._read_once()
        return asked, procedure, choice.reason

    def _release(self, X: Any, groups: Any, trace_bound: float | None = None) -> Outcome[Any]:
        """Plan, read the rows, charge, add noise."""
        noise, ledger = self._noise_and_ledger()
        asked, procedure, reason = self._steps(X, groups, trace_bound)
        name, adjacency, protects = asked.mechanism, asked.adjacency, asked.protects
        cost = procedure.cost()
        if ledger is not None:
            charged = cost if self._charge is None else self._charge
            ledger.check(charged, adjacency=adjacency, unit=protects)
        gate = Gate(
            cost,
            label=self._label or name,
            adjacency=adjacency,
            ledger=ledger,
            noise=noise,
            protects=protects,
            once=self._label is not None,
            charge=self._charge,
        )
        result = procedure.run(asked.source, asked.stated.start, gate)
        rows = gate.rows
        stated = asked.stated.chosen(getattr(result.inner, "row_norm", None))
        words = (*self._words(stated, result), *self._missing_words())
        if protects.owns_many:
            words = (*words, f"all rows of one {protects.name} together weigh as one row")
        stated = replace(stated, words=words)
        budget, arrival = asked.budget, asked.family.batches and not asked.source.rereadable
        if arrival:
            words = (*words, "rows used in the order in which they came: a sorted table misleads")
            stated = replace(stated, words=words)
        del X, groups, asked, procedure  # post-processing only from here
        kind, assumption = self._model()
        guarantee = Guarantee(
            budget=budget,
            cost=gate.total,
            adjacency=adjacency,
            bounds=stated.words,
            kind=kind,
            numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
            simulated=noise.simulated,
            ledger=gate.receipt,
            assumption=assumption,
            protects=protects,
            arrival=arrival,
        )
        return Outcome(result, rows, name, reason, stated, guarantee, gate.balance)

    def _calibrated(self, asked: Asked) -> Procedure[CentredResult[Any]]:
        """All steps at the strength that the budget buys."""
        about = self._about(asked)
        found = self._strength(asked, lambda s: about(s).cost())
        self._check_strength(asked, found)
        return about(found)

    def _strength(self, asked: Asked, cost_of: Callable[[float], Cost]) -> float:
        """Largest strength that the budget buys, beside what was spent of it before."""
        spent = self._spent
        if spent is None:
            return strength(asked.budget, cost_of, asked.mechanism)
        return strength(asked.budget, lambda s: compose(spent, cost_of(s)), asked.mechanism)

    def _check_strength(self, asked: Asked, found: float) -> None:
        """Refuse what so much strength does not allow, before anything is charged."""

    def _consider(self, asked: Asked) -> Asked:
        """Look at what was asked as a whole, before anything is charged."""
        return asked

    def _words(self, stated: StatedBounds, result: CentredResult[Any]) -> tuple[str, ...]:
        return stated.words_with(getattr(result.inner, "row_norm", None))

    def _missing_words(self) -> tuple[str, ...]:
        filled = ("empty cells taken as the centre's",) if self.on_missing == "centre" else ()
        invalid = ("rows that hold other things than numbers contribute nothing",)
        return (*filled, *(invalid if self.on_invalid == "zero" else ()))

    def _model(self) -> tuple[Kind, str | None]:
        """Which tables the promise holds for."""
        return Kind.WORST_CASE, None

    def _inner(self, asked: Asked, allowance: Allowance) -> Procedure[Any]:
        """What is released about the centre."""
        build = asked.family.pure if asked.pure else asked.family.gaussian
        assert build is not None  # `_release` has checked
        return build(allowance.strength, asked)

    def _about(self, asked: Asked) -> Callable[[float], Procedure[CentredResult[Any]]]:
        """From a strength to the mechanism about the origin, with the mean inside, or about it."""
        row_norm = asked.stated.clip.row_norm
        # Under add/remove the first step is needed for its count even about a known centre.
        if self.assume_centered and asked.adjacency.count_is_public:
            return lambda strength: Uncentred(
                inner=self._inner(asked, Allowance(strength, asked.pure)), row_norm=row_norm
            )
        lifted = asked.family.lifted
        if asked.pure and lifted is not None and not self.assume_centered:
            return lambda epsilon: lifted(epsilon, row_norm)

        def centred(strength: float) -> Centred[Any]:
            allowance = Allowance(strength, asked.pure)
            return Centred(
                mean=PrivateMean(noise=allowance.part(CENTRE_SHARE).noise()),
                inner=self._inner(asked, allowance.part(1 - CENTRE_SHARE)),
                row_norm=row_norm,
                fixed_centre=self.assume_centered,
            )

        return centred

    def _reads_once(self, asked: Asked, procedure: Procedure[Any]) -> bool:
        return asked.family.one_pass and not isinstance(procedure, Centred)

    def _read_once(self) -> InvalidDataError:
        return InvalidDataError(
            "this release reads the rows several times, and these can be read once only: pass "
            f"a file or an array, or mechanism={self.one_pass!r} with assume_centered=True and "
            "adjacency='replace-one'"
        )

    def _not_pure(self, name: str) -> UnsupportedNotionError:
        other = self._family(self.pure_default).pure
        choice = f", or choose mechanism={self.pure_default!r}" if other else ""
        return UnsupportedNotionError(
            f"{name!r} adds Gaussian noise and cannot give a pure epsilon guarantee: give delta as "
            f"well, or rho{choice}"
        )

    def _too_few(self) -> InvalidParameterError:
        return InvalidParameterError(
            "too few rows for a private radius at this budget: state row_norm or bounds, or give a "
            "larger budget"
        )

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

    def _open(self, X: Any, groups: Any) -> RowSource:
        """Rows, whose they are, and columns divided by the scales that were stated."""
        source = self._as_it_is(X)
        if groups is not None:
            source = GroupedSource(source, groups)
        scale = self._public_scale(source.n_columns)
        return source if scale is None else ScaledSource(source, scale)

    def _public_scale(self, n_columns: int) -> NDArray[np.float64] | None:
        """One positive number per column, where the caller stated any."""
        if self.scale is None or (isinstance(self.scale, str) and self.scale == "private"):
            return None
        wrong = InvalidParameterError(
            "scale must be 'private' or one positive number per column (between 1e-50 and 1e50); "
            "never take it from the data"
        )
        try:
            scale = np.array(np.broadcast_to(self.scale, (n_columns,)), dtype=np.float64)
        except (TypeError, ValueError):
            raise wrong from None
        if not ((scale >= SMALLEST_NORM) & (scale <= LARGEST_NORM)).all():
            raise wrong
        return scale

    def _scales(self, result: CentredResult[Any]) -> NDArray[np.float64]:
        """What columns were divided by: stated, released or one; infinite for one left out."""
        if result.scale is not None:
            return result.scale
        stated = self._public_scale(self.n_features_in_)
        return np.ones(self.n_features_in_) if stated is None else stated

    def _scale_words(self, result: CentredResult[Any]) -> tuple[str, ...]:
        if result.scale is not None:
            left = int(np.sum(np.isinf(result.scale)))
            out = f"; {left} left out, as theirs did not stand out" if left else ""
            return (f"columns divided by private scales{out}",)
        if self.scale is not None:
            return ("columns divided by scales stated by the caller",)
        return ()

    def _check_private_scale(self, adjacency: Adjacency) -> None:
        if self.bounds is not None:
            raise InvalidParameterError("private scales need no bounds: leave one of them out")
        if not adjacency.count_is_public:
            raise UnsupportedNotionError(
                "private scales need a public number of rows: give the scales, or choose "
                "adjacency='replace-one'"
            )

    def _as_it_is(self, X: Any) -> RowSource:
        """Files, sources and iterators chunk by chunk; anything else as an array."""
        if not is_streamed(X):
            return ArraySource(self._check_table(X, reset=True))
        source = open_rows(X)
        self.n_features_in_ = source.n_columns
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
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
        named = native(X) if is_frame(X) else table
        validate_data(self, named, reset=reset, skip_check_array=True)
        # Whether there are rows at all is private under add/remove: the sums decide.
        checked = check_array(table, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        return np.asarray(checked)

    def _per_row(
        self, X: Any, of_rows: Callable[[NDArray[Any]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Something of every row of a table that has the columns of the fit."""
        check_is_fitted(self)
        if not is_streamed(X):
            return of_rows(self._check_table(X, reset=False))
        source = open_rows(X)
        self._check_columns(source)
        none = of_rows(np.empty((0, source.n_columns)))
        return np.concatenate([none, *map(of_rows, source.plain.tables())])

    def _floats(self, rows: NDArray[Any], centre: NDArray[np.float64]) -> NDArray[np.float64]:
        """Empty cells as the fit was told; the others numbers, if they must be."""
        rows = rows.astype(np.float64, copy=False)
        if self.on_missing == "centre":
            rows = np.where(np.isnan(rows), centre, rows)
        if self.on_invalid == "raise" and not np.isfinite(rows).all():
            raise InvalidDataError("a row holds NaN or inf: fill it or drop the row")
        return rows

    def _settings(
        self,
        outcome: Outcome[Any],
        noise_scale: float,
        law: NoiseLaw | None,
        *,
        unit: float,
        error: float,
    ) -> dict[str, Any]:
        """Set the public noise attributes and return the settings of the release.

        ``unit`` turns the mechanism's matrix into what is released, ``error`` is the expected
        squared error of the centre in the same units.
        """
        self.mechanism_, self.choice_ = outcome.mechanism, outcome.reason
        self.noise_scale_ = noise_scale * unit
        self.noise_floor_ = 0.0 if law is None else law.scaled(unit).floor(error)
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features": int(self.n_features_in_),
            "n_rows": outcome.n_rows,
            **outcome.stated.as_dict(),
            "assume_centered": bool(self.assume_centered),
            "on_invalid": self.on_invalid,
            "on_missing": self.on_missing,
            "noise_scale": self.noise_scale_,
            "noise_floor": self.noise_floor_,
            "choice": outcome.reason or None,
            "feature_names": None if names is None else [str(name) for name in names],
            **({} if outcome.balance is None else {"ledger": asdict(outcome.balance)}),
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.on_invalid == "zero" or self.on_missing == "centre"
        return tags


def without_law(floor: float, error: float, d: int) -> float:
    """The eigenvalue that noise and the error of a centre rarely exceed, where no law is known.

    ``error`` is the expected squared length of that error, which adds a direction of its own.
    """
    return floor + error * float(chi2.ppf(0.99, d)) / d


def standing_out(
    values: NDArray[np.float64],
    reliability: NDArray[np.float64],
    floors: tuple[float, float],
    error: float,
) -> NDArray[np.bool_]:
    """Which components stand out from the noise of the matrix, but for one.

    ``floors``: of the matrix, and of matrix and centre. The error of the centre shows as one
    component between the two: most likely the one of its own size.
    """
    matrix, whole = floors
    clear = np.asarray((values > matrix) & (reliability > 0))
    suspects = np.flatnonzero(clear & (values <= whole))
    if whole > matrix and suspects.size:
        clear[suspects[np.argmin(np.abs(values[suspects] - error))]] = False
    return clear


def mean_score(scores: NDArray[np.float64]) -> float:
    """Of the rows that have one."""
    scores = scores[~np.isnan(scores)]
    if scores.size == 0:
        raise InvalidDataError("no row can be scored: pass rows without missing values")
    return float(scores.mean())
