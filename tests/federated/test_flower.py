"""The engine: what is accepted and what is not."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("flwr")
from flwr.app import ArrayRecord, ConfigRecord, Metadata, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    PullMessagesResponse,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import (
    ObjectTree,
    PullObjectResponse,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node

from eigenveil.exceptions import (
    FederationConnectionError,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.federated import (
    FAREWELL,
    QUESTION,
    FlowerTransport,
    Sealed,
    content,
    opened,
    superlink,
)
from eigenveil.federated.flower import client, envelope, keys
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


def test_a_tree_that_is_no_chain_is_not_fetched():
    leaf = ObjectTree(object_id="1" * 64)
    deep = leaf
    for _ in range(3):
        deep = ObjectTree(object_id="0" * 64, children=[deep])
    for tree in (deep, deep.children[0].children[0], ObjectTree(children=[leaf, leaf])):
        assert opened(tree, lambda name: pytest.fail("fetched")) is None


def test_a_record_of_many_fields_is_not_built(monkeypatch):
    # As objects they take far more memory than on the wire.
    field = ConfigRecord({"message": b"0"}).deflate().partition(b"\x00")[2]
    numbers = ConfigRecord({"message": [0] * 500}).deflate().partition(b"\x00")[2]
    monkeypatch.setattr(envelope, "inflate_object_from_contents", lambda *_: pytest.fail("built"))
    assert field == b"\x0a\x0e\x0a\x07message\x12\x03\x32\x010"
    lengths = (  # of the entry, of its value, and of the bytes with another field after them
        field.replace(b"\x0e", b"\x05"),
        field.replace(b"\x03", b"\x02"),
        field.replace(b"\x0e", b"\x10").replace(b"\x03", b"\x05") + b"\x3a\x00",
    )
    for body in (field * 1000, numbers, *lengths, field + b"\x0a\x00", field[:-1], b""):
        record = b"ConfigRecord  %d\x00" % len(body) + body
        tree = sealed(content(b"0")).tree
        names = [tree.object_id, tree.children[0].object_id, tree.children[0].children[0].object_id]
        assert opened(tree, dict(zip(names, (b"", b"", record), strict=True)).__getitem__) is None
    whole = sealed(content(b"0"))
    large = {**whole.objects, whole.tree.object_id: b"0" * 2000}
    assert opened(whole.tree, large.__getitem__) is None


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
    assert exchange(message) == (False, [], None)


# A server and an owner in one process


def test_on_one_machine_without_keys_and_an_answer_that_is_too_large():
    with (
        ThreadPoolExecutor(1) as thread,
        superlink("127.0.0.1:0", insecure=True, largest=10_000) as transport,
    ):
        said = []
        options = {"insecure": True, "patience": 60.0, "tell": said.append}
        owner = thread.submit(client.serve, Stub(), transport.address, **options)
        while not transport.nodes():
            time.sleep(0.02)
        ((node, name),) = transport.nodes().items()
        assert name is None
        assert list(ask(transport, {node: b"who?"})) == [(node, b"answer to who?")]
        transport._fleet.send(int(node), b"0" * 20_000)
        with pytest.raises(FederationConnectionError, match="an answer of this size"):
            owner.result(60)
        assert said == [f"connected to {transport.address}"]


def test_redirections_are_not_followed():
    # Neither the question nor the answer goes where the owner did not say.
    elsewhere = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self):
            elsewhere.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever, 0.01)
        try:
            address = f"127.0.0.1:{server.server_port}"
            with pytest.raises(FederationConnectionError, match="no word from"):
                client.serve(Stub(), address, insecure=True, patience=1.0)
        finally:
            server.shutdown()
    assert elsewhere
    assert "/elsewhere" not in elsewhere


def test_patience_ends():
    with superlink("127.0.0.1:0", insecure=True) as transport:
        address = transport.address
    handler = signal.getsignal(signal.SIGTERM)
    said = []
    with pytest.raises(FederationConnectionError, match="no word from"):
        client.serve(Stub(), address, insecure=True, patience=0.5, tell=said.append)
    assert said == [f"no connection to {address}: trying again for 0.5 seconds"]
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


@pytest.mark.parametrize(
    ("number", "ends"),
    [(signal.SIGINT, pytest.raises(KeyboardInterrupt)), (signal.SIGHUP, nullcontext())],
    ids=["ctrl-C", "a closed terminal"],
)
def test_an_interrupt_waits_for_the_answer_at_hand(number, ends):
    class Interrupted(Stub):
        def answer(self, question):
            signal.raise_signal(number)
            return super().answer(question)

    with ThreadPoolExecutor(1) as thread, superlink("127.0.0.1:0", insecure=True) as transport:

        def asking():
            while not transport.nodes():
                time.sleep(0.02)
            return list(ask(transport, dict.fromkeys(transport.nodes(), b"who?")))

        asked = thread.submit(asking)
        with ends:
            client.serve(Interrupted(), transport.address, insecure=True)
        assert [answer for _, answer in asked.result()] == [b"answer to who?"]
