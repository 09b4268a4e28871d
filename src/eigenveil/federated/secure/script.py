"""The script of a federation by secure sums, and its recomputation from a journal.

Everybody on a roll must upload, or the step ends: pads cancel among all of them or not at all. So
the roll is made of owners who are connected at that moment, and who is killed afterwards comes back
and sends the same bytes.

A server can publish anything. Whoever has its journal can check that every upload is signed by an
owner on the roster, for the roll that the sum is of, and that totals and release follow from them.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from eigenveil.exceptions import EigenveilError, VerificationError
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Message, decode
from eigenveil.federated.script import Heard
from eigenveil.federated.secure.agreement import SecureAgreement, Step
from eigenveil.federated.secure.masks import unmasked
from eigenveil.federated.secure.messages import (
    Agreed,
    Ready,
    Roll,
    SumInvitation,
    SumQuestion,
    Upload,
    digest,
)
from eigenveil.federated.secure.result import Total, asked_next, combine
from eigenveil.release.artefact import Release


class SumScript:
    """Ask who is ready, show everybody the roll, add up what comes."""

    def __init__(self, agreement: SecureAgreement) -> None:
        self.agreement = agreement
        self._steps = {
            f"{kind}-{step.name}": step for step in agreement.steps for kind in ("ready", "upload")
        }
        self.rounds = ("join", *self._steps)

    def awaited(self, name: str, heard: Heard) -> Collection[str]:
        """Return who is ready, before the roll is made."""
        return heard.answers[_ready(self._steps[name])] if name.startswith("upload-") else ()

    def question(self, name: str, heard: Heard, here: Collection[str]) -> Message:
        """Return an invitation, the numbers of a step, or the roll of those who are here."""
        agreed, agreement = self.agreement, self.agreement.digest.hex()
        if name == "join":
            return SumInvitation(federation=agreed.federation, agreement=agreement)
        step = self._steps[name]
        if name.startswith("ready-"):
            centre, radius = asked_next(agreed, self._totals(heard, step.number))
            return SumQuestion(
                federation=agreed.federation,
                agreement=agreement,
                step=step.number,
                radius=radius,
                centre=centre,
            )
        # Those of the quorum who are away are named when they do not answer.
        ready = heard.answers[_ready(step)]
        present = [owner for owner in ready if owner in here]
        if len(present) < agreed.quorum:
            present = list(ready)
        members = [ready[owner] for owner in sorted(present)]
        return Roll.of(agreed.federation, agreement, step.number, members)

    def among(self, name: str, heard: Heard) -> tuple[str, ...]:
        """Return everybody, who has agreed, or who is on the roll."""
        if name == "join":
            return tuple(self.agreement.owners)
        if name.startswith("ready-"):
            return tuple(heard.answers["join"])
        members = decode(heard.questions[name], Roll).ready()
        return tuple(member.owner for member in members)

    def needed(self, name: str, heard: Heard) -> int:
        """Return the quorum; of a roll, all of it."""
        if name.startswith("upload-"):
            return len(self.among(name, heard))
        return self.agreement.quorum

    def join(self, reply: bytes) -> str:
        """Return who has signed the same agreement."""
        said = decode(reply, Agreed)
        owner = said.owner
        if said.federation != self.agreement.federation:
            raise ProtocolError(Code.FEDERATION, owner)
        if owner not in self.agreement.owners:
            raise ProtocolError(Code.UNKNOWN, owner)
        if said.agreement != self.agreement.digest.hex():
            raise ProtocolError(Code.AGREEMENT, owner)
        self.agreement.agreed(owner).check(said.signature, self.agreement.key(owner))
        return owner

    def check(self, name: str, owner: str, reply: bytes, heard: Heard) -> None:
        """Raise `ProtocolError` unless an answer is signed, and to what was asked."""
        step, agreed = self._steps[name], self.agreement
        answer: Ready | Upload
        if name.startswith("ready-"):
            answer = decode(reply, Ready)
            asked = digest(heard.questions[name]).hex()
        else:
            answer = decode(reply, Upload)
            asked = digest(heard.questions[_ready(step)]).hex()
            if answer.masked.size != step.size:
                raise ProtocolError(Code.SHAPE)
            if answer.roll != digest(heard.questions[name]).hex():
                raise ProtocolError(Code.CONTRADICTION)
        said = (answer.federation, answer.owner, answer.agreement, answer.step, answer.question)
        if said != (agreed.federation, owner, agreed.digest.hex(), step.number, asked):
            raise ProtocolError(Code.CONTRADICTION)
        answer.statement.check(answer.signature, agreed.key(owner))

    def release(self, heard: Heard) -> Release:
        """Return what all sums make."""
        return combine(self.agreement, self._totals(heard, len(self.agreement.steps)), heard)

    def _totals(self, heard: Heard, before: int) -> list[Total]:
        return [total_of(step, heard) for step in self.agreement.steps[:before]]


def _ready(step: Step) -> str:
    return f"ready-{step.name}"


def total_of(step: Step, heard: Heard) -> Total:
    """Return the sum of what everybody on the roll of a step has uploaded."""
    uploads = heard.answers[f"upload-{step.name}"]
    words = unmasked([decode(upload, Upload).masked for upload in uploads.values()])
    question = decode(heard.questions[_ready(step)], SumQuestion)
    return Total(step, words, tuple(uploads), question.centre, question.radius)


_ROUNDING = 1e-9  # of eigenvectors, on another machine


def recompute(journal: Path, release: Release) -> int:
    """Return the number of signed uploads that make the release, or raise `VerificationError`."""
    about = release.settings.get("secure")
    if about is None:
        raise VerificationError(
            "the release was not made by secure sums: there is no total to recompute"
        )
    events = Journal.read(journal)
    try:
        agreement = SecureAgreement.decode(events[0].data)
        if agreement.digest.hex() != about["agreement"]:
            raise VerificationError(
                "the journal is of another agreement than the release: give the right folder"
            )
        made = _replayed(agreement, events)
    except VerificationError:
        raise
    except (EigenveilError, LookupError, ValueError):
        raise VerificationError(
            "the journal holds no complete set of signed uploads: do not trust the release"
        ) from None
    if not _same(made, release):
        raise VerificationError(
            "the release is not what the signed uploads make: do not trust its server"
        )
    return sum(event.round.startswith("upload-") for event in _answers(events))


def _answers(events: list[Event]) -> list[Event]:
    return [event for event in events if event.happening is Happening.ANSWERED]


def _replayed(agreement: SecureAgreement, events: list[Event]) -> Release:
    """Check every signature, and make the release again."""
    script = SumScript(agreement)
    questions = {e.round: e.data for e in events if e.happening is Happening.ASKED}
    answers: dict[str, dict[str, bytes]] = {name: {} for name in script.rounds}
    left_out = {
        (e.round, e.owner): e.code
        for e in events
        if e.happening is Happening.LEFT_OUT and e.code is not None
    }
    for event in events:
        if event.happening in (Happening.JOINED, Happening.ANSWERED):
            answers[event.round][event.owner] = event.data
            left_out.pop((event.round, event.owner), None)
    answers = {name: dict(sorted(each.items())) for name, each in answers.items()}
    heard = Heard(questions, answers, left_out)
    for owner, reply in answers["join"].items():
        if script.join(reply) != owner:
            raise LookupError
    for event in _answers(events):
        script.check(event.round, event.owner, event.data, heard)
    for name in script.rounds:
        if not name.startswith("upload-"):
            continue
        members = decode(questions[name], Roll).ready()
        for member in members:
            member.statement.check(member.signature, agreement.key(member.owner))
        if [member.owner for member in members] != list(answers[name]):
            raise LookupError
    return script.release(heard)


def _same(made: Release, release: Release) -> bool:
    """Return whether all arrays agree, as far as another machine would round as this one."""
    stated = ("kind", "mechanism", "guarantee")
    if any(getattr(made, name) != getattr(release, name) for name in stated):
        return False
    if made.settings["secure"] != release.settings["secure"] or made.owners != release.owners:
        return False
    return made.arrays.keys() == release.arrays.keys() and all(
        array.shape == release.arrays[name].shape
        and np.allclose(
            array, release.arrays[name], rtol=0, atol=_ROUNDING * max(1.0, np.abs(array).max())
        )
        for name, array in made.arrays.items()
    )
