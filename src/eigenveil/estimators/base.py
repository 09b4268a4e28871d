"""From the arguments of an estimator and a table to one charged release."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from eigenveil.exact.gram import public_rows
from eigenveil.exact.histograms import row_kinds
from eigenveil.exceptions import (
    BusyError,
    ColumnsLeftOutWarning,
    EmptyCellsWarning,
    InvalidDataError,
    InvalidParameterError,
    MissingTogetherWarning,
    WeakPromiseWarning,
    WholeTurnsWarning,
)
from eigenveil.mechanisms.registry import Releases, entry
from eigenveil.messages import NEW_LABEL, Phrase
from eigenveil.numerics.pair_shares import PairShares
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource
from eigenveil.planning.choice import planned
from eigenveil.planning.execution import FitResult, execute, foreseen
from eigenveil.planning.request import Request, encoded_scale, public_scale
from eigenveil.privacy.account import Account
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Ledger
from eigenveil.report.views import unknown_turns
from eigenveil.rows.base import RowSource, decided, tables, with_one_level_each
from eigenveil.rows.columns import parsed_encode
from eigenveil.rows.features import DaysSince, Feature, Levels
from eigenveil.rows.frames import as_table, is_frame, native
from eigenveil.rows.maps import ShownSource
from eigenveil.rows.memory import ArraySource, require_hidden_count
from eigenveil.rows.open import is_streamed, open_rows
from eigenveil.rows.units import grouped
from eigenveil.text import did_you_mean, listed, plural, printable


class TableEstimator:
    """An estimator that tells scikit-learn whether rows with missing cells are taken."""

    on_invalid: Literal["raise", "zero"]
    on_missing: Literal["invalid", "centre"]

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.on_invalid == "zero" or self.on_missing == "centre"
        return tags


def open_table(
    estimator: BaseEstimator, X: Any, adjacency: Adjacency, groups: Any = None
) -> RowSource:
    """Open files, sources and iterators chunk by chunk, anything else as an array.

    Sets ``n_features_in_`` and ``feature_names_in_``.
    """
    if is_streamed(X):
        source = open_rows(X)
        require_hidden_count(source, adjacency)  # before a first chunk shows that there is one
        if getattr(estimator, "on_invalid", "zero") == "raise" and source.table is not None:
            source.table.refuse_text()  # which would be refused anyway
        name_columns(estimator, source)
    else:
        source = ArraySource(check_table(estimator, X, reset=True))
    return source if groups is None else grouped(source, groups)


def name_columns(estimator: BaseEstimator, source: RowSource) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_``, and how text became numbers."""
    estimator.n_features_in_ = source.n_columns
    if source.schema.feature_names is not None:
        estimator.feature_names_in_ = np.array(source.schema.feature_names, dtype=object)
    estimator.encoding_ = source.schema.encoding


def check_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> NDArray[Any]:
    """Return a table of numbers that scikit-learn has checked for names and size.

    scikit-learn quotes entries in some of its messages, so it is shown numbers only.
    """
    table = as_table(X)
    named = native(X) if is_frame(X) else table
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    # Whether there are rows at all is private under add/remove: the sums decide.
    checked = check_array(table, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    return np.asarray(checked)


def check_columns(estimator: BaseEstimator, source: RowSource) -> None:
    """Refuse a streamed table that has not the columns of the fit, in their order."""
    if source.n_columns != estimator.n_features_in_:
        raise InvalidDataError(
            f"the rows have {source.n_columns} {plural('column', source.n_columns)}, those of the "
            f"fit {estimator.n_features_in_}: choose the same ones"
        )
    fitted: Any = getattr(estimator, "feature_names_in_", None)
    known = source.schema.feature_names is not None and fitted is not None
    if known and tuple(fitted) != source.schema.feature_names:
        raise InvalidDataError(
            "the columns are not those of the fit, in the same order: choose those"
        )


def per_row(
    estimator: BaseEstimator, X: Any, of_rows: Callable[[NDArray[Any]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return something of every row of a table that has the columns of the fit."""
    check_is_fitted(estimator)
    if not is_streamed(X):
        return of_rows(check_table(estimator, X, reset=False))
    source = decided(open_rows(X).plain, getattr(estimator, "levels_", {}))
    check_columns(estimator, source)
    none = of_rows(np.empty((0, source.n_columns)))
    return np.concatenate([none, *map(of_rows, tables(source))])


def filled(
    rows: NDArray[Any], centre: NDArray[np.float64], on_invalid: str, on_missing: str
) -> NDArray[np.float64]:
    """Return rows with empty cells as the fit was told; others must be numbers, if it was."""
    rows = rows.astype(np.float64, copy=False)
    if on_missing == "centre":
        rows = np.where(np.isnan(rows), centre, rows)
    if on_invalid == "raise" and not np.isfinite(rows).all():
        raise InvalidDataError("a row holds NaN or inf: fill it or drop the row")
    return rows


def mean_score(scores: NDArray[np.float64]) -> float:
    """Return the mean of the scores that are not NaN."""
    scores = scores[~np.isnan(scores)]
    if scores.size == 0:
        raise InvalidDataError("no row can be scored: pass rows without missing values")
    return float(scores.mean())


_MOST_LEVELS = 50
_BY = Phrase(python="show_scores", shell="--show-scores-by", file="maps of scores")

_NAMED_TABLE = Phrase(
    python="pass a file, or open_rows(frame)",
    shell="give a file whose columns have names",
    file="give a file whose columns have names",
)


@dataclass(frozen=True, slots=True)
class ScoreKinds:
    """The column whose levels have maps of their own, and the levels; None where unknown."""

    column: str
    levels: tuple[str, ...] | None
    found: bool = False

    @classmethod
    def asked(cls, show_scores: Any, source: RowSource) -> "ScoreKinds | None":
        """Return what ``show_scores`` asks for; None where it is a map of all rows, or none."""
        if isinstance(show_scores, (bool, np.bool_)):
            return None
        column, feature = _parsed(show_scores)
        columns = source.schema.table_columns
        if not columns or not source.rereadable:
            raise InvalidDataError(_BY, " names a column of a table: ", _NAMED_TABLE)
        if column not in columns:
            raise InvalidDataError(f"no column {column!r}: {did_you_mean(column, columns)}")
        encoded = source.schema.encoding.get(column, {}).get("levels")
        if isinstance(feature, Levels):
            found = cls(column, feature.levels)
        else:
            found = cls(column, None if encoded is None else tuple(encoded))
        if len(found.levels or ()) > _MOST_LEVELS:
            raise InvalidParameterError(_BY, f" shows {_MOST_LEVELS} levels at most: state fewer")
        return found

    def shown(self, source: RowSource) -> ShownSource:
        """Return the rows with their kinds."""
        kinds = row_kinds(source, self.column, self.levels or ())
        how = "found privately" if self.found else "stated by the caller"
        number = f"{self.number - 1} {plural('level', self.number - 1)}"
        words = f"scores are counted by {number} of {printable(self.column)!r} {how}"
        return ShownSource(source, kinds, words)

    @property
    def number(self) -> int:
        """Number of kinds: one for each level, and one for all others."""
        return len(self.levels or ()) + 1


def _parsed(show_scores: Any) -> tuple[str, Feature]:
    """Return a column, and what is said of its levels."""
    if isinstance(show_scores, str):
        show_scores = {show_scores: "private"}
    try:
        ((column, feature),) = parsed_encode(show_scores).items()
    except ValueError:  # an InvalidParameterError is one, and so is another number of columns
        feature = None
    if feature is None or isinstance(feature, DaysSince):
        raise InvalidParameterError(_BY, " names one column, or one with a list of its levels")
    return column, feature


_FITTING: dict[tuple[int, int], object] = {}  # a mark for each process and id of an estimator
_DENSE = 0.75  # share of present cells below which the correction for empty ones is rough


def fit_release(
    estimator: BaseEstimator,
    X: Any,
    groups: Any,
    releases: Releases,
    *,
    noise: NoiseSource,
    ledger: Ledger | None,
    show_scores: Any = False,
    **asked: Any,
) -> FitResult[Any]:
    """Choose, plan, charge, read the rows, add noise: a part of `fitting`."""
    asked |= _stated(estimator, releases)
    source = open_table(estimator, X, asked["adjacency"], groups)
    del X, groups
    kinds = _kinds(show_scores, source, asked)
    if _undecided(source, kinds):
        return _with_levels(estimator, source, kinds, releases, asked, ledger, noise)
    source = _of_kinds(estimator, source, kinds, asked)
    request = _request(estimator, source, releases, **asked)
    warn_of_weakness(request.budget, request.n_rows)
    return execute(planned(request), source, ledger=ledger, noise=noise)


def foresee_release(
    estimator: BaseEstimator, X: Any, releases: Releases, show_scores: Any = False, **asked: Any
) -> Guarantee:
    """Return what a fit would promise; nothing is charged, and rows are counted at most."""
    estimator = clone(estimator)
    ledger = noise_and_ledger(estimator)[1]
    asked |= _stated(estimator, releases)
    source = open_table(estimator, X, asked["adjacency"], None)
    kinds = _kinds(show_scores, source, asked)
    search = None
    if columns := _undecided(source, kinds):
        from eigenveil.planning.category_search import LevelSearch

        search = LevelSearch(budget=asked["budget"], columns=columns)
        asked |= {"left": search.left()}
        source = with_one_level_each(source)
        name_columns(estimator, source)
    else:
        source = _of_kinds(estimator, source, kinds, asked)
    plan = planned(_request(estimator, source, releases, **asked))
    cost = plan.cost if search is None else search.whole(plan, ledger)
    if ledger is not None and search is None:
        request = plan.request
        ledger.check(cost, adjacency=request.adjacency, unit=request.unit)
    receipt = None if ledger is None else f"{ledger}, before the release is made"
    return foreseen(plan, cost, receipt, source.schema.remarks)


def _kinds(show_scores: Any, source: RowSource, asked: dict[str, Any]) -> ScoreKinds | None:
    """Return the kinds that a map of scores tells apart; None where it tells none."""
    asked["show_scores"] = bool(show_scores)
    return None if show_scores is False else ScoreKinds.asked(show_scores, source)


def _undecided(source: RowSource, kinds: ScoreKinds | None) -> tuple[str, ...]:
    """Return the columns whose levels are to be found first."""
    columns = source.schema.undecided
    if kinds is not None and kinds.levels is None and kinds.column not in columns:
        return (*columns, kinds.column)
    return columns


def _stated(estimator: BaseEstimator, releases: Releases) -> dict[str, Any]:
    """Return budget, neighbours and mechanism as the arguments of an estimator state them."""
    automatic = isinstance(estimator.mechanism, str) and estimator.mechanism == "auto"
    return {
        "budget": Budget(epsilon=estimator.epsilon, delta=estimator.delta, rho=estimator.rho),
        "adjacency": Adjacency.parse(estimator.adjacency),
        "entry": None if automatic else entry(releases, estimator.mechanism),
    }


def warn_of_weakness(budget: Budget, rows: int | None) -> None:
    """Warn of a budget that hardly promises anything for so many rows, where that is public."""
    for weakness in budget.weaknesses(rows):
        warnings.warn(weakness, WeakPromiseWarning, stacklevel=4)


def warn_of_columns(estimator: BaseEstimator) -> None:
    """Warn of columns that no private scale was found for: released facts alone."""
    left = np.flatnonzero(np.isinf(estimator.scale_)).tolist()
    if not left or "scale" not in estimator.shares_:
        return
    without = _names(estimator, left)
    one = len(left) == 1
    warnings.warn(
        f"no scale was found for {without}, which {'was' if one else 'were'} left out: state "
        f"{'its scale' if one else 'their scales'}, give more rows or a larger budget, or look "
        "whether cells are written as was said, such as dates",
        ColumnsLeftOutWarning,
        stacklevel=3,
    )


def warn_of_hidden_variances(estimator: BaseEstimator) -> None:
    """Warn of columns without a released variance: released facts alone."""
    hidden = np.isfinite(estimator.scale_) & (estimator.covariance_.diagonal() == 0)
    box = estimator.release_.settings["bounds"]
    if box is not None:
        hidden &= np.array(box["low"]) < np.array(box["high"])  # others are constant as stated
    proofs, shares = estimator.release_.proofs, estimator.shares_
    nothing = "elliptical" in proofs and not estimator.covariance_.any()
    divided = "scale" in shares or bool((estimator.scale_ != 1).any())
    noisy = divided and estimator.noise_scale_ > 0
    if not hidden.any() or not (noisy or nothing):
        return
    warnings.warn(
        f"noise hides the variance of {_names(estimator, np.flatnonzero(hidden).tolist())}, which "
        "is zero in the release: give more rows, a larger budget or scales, or leave out what is "
        "constant",
        ColumnsLeftOutWarning,
        stacklevel=3,
    )


def warn_of_guessed_deviations(estimator: BaseEstimator) -> None:
    """Warn of columns whose standard deviation noise hides: released facts alone."""
    hidden = getattr(estimator, "hidden_", [])
    if hidden:
        warnings.warn(
            f"noise hides the variance of {_names(estimator, hidden)}: loadings there are rough, "
            "and scale_ is a guess; give more rows, a larger budget or scales, or leave out what "
            "is constant",
            ColumnsLeftOutWarning,
            stacklevel=3,
        )


def warn_of_turns(estimator: BaseEstimator) -> None:
    """Warn of means that are known up to whole turns only: released facts alone."""
    if not hasattr(estimator, "turn_"):
        return
    turned = unknown_turns(estimator.release_.arrays)
    if turned.any():
        columns = np.flatnonzero(turned).tolist()
        means = "each mean" if turned.all() else f"the mean of {_names(estimator, columns)}"
        warnings.warn(
            f"values are few, so {means} is known up to multiples of a number only (turn_), and "
            "stated as near to zero as that allows; covariances are as good: give more rows or a "
            "larger budget where means matter",
            WholeTurnsWarning,
            stacklevel=3,
        )


def warn_of_empty_cells(
    estimator: BaseEstimator, present: PairShares | None, *, corrects: bool
) -> None:
    """Warn of columns with many missing cells and of cells missing together: released facts.

    ``corrects`` says whether products of columns were corrected for missing cells.
    """
    if present is None:
        return
    kept = np.flatnonzero(np.isfinite(estimator.scale_))
    sparse = kept[present.columns < _DENSE].tolist()
    if sparse:
        warnings.warn(
            f"many cells of {_names(estimator, sparse)} are empty: means, variances and loadings "
            "there may be off by more than the release states; leave such columns out where you "
            f"can{_unmeasured_pairs(estimator, present, kept) if corrects else ''}",
            EmptyCellsWarning,
            stacklevel=3,
        )
    if present.together is not None:
        pair = _pair(estimator, kept[list(present.together)])
        warnings.warn(
            f"cells of {pair} are missing together, or in turn: products of such columns describe "
            "the rows that hold both; if those rows differ from the others, leave a column out or "
            "release the two kinds of rows apart",
            MissingTogetherWarning,
            stacklevel=3,
        )


def _unmeasured_pairs(estimator: BaseEstimator, present: PairShares, kept: NDArray[np.intp]) -> str:
    """Return how far products may be off where pairs of cells were not measured."""
    worst = present.most_uncertain()
    if worst is None:
        return ""
    j, k, low, high = worst
    return (
        "; rows or budget are too small to measure which cells are missing together: products of "
        f"{_pair(estimator, kept[[j, k]])} may be {low:.2g} to {high:.2g} times as large as they "
        "should be"
    )


def _pair(estimator: BaseEstimator, columns: NDArray[np.intp]) -> str:
    return " and ".join(_names(estimator, [column]) for column in columns.tolist())


def _names(estimator: BaseEstimator, columns: list[int]) -> str:
    names = getattr(estimator, "feature_names_in_", None)
    return listed([f"x{j}" if names is None else str(names[j]) for j in columns])


def _with_levels(
    estimator: BaseEstimator,
    source: RowSource,
    kinds: ScoreKinds | None,
    releases: Releases,
    asked: dict[str, Any],
    ledger: Ledger | None,
    noise: NoiseSource,
) -> FitResult[Any]:
    """Find the levels of categories first, once the rest is known to go through for one each."""
    from eigenveil.planning.category_search import LevelSearch

    search = LevelSearch(budget=asked["budget"], columns=_undecided(source, kinds))
    asked |= {"left": search.left()}
    like = with_one_level_each(source)
    name_columns(estimator, like)
    first = planned(_request(estimator, like, releases, **asked))
    warn_of_weakness(search.budget, first.n_rows)
    found = search.run(source, first, ledger=ledger, noise=noise)
    with found.named_in_errors(ledger):
        source = decided(source, found.levels)
        name_columns(estimator, source)
        estimator.levels_ = found.levels
        if kinds is not None and kinds.levels is None:
            kinds = ScoreKinds(kinds.column, found.levels[kinds.column], found=True)
        source = _of_kinds(estimator, source, kinds, asked)
        plan = planned(_request(estimator, source, releases, **asked))
        search.check(plan)
        return found.before(execute(plan, source, ledger=ledger, noise=noise))


def _of_kinds(
    estimator: BaseEstimator, source: RowSource, kinds: ScoreKinds | None, asked: dict[str, Any]
) -> RowSource:
    """Return the rows with the kinds that a map shows them as."""
    if kinds is None:
        return source
    asked["score_kinds"] = kinds.number
    estimator.score_kinds_ = kinds
    return kinds.shown(source)


def _request(
    estimator: BaseEstimator,
    source: RowSource,
    releases: Releases,
    *,
    adjacency: Adjacency,
    **asked: Any,
) -> Request:
    """Return what the arguments of an estimator ask for."""
    names = getattr(estimator, "feature_names_in_", None)
    box, box_by_column = Request.ranges(estimator.bounds, names, source.n_columns)
    known = encoded_scale(names, source.schema.encoding)
    all_known = known is not None and not np.isnan(known).any()
    word = estimator.scale if isinstance(estimator.scale, str) else None
    private = word == "private" and not all_known
    return Request(
        releases=releases,
        adjacency=adjacency,
        unit=source.units.protects,
        n_columns=source.n_columns,
        n_rows=public_rows(source) if adjacency.count_is_public and source.rereadable else None,
        rereadable=source.rereadable,
        row_norm=estimator.row_norm,
        box=box,
        box_by_column=box_by_column,
        scale=public_scale(estimator.scale, source.n_columns, names, source.schema.encoding),
        private_scale=private,
        known_scale=known if private or word is None else None,
        same_units=word == "same",
        centring=estimator.centring,
        on_invalid=estimator.on_invalid,
        on_missing=estimator.on_missing,
        **asked,
    )


def noise_and_ledger(estimator: BaseEstimator) -> tuple[NoiseSource, Ledger | None]:
    """Return where noise comes from, and what is charged: a seeded run is charged to nothing."""
    ledger, seed = estimator.ledger, estimator.random_state
    ledger = Ledger(ledger) if isinstance(ledger, (str, Path)) else ledger
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidParameterError("ledger must be a Ledger or the path of one")
    if seed is None:
        return SystemSource(), ledger
    if ledger is not None:
        raise InvalidParameterError(
            "a seeded run is a simulation and protects nobody: drop random_state to release, or "
            "drop the ledger to simulate"
        )
    return SimulationSource(seed), None


def require_label(estimator: BaseEstimator, label: str | None) -> None:
    """Refuse an arrival without a label where a state or a ledger outlives this call.

    Labels alone tell arrivals apart: whether one is refused never depends on its rows.
    """
    if label is None:
        if estimator.state is not None or estimator.ledger is not None:
            raise InvalidParameterError(
                "with a state or a ledger every arrival needs a label, by which a second arrival "
                "of the same records is refused: name it, ",
                NEW_LABEL,
            )
    elif not (isinstance(label, str) and label):
        raise InvalidParameterError("batch must be a name for what arrives, such as a day")


@contextmanager
def fitting(estimator: BaseEstimator) -> Iterator[tuple[NoiseSource, Ledger | None]]:
    """Yield the noise source and the ledger of a fit, which one thread at a time may run.

    Of two at once, both would be paid for and one would be lost: the second is refused.
    Where the fit fails, attributes of an earlier one are kept, and charges are marked as failed.
    """
    key, mark = (os.getpid(), id(estimator)), object()
    if _FITTING.setdefault(key, mark) is not mark:  # one step among threads
        raise BusyError(
            "another thread fits this estimator, and nothing was charged: give each thread its "
            "own, with sklearn.base.clone"
        )
    try:
        with renewed(estimator):
            noise, ledger = noise_and_ledger(estimator)
            account = None if ledger is None else Account(ledger)
            try:
                yield noise, account
            except BaseException:
                if account is not None:
                    account.mark_all_failed()
                raise
    finally:
        del _FITTING[key]


@contextmanager
def renewed(estimator: BaseEstimator) -> Iterator[None]:
    """Drop the attributes of an earlier fit, unless this one fails: what was paid for is kept."""
    earlier = dict(vars(estimator))
    for name in earlier:
        if name.endswith("_"):
            delattr(estimator, name)
    try:
        yield
    except BaseException:
        estimator.__dict__ = earlier
        raise
