"""Interrupts of long-running commands, answered in one line that says how things stand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stoppable"]


@contextmanager
def stoppable(words: str | Callable[[], str]) -> Iterator[None]:
    """Let the line of an interrupt of the block say ``words``, or what it returns by then."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words if isinstance(words, str) else words()) from None
