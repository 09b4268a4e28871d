"""Ask over a transport and wait, as a coordinator does."""

import time
from collections.abc import Iterator, Mapping

from eigenveil.federated import Code, Transport


def ask(
    transport: Transport, questions: Mapping[str, bytes], seconds: float = 60.0
) -> Iterator[tuple[str, bytes | Code]]:
    """Answers as they come, until all are there or the time is over."""
    transport.send(questions, seconds)
    until, waiting = time.monotonic() + seconds, set(questions)
    while waiting and time.monotonic() < until:
        for node, _, reply in transport.replies():
            waiting.discard(node)
            yield node, reply
        time.sleep(transport.pause)
