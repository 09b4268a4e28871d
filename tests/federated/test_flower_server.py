"""The server's side of the Fleet protocol, without a network."""

import asyncio
import hashlib
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")
import httpx
from flwr.app import Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    PushMessagesResponse,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from eigenveil.federated import Code, Fleet, FlowerTransport, Sealed, content, fleet_app, opened
from eigenveil.federated.flower import measured
from tests.federated.asking import ask
from tests.federated.test_flower import sealed


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
