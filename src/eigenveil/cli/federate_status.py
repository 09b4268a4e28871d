"""What a journal tells: one line for an event, and how far a federation is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import EigenveilError, StateError
from eigenveil.federated.agreement import Agreement, Limits
from eigenveil.federated.configuration import JOURNAL, read_server
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Declaration, decode
from eigenveil.text import plural, printable

__all__ = ["line", "standing", "tell"]

_ROUNDS = {
    "join": "who takes part",
    "basis": "for directions",
    "values": "for values inside the common directions",
}


def line(event: Event, agreed: Agreement) -> str:
    """One event in words; all of them are public, and an owner's claims are said to be such."""
    owner = printable(event.owner)
    match event.happening:
        case Happening.BEGUN:
            return f"federation {json.loads(event.data)['federation']} begun"
        case Happening.JOINED:
            said = decode(event.data, Declaration)
            limits = agreed.owners[event.owner]
            doubts, records = limits.doubts(said), limits.counted(said)
            return (
                f"{owner} joined: {records:,} {plural('record', records)}, "
                f"epsilon = {said.epsilon:g}, delta = {said.delta:g}, by {said.mechanism}"
                f"{f' ({doubts})' if doubts else ''}"
            )
        case Happening.ASKED:
            return f"round {event.round}: asking {_ROUNDS[event.round]}"
        case Happening.ANSWERED:
            return f"{owner} answered {event.round}"
        case Happening.LEFT_OUT:
            assert event.code is not None  # the journal's writer sees to it
            return f"{owner} left out of {event.round}: {event.code.explanation} ({event.code})"
        case Happening.CLOSED:
            return f"round {event.round} closed"
        case Happening.RELEASED:
            return f"released, fingerprint {event.data.decode()}"
        case Happening.DISMISSED:
            return "owners told that nothing more will be asked"


def standing(events: Sequence[Event]) -> dict[str, Any]:
    """How far a federation is, as plain JSON values."""
    begun = json.loads(events[0].data)
    asked = [event.round for event in events if event.happening is Happening.ASKED]
    closed = [event.round for event in events if event.happening is Happening.CLOSED]
    released = [event for event in events if event.happening is Happening.RELEASED]
    return {
        "federation": begun["federation"],
        "state": "released" if released else "open" if asked else "begun",
        "round": asked[-1] if asked and not released else None,
        "closed": closed,
        "quorum": begun["quorum"],
        "begun": events[0].at,
        "newest": events[-1].at,
        "owners": {name: _owner(name, events) for name in begun["owners"]},
        "strangers": _strangers(events, begun["owners"]),
        "beyond": [name for name in begun["owners"] if _beyond(name, begun, events)],
        "fingerprint": released[-1].data.decode() if released else None,
    }


def _owner(name: str, events: Sequence[Event]) -> dict[str, Any]:
    """When an owner did what; a round that it was left out of and back in is answered."""
    rounds: dict[str, Any] = dict.fromkeys(_ROUNDS)
    for event in events:
        if event.owner != name:
            continue
        if event.happening is Happening.LEFT_OUT:
            rounds[event.round] = {"at": event.at, "left_out": event.code}
        else:
            rounds[event.round] = {"at": event.at, "left_out": None}
    return rounds


def _beyond(name: str, begun: dict[str, Any], events: Sequence[Event]) -> bool:
    """Whether an owner claims more records than the others have agreed to count."""
    limits = Limits(**begun["owners"][name])
    joined = [e for e in events if e.owner == name and e.happening is Happening.JOINED]
    return any(limits.exceeded(decode(event.data, Declaration)) for event in joined)


def _strangers(events: Sequence[Event], owners: Sequence[str]) -> list[dict[str, Any]]:
    """Who was sent away without being one of the owners."""
    return [
        {"name": event.owner, "at": event.at, "left_out": event.code}
        for event in events
        if event.happening is Happening.LEFT_OUT and event.owner not in owners
    ]


def tell(place: Path, *, as_json: bool) -> None:
    """Print how far the server of a folder, or of a configuration file, is."""
    file = place / JOURNAL if place.is_dir() else read_server(place, insecure=True).journal
    events = Journal.read(file)
    if not events:
        raise StateError(f"{file} is empty: start the server first")
    try:
        state = standing(events)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, EigenveilError):
        raise StateError(f"{file} is damaged, or no journal") from None
    if as_json:
        say_json(state)
        return
    where = f", round {state['round']}" if state["round"] else ""
    say(f"federation   {state['federation']}: {state['state']}{where}")
    say(f"since        {state['begun']}, newest event {state['newest']}")
    say(f"quorum       {state['quorum']} of {len(state['owners'])}")
    wide = max(map(len, state["owners"]))
    for name, rounds in state["owners"].items():
        told = ", ".join(f"{each} {_word(each, did)}" for each, did in rounds.items())
        claims = "; claims more records than agreed" * (name in state["beyond"])
        say(f"  {name:<{wide}}  {told}{claims}")
    for other in state["strangers"]:
        name = printable(other["name"])
        say(f"  {name}  no owner, sent away at {other['at']}: {other['left_out'].explanation}")
    if state["fingerprint"]:
        say(f"fingerprint  {state['fingerprint']}")


def _word(name: str, did: dict[str, Any] | None) -> str:
    if did is None:
        return "open"
    if did["left_out"] is None:
        return "yes" if name == "join" else "answered"
    return f"left out ({did['left_out']}: {did['left_out'].explanation})"
