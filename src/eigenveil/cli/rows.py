"""Open the rows of a command, report progress, and answer interrupts in one line.

Names and kinds of columns are schema, not records. Parquet states both. Of a CSV file the first
hundred lines are looked at: a column is text if it has a cell there and none of them is a number.
No cell is ever shown.

Under add/remove the number of rows is private and no count is shown.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

import click

from eigenveil.cli.values import by_name
from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import CENSORED, option
from eigenveil.rows.base import RowSource
from eigenveil.rows.columns import Reading, parsed_encode
from eigenveil.rows.csv import CSVSource
from eigenveil.rows.open import open_rows

if TYPE_CHECKING:
    from eigenveil.privacy.account import Account


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
    if text == "refused":
        source.refuse_text()
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


_WIDTH = 30

_EVERY = 0.1  # seconds

_CLEAR = "\r\x1b[K"

Result = TypeVar("Result")


@contextmanager
def watched(
    source: RowSource, *, count_is_public: bool, as_lines: bool = False
) -> Iterator[RowSource]:
    """Yield the same source, telling how far each pass over it is.

    The object stays what it is, so that it still answers whether the number of rows is known.
    A program asks for lines of JSON: passes begun, rows read and rows in all, where they are
    public.
    """
    if not (as_lines or sys.stderr.isatty()):
        yield source
        return
    show = _line if as_lines else _bar
    read = source.chunks
    passes = 0

    def chunks() -> Iterator[Any]:
        nonlocal passes
        passes += 1
        rows, shown = 0, -_EVERY
        length = source.n_rows if count_is_public else None
        for chunk in read():
            now = time.monotonic()
            if now - shown >= _EVERY and (count_is_public or not rows):
                show(passes, rows if count_is_public else None, length)
                shown = now
            rows += len(chunk)
            yield chunk
        show(None, None, None)

    source.chunks = chunks  # type: ignore[method-assign]
    try:
        yield source
    finally:
        if not as_lines:
            _show(_CLEAR)


def _bar(passes: int | None, rows: int | None, length: int | None) -> None:
    """Show a bar in place of the last one."""
    if passes is None:
        _show(f"{_CLEAR}computing")
        return
    state = "" if rows is None else _state(rows, length)
    _show(f"{_CLEAR}reading rows, pass {passes}{state}")


def _line(passes: int | None, rows: int | None, length: int | None) -> None:
    """Write one line of JSON; whoever listens may have gone, which ends no release."""
    _tell(**{"pass": passes, "rows": rows, "of": length})


def _tell(**facts: Any) -> None:
    with suppress(OSError):
        _show(json.dumps(facts) + "\n")


@contextmanager
def reporting_charges(account: "Account | None", *, as_lines: bool) -> Iterator[None]:
    """End with a line of JSON that names the ledger entries charged by this run.

    A program that started the run cannot tell them from the charges of other runs otherwise.
    """
    try:
        yield
    finally:
        if as_lines and account is not None:
            charges = account.charges
            _tell(charged=None if charges is None else [entry.hash for entry in charges])


@contextmanager
def counting(length: int, label: str) -> Iterator[Callable[[Result], Result]]:
    """Hands results on, and counts them."""
    if not sys.stderr.isatty():
        yield lambda result: result
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:

        def step(result: Result) -> Result:
            bar.update(1)
            return result

        yield step


@contextmanager
def counted(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what shows how many of how many are finished, with the time that the rest may take."""
    if not sys.stderr.isatty():
        yield None
        return
    start, before = time.monotonic(), -1

    def show(finished: int, length: int) -> None:
        nonlocal before
        before = finished if before < 0 else before
        left = ""
        if finished > before:
            seconds = (time.monotonic() - start) / (finished - before) * (length - finished)
            left = f", {seconds:.0f} s left"
        _show(f"{_CLEAR}{label}{_state(finished, length)} {finished} of {length} runs{left}")

    try:
        yield show
    finally:
        _show(_CLEAR)


def _state(rows: int, length: int | None) -> str:
    if not length:
        return f": {rows:,}"
    done = min(1.0, rows / length)
    bar = "#" * round(_WIDTH * done)
    return f" [{bar:-<{_WIDTH}}] {done:4.0%}"


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def stoppable(words: str | Callable[[], str]) -> Iterator[None]:
    """Let the line of an interrupt of the block say ``words``, or what it returns by then."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words if isinstance(words, str) else words()) from None


# Options that are stated in the units of the data, or ask for another way of treating rows.
_AS_THEY_ARE = ("bounds", "row_norm", "variances")

_STANDARDISING = ("auto", "correlation")

_SAME_KIND = 1000  # columns: so many are mostly genes, words or pixels, of one kind


def default_scale(
    n_columns: int, options: Mapping[str, Any], *, named: bool
) -> Literal["private"] | None:
    """Return the scale of components where none is stated: columns with names have units.

    Columns without names, of one kind (a thousand and more) or a single one are taken as they are,
    and so is whatever is stated about rows as they are. All of this is public.
    """
    stated = any(options.get(name) for name in _AS_THEY_ARE)
    free = not stated and options["mechanism"] in _STANDARDISING
    return "private" if named and 1 < n_columns < _SAME_KIND and free else None
