"""A federation in one process: for studies of many owners, and to try things out.

The same coordinator, the same owners and the same bytes as over a network; nothing travels.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Journal
from eigenveil.federated.owner import Owner
from eigenveil.release.artefact import Release

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement


class Answering(Protocol):
    """An owner, as a transport sees it."""

    def answer(self, question: bytes) -> bytes:
        """Return one message for another; never raise."""
        ...


class InProcess:
    """A transport that asks owners in its own process; the nodes are their names."""

    pause = 1.0  # of a clock that runs as fast as it can

    def __init__(self, owners: Mapping[str, Answering]) -> None:
        self._owners = owners
        self._questions: deque[tuple[str, bytes]] = deque()

    def nodes(self) -> Mapping[str, str | None]:
        """Return all owners, always."""
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


def simulate(agreement: "Agreement | SecureAgreement", owners: Mapping[str, Answering]) -> Release:
    """Return all rounds among owners of this process, with a journal in memory; nobody is waited
    for.

    Parameters
    ----------
    agreement : Agreement or SecureAgreement
        With ``simulated=True`` for owners with seeds; the times in it are not looked at.
    owners : mapping of str to Owner
        By their names. Who is in the agreement and not here stays away, as it may.

    """
    _check(agreement, owners)
    # Each question once: nobody mends anything before the next.
    once = replace(agreement, again_seconds=math.inf)
    passed = 0.0

    def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    with Journal() as journal:
        coordinator = Coordinator(once, journal, clock=lambda: passed, sleep=sleep)
        return coordinator.run(InProcess(owners))


def _check(agreement: "Agreement | SecureAgreement", owners: Mapping[str, Answering]) -> None:
    """Mistakes that would only show as owners that are left out."""
    if not isinstance(owners, Mapping):
        raise InvalidParameterError("owners must be a mapping of names to owners: give a dict")
    for name, owner in owners.items():
        if name not in agreement.owners:
            raise InvalidParameterError(
                f"the agreement knows no owner {name!r}: use its names, or add it there"
            )
        if not isinstance(owner, Owner):
            continue
        if name != owner.settings.owner:
            raise InvalidParameterError(
                f"the owner at {name!r} has the name {owner.settings.owner!r} in its settings: "
                "use one name for both"
            )
        if owner.settings.random_state is not None and not agreement.simulated:
            raise InvalidParameterError(
                f"the noise of {name!r} is seeded, which protects nobody: simulated=True in the "
                "agreement takes it"
            )
