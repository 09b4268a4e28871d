"""From a path, a table in memory or chunks to a source of rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eigenveil.data.sources.arrays import ArraySource
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.csv import CSVSource
from eigenveil.data.sources.iterables import ForeignRows, ForeignSource, IterableSource
from eigenveil.data.sources.npy import NpySource
from eigenveil.data.sources.parquet import ParquetSource
from eigenveil.data.sources.units import LabelledRows, LabelledSource
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.text import printable

__all__ = ["is_streamed", "open_rows"]

_DEVICE_LIBRARIES = ("torch", "cupy", "array_api_strict")


def open_rows(
    data: Any, columns: Sequence[str] | None = None, unit: str | None = None
) -> RowSource:
    """Open a table in memory, a ``.npy``, ``.csv`` or ``.parquet`` file, or chunks.

    An iterable without a length is taken for chunks; wrap a list of chunks in `IterableSource`.
    ``columns`` selects columns of a CSV or parquet file by name. ``unit`` names the column that
    says whose row it is: all rows with one value of it are protected together, and it is no
    feature. For tables in memory, pass ``groups`` to ``fit``.
    """
    if isinstance(data, (str, Path)):
        return _open_file(Path(data), columns, unit)
    if unit is not None:
        raise InvalidParameterError(
            "unit names a column of a CSV or parquet file: pass fit(X, groups=ids) instead"
        )
    if columns is not None:
        raise InvalidParameterError(
            "columns selects from a CSV or parquet file: slice arrays yourself"
        )
    if isinstance(data, RowSource):
        return data
    if _is_dask(data):
        from eigenveil.data.distributed.dask import dask_rows

        return dask_rows(data)
    if isinstance(data, ForeignRows):
        return ForeignSource(data)
    if is_device_array(data):
        from eigenveil.data.device import DeviceSource  # which sums, as sources do not

        return DeviceSource(data)
    if _is_stream(data):
        return IterableSource(data)
    return ArraySource(data)


def is_streamed(data: Any) -> bool:
    """Return whether rows come chunk by chunk: a path, a source, an iterable without a length.

    Or from a cluster or a device.
    """
    known = isinstance(data, (str, Path, RowSource, ForeignRows))
    return known or _is_dask(data) or is_device_array(data) or _is_stream(data)


def _is_dask(data: Any) -> bool:
    """Return whether the data are a collection of Dask, which has a graph."""
    return hasattr(data, "__dask_graph__")


def is_device_array(data: Any) -> bool:
    """Return whether rows are an array of a library whose arrays may lie on a device."""
    return type(data).__module__.partition(".")[0] in _DEVICE_LIBRARIES and hasattr(data, "shape")


def _is_stream(data: Any) -> bool:
    return isinstance(data, Iterable) and not hasattr(data, "__len__")


def _open_file(path: Path, columns: Sequence[str] | None, unit: str | None) -> RowSource:
    match path.suffix.lower():
        case ".npy":
            return _open_npy(path, columns, unit)
        case ".csv":
            file: LabelledRows = CSVSource(path, columns, unit)
        case ".parquet":
            file = ParquetSource(path, columns, unit)
        case _:
            kind = "a folder" if path.is_dir() else "another kind of file"
            raise InvalidDataError(
                f"{printable(str(path))} is {kind}: give a .npy, .csv or .parquet file"
            )
    return file if unit is None else LabelledSource(file, unit)


def _open_npy(path: Path, columns: Sequence[str] | None, unit: str | None) -> RowSource:
    if columns is not None:
        raise InvalidParameterError("a .npy file has no column names: slice it yourself")
    if unit is not None:
        raise InvalidParameterError(
            "a .npy file has no column names: pass fit(X, groups=ids) instead of unit"
        )
    stored = NpySource(path)
    return ArraySource(stored.load()) if stored.is_small else stored
