"""A server on loopback that speaks the protocol but for one path, on which it does as it likes.

What it does is counted and ends by itself: after so many bytes, or when the other side hangs up.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from flwr.app import Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeResponse,
    DeactivateNodeResponse,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
    RegisterNodeFleetResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectResponse,
)

from eigenveil.federated import FAREWELL, QUESTION, Sealed, chain, content

MANY = 64 << 20  # bytes, of which nobody should take more than some
SLOW = 20_000  # bytes, one in a thousandth of a second


def sealed(records: RecordDict, kind: str = QUESTION) -> Sealed:
    """A message from the server to node 2."""
    metadata = Metadata(
        run_id=1,
        message_id="",
        src_node_id=SUPERLINK_NODE_ID,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type=kind,
    )
    return Sealed.of(make_message(metadata=metadata, content=records))


class Hostile:
    """What a server does, and what it saw.

    Parameters
    ----------
    path : str
        The call on which it misbehaves.
    act : callable
        What it does there, with the handler of the request; None to reply as a server does.
    questions : int
        How many messages it has before it says farewell.

    """

    def __init__(
        self, path: str, act: Callable[[Any], None] | None = None, *, questions: int = 1
    ) -> None:
        self.path, self.act, self.questions = path, act, questions
        self.heads: list[dict[str, str]] = []  # of the requests
        self.calls: list[str] = []
        self.moved = 0  # bytes sent, or read, on the hostile path
        self.address = ""

    def reply(self, call: str, body: bytes) -> Any:
        """What a server says."""
        match call:
            case "register-node":
                return RegisterNodeFleetResponse(node_id=2)
            case "activate-node":
                return ActivateNodeResponse(node_id=2)
            case "pull-messages":
                self.questions -= 1
                asked = sealed(content(b"who?"), QUESTION if self.questions >= 0 else FAREWELL)
                self.sealed = asked
                return PullMessagesResponse(
                    messages_list=[message_to_proto(asked.head)], message_object_trees=[asked.tree]
                )
            case "pull-object":
                data = self.sealed.objects[PullObjectRequest.FromString(body).object_id]
                return PullObjectResponse(
                    object_found=True, object_available=True, object_content=data
                )
            case "push-messages":
                tree = PushMessagesRequest.FromString(body).message_object_trees[0]
                return PushMessagesResponse(objects_to_push=chain(tree), session_id="s")
            case "push-object":
                return PushObjectResponse(stored=True)
            case "confirm-message-received":
                return ConfirmMessageReceivedResponse()
            case "send-node-heartbeat":
                return SendNodeHeartbeatResponse(success=True)
        return DeactivateNodeResponse()


@contextmanager
def serving(hostile: Hostile) -> Iterator[Hostile]:
    """Serve while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            call = self.path.rpartition("/")[2]
            hostile.calls.append(call)
            hostile.heads.append({name.lower(): value for name, value in self.headers.items()})
            if call == hostile.path and hostile.act is not None:
                self.close_connection = True
                hostile.act(self)
                return
            body = self.rfile.read(int(self.headers["content-length"]))
            data = hostile.reply(call, body).SerializeToString()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    hostile.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hostile
    finally:
        server.shutdown()
        server.server_close()


def head(*lines: str, status: str = "200 OK") -> bytes:
    """The headers of a reply."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()
