"""Names and kinds of the columns of a file, before anybody has chosen among them.

Both are schema, not records: parquet states them, and of a text file the first hundred lines tell a
column of text from one of numbers, as `refuse_text` does.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from eigenveil.data.sources.asking import TextColumns, is_named_like_an_id
from eigenveil.data.sources.columns import Reading
from eigenveil.data.sources.open import open_file

__all__ = ["Column", "columns_of"]


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
