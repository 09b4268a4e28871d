"""The engine: what is accepted and what is not."""

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

pytest.importorskip("flwr")

import httpx
from flwr.app import ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, Status
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesResponse
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse, PushObjectResponse
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes

from eigenveil.exceptions import (
    FederationConnectionError,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.federated.flower import client, keys
from eigenveil.federated.flower.envelope import FAREWELL, QUESTION, Sealed, content, opened
from eigenveil.federated.flower.fleet import Fleet, fleet_app
from eigenveil.federated.flower.server import FlowerTransport, superlink
from eigenveil.federated.messages import Code
from tests.federated.asking import ask


class Stub:
    """Answers with what it was asked."""

    def __init__(self):
        self.asked = []

    def answer(self, question):
        self.asked.append(question)
        return b"answer to " + question


# Addresses, certificates and keys


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "[::1]", "localhost"])
def test_this_machine_may_go_without_keys(host):
    keys.require_loopback(keys.host_and_port(f"{host}:8080")[0])


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "[::]", "10.0.0.1", "127.0.0.1.example.org", "localhost.example.org"]
)
def test_no_other_machine_may(host):
    address = f"{host}:0"
    with (
        pytest.raises(InvalidParameterError, match=r"only 127\.0\.0\.1"),
        superlink(address, insecure=True),
    ):
        pass
    with pytest.raises(InvalidParameterError, match=r"only 127\.0\.0\.1"):
        client.serve(Stub(), address, insecure=True)


def test_keys_and_certificates_are_asked_for():
    with pytest.raises(InvalidParameterError, match="certificate"), superlink("127.0.0.1:0"):
        pass
    with pytest.raises(InvalidParameterError, match="certificate"):
        client.serve(Stub(), "127.0.0.1:8080")


@pytest.mark.parametrize(
    "address", ["", "8080", "host", "host:", ":80", "host:x", "::1:80", "h:99999"]
)
def test_what_is_no_address(address):
    with pytest.raises(InvalidParameterError, match="no address"):
        keys.host_and_port(address)


def test_a_key_is_private_and_never_overwritten(tmp_path):
    public = keys.make_node_key(tmp_path / "north")
    assert (tmp_path / "north").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "north.pub").read_bytes() == public + b"\n"
    with pytest.raises(InvalidParameterError, match="exists already"):
        keys.make_node_key(tmp_path / "north")
    with pytest.raises(InvalidDataError, match="not an elliptic-curve private"):
        keys.node_key(tmp_path / "north.pub")
    with pytest.raises(InvalidDataError, match="not an elliptic-curve public"):
        keys.node_public_key(tmp_path / "north")
    with pytest.raises(InvalidDataError, match="no readable key"):
        keys.node_key(tmp_path / "south")


def test_two_owners_do_not_share_a_key(tmp_path):
    keys.make_node_key(tmp_path / "north")
    _, certificate, private = keys.make_certificate(tmp_path, ["127.0.0.1"])
    assert private.stat().st_mode & 0o777 == 0o600
    public = tmp_path / "north.pub"
    with (
        pytest.raises(InvalidParameterError, match="north and south have the same key"),
        superlink(
            "127.0.0.1:0",
            {"north": public, "south": public},
            certificate=certificate,
            private_key=private,
        ),
    ):
        pass


# Messages


def sealed(records):
    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=SUPERLINK_NODE_ID,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type=QUESTION,
    )
    return Sealed.of(make_message(metadata=metadata, content=RecordDict(records)))


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 1000])
def test_bytes_arrive_as_they_are(data):
    message = sealed(content(data))
    assert opened(message.tree, message.objects.__getitem__) == data


@pytest.mark.parametrize(
    "records",
    [
        {},
        {"eigenveil": ConfigRecord({"message": "text"})},
        {"eigenveil": ConfigRecord({"other": b""})},
        {"eigenveil": MetricRecord({"message": 1})},
        {"eigenveil": ArrayRecord()},
        {"other": ConfigRecord({"message": b""})},
        {"eigenveil": ConfigRecord({"message": b""}), "more": ConfigRecord({"message": b"1"})},
    ],
)
def test_nothing_else_is_opened(records):
    message = sealed(records)
    assert opened(message.tree, message.objects.__getitem__) is None


def test_a_wide_tree_is_not_fetched():
    tree = ObjectTree(object_id="0" * 64, children=[ObjectTree(object_id="1" * 64)] * 5)
    assert opened(tree, lambda name: pytest.fail("fetched")) is None


# The owner's side, against a server that is only a list of messages


class Asked:
    """A Fleet interface with one message in it; it has no app to fetch, nor anything else."""

    def __init__(self, message):
        self.sealed, self.pushed = message, {}

    def PullMessages(self, _):  # noqa: N802
        return PullMessagesResponse(
            messages_list=[message_to_proto(self.sealed.head)],
            message_object_trees=[self.sealed.tree],
        )

    def PullObject(self, request):  # noqa: N802
        content = self.sealed.objects[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def PushMessages(self, request):  # noqa: N802
        assert not request.clientapp_runtime_list
        self.tree = request.message_object_trees[0]
        names = [self.tree.object_id, self.tree.children[0].object_id]
        names.append(self.tree.children[0].children[0].object_id)
        # A name that is not of this answer is not sent.
        return PushMessagesResponse(objects_to_push=[*names, "0" * 64], session_id="s")

    def PushObject(self, request):  # noqa: N802
        self.pushed[request.object_id] = request.object_content
        return PushObjectResponse(stored=True)

    def ConfirmMessageReceived(self, _):  # noqa: N802
        assert len(self.pushed) == 3  # the answer is there before the question is given up


def exchange(message, largest=100):
    owner, fleet = Stub(), Asked(message)
    more = client._exchange(owner, fleet, Node(node_id=2), largest)
    answer = opened(fleet.tree, fleet.pushed.__getitem__) if fleet.pushed else None
    return more, owner.asked, answer


def test_a_question_is_answered():
    assert exchange(sealed(content(b"who?"))) == (True, [b"who?"], b"answer to who?")


@pytest.mark.parametrize("kind", ["train", "query", "evaluate", "query.get_parameters"])
def test_other_kinds_of_messages_reach_the_owner_as_nothing(kind):
    message = sealed(content(b"who?"))
    message.head.metadata.message_type = kind
    assert exchange(message) == (True, [b""], b"answer to ")


def test_what_cannot_be_read_or_is_too_large_reaches_the_owner_as_nothing():
    assert exchange(sealed({"eigenveil": MetricRecord({"message": 1})}))[1:] == (
        [b""],
        b"answer to ",
    )
    assert exchange(sealed(content(b"0" * 101)))[1] == [b""]
    assert exchange(sealed(content(b"0" * 100)))[1] == [b"0" * 100]


def test_a_farewell_is_not_answered():
    message = sealed(content(b""))
    message.head.metadata.message_type = FAREWELL
    assert exchange(message) == (None, [], None)


# The server's side, without a network


def fleet_of(*names):
    """A fleet with these owners connected, and their nodes by name."""
    owners = {public_key_to_bytes(generate_key_pairs()[1]): name for name in names}
    fleet = Fleet(owners)
    nodes = {name: fleet.get_node_id_by_public_key(key) for key, name in owners.items()}
    for node in nodes.values():
        assert fleet.activate_node(node, 30)
    return fleet, nodes


def answered(fleet, node, reply, *, objects=None):
    """Do what the interface does for a node that fetches a question and answers it."""
    (asked,) = fleet.get_message_ins(node, limit=1)
    answer = Sealed.of(Message(reply, reply_to=asked))
    session = fleet.start_session(fleet.run_id)
    stored, missing = fleet.store_message_and_object_tree(answer.head, answer.tree, session)
    for name in missing[:objects]:
        assert fleet.store_object(fleet.run_id, session, name, answer.objects[name])
    return stored, answer


def test_questions_and_answers_find_their_way():
    fleet, nodes = fleet_of("north", "south")
    transport = FlowerTransport(fleet, "")
    assert transport.nodes() == {str(node): name for name, node in nodes.items()}
    for seconds in (60.0, 0.01):  # the second time they are still open
        transport.send({str(node): b"who?" for node in nodes.values()}, seconds)
        assert fleet.num_message_ins() == 2
    time.sleep(0.02)
    assert list(transport.replies()) == []
    assert fleet.num_message_ins() == 0
    north = fleet.send(nodes["north"], b"who?")
    assert fleet.receive(north) is None
    answered(fleet, nodes["north"], content(b"north"), objects=1)
    assert fleet.receive(north) is None  # a part of it is on its way
    fleet.forget([north])
    south = fleet.send(nodes["south"], b"who?")
    answered(fleet, nodes["south"], content(b"south"))
    assert fleet.receive(south) == b"south"
    fleet.forget([south])
    assert fleet.num_message_ins() == fleet.num_message_res() == len(fleet.object_store) == 0


def test_faults_come_as_codes():
    fleet, nodes = fleet_of("north")
    node = nodes["north"]
    assert list(ask(FlowerTransport(fleet, ""), {"5": b"who?"}, 1.0)) == [("5", Code.LOST)]
    question = fleet.send(node, b"who?")
    assert answered(fleet, node, Error(2, "text"))[0] is False  # no text is taken in
    assert fleet.receive(question) is None
    fleet.forget([question])
    question = fleet.send(node, b"who?")
    answered(fleet, node, RecordDict({"eigenveil": MetricRecord({"message": 1})}))
    assert fleet.receive(question) is Code.MALFORMED
    fleet.forget([question])
    question = fleet.send(node, b"who?")
    _, answer = answered(fleet, node, content(b"here"))
    fleet.object_store.delete(answer.tree.object_id)  # the node may do so
    assert fleet.receive(question) is Code.MALFORMED


def test_an_answer_after_the_deadline_is_not_taken():
    fleet, nodes = fleet_of("north")
    question = fleet.send(nodes["north"], b"who?")
    (asked,) = fleet.get_message_ins(nodes["north"], limit=1)
    fleet.forget([question])
    answer = Sealed.of(Message(content(b"late"), reply_to=asked))
    session = fleet.start_session(fleet.run_id)
    assert fleet.store_message_and_object_tree(answer.head, answer.tree, session) == (False, [])


def test_the_name_of_a_question_cannot_be_guessed():
    # Whoever knows the name of another's question could answer it: see `fleet`.
    fleet, nodes = fleet_of("north")
    names = {fleet.send(nodes["north"], b"who?") for _ in range(3)}
    assert len(names) == 3
    groups = {message.metadata.group_id for message in fleet.message_ins_store.values()}
    assert len(groups) == 3
    assert min(map(len, groups)) == 32


def test_a_node_that_comes_back_is_asked_again():
    fleet, nodes = fleet_of("north")
    fleet.send(nodes["north"], b"who?")
    assert len(fleet.get_message_ins(nodes["north"], limit=1)) == 1
    assert fleet.get_message_ins(nodes["north"], limit=1) == []
    assert fleet.activate_node(nodes["north"], 30)  # at once, not when its heartbeat expires
    assert len(fleet.get_message_ins(nodes["north"], limit=1)) == 1


def test_a_pause_does_not_end_the_run(monkeypatch):
    # Flower ends a run two heartbeats, one minute, after its process was last heard of.
    import flwr.supercore.corestate.in_memory_corestate as state
    from flwr.supercore.date import now

    fleet, _ = fleet_of("north")
    monkeypatch.setattr(state, "now", lambda: now() + timedelta(days=1))
    assert fleet.get_run_status({fleet.run_id})[fleet.run_id].status == Status.RUNNING


def test_nothing_but_the_fleet_interface_is_served():
    fleet, _ = fleet_of("north")
    app = fleet_app(fleet, keys=True, largest=1000)

    async def unmeasured():
        yield b"0"

    async def statuses(requests):
        transport = httpx.ASGITransport(app)
        headers = {"content-type": "application/protobuf"}
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as web:
            return [
                (await web.post(path, content=body, headers=headers)).status_code
                for path, body in requests
            ]

    closed = ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task")
    closed += ("/v1/runtime/push-messages", "/docs", "/openapi.json", "/")
    assert set(asyncio.run(statuses((path, b"") for path in closed))) == {404}
    found = asyncio.run(
        statuses(
            [
                ("/v1/fleet/pull-messages", b""),  # nobody signed it
                ("/v1/fleet/push-object", b"0" * 5000),
                ("/v1/fleet/push-object", unmeasured()),
            ]
        )
    )
    assert found == [401, 413, 411]


# A server and an owner in one process


def test_on_one_machine_without_keys_and_an_answer_that_is_too_large():
    with (
        ThreadPoolExecutor(1) as thread,
        superlink("127.0.0.1:0", insecure=True, largest=10_000) as transport,
    ):
        options = {"insecure": True, "patience": 1.0}
        owner = thread.submit(client.serve, Stub(), transport.address, **options)
        while not transport.nodes():
            time.sleep(0.02)
        ((node, name),) = transport.nodes().items()
        assert name is None
        assert list(ask(transport, {node: b"who?"})) == [(node, b"answer to who?")]
        transport._fleet.send(int(node), b"0" * 20_000)
        with pytest.raises(FederationConnectionError, match="an answer of this size"):
            owner.result(60)


def test_patience_ends():
    with superlink("127.0.0.1:0", insecure=True) as transport:
        address = transport.address
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(FederationConnectionError, match="no word from"):
        client.serve(Stub(), address, insecure=True, patience=0.0)
    assert signal.getsignal(signal.SIGTERM) == handler


def test_who_connects_during_the_farewell_is_told_too():
    class Leaving:
        """Two owners, of whom one comes when the other is about to go."""

        def __init__(self):
            self.looks = [{1: "north"}, {1: "north", 2: "south"}, {2: "south"}, {}]

        def online(self):
            return self.looks.pop(0)

        def send(self, node, data, kind):
            assert kind == FAREWELL
            return f"to {node}"

        def forget(self, names):
            self.forgotten = list(names)

    fleet = Leaving()
    FlowerTransport(fleet, "").dismiss()
    assert fleet.forgotten == ["to 1", "to 2"]
    assert fleet.looks == []


def test_an_interrupt_waits_for_the_answer_at_hand():
    class Interrupted(Stub):
        def answer(self, question):
            signal.raise_signal(signal.SIGINT)
            return super().answer(question)

    with ThreadPoolExecutor(1) as thread, superlink("127.0.0.1:0", insecure=True) as transport:

        def asking():
            while not transport.nodes():
                time.sleep(0.02)
            return list(ask(transport, dict.fromkeys(transport.nodes(), b"who?")))

        asked = thread.submit(asking)
        with pytest.raises(KeyboardInterrupt):
            client.serve(Interrupted(), transport.address, insecure=True)
        assert [answer for _, answer in asked.result()] == [b"answer to who?"]
