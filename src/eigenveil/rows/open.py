"""Open a path, a table in memory or chunks as a source of rows, and read the schema of files.

Both are schema, not records: parquet states them, and of a text file the first hundred lines tell a
column of text from one of numbers, as `refuse_text` does.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from scipy.sparse import issparse

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows.base import RowSource
from eigenveil.rows.cells import WorkbookSource, frame_rows
from eigenveil.rows.column_names import TextColumns, is_named_like_an_id
from eigenveil.rows.columns import Encode, Reading, parsed_encode
from eigenveil.rows.csv import CSVSource, is_gzip
from eigenveil.rows.features import Censored, Decimal
from eigenveil.rows.file_guard import StoredFile, address_of, parquet_names, remote_files
from eigenveil.rows.frames import is_frame
from eigenveil.rows.memory import (
    ArraySource,
    ForeignRows,
    ForeignSource,
    IterableSource,
    SparseSource,
    open_npz,
)
from eigenveil.rows.npy import NpySource
from eigenveil.rows.parquet import ParquetSource
from eigenveil.rows.units import LabelledRows, LabelledSource
from eigenveil.text import printable

_DEVICE_LIBRARIES = ("torch", "cupy", "array_api_strict")


def open_rows(
    data: Any,
    columns: Sequence[str] | None = None,
    unit: str | None = None,
    *,
    drop: Sequence[str] = (),
    encode: Encode | None = None,
    censored: Censored | Mapping[str, Censored] = "missing",
    as_number: Sequence[str] = (),
    decimal: Decimal | None = None,
    encoding: str = "utf-8",
) -> RowSource:
    """Open a table in memory, a file, or chunks; say what its columns are.

    Parameters
    ----------
    data : path, array, sparse matrix, data frame or iterable
        Files are CSV (``.csv``, ``.tsv``, or either with ``.gz``), ``.parquet``, ``.xlsx``,
        ``.npy`` or ``.npz``. An iterable without a length is taken for chunks; wrap a list of
        chunks in `IterableSource`.
    columns : list of str, optional
        Columns to take, of a table that has names; by default all. A column that is named like an
        id is taken only if it is named here.
    unit : str, optional
        The column that says whose row it is: all rows with one value of it are protected together,
        and it is no feature. For tables without names, pass ``groups`` to ``fit``.
    drop : list of str
        Columns to leave out, instead of ``columns``.
    encode : {name: levels, "private" or date}, optional
        How columns of text become numbers. A list of levels makes one column of 0 and 1 for each,
        and rows of another level have 0 in all of them. ``"private"`` has the levels found by
        whoever releases something, with a part of the budget; that needs a delta. A date makes the
        column the number of days since then.
    censored : {"missing", "limit", "half"} or {name: ...}
        What cells such as ``<0.5`` in columns of numbers count as: as empty cells, as the limit, or
        as half of it.
    as_number : list of str, optional
        Columns whose cells may have a percent or currency sign: ``13.5%`` becomes 13.5, ``$120``
        becomes 120, an amount in parentheses is negative.
    decimal : {".", ","}, optional
        The decimal mark of numbers in text; the other one then separates thousands. If it is not
        stated, it is the point where commas separate cells. Elsewhere 1.5 and 1,5 are numbers, and
        cells such as ``1,000`` or ``1.000``, which may be either, are invalid.
    encoding : str
        That of a text file, such as ``"latin-1"``.

    """
    reading = Reading(
        columns=columns,
        unit=unit,
        drop=tuple(drop) if not isinstance(drop, str) else drop,
        encode=parsed_encode(encode),
        censored=censored,
        as_number=tuple(as_number) if not isinstance(as_number, str) else as_number,
        decimal=decimal,
        encoding=encoding,
    )
    if isinstance(data, (str, Path)):
        return open_file(Path(data), reading)
    if not reading.is_plain:
        if not is_frame(data):
            raise InvalidParameterError(
                "this table has no names of columns: pass a data frame or a file, or slice the "
                "array; fit(X, groups=ids) says whose rows they are"
            )
        return _by_person(frame_rows(data, reading), reading)
    if isinstance(data, RowSource):
        return data
    if _is_dask(data):
        from eigenveil.engines.dask import dask_rows

        return dask_rows(data)
    if _is_spark(data):
        from eigenveil.engines.spark import SparkSource

        return SparkSource(data)
    if isinstance(data, ForeignRows):
        return ForeignSource(data)
    if issparse(data):
        return SparseSource(data)
    if is_device_array(data):
        from eigenveil.engines.device import DeviceSource  # which sums, as sources do not

        return DeviceSource(data)
    if _is_stream(data):
        return IterableSource(data)
    return ArraySource(data)


def is_streamed(data: Any) -> bool:
    """Return whether rows come chunk by chunk: a path, a source, an iterable without a length.

    Or from a sparse matrix, a cluster or a device.
    """
    known = isinstance(data, (str, Path, RowSource, ForeignRows)) or issparse(data)
    elsewhere = _is_dask(data) or _is_spark(data) or is_device_array(data)
    return known or elsewhere or _is_stream(data)


def _is_dask(data: Any) -> bool:
    """Return whether the data are a collection of Dask, which has a graph."""
    return hasattr(data, "__dask_graph__")


def _is_spark(data: Any) -> bool:
    """Return whether the data are a frame of Spark."""
    return hasattr(data, "mapInArrow") and hasattr(data, "schema")


def is_device_array(data: Any) -> bool:
    """Return whether rows are an array of a library whose arrays may lie on a device."""
    return type(data).__module__.partition(".")[0] in _DEVICE_LIBRARIES and hasattr(data, "shape")


def _is_stream(data: Any) -> bool:
    return isinstance(data, Iterable) and not hasattr(data, "__len__")


def open_file(path: Path, reading: Reading) -> RowSource:
    """Return the rows of a file, or of the parquet files of a folder."""
    if (address := address_of(path)) is not None:
        return _by_person(ParquetSource(remote_files(address), reading), reading)
    if files := _parquet_inside(path):
        return _by_person(ParquetSource(files, reading), reading)
    match path.with_suffix("").suffix.lower() + ".gz" if is_gzip(path) else path.suffix.lower():
        case ".npy" | ".npz" as kind:
            if not reading.is_plain:
                raise InvalidParameterError(
                    f"a {kind} file has no column names: slice it yourself, and pass "
                    "fit(X, groups=ids) instead of a unit"
                )
            return _open_npy(path) if kind == ".npy" else open_npz(path)
        case ".csv" | ".tsv" | ".csv.gz" | ".tsv.gz":
            return _by_person(CSVSource(path, reading), reading)
        case ".parquet":
            return _by_person(ParquetSource(path, reading), reading)
        case ".xlsx":
            return _by_person(WorkbookSource(path, reading), reading)
    what = "a folder without parquet files" if path.is_dir() else "another kind of file"
    raise InvalidDataError(
        f"{printable(str(path))} is {what}: give a .csv, .tsv, .csv.gz, .parquet, .xlsx, .npy or "
        ".npz file, or a folder of parquet files"
    )


def _parquet_inside(path: Path) -> list[StoredFile]:
    """Return the parquet files of a folder, in the order of their names."""
    if not os.path.isdir(path):  # whatever it is called
        return []
    inside = {each.name: each.is_dir() for each in path.iterdir()}
    return [StoredFile(path / name) for name in parquet_names(inside)]


def _by_person(table: LabelledRows, reading: Reading) -> RowSource:
    return table if reading.unit is None else LabelledSource(table, reading.unit)


def _open_npy(path: Path) -> RowSource:
    stored = NpySource(path)
    return ArraySource(stored.load()) if stored.is_small else stored


class Column(NamedTuple):
    """A column of a file.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "text", "id"}
        What it holds; an id is known by its name.

    """

    name: str
    kind: Literal["number", "text", "id"]


class _SeenError(Exception):
    """What a table answered about its columns."""


class _Looking(Reading):
    """A reading that ends as soon as the columns are known."""

    def select(
        self,
        available: Sequence[str],
        *,
        wordy: Callable[[], TextColumns] = dict,
        comma_is_free: bool = False,
    ) -> NoReturn:
        """Hand over the columns, and end."""
        raise _SeenError(tuple(available), frozenset(wordy()))


def columns_of(path: Path, encoding: str = "utf-8") -> tuple[Column, ...]:
    """Return the columns of a CSV, parquet or Excel file, in their order; no record is kept."""
    try:
        open_file(path, _Looking(encoding=encoding))
    except _SeenError as seen:
        names, text = seen.args
    return tuple(
        Column(
            name,
            "id" if is_named_like_an_id(name) else "text" if name in text else "number",
        )
        for name in names
    )
