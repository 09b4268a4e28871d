"""How far reading or computing is: on standard error, and on a terminal only.

Under add/remove the number of rows is private and no count is shown.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from eigenveil.data.sources import RowSource

__all__ = ["counting", "watched"]

_WIDTH = 30
_EVERY = 0.1  # seconds
_CLEAR = "\r\x1b[K"
Result = TypeVar("Result")


@contextmanager
def watched(source: RowSource, *, count_is_public: bool) -> Iterator[RowSource]:
    """Yield the same source, telling how far each pass over it is.

    The object stays what it is, so that it still answers whether the number of rows is known.
    """
    if not sys.stderr.isatty():
        yield source
        return
    length = source.n_rows if count_is_public else None
    read = source.chunks
    passes = 0

    def chunks() -> Iterator[Any]:
        nonlocal passes
        passes += 1
        rows, shown = 0, -_EVERY
        title = f"{_CLEAR}reading rows, pass {passes}"
        for chunk in read():
            now = time.monotonic()
            if now - shown >= _EVERY and (count_is_public or not rows):
                _show(title + (_state(rows, length) if count_is_public else ""))
                shown = now
            rows += len(chunk)
            yield chunk
        _show(f"{_CLEAR}computing")

    source.chunks = chunks  # type: ignore[method-assign]
    try:
        yield source
    finally:
        _show(_CLEAR)


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


def _state(rows: int, length: int | None) -> str:
    if not length:
        return f": {rows:,}"
    done = min(1.0, rows / length)
    bar = "#" * round(_WIDTH * done)
    return f" [{bar:-<{_WIDTH}}] {done:4.0%}"


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
