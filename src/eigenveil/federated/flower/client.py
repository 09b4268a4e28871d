"""An owner's end of the connection: fetch a question, answer it here, send the answer.

This takes the place of Flower's SuperNode. The only thing that the server can have done here is a
call of ``owner.answer`` with some bytes: no app is fetched, no other process is started. What
cannot be read is handed to the owner as no bytes at all, which it refuses in its own code, so the
server learns nothing of why. How long an answer took is not reported.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

import httpx
from flwr.app import Message, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_to_proto
from flwr.common.serde_utils import metadata_from_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.supernode.fleet_http_client import FleetHttpClient

from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated.flower.connection import Connection, require_certified
from eigenveil.federated.flower.envelope import (
    FAREWELL,
    LARGEST,
    QUESTION,
    Sealed,
    content,
    opened,
)
from eigenveil.text import plural

__all__ = ["Answers", "serve"]

_POLL = 1.0  # s between requests


class Answers(Protocol):
    """An owner that answers: see `eigenveil.federated.owner.Owner`."""

    def answer(self, question: bytes) -> bytes:
        """Never raises: a failure is an answer too."""


def serve(
    owner: Answers,
    address: str,
    *,
    root_certificate: str | Path | None = None,
    key: str | Path | None = None,
    insecure: bool = False,
    patience: float = 600.0,
    largest: int = LARGEST,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Answer the server's questions until it says that it has no more, or a signal comes.

    On SIGTERM and SIGHUP the answer at hand is finished and sent; on SIGINT likewise, and then
    `KeyboardInterrupt` is raised. A second signal does not wait.

    Parameters
    ----------
    owner : object with ``answer(bytes) -> bytes``
        Who answers.
    address : str
        ``host:port`` of the server.
    root_certificate : path, optional
        PEM file by which the server's certificate is checked.
    key : path, optional
        The owner's private key; the server must have been given the public one.
    insecure : bool, default=False
        Without encryption and keys: only to a server on this machine.
    patience : float, default=600
        Seconds to go on without a word from the server, at the start or while it restarts, and
        seconds that a part of a message may take. What else is sent has 30 at most.
    largest : int, default=64 MiB
        Bytes of the largest question that is looked at.
    tell : callable
        Hears a line when the connection is there, and when it is not any more.

    """
    connection = Connection(
        address, root_certificate, key, insecure=insecure, patience=patience, largest=largest
    )
    with _stopped_by_signals() as stop, connection.fleet as fleet:
        heard, reached = time.monotonic(), None
        while not stop.is_set():
            try:
                with connection.node() as node:
                    if not reached:
                        tell(f"connected to {address}")
                    reached = True
                    while not stop.is_set():
                        if not _exchange(owner, fleet, node, largest):
                            return
                        heard = time.monotonic()
                        stop.wait(_POLL)  # also after an answer: nobody can hurry an owner
            # Unreachable, restarted and not knowing this node, or not speaking the protocol.
            except httpx.HTTPError as error:
                require_certified(error, address)
                so_long = f"{patience:g} {plural('second', patience)}"
                if time.monotonic() - heard > patience:
                    raise FederationConnectionError(
                        f"no word from {address} for {so_long}: start again when the "
                        "server is back; nothing that was answered is spent twice"
                    ) from None
                if reached is not False:
                    tell(f"no connection to {address}: trying again for {so_long}")
                reached = False
                stop.wait(_POLL)


def _exchange(owner: Answers, fleet: FleetHttpClient, node: Node, largest: int) -> bool:
    """Answer one question, if there is one; False if there will be no more."""
    pulled = fleet.PullMessages(PullMessagesRequest(node=node))
    if not (pulled.messages_list and pulled.message_object_trees):
        return True
    try:
        metadata = metadata_from_proto(pulled.messages_list[0].metadata)
    except ValueError:  # of a kind that Flower does not know
        raise httpx.DecodingError("the other side does not speak the protocol") from None
    asked = make_message(metadata=metadata, content=RecordDict())
    tree, run_id = pulled.message_object_trees[0], metadata.run_id
    if metadata.message_type == FAREWELL:
        return False

    def fetch(name: str) -> bytes:
        request = PullObjectRequest(node=node, run_id=run_id, object_id=name)
        return bytes(fleet.PullObject(request).object_content)

    question = opened(tree, fetch) if metadata.message_type == QUESTION else None
    if question is None or len(question) > largest:
        question = b""
    sealed = Sealed.of(Message(content(owner.answer(question)), reply_to=asked))
    pushed = fleet.PushMessages(
        PushMessagesRequest(
            node=node,
            messages_list=[message_to_proto(sealed.head)],
            message_object_trees=[sealed.tree],
        )
    )
    for name in set(pushed.objects_to_push) & set(sealed.objects):
        fleet.PushObject(
            PushObjectRequest(
                node=node,
                run_id=run_id,
                object_id=name,
                object_content=sealed.objects[name],
                session_id=pushed.session_id,
            )
        )
    # Only now: until the answer is there, the question is delivered again after a broken line.
    fleet.ConfirmMessageReceived(
        ConfirmMessageReceivedRequest(node=node, run_id=run_id, message_object_id=tree.object_id)
    )
    return True


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that requests to end set; elsewhere than in the main thread nobody does.

    They are SIGINT, SIGTERM and, of a closed terminal, SIGHUP; one that is ignored stays so.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    came: list[int] = []
    known = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    former = {s: signal.getsignal(s) for s in known if s is not None}
    former = {s: handler for s, handler in former.items() if handler is not signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        stop.set()
        for each, handler in former.items():
            signal.signal(each, handler)

    for each in former:
        signal.signal(each, note)
    try:
        yield stop
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
    if signal.SIGINT in came:
        raise KeyboardInterrupt
