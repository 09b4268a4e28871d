"""Open the table of a command: a file, standard input, or parts on Dask workers.

Names and kinds of columns are schema, not records. Parquet states both. Of a CSV file the first
hundred lines are looked at: a column is text if it has a cell there and none of them is a number.
No cell is ever shown.
"""

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from eigenveil.cli.values import by_name
from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import CENSORED, option
from eigenveil.rows.base import RowSource
from eigenveil.rows.columns import Reading, parsed_encode
from eigenveil.rows.csv import CSVSource
from eigenveil.rows.open import open_rows

if TYPE_CHECKING:
    pass


ROW_OPTIONS = (
    *("columns", "unit", "drop", "encode", "censored"),
    *("as_number", "decimal", "encoding"),
)

_STDIN = "standard input"
_NAMELESS = (".npy", ".npz")


class StdinSource(CSVSource):
    """A CSV table from standard input, held in memory as text: most releases read rows twice."""

    def __init__(self, text: str, reading: Reading | None = None) -> None:
        self._text = text
        self._begin(_STDIN, reading or Reading())

    def _opened(self) -> TextIO:
        return io.StringIO(self._text, newline="")

    @property
    def _is_small(self) -> bool:
        return True  # the text is in memory already


def open_table(
    data: str, *, text: Literal["refused", "invalid"] = "refused", **given: Any
) -> RowSource:
    """Open a file, or standard input for ``-``; ``given`` are options of `ROW_OPTIONS`.

    Columns of text are refused by name, which only words what would happen anyway. Where rows with
    text contribute nothing, ``text="invalid"``, a look at some lines must not decide over a run.
    """
    stated = {name: value for name, value in given.items() if value not in (None, ())}
    if "encode" in stated:
        stated["encode"] = by_name(stated["encode"], "--encode")
    if "censored" in stated:
        rules = by_name(stated["censored"], "--censored")
        stated["censored"] = rules.get("", rules)
        if "" in rules and len(rules) > 1:
            raise InvalidParameterError(CENSORED, " is one rule for all columns, or one by name")
    if stated.get("unit") is not None and (data == "-" or Path(data).suffix.lower() in _NAMELESS):
        raise InvalidParameterError(
            option("unit"), " names a column of a file: save the table as CSV or parquet first"
        )
    source = _standard_input(stated) if data == "-" else open_rows(Path(data), **stated)
    if text == "refused" and source.table is not None:
        source.table.refuse_text()
    return source


def arrival_label(data: str, batch: str | None) -> str | None:
    """Return the label of what arrives: as stated, or the name of its file; it is public."""
    return Path(data).absolute().name if batch is None and data != "-" else batch


def by_levels(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the column of ``--show-scores-by`` as what scores are shown by.

    It is left out of the analysis, unless it is encoded or one of the columns that are named.
    """
    given = dict(options)
    by = given.pop("show_scores_by")
    if by is None:
        return given
    column, levels = by
    given["show_scores"] = {column: levels}
    encoded = [name for name, _ in given["encode"]]
    if given["columns"] is None and column not in (*encoded, given["unit"]):
        given["drop"] = tuple(dict.fromkeys((*(given["drop"] or ()), column)))
    return given


@contextmanager
def read_by_workers(source: RowSource, address: str) -> Iterator[RowSource]:
    """Yield the same rows, read and summed by the workers of a cluster while the block runs."""
    from eigenveil.engines.dask import connected, on_cluster

    with connected(address):
        yield on_cluster(source)


def _standard_input(stated: Mapping[str, Any]) -> StdinSource:
    encode = parsed_encode(stated.get("encode"))
    reading = Reading(**{**stated, "encode": encode})
    form = "utf-8-sig" if reading.encoding == "utf-8" else reading.encoding
    return StdinSource(sys.stdin.buffer.read().decode(form, errors="replace"), reading)
