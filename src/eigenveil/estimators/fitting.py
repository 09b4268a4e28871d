"""From the arguments of an estimator and a table to one charged release."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from eigenveil.estimators.score_kinds import ScoreKinds
from eigenveil.estimators.tables import name_columns, open_table
from eigenveil.exact.gram import public_rows
from eigenveil.exceptions import (
    BusyError,
    ColumnsLeftOutWarning,
    EmptyCellsWarning,
    InvalidParameterError,
    MissingTogetherWarning,
    WeakPromiseWarning,
    WholeTurnsWarning,
)
from eigenveil.mechanisms.registry import Releases, entry
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
from eigenveil.rows.base import RowSource
from eigenveil.text import listed
from eigenveil.wording import NEW_LABEL

__all__ = [
    "fit_release",
    "fitting",
    "foresee_release",
    "noise_and_ledger",
    "renewed",
    "require_label",
    "warn_of_columns",
    "warn_of_empty_cells",
    "warn_of_guessed_deviations",
    "warn_of_hidden_variances",
    "warn_of_turns",
    "warn_of_weakness",
]

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
        source = source.with_one_level_each()
        name_columns(estimator, source)
    else:
        source = _of_kinds(estimator, source, kinds, asked)
    plan = planned(_request(estimator, source, releases, **asked))
    cost = plan.cost if search is None else search.whole(plan, ledger)
    if ledger is not None and search is None:
        request = plan.request
        ledger.check(cost, adjacency=request.adjacency, unit=request.unit)
    receipt = None if ledger is None else f"{ledger}, before the release is made"
    return foreseen(plan, cost, receipt, source.remarks)


def _kinds(show_scores: Any, source: RowSource, asked: dict[str, Any]) -> ScoreKinds | None:
    """Return the kinds that a map of scores tells apart; None where it tells none."""
    asked["show_scores"] = bool(show_scores)
    return None if show_scores is False else ScoreKinds.asked(show_scores, source)


def _undecided(source: RowSource, kinds: ScoreKinds | None) -> tuple[str, ...]:
    """Return the columns whose levels are to be found first."""
    columns = source.undecided
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
    like = source.with_one_level_each()
    name_columns(estimator, like)
    first = planned(_request(estimator, like, releases, **asked))
    warn_of_weakness(search.budget, first.n_rows)
    found = search.run(source, first, ledger=ledger, noise=noise)
    with found.named_in_errors(ledger):
        source = source.decided(found.levels)
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
    known = encoded_scale(names, source.encoding)
    all_known = known is not None and not np.isnan(known).any()
    word = estimator.scale if isinstance(estimator.scale, str) else None
    private = word == "private" and not all_known
    return Request(
        releases=releases,
        adjacency=adjacency,
        unit=source.protects,
        n_columns=source.n_columns,
        n_rows=public_rows(source) if adjacency.count_is_public and source.rereadable else None,
        rereadable=source.rereadable,
        row_norm=estimator.row_norm,
        box=box,
        box_by_column=box_by_column,
        scale=public_scale(estimator.scale, source.n_columns, names, source.encoding),
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
