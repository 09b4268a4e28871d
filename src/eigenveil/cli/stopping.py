"""Interrupts of long-running commands, answered in one line that says how things stand."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["stoppable"]


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Let the line of an interrupt of the block say ``words``."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words) from None
