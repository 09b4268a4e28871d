"""The server's half of Flower's Fleet protocol: who is connected, questions out, answers in.

`Fleet` keeps the nodes, their keys and their heartbeats in Flower's own in-memory SuperLink state.
Differences from a stock SuperLink:

1. Only what an owner needs of the Fleet interface is served; see the package's docstring.
2. A node that connects again is taken at once, where Flower waits for its last heartbeat to
   expire, and what it had been asked and not answered is delivered again. Its key proves who it
   is, and an owner sends the same answer to the same question.
3. Messages and objects lie with the question that they belong to, and a question with its node.
   Flower has one store for all, where a node reads, deletes, or describes first, whatever it can
   name; an owner who can guess the next question could so keep the others from reading it.
4. From a node only the answer to a question that this node was asked is taken, once, and no more
   bytes than agreed: an owner cannot make the server hold anything else.
5. What a request may hold, and how long it may take, is decided before it is read (`measured`).
"""

import hashlib
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI
from flwr.app import Metadata
from flwr.app.message import make_message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    DeactivateNodeRequest,
    DeactivateNodeResponse,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
    RegisterNodeFleetRequest,
    RegisterNodeFleetResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    ObjectTree,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.server.superlink.linkstate import InMemoryLinkState
from flwr.supercore.constant import NodeStatus
from flwr.supercore.error import http_error_translator
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.protobuf.routing import ProtobufRoute
from flwr.supercore.protobuf.translation import (
    PROTOBUF_REQUEST_DEPENDENCY,
    ProtobufTranslationMiddleware,
)
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import authenticate_node
from flwr.superlink.servicer.fleet import fleet_handlers
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.types import ASGIApp

from eigenveil.federated.codes import Code
from eigenveil.federated.flower.envelope import (
    LARGEST,
    OVERHEAD,
    QUESTION,
    Sealed,
    chain,
    content,
    opened,
)
from eigenveil.federated.flower.measured import Measured

__all__ = ["Fleet", "fleet_app"]

_RUN = 1  # the protocol wants a number
_LIFETIME = 7 * 86400.0  # s; deadlines are kept here, not by the clocks of two machines
_PATH = "/v1/fleet"
_SENDS, _FETCHES = "/push-object", "/pull-object"  # where an answer comes in, a question goes out


@dataclass
class _Question:
    """What a node is asked, and as much of its answer as is here."""

    node: int
    sealed: Sealed
    delivered: bool = False
    tree: ObjectTree | None = None  # of the answer
    names: frozenset[str] = frozenset()  # of the objects in it
    parts: dict[str, bytes] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return self.tree is not None and len(self.parts) == len(self.names)


class Fleet(InMemoryLinkState):
    """The nodes, and the questions they have been asked.

    Parameters
    ----------
    owners : mapping of bytes to str
        Names of the owners by public key (PEM). Empty: every node registers itself and has no name.
    largest : int, default=64 MiB
        Bytes of the largest answer that is taken.

    """

    def __init__(self, owners: Mapping[bytes, str], largest: int = LARGEST) -> None:
        super().__init__(NoOpFederationManager(), InMemoryObjectStore())
        self.largest = largest
        self._questions: dict[str, _Question] = {}  # by the names of the messages
        self._owners = dict(owners)
        for key, name in self._owners.items():
            self.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0, name=name)

    def activate_node(self, node_id: int, heartbeat_interval: float) -> bool:
        """Connect a node, in the place of an earlier process of the same owner."""
        with self.lock:
            self.deactivate_node(node_id)
            for question in self._of(node_id):
                question.delivered = False
            return bool(super().activate_node(node_id, heartbeat_interval))

    def online(self) -> dict[int, str | None]:
        """Return the nodes that are connected, with the names that their keys prove."""
        nodes = self.get_node_info(statuses=[NodeStatus.ONLINE])
        return {node.node_id: self._owners.get(node.public_key) for node in nodes}

    # What the coordinator does

    def send(self, node_id: int, data: bytes, kind: str = QUESTION) -> str | None:
        """Leave a message for a node to fetch; its name, or None if there is no such node."""
        message = make_message(
            metadata=Metadata(
                run_id=_RUN,
                message_id="",
                src_node_id=SUPERLINK_NODE_ID,
                dst_node_id=node_id,
                reply_to_message_id="",
                group_id=secrets.token_hex(16),  # the same bytes twice are two questions
                created_at=time.time(),
                ttl=_LIFETIME,
                message_type=kind,
            ),
            content=content(data),
        )
        sealed = Sealed.of(message)
        with self.lock:
            if node_id not in self.nodes:
                return None
            for other in self._questions.values():  # what all are asked is held once
                for name in sealed.objects.keys() & other.sealed.objects.keys():
                    sealed.objects[name] = other.sealed.objects[name]
            self._questions[sealed.tree.object_id] = _Question(node_id, sealed)
        return sealed.tree.object_id

    def receive(self, question: str) -> bytes | Code | None:
        """Return the answer to a question, a code if unreadable, None if it is not all here."""
        with self.lock:
            asked = self._questions.get(question)
            if asked is None or asked.tree is None or not asked.answered:
                return None
        data = opened(asked.tree, asked.parts.__getitem__)
        return Code.MALFORMED if data is None else data

    def deliver_again(self, question: str) -> None:
        """Let a question be fetched once more: an owner sends the same answer."""
        with self.lock:
            if (asked := self._questions.get(question)) is not None:
                asked.delivered = False

    def forget(self, questions: Iterable[str]) -> None:
        """Drop questions and their answers: one that comes later finds nothing to answer."""
        with self.lock:
            for question in list(questions):
                self._questions.pop(question, None)

    # What a node does

    def pull(self, node_id: int) -> Sealed | None:
        """Return the next question to a node."""
        with self.lock:
            for question in self._of(node_id):
                if not question.delivered:
                    question.delivered = True
                    return question.sealed
        return None

    def fetch(self, node_id: int, name: str) -> bytes | None:
        """Return an object of a question that this node was asked."""
        with self.lock:
            for question in self._of(node_id):
                if name in question.sealed.objects:
                    return question.sealed.objects[name]
        return None

    def push(self, node_id: int, question: str, tree: ObjectTree) -> list[str]:
        """Begin an answer; the names of the objects that are missing, none if it is not taken.

        One that was begun before a line broke gives way.
        """
        names = chain(tree)
        with self.lock:
            asked = self._questions.get(question)
            if names is None or asked is None or asked.node != node_id or asked.answered:
                return []
            asked.tree, asked.names = tree, frozenset(names)
            asked.parts = {name: asked.parts[name] for name in asked.names & asked.parts.keys()}
            return sorted(asked.names - asked.parts.keys())

    def put(self, node_id: int, name: str, data: bytes) -> bool:
        """Take an object of an answer that this node has begun."""
        if hashlib.sha256(data).hexdigest() != name:
            return False
        with self.lock:
            taken = False
            for question in self._of(node_id):
                held = sum(map(len, question.parts.values()))
                if name in question.names and held + len(data) <= self.largest + OVERHEAD:
                    question.parts[name] = data
                    taken = True
            return taken

    def _of(self, node_id: int) -> list[_Question]:
        """Return the questions to a node that it has not answered."""
        return [
            question
            for question in self._questions.values()
            if question.node == node_id and not question.answered
        ]


def fleet_app(fleet: Fleet, *, keys: bool) -> ASGIApp:
    """Return the Fleet interface as a web application.

    Parameters
    ----------
    fleet : Fleet
        Who is connected.
    keys : bool
        Whether only registered keys are accepted.

    """
    app = FastAPI(
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        middleware=[
            Middleware(Measured, fleet=fleet, sends=_PATH + _SENDS, fetches=_PATH + _FETCHES),
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
        ],
    )
    app.state.linkstate_factory = _Factory(fleet)
    app.include_router(_router(fleet, keys=keys))
    return app


def _router(fleet: Fleet, *, keys: bool) -> APIRouter:
    # A dependency of every route, where Flower compares the path as the request's headers tell it.
    router = APIRouter(
        prefix=_PATH, route_class=ProtobufRoute, dependencies=[Depends(authenticate_node)]
    )

    @router.post("/register-node")
    def register(
        request: Annotated[RegisterNodeFleetRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> RegisterNodeFleetResponse:
        return fleet_handlers.register_node(request, fleet, keys)

    @router.post("/activate-node")
    def activate(
        request: Annotated[ActivateNodeRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> ActivateNodeResponse:
        return fleet_handlers.activate_node(request, fleet)

    @router.post("/deactivate-node")
    def deactivate(
        request: Annotated[DeactivateNodeRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> DeactivateNodeResponse:
        return fleet_handlers.deactivate_node(request, fleet)

    @router.post("/send-node-heartbeat")
    def beat(
        request: Annotated[SendNodeHeartbeatRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> SendNodeHeartbeatResponse:
        return fleet_handlers.send_node_heartbeat(request, fleet)

    @router.post("/pull-messages")
    def pull(
        request: Annotated[PullMessagesRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> PullMessagesResponse:
        sealed = fleet.pull(request.node.node_id)
        if sealed is None:
            return PullMessagesResponse()
        return PullMessagesResponse(
            messages_list=[message_to_proto(sealed.head)], message_object_trees=[sealed.tree]
        )

    @router.post(_FETCHES)
    def fetch(
        request: Annotated[PullObjectRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> PullObjectResponse:
        data = fleet.fetch(request.node.node_id, request.object_id)
        here = data is not None
        return PullObjectResponse(
            object_found=here, object_available=here, object_content=data or b""
        )

    @router.post("/push-messages")
    def push(
        request: Annotated[PushMessagesRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> PushMessagesResponse:
        missing: list[str] = []
        if request.messages_list and request.message_object_trees:
            question = request.messages_list[0].metadata.reply_to_message_id
            tree = request.message_object_trees[0]
            missing = fleet.push(request.node.node_id, question, tree)
        return PushMessagesResponse(objects_to_push=missing)

    @router.post(_SENDS)
    def put(
        request: Annotated[PushObjectRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> PushObjectResponse:
        stored = fleet.put(request.node.node_id, request.object_id, request.object_content)
        return PushObjectResponse(stored=stored)

    @router.post("/confirm-message-received")
    def confirm(
        request: Annotated[ConfirmMessageReceivedRequest, PROTOBUF_REQUEST_DEPENDENCY],
    ) -> ConfirmMessageReceivedResponse:
        return ConfirmMessageReceivedResponse()  # the answer says as much

    return router


@dataclass(frozen=True)
class _Factory:
    """The place where Flower's authentication looks for the nodes."""

    fleet: Fleet

    def state(self) -> Fleet:
        return self.fleet
