"""The app for a stock Flower deployment, with a grid that is no more than a dictionary."""

import logging

import numpy as np
import pytest

pytest.importorskip("flwr")

import httpx
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.app.error import Error
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from eigenveil import Ledger, Release
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import (
    BasisAnswer,
    Code,
    Declaration,
    GridTransport,
    Happening,
    Journal,
    ProtocolError,
    client,
    content,
    decode,
    held,
    server,
)
from eigenveil.federated.flower import app
from eigenveil.storage import JOURNAL
from tests.federated.standins import SECRET
from tests.federated.stubs import NAMES, D, K, Stub

SERVER = """\
[federation]
name = "test"
n_columns = {d}
components = {k}
quorum = 2
join_seconds = 60
answer_seconds = 60

[server]
address = "on Flower"
folder = "journal"
output = "release"
"""
CLIENT = """\
[federation]
name = "test"
server = "on Flower"

[owner]
name = "{name}"
data = "{name}.npy"
epsilon = 5
delta = 1e-6
centring = "none"
ledger = "{name}.ledger"
folder = "{name}-answers"
"""


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch):
    """What Flower sets up in the process of an app."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(GridTransport, "pause", 0.0)
    former = logging.getLogger("flwr").level
    yield
    logging.getLogger("flwr").setLevel(former)


class FakeGrid:
    """Nodes are functions from a question to a reply, or to None for silence."""

    def __init__(self, nodes, names=()):
        self.handlers, self.names = dict(nodes), dict(names)
        self.open, self.pulled = {}, []

    def get_nodes(self):
        return [NodeInfo(node_id=node, name=self.names.get(node)) for node in self.handlers]

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{len(self.open)}"
            self.open[message.metadata.message_id] = message
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids):
        self.pulled.extend(message_ids)
        for name in message_ids:
            asked = self.open[name]
            reply = self.handlers[asked.metadata.dst_node_id](asked)
            if reply is not None:
                yield reply


def context(**config):
    return Context(1, 1, dict(config), RecordDict(), dict(config))


def replying(answer):
    return lambda asked: Message(content(answer(held(asked))), reply_to=asked)


def owning(path):
    """A SuperNode with the app and the file of its owner."""
    return lambda asked: client(asked, context(**{"eigenveil-config": str(path)}))


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    text = SERVER.format(d=D, k=K)
    for name in NAMES:
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((500, D)) * [9, 6, 1, 1, 1, 1])
        Ledger.create(tmp_path / f"{name}.ledger", epsilon=5, delta=1e-6)
        (tmp_path / f"{name}.toml").write_text(CLIENT.format(name=name))
        text += f"[owners.{name}]\n"
    (tmp_path / "server.toml").write_text(text)
    return tmp_path


def coordinated(files, grid, **config):
    server(grid, context(**{"eigenveil-config": str(files / "server.toml"), **config}))


def left_out(files):
    events = Journal.read(files / "journal" / JOURNAL)
    return {(e.owner, e.round): e.code for e in events if e.happening is Happening.LEFT_OUT}


# Whole runs


def test_a_federation_of_three(files, caplog):
    nodes = dict(enumerate(NAMES, 1))
    grid = FakeGrid({node: owning(files / f"{name}.toml") for node, name in nodes.items()}, nodes)
    coordinated(files, grid)
    release = Release.load(files / "release")
    assert [owner.name for owner in release.owners] == sorted(NAMES)
    assert all(len(Ledger(files / f"{name}.ledger").entries) >= 2 for name in NAMES)
    assert all(60 >= asked.metadata.ttl > 0 for asked in grid.open.values())
    asked = len(grid.open)
    coordinated(files, grid)  # started again, it asks nobody
    assert len(grid.open) == asked


def test_an_owner_whose_process_fails_is_left_out_and_the_others_go_on(files):
    def killed(asked):
        if len(grid.open) > len(NAMES):  # the first round is over
            return Message(Error(code=8, reason=SECRET), reply_to=asked)
        return owning(files / "west.toml")(asked)

    grid = FakeGrid(
        {1: owning(files / "east.toml"), 2: owning(files / "north.toml"), 3: killed},
        dict(enumerate(NAMES, 1)),
    )
    coordinated(files, grid)
    assert left_out(files) == {("west", "basis"): Code.LOST}
    everything = b"".join(file.read_bytes() for file in files.glob("[jr]*/**/*") if file.is_file())
    assert SECRET.encode() not in everything


def test_nodes_without_names_are_asked_only_when_told_to():
    grid = FakeGrid({1: None, 2: None}, {1: "north"})
    assert GridTransport(grid).nodes() == {"1": "north"}
    assert GridTransport(grid, insecure=True).nodes() == {"1": "north", "2": None}


def test_owners_without_names_say_who_they_are(files):
    grid = FakeGrid({node: replying(Stub(name).answer) for node, name in enumerate(NAMES, 1)})
    coordinated(files, grid, **{"eigenveil-insecure": True})
    assert len(Release.load(files / "release").owners) == len(NAMES)


def test_a_run_without_a_file_is_one_line():
    with pytest.raises(InvalidParameterError, match="no eigenveil-config: give it the path"):
        server(FakeGrid({}), context())


# The owner's side


def asking(data=b"question", kind="query"):
    message = Message(data if isinstance(data, RecordDict) else content(data), 7, kind)
    message.metadata.__dict__["_message_id"] = "asked"
    return message


def refused(reply):
    assert not reply.has_error()
    assert reply.metadata.reply_to_message_id == "asked"
    assert SECRET not in repr(reply)
    with pytest.raises(ProtocolError) as caught:
        decode(held(reply), Declaration, BasisAnswer)
    return caught.value.code, caught.value.owner


def test_an_exception_becomes_a_code_without_its_text(files, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError(f"row 7 holds {SECRET}")

    monkeypatch.setattr(app, "Ledger", fail)
    config = {"eigenveil-config": str(files / "east.toml")}
    assert refused(client(asking(), context(**config))) == (Code.INTERNAL, "east")
    assert SECRET not in caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("config", [{}, {"eigenveil-config": 3}, {"eigenveil-config": SECRET}])
def test_no_file_of_the_owner(config):
    assert refused(client(asking(), context(**config))) == (Code.INTERNAL, "unnamed")


@pytest.mark.parametrize(
    "data",
    [
        RecordDict(),
        RecordDict({"eigenveil": ConfigRecord({"message": "text"})}),
        RecordDict({"eigenveil": ConfigRecord({"other": b"bytes"})}),
        RecordDict({"eigenveil": ArrayRecord([np.ones(3)])}),
        b"noise",
    ],
)
def test_a_question_that_is_none(files, data):
    config = {"eigenveil-config": str(files / "east.toml")}
    assert refused(client(asking(data), context(**config))) == (Code.MALFORMED, "east")


# The server's side


def asked(handler, question=b"q"):
    grid = FakeGrid({1: handler, 2: replying(lambda data: b"fine")})
    transport = GridTransport(grid, insecure=True)
    transport.send({"1": question, "2": question}, 5.0)
    return grid, transport


def heard(transport):
    return [(node, reply) for node, _, reply in transport.replies()]


def test_an_error_of_the_engine_is_a_code_whoever_it_says_it_is_from():
    def expired(message):
        reply = Message(Error(code=3, reason=SECRET), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 1  # as the SuperLink's own are
        return reply

    grid = FakeGrid({1: lambda message: None, 2: expired})
    transport = GridTransport(grid, insecure=True)
    transport.send({"1": b"q", "2": b"q"}, 5.0)
    assert heard(transport) == [("2", Code.LOST)]
    assert heard(transport) == []


def test_a_reply_that_is_none():
    _, transport = asked(lambda message: Message(RecordDict(), reply_to=message))
    assert dict(heard(transport)) == {"1": Code.MALFORMED, "2": b"fine"}


def test_a_reply_that_cannot_be_unpacked_takes_nobody_with_it():
    def unpack(message):
        raise ValueError(SECRET)

    _, transport = asked(unpack)
    assert dict(heard(transport)) == {"1": Code.MALFORMED, "2": b"fine"}
    assert heard(transport) == []


def test_a_superlink_that_is_away_is_nobodys_fault():
    def away(message):
        raise httpx.ConnectError("away")

    _, transport = asked(away)
    with pytest.raises(httpx.ConnectError):
        heard(transport)


def test_a_node_that_takes_no_question():
    class Full(FakeGrid):
        def push_messages(self, messages):
            return [""] if messages[0].metadata.dst_node_id == 1 else []

    transport = GridTransport(Full({}), insecure=True)
    transport.send({"1": b"q", "2": b"q"}, 5.0)
    assert dict(heard(transport)) == {"1": Code.LOST, "2": Code.LOST}


def test_a_foreign_reply_speaks_for_nobody():
    """Who replies writes the metadata that arrive: it cannot name the question to another."""

    def forged(message):
        reply = Message(content(b"forged"), reply_to=message)
        reply.metadata.__dict__["_reply_to_message_id"] = "message-1"
        return reply

    _, transport = asked(forged)
    assert heard(transport) == [("2", b"fine")]


def test_a_late_reply_is_not_fetched():
    answers = {b"old": None, b"new": b"answer"}

    def slow(message):
        data = answers[held(message)]
        return None if data is None else Message(content(data), reply_to=message)

    grid, transport = asked(slow, b"old")
    assert heard(transport) == [("2", b"fine")]
    transport.send({"1": b"new"}, 5.0)
    answers[b"old"] = b"late"
    assert heard(transport) == [("1", b"answer")]
    assert grid.pulled.count("message-0") == 1


def test_what_is_withdrawn_is_not_fetched():
    grid, transport = asked(lambda message: None)
    assert heard(transport) == [("2", b"fine")]
    transport.withdraw()
    grid.handlers[1] = replying(lambda data: b"late")
    assert heard(transport) == []


def test_a_question_that_is_asked_again_has_one_reply_each():
    grid, transport = asked(lambda message: None)
    transport.send({"1": b"q"}, 5.0)
    grid.handlers[1] = replying(lambda data: b"stored")
    assert heard(transport).count(("1", b"stored")) == 2
    assert heard(transport) == []
