"""What a journal tells: one line for an event, and how far a federation is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import EigenveilError, StateError
from eigenveil.federated.agreement import Agreement, Limits
from eigenveil.federated.configuration import read_server
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Declaration, decode
from eigenveil.storage.paths import JOURNAL
from eigenveil.text import plural, printable

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement

_ROUNDS = {
    "join": "who takes part",
    "basis": "for directions",
    "values": "for values inside the common directions",
}
_SUMS = {"ready": "who is ready for", "upload": "for masked"}
_SUMMED = {
    "distances": "counts of distances",
    "mean": "sums of rows",
    "directions": "sums of products of unit rows",
    "moment": "sums of products of rows",
    "pairs": "sums of products of unit pairs",
}


def asked_for(name: str) -> str:
    """Return what a round asks, in words."""
    if name in _ROUNDS:
        return _ROUNDS[name]
    phase, _, kind = name.split("-")
    return f"{_SUMS[phase]} {_SUMMED[kind]}"


def line(event: Event, agreed: "Agreement | SecureAgreement") -> str:
    """Return one event in words; all are public, and an owner's claims are said to be such."""
    owner = printable(event.owner)
    match event.happening:
        case Happening.BEGUN:
            return f"federation {json.loads(event.data)['federation']} begun"
        case Happening.JOINED if not isinstance(agreed, Agreement):
            records = agreed.owners[event.owner].records
            return f"{owner} has agreed: {records:,} {plural('record', records)}"
        case Happening.JOINED:
            assert isinstance(agreed, Agreement)  # the other case is above
            said = decode(event.data, Declaration)
            limits = agreed.owners[event.owner]
            doubts, records = limits.doubts(said), limits.counted(said)
            return (
                f"{owner} joined: {records:,} {plural('record', records)}, "
                f"epsilon = {said.epsilon:g}, delta = {said.delta:g}, by {said.mechanism}"
                f"{f' ({doubts})' if doubts else ''}"
            )
        case Happening.LEFT_OUT:
            assert event.code is not None  # the journal's writer sees to it
            return f"{owner} left out of {event.round}: {event.code.explanation} ({event.code})"
        case Happening.RELEASED:
            return f"released, fingerprint {event.data.decode()}"
    return _brief(event)


def history(events: Sequence[Event]) -> list[dict[str, str]]:
    """Return what happened, oldest first: when, and in a few words that need no agreement."""
    return [{"at": event.at, "words": _brief(event)} for event in events]


def _brief(event: Event) -> str:
    owner = printable(event.owner)
    match event.happening:
        case Happening.BEGUN:
            return "federation started"
        case Happening.JOINED:
            return f"{owner} joined"
        case Happening.ASKED:
            return f"round {event.round}: asking {asked_for(event.round)}"
        case Happening.ANSWERED:
            return f"{owner} answered {event.round}"
        case Happening.LEFT_OUT:
            assert event.code is not None  # the journal's writer sees to it
            return f"{owner} dropped out of {event.round}: {event.code.explanation}"
        case Happening.CLOSED:
            return f"round {event.round} closed"
        case Happening.RELEASED:
            return "released"
        case Happening.DISMISSED:
            return "owners told that nothing more will be asked"


def standing(events: Sequence[Event]) -> dict[str, Any]:
    """Return how far a federation is, as plain JSON values."""
    begun = json.loads(events[0].data)
    asked = [event.round for event in events if event.happening is Happening.ASKED]
    closed = [event.round for event in events if event.happening is Happening.CLOSED]
    released = [event for event in events if event.happening is Happening.RELEASED]
    sums = [f"{i}-{step['kind']}" for i, step in enumerate(begun.get("steps", ()))]
    later = [f"{phase}-{one}" for one in sums for phase in _SUMS] or list(_ROUNDS)[1:]
    current = asked[-1] if asked and not released else None
    return {
        "federation": begun["federation"],
        "state": "released" if released else "open" if asked else "begun",
        "round": current,
        "waiting": _waiting(current, begun["owners"], events) if current not in closed else [],
        "closed": closed,
        "quorum": begun["quorum"],
        "begun": events[0].at,
        "newest": events[-1].at,
        "owners": {name: _owner(name, events, ["join", *later]) for name in begun["owners"]},
        "strangers": _strangers(events, begun["owners"]),
        "beyond": [name for name in begun["owners"] if not sums and _beyond(name, begun, events)],
        "fingerprint": released[-1].data.decode() if released else None,
    }


def _waiting(name: str | None, owners: Sequence[str], events: Sequence[Event]) -> list[str]:
    """Return who is asked in a round and has not answered."""
    if name is None:
        return []
    among = list(owners)
    if name != "join":
        among = [event.owner for event in events if event.happening is Happening.JOINED]
    question = [event.data for event in events if event.happening is Happening.ASKED][-1]
    if name.startswith("upload-"):
        from eigenveil.federated.secure.messages import Roll

        among = [member.owner for member in decode(question, Roll).ready()]
    done = {
        event.owner
        for event in events
        if event.round == name
        and event.happening in (Happening.JOINED, Happening.ANSWERED, Happening.LEFT_OUT)
    }
    return [owner for owner in among if owner not in done]


def _owner(name: str, events: Sequence[Event], names: Sequence[str]) -> dict[str, Any]:
    """Return when an owner did what; a round it was left out of and back in is answered."""
    rounds: dict[str, Any] = dict.fromkeys(names)
    for event in events:
        if event.owner != name:
            continue
        if event.happening is Happening.LEFT_OUT:
            rounds[event.round] = {"at": event.at, "left_out": event.code}
        else:
            rounds[event.round] = {"at": event.at, "left_out": None}
    return rounds


def _beyond(name: str, begun: dict[str, Any], events: Sequence[Event]) -> bool:
    """Return whether an owner claims more records than the others have agreed to count."""
    limits = Limits(**begun["owners"][name])
    joined = [e for e in events if e.owner == name and e.happening is Happening.JOINED]
    return any(limits.exceeded(decode(event.data, Declaration)) for event in joined)


def _strangers(events: Sequence[Event], owners: Sequence[str]) -> list[dict[str, Any]]:
    """Return who was sent away without being one of the owners."""
    return [
        {"name": event.owner, "at": event.at, "left_out": event.code}
        for event in events
        if event.happening is Happening.LEFT_OUT and event.owner not in owners
    ]


def read(place: Path) -> tuple[Sequence[Event], dict[str, Any]]:
    """Return the events of a folder's server, or of a configuration file's, and how far it is."""
    file = place / JOURNAL if place.is_dir() else read_server(place, insecure=True).journal
    events = Journal.read(file)
    if not events:
        raise StateError(f"{file} is empty: start the server first")
    try:
        return events, standing(events)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, EigenveilError):
        raise StateError(f"{file} is damaged, or no journal") from None


def tell(place: Path, *, as_json: bool) -> None:
    """Print how far the server of a folder, or of a configuration file, is."""
    _, state = read(place)
    if as_json:
        say_json(state)
        return
    where = f", round {state['round']}" if state["round"] else ""
    say(f"federation   {state['federation']}: {state['state']}{where}")
    say(f"since        {state['begun']}, newest event {state['newest']}")
    say(f"quorum       {state['quorum']} of {len(state['owners'])}")
    if state["waiting"]:
        say(f"waiting for  {', '.join(map(printable, state['waiting']))}")
    wide = max(map(len, state["owners"]))
    for name, rounds in state["owners"].items():
        told = ", ".join(f"{each} {_word(each, did)}" for each, did in _shown(rounds))
        claims = "; claims more records than agreed" * (name in state["beyond"])
        say(f"  {name:<{wide}}  {told}{claims}")
    for other in state["strangers"]:
        name = printable(other["name"])
        say(f"  {name}  no owner, sent away at {other['at']}: {other['left_out'].explanation}")
    if state["fingerprint"]:
        say(f"fingerprint  {state['fingerprint']}")


def _shown(rounds: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return all of three rounds; of many, those that have begun, and the next."""
    items = list(rounds.items())
    if len(items) <= len(_ROUNDS):
        return items
    begun = max((i for i, (_, did) in enumerate(items) if did is not None), default=-1)
    return items[max(0, begun - 1) : begun + 2]


def _word(name: str, did: dict[str, Any] | None) -> str:
    if did is None:
        return "open"
    if did["left_out"] is None:
        return "yes" if name == "join" else "answered"
    return f"left out ({did['left_out']}: {did['left_out'].explanation})"
