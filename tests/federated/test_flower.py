"""The engine: what is accepted and what is not."""

import asyncio
import hashlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

import httpx
from flwr.app import ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ObjectTree,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from eigenveil.exceptions import (
    FederationConnectionError,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.federated.flower import client, envelope, keys, measured
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
    asked = fleet.pull(node)
    answer = Sealed.of(Message(reply, reply_to=asked.head))
    missing = fleet.push(node, asked.tree.object_id, answer.tree)
    for name in missing[:objects]:
        assert fleet.put(node, name, answer.objects[name])
    return missing


def test_questions_and_answers_find_their_way():
    fleet, nodes = fleet_of("north", "south")
    transport = FlowerTransport(fleet, "")
    assert transport.nodes() == {str(node): name for name, node in nodes.items()}
    for seconds in (60.0, 0.01):  # the second time they are still open
        transport.send({str(node): b"who?" for node in nodes.values()}, seconds)
        assert len(fleet._questions) == 2
    time.sleep(0.02)
    assert list(transport.replies()) == []
    assert not fleet._questions
    north = fleet.send(nodes["north"], b"who?")
    assert fleet.receive(north) is None
    answered(fleet, nodes["north"], content(b"north"), objects=1)
    assert fleet.receive(north) is None  # a part of it is on its way
    fleet.forget([north])
    south = fleet.send(nodes["south"], b"who?")
    answered(fleet, nodes["south"], content(b"south"))
    assert fleet.receive(south) == b"south"
    fleet.forget([south])
    assert fleet.receive(south) is None


def test_faults_come_as_codes():
    fleet, nodes = fleet_of("north")
    node = nodes["north"]
    assert list(ask(FlowerTransport(fleet, ""), {"5": b"who?"}, 1.0)) == [("5", Code.LOST)]
    question = fleet.send(node, b"who?")
    assert answered(fleet, node, Error(2, "text")) == []  # no text is taken in
    assert fleet.receive(question) is None
    fleet.forget([question])
    question = fleet.send(node, b"who?")
    answered(fleet, node, RecordDict({"eigenveil": MetricRecord({"message": 1})}))
    assert fleet.receive(question) is Code.MALFORMED


def test_an_answer_after_the_deadline_is_not_taken():
    fleet, nodes = fleet_of("north")
    question = fleet.send(nodes["north"], b"who?")
    asked = fleet.pull(nodes["north"])
    fleet.forget([question])
    answer = Sealed.of(Message(content(b"late"), reply_to=asked.head))
    assert fleet.push(nodes["north"], question, answer.tree) == []


def test_an_answer_is_taken_once_and_from_who_was_asked():
    fleet, nodes = fleet_of("north", "evil")
    north, evil = nodes.values()
    question = fleet.send(north, b"who?")
    asked = fleet.pull(north)
    first, second = (Sealed.of(Message(content(x), reply_to=asked.head)) for x in (b"1", b"2"))
    for node, reply_to in ((evil, question), (north, ""), (north, "0" * 64)):
        assert fleet.push(node, reply_to, first.tree) == []
    assert len(fleet.push(north, question, first.tree)) == 3
    for name, data in first.objects.items():
        assert not fleet.put(evil, name, data)
        assert not fleet.put(north, name, data + b"0")  # it is not what its name says
        assert fleet.put(north, name, data)
    assert fleet.push(north, question, second.tree) == []
    assert fleet.activate_node(north, 30)
    assert fleet.pull(north) is None
    assert fleet.receive(question) == b"1"


def test_an_answer_that_broke_off_gives_way():
    fleet, nodes = fleet_of("north")
    north = nodes["north"]
    question = fleet.send(north, b"who?")
    assert len(answered(fleet, north, content(b"here"), objects=1)) == 3
    assert fleet.activate_node(north, 30)  # after a broken line it is asked again
    answered(fleet, north, content(b"here"))
    assert fleet.receive(question) == b"here"


def test_an_owner_reads_and_spoils_nothing_of_another():
    # An owner knows its own question, and so most of the other's: only the message's name differs.
    fleet, nodes = fleet_of("north", "evil")
    north, evil = nodes.values()
    own, question = fleet.send(evil, b"who?"), fleet.send(north, b"who?")
    assert fleet.pull(evil).tree.object_id == own
    assert fleet.pull(evil) is None
    asked = fleet.pull(north)
    shared = set(fleet._questions[own].sealed.objects) & set(asked.objects)
    assert len(shared) == 2
    assert fleet.fetch(evil, question) is None
    # Another tree under the names of the question, and of the answer that will come.
    answer = Sealed.of(Message(content(b"north"), reply_to=asked.head))
    for message in (asked, answer):
        record = message.tree.children[0].object_id
        wrong = ObjectTree(object_id=record, children=[ObjectTree(object_id="0" * 64)])
        fleet.push(evil, own, ObjectTree(object_id=message.tree.object_id, children=[wrong]))
        for name, data in message.objects.items():
            fleet.put(evil, name, data)
    assert opened(asked.tree, lambda name: fleet.fetch(north, name)) == b"who?"
    assert len(fleet.push(north, question, answer.tree)) == 3
    for name, data in answer.objects.items():
        fleet.put(north, name, data)
    assert fleet.receive(question) == b"north"
    assert fleet.receive(own) is None


def test_what_an_owner_can_make_the_server_hold_is_bounded():
    fleet, nodes = fleet_of("evil")
    fleet.largest = 10_000
    evil = nodes["evil"]
    question = fleet.send(evil, b"who?")
    pieces = {
        hashlib.sha256(data).hexdigest(): data for data in (bytes([i]) * 5000 for i in range(9))
    }
    names = list(pieces)
    for i in range(7):  # every one gives way to the next
        tree = ObjectTree(object_id=names[i + 2])
        for name in (names[i + 1], names[i]):
            tree = ObjectTree(object_id=name, children=[tree])
        fleet.push(evil, question, tree)
        for name, data in pieces.items():
            fleet.put(evil, name, data)
        assert len(fleet._questions[question].parts) == 2  # the third would be too much
    assert list(FlowerTransport(fleet, "").replies()) == []


def test_a_question_that_is_asked_again_is_delivered_again():
    """The process that fetched it may be gone, though another one of the owner is connected."""
    fleet, nodes = fleet_of("north")
    transport = FlowerTransport(fleet, "")
    for _ in range(2):
        transport.send({str(nodes["north"]): b"who?"}, 60.0)
        assert fleet.pull(nodes["north"]) is not None
        assert fleet.pull(nodes["north"]) is None
    transport.send({str(nodes["north"]): b"who?"}, 60.0)
    answered(fleet, nodes["north"], content(b"north"))
    transport.send({str(nodes["north"]): b"who?"}, 60.0)  # it was answered just now
    assert fleet.pull(nodes["north"]) is None
    assert list(transport.replies()) == [(str(nodes["north"]), b"who?", b"north")]


def test_who_comes_back_is_not_asked_what_was_withdrawn():
    fleet, nodes = fleet_of("north")
    transport = FlowerTransport(fleet, "")
    transport.send({str(nodes["north"]): b"who?"}, 60.0)
    assert fleet.pull(nodes["north"]) is not None
    transport.withdraw()
    assert fleet.activate_node(nodes["north"], 20.0)
    assert fleet.pull(nodes["north"]) is None
    assert not fleet._questions


def test_what_all_are_asked_is_held_once():
    fleet, nodes = fleet_of("north", "south")
    for node in nodes.values():
        fleet.send(node, b"".join([b"who", b"?"]))
    one, other = (asked.sealed.objects for asked in fleet._questions.values())
    assert all(one[name] is other[name] for name in one.keys() & other.keys())


def test_the_same_bytes_are_another_question():
    fleet, nodes = fleet_of("north")
    assert len({fleet.send(nodes["north"], b"who?") for _ in range(3)}) == 3


def test_a_node_that_comes_back_is_asked_again():
    fleet, nodes = fleet_of("north")
    fleet.send(nodes["north"], b"who?")
    assert fleet.pull(nodes["north"]) is not None
    assert fleet.pull(nodes["north"]) is None
    assert fleet.activate_node(nodes["north"], 30)  # at once, not when its heartbeat expires
    assert fleet.pull(nodes["north"]) is not None


class Web:
    """The interface without a network, for nodes that sign as they like."""

    def __init__(self, *names, keys=True, largest=10_000):
        self.secrets = {name: generate_key_pairs() for name in names}
        public = {public_key_to_bytes(self.secrets[name][1]): name for name in names}
        self.fleet = Fleet(public, largest)
        self.nodes = {
            name: self.fleet.get_node_id_by_public_key(key) for key, name in public.items()
        }
        for node in self.nodes.values():
            self.fleet.activate_node(node, 30)
        self.app = fleet_app(self.fleet, keys=keys)

    def headers(self, name):
        secret, public = self.secrets.setdefault(name, generate_key_pairs())
        request = httpx.Request("POST", "http://server")
        sending = SimpleNamespace(request=request)
        NodeAuthHttpInterceptor(secret, public).intercept(sending, lambda _: None)
        return dict(request.headers)

    def post(self, path, body=b"", name=None, **headers):
        headers = {"content-type": "application/protobuf", **headers}
        if name is not None:
            headers = {**self.headers(name), **headers}
        if not isinstance(body, bytes) and hasattr(body, "SerializeToString"):
            body = body.SerializeToString()

        async def posted():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as web:
                return await web.post(path, content=body, headers=headers)

        return asyncio.run(posted())


def test_nothing_but_the_fleet_interface_is_served():
    web = Web("north")
    closed = ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task")
    closed += ("/v1/runtime/push-messages", "/v1/fleet/get-run", "/v1/fleet/get-fab")
    closed += ("/v1/fleet/unregister-node", "/docs", "/openapi.json", "/")
    assert {web.post(path, name="north").status_code for path in closed} == {404}


def test_a_body_is_measured_before_it_is_read():
    web = Web("north")

    async def never():
        pytest.fail("read")
        yield b""

    for path, length, name, status in (
        ("/v1/fleet/pull-messages", 2000, "north", 413),  # only a part of an answer is large
        ("/v1/fleet/push-messages", 2000, "north", 413),
        ("/v1/fleet/push-object", 20_000, "north", 413),
        ("/v1/fleet/push-object", 9000, None, 401),  # nobody signed it
        ("/v1/fleet/push-object", 9000, "stranger", 401),
    ):
        answer = web.post(path, never(), name, **{"content-length": str(length)})
        assert answer.status_code == status, path
    forged = web.headers("stranger")
    for key in (web.headers("north")[FLEET_HTTP_PUBLIC_KEY_HEADER], "no key", ""):
        forged |= {FLEET_HTTP_PUBLIC_KEY_HEADER: key, "content-length": "9000"}
        assert web.post("/v1/fleet/push-object", never(), **forged).status_code == 401
    chunked = {"transfer-encoding": "chunked"}
    assert web.post("/v1/fleet/push-object", never(), "north", **chunked).status_code == 411
    chunked["content-length"] = "5"  # which of the two counts is up to the web server
    assert web.post("/v1/fleet/push-object", never(), "north", **chunked).status_code == 411


def test_a_body_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(measured, "_PATIENCE", 0.05)
    web = Web("north")
    path = "/v1/fleet/push-object"

    async def stuck():
        await asyncio.sleep(60)
        yield b"0"

    assert web.post(path, stuck(), "north", **{"content-length": "1"}).status_code == 500
    monkeypatch.setattr(measured, "_AT_ONCE", 0)
    assert web.post(path, b"0", "north").status_code == 429


def test_a_node_acts_for_itself_alone():
    web = Web("north", "evil")
    north = Node(node_id=web.nodes["north"])
    question = web.fleet.send(north.node_id, b"who?")
    beat = SendNodeHeartbeatRequest(node=north, heartbeat_interval=20)
    for path, request in (
        ("deactivate-node", DeactivateNodeRequest(node_id=north.node_id)),
        ("send-node-heartbeat", beat),
        ("pull-messages", PullMessagesRequest(node=north)),
        ("pull-object", PullObjectRequest(node=north, object_id=question)),
        ("push-messages", PushMessagesRequest(node=north)),
        ("push-object", PushObjectRequest(node=north)),
        ("confirm-message-received", ConfirmMessageReceivedRequest(node=north)),
    ):
        for name in ("evil", "stranger", None):
            assert web.post(f"/v1/fleet/{path}", request, name).status_code == 401, path
        # A header cannot make the request look as one to an interface without signatures.
        host = f"server/v1/runtime/{path}?"
        assert web.post(f"/v1/fleet/{path}", request, "evil", host=host).status_code >= 400, path
    public = public_key_to_bytes(web.secrets["north"][1])
    activate = ActivateNodeRequest(public_key=public, heartbeat_interval=20)
    assert web.post("/v1/fleet/activate-node", activate, "evil").status_code == 401
    public = public_key_to_bytes(web.secrets["stranger"][1])
    register = RegisterNodeFleetRequest(public_key=public)
    assert web.post("/v1/fleet/register-node", register, "stranger").status_code >= 400
    assert web.fleet.get_node_id_by_public_key(public) is None
    assert set(web.fleet.online()) == set(web.nodes.values())
    assert web.fleet.pull(north.node_id).tree.object_id == question


def test_a_message_that_answers_nothing_is_not_taken():
    web = Web("evil")
    evil = Node(node_id=web.nodes["evil"])
    message = sealed(content(b"question of the server"))
    for request in (
        PushMessagesRequest(node=evil),
        PushMessagesRequest(
            node=evil,
            messages_list=[message_to_proto(message.head)],
            message_object_trees=[message.tree],
        ),
    ):
        answer = web.post("/v1/fleet/push-messages", request, "evil")
        assert answer.status_code == 200
        assert not PushMessagesResponse.FromString(answer.content).objects_to_push
    assert not web.fleet._questions
    assert len(web.fleet.object_store) == web.fleet.num_message_ins() == 0


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
