"""What a federation reads: configurations, agreements, messages, journals, answers, envelopes.

Nothing here listens or connects: a server stops where it would begin to listen, and an owner is
handed questions where it would connect.
"""

import asyncio
import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from eigenveil import Ledger
from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated import (
    Agreement,
    BasisQuestion,
    Coordinator,
    InProcess,
    Invitation,
    Journal,
    Limits,
    Owner,
    OwnerSettings,
    ValuesQuestion,
    columns_digest,
    encode,
    read_client,
    read_server,
)
from eigenveil.storage import JOURNAL
from tests.federated.stubs import NAMES as OWNERS
from tests.federated.stubs import Clock, Stub, agreement
from tests.fuzz.case import Call, Case, Command, Outcome
from tests.fuzz.messages import odd_message
from tests.fuzz.stock import rows
from tests.fuzz.values import any_json, dumped, mutated_bytes, mutated_json, mutated_text, odd_text

__all__ = [
    "OPTIONS",
    "agreement_case",
    "answers_case",
    "configuration_case",
    "door_case",
    "envelope_case",
    "journal_case",
    "no_network",
    "toml",
]

Random = random.Random


# Agreements and settings in Python


def agreement_case(rng: Random, place: Path) -> Case:
    """Arguments of any type."""
    stated: dict[str, Any] = {
        "federation": "test",
        "owners": {"east": {"records": 5, "epsilon": 1.0, "delta": 1e-6, "mechanism": "x"}},
        "n_columns": 3,
        "n_components": 2,
        "share": 0.8,
        "directions": 2,
        "columns": ["a", "b", "c"],
        "scale": [1.0, 2.0, 3.0],
        "kind": "pca",
        "values": "shares",
        "quorum": 1,
        "weights": "equal",
        "most_weight": 0.5,
        "join_seconds": 1.0,
    }
    changed = mutated_json(rng, stated)
    document = {name: changed.get(name, value) for name, value in stated.items()}

    def build() -> Any:
        owners = document.get("owners")
        if isinstance(owners, dict):
            limits = {name: _limits(each) for name, each in owners.items()}
            return Agreement(**{**document, "owners": limits}).encode()
        return None

    return Case([Call(f"Agreement({document!r:.600})", build)])


def _limits(stated: Any) -> Limits:
    known = ("records", "epsilon", "delta", "mechanism")
    return Limits(
        **{n: stated[n] for n in known if n in stated} if isinstance(stated, dict) else {}
    )


# Configuration files


def _toml(value: Any) -> str:
    """Return a value as TOML writes it; None as nothing that TOML knows."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def toml(document: Any) -> str:
    """Return a document in sections."""
    if not isinstance(document, dict):
        return f"value = {_toml(document)}"
    lines = [f"{json.dumps(k)} = {_toml(v)}" for k, v in document.items() if type(v) is not dict]
    for name, section in document.items():
        if isinstance(section, dict):
            lines.append(f"[{json.dumps(name)}]")
            lines += [f"{json.dumps(key)} = {_toml(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


_SERVER = {
    "federation": {
        "name": "test",
        "n_columns": 3,
        "components": 1,
        "directions": 2,
        "share": 0.8,
        "scale": [1.0, 2.0, 3.0],
        "quorum": 1,
        "weights": "equal",
        "join_seconds": 1,
    },
    "server": {"address": "127.0.0.1:0", "folder": "journal", "output": "release"},
    "owners": {"east": {"records": 50, "epsilon": 1.0, "delta": 1e-6}, "west": {}},
}
_CLIENT = {
    "federation": {"name": "test", "server": "127.0.0.1:9"},
    "owner": {
        "name": "east",
        "data": "rows.npy",
        "epsilon": 1,
        "delta": 1e-6,
        "ledger": "ledger",
        "folder": "answers",
        "share": 0.8,
        "mechanism": "spherical",
        "bounds": [-10, 10],
        "scale": [1.0, 2.0, 3.0],
        "on_invalid": "zero",
        "patience": 1,
    },
}
_BUDGET = {"epsilon": 1, "delta": 1e-6}
OPTIONS: dict[str, dict[str, Any]] = {  # of a command, as a file states them
    "fit": {
        **_BUDGET,
        "k": 1,
        "bounds": [-10, 10],
        "mechanism": "analyze-gauss",
        "adjacency": "replace-one",
        "on_invalid": "zero",
        "centring": "none",
        "ledger": "ledger",
        "output": "out",
    },
    "plan": {**_BUDGET, "k": 1, "bounds": [-10, 10], "centring": "none", "spread": 0.3},
    "covariance": {**_BUDGET, "row-norm": 2.5, "on-missing": "centre", "output": "out"},
    "stream": {**_BUDGET, "k": 1, "state": "state", "centring": "none", "batch-size": 10},
    "watch": {
        **_BUDGET,
        "k": 1,
        "state": "state",
        "horizon": 9,
        "centre": [0, 0, 0],
        "output": "o",
    },
}


@contextmanager
def no_network(questions: tuple[bytes, ...] = ()) -> Iterator[None]:
    """Stop a server where it would listen, and hand questions to an owner that would connect."""

    def listen(*_: Any, **__: Any) -> Any:
        raise FederationConnectionError("here a server would begin to listen")

    def serve(owner: Any, *_: Any, **__: Any) -> None:
        for question in questions:
            owner.answer(question)

    with (
        mock.patch("eigenveil.federated.flower.server.superlink", listen),
        mock.patch("eigenveil.federated.flower.client.serve", serve),
    ):
        yield


def configuration_case(rng: Random, place: Path) -> Case:
    """A file of a server, an owner or a command, with changed values, keys and bytes."""
    np.save(place / "rows.npy", rows(40))
    Ledger.create(place / "ledger", epsilon=5.0, delta=1e-6)
    kind = rng.choice(("server", "client", "options"))
    command = rng.choice(list(OPTIONS))
    base: dict[str, Any] = {"server": _SERVER, "client": _CLIENT}.get(kind, OPTIONS[command])
    document = mutated_json(rng, base, rng.choice((0, 1, 1, 1, 2)))
    text = toml(document)
    data = mutated_text(rng, text) if rng.random() < 0.15 else text.encode("utf-8", "replace")
    path = place / "file.toml"
    path.write_bytes(data)
    insecure = ("--insecure",) if rng.random() < 0.8 else ()
    questions = tuple(odd_message(rng) for _ in range(2)) + tuple(_invitations())
    within = lambda: no_network(questions)  # noqa: E731
    python = rng.random() < 0.3
    match kind:
        case "server":
            if python:
                return Case([Call("read_server", lambda: read_server(path, insecure=True))])
            words = rng.choice((("server", "file.toml", *insecure), ("status", "file.toml")))
            return Case([Command(("federate", *words), within=within)])
        case "client":
            if python:
                return Case([Call("read_client", lambda: read_client(path, insecure=True))])
            words = ("client", "file.toml", *insecure, *rng.choice(((), ("--json",))))
            return Case([Command(("federate", *words), within=within)])
    return Case([Command((command, "rows.npy", "--config", "file.toml"))], ("state",))


@cache
def _invitations() -> tuple[bytes, ...]:
    """Questions that an owner of the client's file would answer."""
    terms: dict[str, Any] = {
        "federation": "test",
        "n_columns": 3,
        "n_components": 1,
        "n_directions": 1,
        "share": 0.8,
        "columns": columns_digest(None, [1.0, 2.0, 3.0]),
        "unit": "shares",
    }
    values = ValuesQuestion(federation="test", basis=np.eye(3, 1))
    return tuple(map(encode, (Invitation(**terms), BasisQuestion(**terms), values)))


# Journals


@cache
def _events() -> tuple[tuple[Any, ...], ...]:
    """Return what the journal of a whole federation holds."""
    clock = Clock()
    with Journal() as journal:
        coordinator = Coordinator(agreement(), journal, clock=clock, sleep=clock.sleep)
        coordinator.run(InProcess({name: Stub(name) for name in OWNERS}))
        columns = "number, at, event, round, owner, code, data"
        query = f"SELECT {columns} FROM events ORDER BY number"
        return tuple(journal._connection.execute(query))


def _write_journal(rng: Random, path: Path) -> None:
    events = [list(event) for event in _events()]
    events = events[: rng.randrange(len(events) + 1)] if rng.random() < 0.5 else events
    strict = "STRICT" if rng.random() < 0.5 else ""
    for _ in range(rng.choice((0, 1, 1, 2)) if events else 0):
        event = rng.choice(events)
        match rng.randrange(5):
            case 0:
                words = ("begun", "joined", "asked", "answered", "left-out", "closed", "released")
                event[2] = rng.choice((*words, odd_text(rng)))
            case 1:
                event[3] = rng.choice(("join", "basis", "values", "", odd_text(rng)))
            case 2:
                event[4] = rng.choice((*OWNERS, "", odd_text(rng)))
            case 3:
                event[5] = rng.choice(("", "lost", "budget", odd_text(rng)))
            case 4:
                event[6] = _odd_data(rng, bytes(event[6]))
    types = "TEXT NOT NULL" if strict else ""
    with closing(sqlite3.connect(path)) as file:
        file.execute(
            f"CREATE TABLE events (number INTEGER PRIMARY KEY, at {types}, event {types}, round "
            f"{types}, owner {types}, code {types}, data {'BLOB NOT NULL' if strict else ''}) "
            f"{strict}"
        )
        for event in events:
            words = [each.encode("utf-8", "replace") for each in event[1:6]]
            texts = [word.decode() for word in words]
            if not strict and rng.random() < 0.05:
                texts[rng.randrange(5)] = rng.choice((None, 7, 1.5, b"\xff"))
            file.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", (event[0], *texts, event[6])
            )
        file.execute(f"PRAGMA user_version={rng.choice((1, 1, 1, 0, 9))}")
        file.commit()


def _odd_data(rng: Random, data: bytes) -> bytes:
    try:
        return dumped(mutated_json(rng, json.loads(data)))
    except ValueError:
        return rng.choice((odd_message(rng), mutated_bytes(rng, data), b"", b"{}"))


def journal_case(rng: Random, place: Path) -> Case:
    """A journal: events of odd kinds, altered bytes."""
    (place / "journal").mkdir(mode=0o700)
    path = place / "journal" / JOURNAL
    _write_journal(rng, path)
    if rng.random() < 0.2:
        path.write_bytes(mutated_bytes(rng, path.read_bytes()))
    (place / "file.toml").write_text(toml(_SERVER))
    match rng.randrange(5):
        case 0 | 1:
            words = ("federate", "status", "journal", *rng.choice(((), ("--json",))))
            return Case([Command(words)])
        case 2:
            words = ("federate", "server", "file.toml", "--insecure")
            return Case([Command(words, within=no_network)])
        case 3:
            return Case([Call("Journal.read", lambda: Journal.read(path))])
    return Case([Call("Coordinator.run", lambda: _continued(path))])


def _continued(path: Path) -> None:
    clock = Clock()
    with Journal(path) as journal:
        coordinator = Coordinator(agreement(), journal, clock=clock, sleep=clock.sleep)
        coordinator.run(InProcess({name: Stub(name) for name in OWNERS}))


# What an owner has answered


def answers_case(rng: Random, place: Path) -> Case:
    """The folder of an owner's answers: altered, cut, gone; it never pays twice."""
    answered = _answered()
    folder = place / "answers"
    folder.mkdir(mode=0o700)
    names = list(answered["answers"])
    files = dict(answered["answers"])
    name = rng.choice(names)
    match rng.randrange(5):
        case 0:
            files[name] = mutated_bytes(rng, files[name])
        case 1:
            del files[name]
        case 2 if name != "terms":
            line, _, answer = files[name].partition(b"\n")
            header = mutated_json(rng, json.loads(line))
            files[name] = dumped(header) + b"\n" + answer
        case 3 if name != "terms":
            answer = odd_message(rng)
            digest = hashlib.sha256(answer).hexdigest()
            line = {**json.loads(files[name].partition(b"\n")[0]), "sha256": digest}
            files[name] = dumped(line) + b"\n" + answer
        case _:
            files[name] = rng.choice((b"", b"\n", b"{}", b"null\n", dumped(any_json(rng)) + b"\n"))
    for each, data in files.items():
        (folder / each).write_bytes(data)
    ledger = place / "ledger"
    ledger.write_bytes(answered["ledger"])
    questions = rng.sample(_invitations(), 2)

    def ask() -> None:
        owner = _owner(ledger, folder)
        for question in questions:
            assert isinstance(owner.answer(question), bytes), "what was kept, or a refusal"

    def check(outcomes: list[Outcome]) -> str | None:
        same = ledger.read_bytes() == answered["ledger"]
        return None if same else "an owner that was charged for both answers was charged again"

    return Case([Call("Owner.answer", ask)], ("answers", "basis", "values"), check)


def _owner(ledger: Path, folder: Path) -> Owner:
    settings = OwnerSettings(
        owner="east",
        federation="test",
        epsilon=1.0,
        delta=1e-6,
        centring="none",
        scale=[1.0, 2.0, 3.0],
    )
    return Owner(settings, rows(40), Ledger(ledger), folder, log=lambda line: None)


@cache
def _answered() -> dict[str, Any]:
    """Return the ledger and the answers of an owner that has answered everything."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        path, folder = Path(place) / "ledger", Path(place) / "answers"
        Ledger.create(path, epsilon=5.0, delta=1e-6)
        owner = _owner(path, folder)
        for question in _invitations():
            owner.answer(question)
        return {
            "ledger": path.read_bytes(),
            "answers": {
                name: (folder / name).read_bytes() for name in ("terms", "basis", "values")
            },
        }


# Flower's envelopes, and the server's door


def envelope_case(rng: Random, place: Path) -> Case:
    """The objects and the tree of a Flower message."""
    from flwr.app import ArrayRecord, ConfigRecord, RecordDict
    from flwr.proto.message_pb2 import ObjectTree

    from eigenveil.federated import content, held, opened
    from tests.federated.hostile import sealed

    records = rng.choice(
        (
            content(b"who?" * rng.randrange(50)),
            RecordDict({"eigenveil": ConfigRecord({"message": rng.choice((1, "x", [b"x"], 1.5))})}),
            RecordDict({"eigenveil": ArrayRecord()}),
            RecordDict({"other": ConfigRecord({"message": b"x"})}),
            RecordDict({"eigenveil": ConfigRecord({"message": b"x", "more": b"y"})}),
            RecordDict(),
        )
    )
    message = sealed(records)
    objects = dict(message.objects)
    name = rng.choice(list(objects))
    if rng.random() < 0.7:
        objects[name] = mutated_bytes(rng, objects[name])
    tree = message.tree
    if rng.random() < 0.4:
        try:
            tree = ObjectTree.FromString(mutated_bytes(rng, tree.SerializeToString()))
        except Exception:  # protobuf's own affair: no tree at all
            tree = ObjectTree()

    def read() -> None:
        data = opened(tree, lambda name: objects.get(name, b""))
        assert data is None or isinstance(data, bytes)
        assert held(message.head) is None

    return Case([Call("opened", read)])


def door_case(rng: Random, place: Path) -> Case:
    """Requests to the server of a federation, past the network."""
    from flwr.proto.fleet_pb2 import (
        ActivateNodeRequest,
        PullMessagesRequest,
        PushMessagesRequest,
        RegisterNodeFleetRequest,
    )
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
    from flwr.proto.message_pb2 import PullObjectRequest, PushObjectRequest
    from flwr.proto.node_pb2 import Node

    from eigenveil.federated import Fleet, fleet_app
    from tests.federated.hostile import sealed

    node = Node(node_id=rng.choice((1, 2, 2**63, 0)))
    asked = sealed(_record(b"answer"))
    bodies = {
        "register-node": RegisterNodeFleetRequest(public_key=rng.randbytes(8)),
        "activate-node": ActivateNodeRequest(public_key=b"k", heartbeat_interval=30),
        "pull-messages": PullMessagesRequest(node=node),
        "push-messages": PushMessagesRequest(node=node, message_object_trees=[asked.tree]),
        "push-object": PushObjectRequest(node=node, object_id="x", object_content=b"y"),
        "pull-object": PullObjectRequest(node=node, object_id="x"),
        "send-node-heartbeat": SendNodeHeartbeatRequest(node=node, heartbeat_interval=30),
        "nonsense": PullMessagesRequest(),
    }
    path, request = rng.choice(list(bodies.items()))
    body = request.SerializeToString()
    if rng.random() < 0.7:
        body = mutated_bytes(rng, body)
    length = str(len(body)) if rng.random() < 0.9 else rng.choice(("", "x", "-1", "9" * 30, "٣"))
    headers = [
        (b"content-length", length.encode()),
        (b"content-type", rng.choice((b"application/x-protobuf", b"text/html", b"\xff"))),
    ]
    if rng.random() < 0.2:
        headers.append((b"transfer-encoding", b"chunked"))
    status: list[int] = []

    async def ask() -> None:
        fleet = Fleet({})
        app = fleet_app(fleet, keys=rng.random() < 0.3)
        left = [body]

        async def receive() -> Any:
            if left:
                return {"type": "http.request", "body": left.pop(), "more_body": False}
            return {"type": "http.disconnect"}

        async def send(event: Any) -> None:
            if event["type"] == "http.response.start":
                status.append(event["status"])

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": rng.choice(("POST", "POST", "POST", "GET")),
            "scheme": "http",
            "path": f"/v1/fleet/{path}",
            "raw_path": f"/v1/fleet/{path}".encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await app(scope, receive, send)

    def check(outcomes: list[Outcome]) -> str | None:
        if outcomes[0].succeeded and (not status or status[0] >= 500):
            return f"the server answered {status}"
        return None

    name = f"POST {path} {headers} {body!r:.300}"
    return Case([Call(name, lambda: asyncio.run(ask()))], check=check)


def _record(data: bytes) -> Any:
    from eigenveil.federated import content

    return content(data)
