"""The tab *Federation*: how far a federation is, from the journal of its server, as it is now."""

from typing import Any

from eigenveil.cli.federate_status import asked_for, history, read
from eigenveil.studio.server import Asked, Studio
from eigenveil.text import printable

_MOST = 200  # events that are shown, the newest


def federation(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return what `eigenveil federate status` says, and the newest events."""
    events, state = read(studio.folder.existing(asked.get("name")))
    owners = [
        {
            "name": printable(name),
            "waiting": name in state["waiting"],
            "beyond": name in state["beyond"],
            "rounds": [
                {"round": each, "words": asked_for(each), **_answer(did)}
                for each, did in rounds.items()
            ],
        }
        for name, rounds in state["owners"].items()
    ]
    strangers = [
        {
            "name": printable(other["name"]),
            "at": other["at"],
            "why": other["left_out"].explanation,
        }
        for other in state["strangers"]
    ]
    return {
        **{name: state[name] for name in ("federation", "state", "round", "closed", "quorum")},
        **{name: state[name] for name in ("begun", "newest", "fingerprint")},
        "asks": None if state["round"] is None else asked_for(state["round"]),
        "waiting": [printable(name) for name in state["waiting"]],
        "owners": owners,
        "strangers": strangers,
        "events": history(events)[-_MOST:],
    }


def _answer(did: dict[str, Any] | None) -> dict[str, Any]:
    """Return what an owner did in a round; why it was left out, and the code of that."""
    if did is None:
        return {"at": None, "left_out": None, "code": None}
    code = did["left_out"]
    return {
        "at": did["at"],
        "left_out": None if code is None else code.explanation,
        "code": None if code is None else str(code),
    }
