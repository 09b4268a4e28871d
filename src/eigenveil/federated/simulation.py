"""A federation in one process: for studies of many owners, and to try things out.

The same coordinator, the same owners and the same bytes as over a network; nothing travels.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from eigenveil.federated.agreement import Agreement
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Journal
from eigenveil.federated.messages import Code
from eigenveil.release.artefact import Release

__all__ = ["Answering", "InProcess", "simulate"]


class Answering(Protocol):
    """An owner, as a transport sees it."""

    def answer(self, question: bytes) -> bytes:
        """One message for another; it never raises."""
        ...


class InProcess:
    """A transport that asks owners in its own process; the nodes are their names."""

    pause = 1.0  # of a clock that runs as fast as it can

    def __init__(self, owners: Mapping[str, Answering]) -> None:
        self._owners = owners
        self._questions: deque[tuple[str, bytes]] = deque()

    def nodes(self) -> Mapping[str, str | None]:
        """All of them, always."""
        return {name: name for name in self._owners}

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        """Keep the questions until somebody wants the answers."""
        self._questions.extend(questions.items())

    def replies(self) -> Iterable[tuple[str, bytes, bytes | Code]]:
        """Ask one by one: one answer at a time is in memory."""
        while self._questions:
            name, question = self._questions.popleft()
            yield name, question, self._owners[name].answer(question)

    def withdraw(self) -> None:
        """Forget who was not asked yet."""
        self._questions.clear()


def simulate(agreement: Agreement, owners: Mapping[str, Answering]) -> Release:
    """All rounds among owners of this process, with a journal in memory; nobody is waited for."""
    passed = 0.0

    def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    with Journal() as journal:
        coordinator = Coordinator(agreement, journal, clock=lambda: passed, sleep=sleep)
        return coordinator.run(InProcess(owners))
