"""Requests to end, answered as an interrupt is: in one line that says how things stand."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stoppable"]


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Let SIGTERM end the block as ctrl-C does; the line of either says ``words``."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words) from None
    finally:
        signal.signal(signal.SIGTERM, former)
