"""Data frames as tables of numbers, through narwhals: pandas, polars, pyarrow and the like.

Whether a column is taken is decided by its type, which is public, and never by its entries.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError

if TYPE_CHECKING:
    import narwhals

__all__ = ["is_frame", "names", "native", "numbers"]


def is_frame(data: Any) -> bool:
    """Whether the data are a frame in memory, with named and typed columns."""
    return _frame(data) is not None


def names(data: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame."""
    frame = _frame(data)
    return None if frame is None else tuple(frame.columns)


def native(data: Any) -> Any:
    """The frame without a wrapping of narwhals, which other libraries may not know."""
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


def numbers(data: Any) -> NDArray[Any]:
    """The rows of a frame; a missing entry becomes NaN, a truth value 0 or 1."""
    import narwhals

    frame = _frame(data)
    assert frame is not None  # whoever calls has asked `is_frame`
    kinds = frame.schema
    for name, kind in kinds.items():
        if not (kind.is_numeric() or kind == narwhals.Boolean):
            raise InvalidDataError(
                f"column {name!r} does not hold numbers: encode it, or choose numeric columns"
            )
    if len(set(kinds.values())) == 1 and kinds.dtypes()[0].is_float():
        return np.asarray(frame.to_numpy())  # often without a copy
    rows = np.empty(frame.shape)
    for j, column in enumerate(frame.iter_columns()):
        # A cast of integers may refuse large ones, numpy rounds them.
        counts = column.dtype.is_integer()
        rows[:, j] = (column if counts else column.cast(narwhals.Float64)).to_numpy()
    return rows
