"""Data frames and arrays as tables of numbers.

Whether a column is taken is decided by its type, which is public, and never by its entries. Names
are public as well, unless a first record was taken for them: that is refused.

Whether a table is refused is decided by what is public: its type and its shape. Entries of an
array of objects, or of a list, have no common type; one that is no number becomes NaN, as a cell of
a CSV file does, so that its row alone is invalid.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows.column_names import (
    TextColumns,
    are_positions,
    ask_about,
    check_names,
    is_named_like_an_id,
    refuse_twins,
)
from eigenveil.rows.features import as_floats

if TYPE_CHECKING:
    import narwhals


def is_frame(data: Any) -> bool:
    """Return whether the data are a frame in memory, with named and typed columns."""
    return _frame(data) is not None


def names(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame; labels that are not text are none."""
    frame = _frame(data)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    _check_names(frame)
    return tuple(frame.columns)


def native(data: Any) -> Any:
    """Return the frame without a wrapping of narwhals, which other libraries may not know."""
    frame = _frame(data)
    return data if frame is None else frame.to_native()


def _frame(data: Any) -> "narwhals.DataFrame[Any] | None":
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__")):
        return None  # arrays and lists need no narwhals
    import narwhals

    try:
        frame = narwhals.from_native(data, eager_only=True, pass_through=True)
    except narwhals.exceptions.DuplicateError:
        labels: Any = getattr(data, "column_names", None) or getattr(data, "columns", ())
        names = [label for label in labels if isinstance(label, str)]
        check_names(names, "the frame")
        refuse_twins(names)
        raise InvalidDataError("two columns have the same name: rename one") from None
    return frame if isinstance(frame, narwhals.DataFrame) else None


def _check_names(frame: "narwhals.DataFrame[Any]") -> None:
    """Refuse names that may be a record, unless pandas has noted that they are positions."""
    schema = getattr(frame.to_native(), "schema", None)  # of pyarrow, with what pandas noted
    noted = getattr(schema, "pandas_metadata", None)
    check_names(frame.columns, "the frame", numbered=are_positions(noted))


def text_columns(data: Any) -> TextColumns:
    """Return the columns of a frame whose type says that they hold text or dates."""
    frame = _frame(data)
    assert frame is not None  # whoever calls has asked `is_frame`
    text = [name for name, kind in frame.schema.items() if not _may_hold_numbers(kind)]
    return dict.fromkeys(text)


def cells(data: Any) -> Callable[[str], Any]:
    """Return what gives the cells of a column by its name; those of numbers as an array."""
    frame = _frame(data)
    assert frame is not None  # whoever calls has asked `is_frame`

    def of_column(name: str) -> Any:
        column = frame[name]
        if column.dtype.is_float() or (column.dtype.is_integer() and not column.null_count()):
            return column.to_numpy()
        return column.to_list()

    return of_column


def _may_hold_numbers(kind: Any) -> bool:
    import narwhals

    # Cells of objects are looked at one by one.
    return bool(kind.is_numeric()) or kind in (narwhals.Boolean, narwhals.Object)


def numbers(data: Any) -> NDArray[Any]:
    """Return the rows of a frame; a missing entry becomes NaN, a truth value 0 or 1."""
    import narwhals

    frame = _frame(data)
    assert frame is not None  # whoever calls has asked `is_frame`
    _check_names(frame)
    kinds = frame.schema
    _check_columns(kinds)
    if len(set(kinds.values())) == 1 and kinds.dtypes()[0].is_float():
        return np.asarray(frame.to_numpy())  # often without a copy
    rows = np.empty(frame.shape)
    for j, column in enumerate(frame.iter_columns()):
        if column.dtype == narwhals.Object:
            rows[:, j] = as_floats(np.array([*column.to_list(), None], dtype=object)[:-1])
            continue
        # A cast of integers may refuse large ones, numpy rounds them.
        counts = column.dtype.is_integer()
        rows[:, j] = (column if counts else column.cast(narwhals.Float64)).to_numpy()
    return rows


def _check_columns(kinds: Any) -> None:
    """Refuse ids and what holds no numbers, all at once."""
    wordy = [place for place, kind in enumerate(kinds.values()) if not _may_hold_numbers(kind)]
    names = list(kinds)
    for place in wordy:
        if not isinstance(names[place], str):  # a label that is no name is not shown
            raise InvalidDataError(
                f"column number {place + 1} holds no numbers: encode it, or choose numeric columns"
            )
    text = dict.fromkeys(names[place] for place in wordy)
    ids = [n for n in names if isinstance(n, str) and n not in text and is_named_like_an_id(n)]
    asked = {*ids, *text}
    ask_about(ids, text, [name for name in names if name not in asked])


def as_table(data: Any) -> NDArray[Any]:
    """Return a two-dimensional array of real numbers, or raise an error that shows no entry."""
    if issparse(data):
        raise InvalidDataError("these rows are sparse: make them dense first, X.toarray()")
    if hasattr(data, "collect"):
        raise InvalidDataError("a lazy frame holds no rows yet: pass what its collect() gives")
    try:
        array = _as_array(data)
    except (InvalidDataError, MemoryError):
        raise
    except Exception:  # whatever numpy or a data frame raises may quote an entry
        array = np.empty(0, dtype=object)
    check_table(array.dtype, array.shape)
    return array


def check_table(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse what is no table of real numbers."""
    if dtype.kind == "c":
        raise InvalidDataError("Complex data not supported: rows must be real numbers")
    if dtype.kind not in "fiub":
        raise InvalidDataError(
            "rows must be numbers in a rectangular table: encode or drop text and date columns, "
            "and check that all rows have the same length"
        )
    if len(shape) != 2:
        raise InvalidDataError("rows must form a two-dimensional table. Reshape your data")
    if shape[1] == 0:
        raise InvalidDataError("the table has no columns")


def _as_array(data: Any) -> NDArray[Any]:
    """Return an array of any shape; missing entries of masked arrays and frames become NaN."""
    if is_frame(data):
        return numbers(data)
    with np.errstate(all="ignore"):  # a warning would depend on the records
        if np.ma.isMaskedArray(data) and data.dtype.kind in "fiubO":
            kind = object if data.dtype.kind == "O" else np.float64
            array = np.asarray(np.ma.filled(data.astype(kind), np.nan))
        else:
            array = np.asarray(data)
        if array.dtype.kind not in "fiub" and isinstance(data, (list, tuple)):
            array = np.asarray(data, dtype=object)  # numpy took the type from the entries
        if array.dtype.kind != "O":
            return array
        return as_floats(array) if array.ndim == 2 else array.astype(np.float64)
