"""How far reading or computing is, on standard error and on a terminal only; and interrupts.

Under add/remove the number of rows is private and no count is shown.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from eigenveil.privacy.account import Account
    from eigenveil.rows.base import RowSource

_WIDTH = 30
_EVERY = 0.1  # seconds
_CLEAR = "\r\x1b[K"
Result = TypeVar("Result")


@contextmanager
def watched(
    source: "RowSource", *, count_is_public: bool, as_lines: bool = False
) -> Iterator["RowSource"]:
    """Yield the same source, telling how far each pass over it is.

    A program asks for lines of JSON: passes begun, rows read and rows in all, where they are
    public.
    """
    if not (as_lines or sys.stderr.isatty()):
        yield source
        return
    from eigenveil.rows.base import watch

    show = _line if as_lines else _bar
    passes = 0

    def shown_chunks(read: "RowSource") -> Iterator[Any]:
        nonlocal passes
        passes += 1
        rows, shown = 0, -_EVERY
        length = read.n_rows if count_is_public else None
        for chunk in read.chunks():
            now = time.monotonic()
            if now - shown >= _EVERY and (count_is_public or not rows):
                show(passes, rows if count_is_public else None, length)
                shown = now
            rows += len(chunk)
            yield chunk
        show(None, None, None)

    watch(source, shown_chunks)
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
