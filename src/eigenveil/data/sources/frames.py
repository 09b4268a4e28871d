"""Data frames as tables of numbers, through narwhals: pandas, polars, pyarrow and the like.

Whether a column is taken is decided by its type, which is public, and never by its entries. Names
are public as well, unless a first record was taken for them: that is refused.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.cells import as_floats
from eigenveil.data.sources.headers import are_positions, check_names
from eigenveil.exceptions import InvalidDataError

if TYPE_CHECKING:
    import narwhals

__all__ = ["is_frame", "names", "native", "numbers"]


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
        raise InvalidDataError("two columns have the same name: rename one") from None
    return frame if isinstance(frame, narwhals.DataFrame) else None


def _check_names(frame: "narwhals.DataFrame[Any]") -> None:
    """Refuse names that may be a record, unless pandas has noted that they are positions."""
    schema = getattr(frame.to_native(), "schema", None)  # of pyarrow, with what pandas noted
    noted = getattr(schema, "pandas_metadata", None)
    check_names(frame.columns, "the frame", numbered=are_positions(noted))


def numbers(data: Any) -> NDArray[Any]:
    """Return the rows of a frame; a missing entry becomes NaN, a truth value 0 or 1."""
    import narwhals

    frame = _frame(data)
    assert frame is not None  # whoever calls has asked `is_frame`
    _check_names(frame)
    kinds = frame.schema
    known = (narwhals.Boolean, narwhals.Object)  # the latter of cells that are looked at one by one
    for place, (name, kind) in enumerate(kinds.items(), start=1):
        if not (kind.is_numeric() or kind in known):
            called = repr(name) if isinstance(name, str) else f"number {place}"
            raise InvalidDataError(
                f"column {called} does not hold numbers: encode it, or choose numeric columns"
            )
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
