"""The rows of an owner, opened with the columns that a federation agreed on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.rows.base import RowSource
from eigenveil.rows.frames import as_table, is_frame, names
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.open import open_rows

__all__ = ["open_owned"]


def open_owned(
    rows: Any, wanted: Iterable[str] | None, unit: str | None
) -> tuple[tuple[str, ...] | None, RowSource]:
    """Return the names of the columns, their own or their owner's, and the rows."""
    columns = None if wanted is None else tuple(wanted)
    source: RowSource
    if is_frame(rows) and unit is None:
        source = ArraySource(as_table(rows), names(rows))
    else:
        by_name = isinstance(rows, (str, Path)) and Path(rows).suffix.lower() != ".npy"
        source = open_rows(rows, columns if by_name else None, unit)
    found = source.feature_names
    if columns is None or found == columns:
        return found, source
    if found is not None or len(columns) != source.n_columns:
        raise InvalidParameterError(
            "columns chooses from CSV and parquet files only: name all columns of this table, in "
            "their order, or leave columns out"
        )
    return columns, source  # the owner's word: it has no names itself
