"""The server's half of Flower's Fleet protocol: who is connected, questions out, answers in.

`Fleet` is Flower's own in-memory SuperLink state, with a run that lives as long as its process.
Differences from a stock SuperLink:

1. Only the Fleet interface is served; see the package's docstring.
2. A node that connects again is taken at once, where Flower waits for its last heartbeat to
   expire, and what it had been asked and not answered is delivered again. Its key proves who it
   is, and an owner sends the same answer to the same question.
3. The name of a question, the hash that its answer must quote, covers a random group name: Flower
   does not compare the sender of an answer with the key that signs the request, so without it an
   owner could answer in the place of another.
4. A body without a stated length, or larger than agreed, is not read.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from flwr.app import Metadata
from flwr.app.message import Message, make_message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.proto.message_pb2 import ObjectTree
from flwr.server.superlink.linkstate import InMemoryLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from eigenveil.federated.flower.envelope import (
    OVERHEAD,
    QUESTION,
    Sealed,
    content,
    is_chain,
    opened,
)
from eigenveil.federated.messages import Code

__all__ = ["Fleet", "fleet_app"]

_LIFETIME = 7 * 86400.0  # s; deadlines are kept here, not by the clocks of two machines


class Fleet(InMemoryLinkState):
    """The nodes, and the questions they have been asked.

    Parameters
    ----------
    owners : mapping of bytes to str
        Names of the owners by public key (PEM). Empty: every node registers itself and has no name.

    """

    def __init__(self, owners: Mapping[bytes, str]) -> None:
        super().__init__(NoOpFederationManager(), InMemoryObjectStore())
        self._owners = dict(owners)
        for key, name in self._owners.items():
            self.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0, name=name)
        self.run_id = self.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        (run,) = self.get_run_info(run_ids=[self.run_id])
        task = int(run.primary_task_id or 0)
        self.claim_task(task)
        self.activate_task(task)

    def _cleanup_expired_task_tokens_locked(self) -> None:
        """The run ends with this process: there is no other whose heartbeat could stop."""

    def activate_node(self, node_id: int, heartbeat_interval: float) -> bool:
        """Connect a node, in the place of an earlier process of the same owner."""
        with self.lock:
            self.deactivate_node(node_id)
            for name, message in self.message_ins_store.items():
                if (
                    message.metadata.dst_node_id == node_id
                    and name not in self.message_ins_id_to_message_res_id
                ):
                    message.metadata.delivered_at = ""
            return bool(super().activate_node(node_id, heartbeat_interval))

    def store_message_and_object_tree(
        self, message: Message, object_tree: ObjectTree, session_id: str
    ) -> tuple[bool, list[str]]:
        """Take in what can be an answer; Flower would rebuild any tree, however large."""
        if not (is_chain(object_tree) and object_tree.object_id == message.metadata.message_id):
            return False, []
        stored, missing = super().store_message_and_object_tree(message, object_tree, session_id)
        return bool(stored), list(missing)

    def online(self) -> dict[int, str | None]:
        """The nodes that are connected, with the names that their keys prove."""
        nodes = self.get_node_info(node_ids=list(self.get_nodes(self.run_id)))
        return {node.node_id: self._owners.get(node.public_key) for node in nodes}

    def send(self, node_id: int, data: bytes, kind: str = QUESTION) -> str | None:
        """Leave a message for a node to fetch; its name, or None if there is no such node."""
        message = make_message(
            metadata=Metadata(
                run_id=self.run_id,
                message_id="",
                src_node_id=SUPERLINK_NODE_ID,
                dst_node_id=node_id,
                reply_to_message_id="",
                group_id=secrets.token_hex(16),
                created_at=time.time(),
                ttl=_LIFETIME,
                message_type=kind,
            ),
            content=content(data),
        )
        sealed = Sealed.of(message)
        session = self.start_session(self.run_id)
        stored, missing = self.store_message_and_object_tree(sealed.head, sealed.tree, session)
        if not stored:
            return None
        for name in missing:
            self.store_object(self.run_id, session, name, sealed.objects[name])
        return str(sealed.tree.object_id)

    def receive(self, question: str) -> bytes | Code | None:
        """The answer to a question, a code if it cannot be read, None if it is not all here."""
        with self.lock:
            answer = self.message_ins_id_to_message_res_id.get(question)
            if answer is None:
                return None
            if self.message_res_store[answer].has_error():
                return Code.MALFORMED
            try:
                tree = self.object_store.get_object_tree(answer)
            except NoObjectInStoreError:  # taken back by who sent it
                return Code.MALFORMED
        parts: dict[str, bytes] = {}

        def fetch(name: str) -> bytes:
            parts[name] = self.get_object(self.run_id, name) or b""
            return parts[name]

        data = opened(tree, fetch)
        if data is None:
            return Code.MALFORMED if all(parts.values()) else None
        return data

    def forget(self, questions: Iterable[str]) -> None:
        """Drop questions and their answers: one that comes later finds nothing to answer."""
        with self.lock:
            for question in questions:
                answer = self.message_ins_id_to_message_res_id.get(question)
                self.delete_messages({question})
                self.object_store.delete(question)
                if answer is not None:
                    self.object_store.delete(answer)


def fleet_app(fleet: Fleet, *, keys: bool, largest: int) -> ASGIApp:
    """The Fleet interface as a web application.

    Parameters
    ----------
    fleet : Fleet
        Who is connected.
    keys : bool
        Whether only registered keys are accepted.
    largest : int
        Bytes of the largest answer that is read.

    """
    app = FastAPI(
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        middleware=[
            Middleware(_Measured, largest=largest + OVERHEAD),
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
        ],
    )
    app.state.linkstate_factory = _Factory(fleet)
    app.state.enable_supernode_auth = keys
    app.include_router(router)
    return app


@dataclass(frozen=True)
class _Factory:
    """Where the interface looks for its state."""

    fleet: Fleet

    def state(self) -> Fleet:
        return self.fleet


class _Measured:
    """Refuse a body before it is read: signatures are checked after."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self.app = app
        self.largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            length = dict(scope["headers"]).get(b"content-length", b"")
            if not length.isdigit():
                await PlainTextResponse("length required\n", 411)(scope, receive, send)
                return
            if int(length) > self.largest:
                await PlainTextResponse("too large\n", 413)(scope, receive, send)
                return
        await self.app(scope, receive, send)
