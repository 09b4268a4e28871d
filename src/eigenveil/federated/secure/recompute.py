"""Recompute a release by secure sums from the signed messages in a server's journal.

A server can publish anything. Whoever has its journal can check that every upload is signed by an
owner on the roster, for the roll that the sum is of, and that totals and release follow from them.
"""

from pathlib import Path

import numpy as np

from eigenveil.exceptions import EigenveilError, VerificationError
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import decode
from eigenveil.federated.script import Heard
from eigenveil.federated.secure.agreement import SecureAgreement
from eigenveil.federated.secure.messages import Roll
from eigenveil.federated.secure.script import SumScript
from eigenveil.release.artefact import Release

__all__ = ["recompute"]

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
