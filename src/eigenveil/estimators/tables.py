"""Tables as scikit-learn's users pass them: what is opened, checked and scored."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource
from eigenveil.rows.frames import as_table, is_frame, native
from eigenveil.rows.memory import ArraySource, require_hidden_count
from eigenveil.rows.open import is_streamed, open_rows
from eigenveil.rows.units import grouped
from eigenveil.text import plural

__all__ = [
    "TableEstimator",
    "check_columns",
    "check_table",
    "filled",
    "mean_score",
    "name_columns",
    "open_table",
    "per_row",
]


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
        if getattr(estimator, "on_invalid", "zero") == "raise":
            source.refuse_text()  # which would be refused anyway
        name_columns(estimator, source)
    else:
        source = ArraySource(check_table(estimator, X, reset=True))
    return source if groups is None else grouped(source, groups)


def name_columns(estimator: BaseEstimator, source: RowSource) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_``, and how text became numbers."""
    estimator.n_features_in_ = source.n_columns
    if source.feature_names is not None:
        estimator.feature_names_in_ = np.array(source.feature_names, dtype=object)
    estimator.encoding_ = source.encoding


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
    known = source.feature_names is not None and fitted is not None
    if known and tuple(fitted) != source.feature_names:
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
    source = open_rows(X).plain
    source = source.decided(getattr(estimator, "levels_", {}))
    check_columns(estimator, source)
    none = of_rows(np.empty((0, source.n_columns)))
    return np.concatenate([none, *map(of_rows, source.tables())])


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
