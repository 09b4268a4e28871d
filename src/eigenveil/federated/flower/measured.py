"""The server's door: what one owner, or a stranger, can make the server hold or wait for.

A request has a stated length, and no more bytes than agreed; one that carries or fetches a part of
a message is signed, which is checked before its body is read, where Flower reads first. Nothing is
unpacked: a body is taken as it comes. Every step has its time: the headers of a request, its body,
and the reading of the reply, which leaves piece by piece, so that a node which does not read has
one piece lying here.
"""

import asyncio
import time
from base64 import b64decode
from binascii import Error as NotBase64
from collections import Counter
from typing import Protocol

from fastapi import HTTPException, Request
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.superlink.routers.fleet.node_auth import authenticate_node
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from eigenveil.federated.flower.envelope import OVERHEAD

__all__ = ["Measured", "Prompt"]

_AT_ONCE = 2  # requests of one node for one purpose; the second after a broken line
_PATIENCE, _SLOWEST = 60.0, 1 << 14  # s, and bytes per s, until a body must be here or there
_PIECE = 1 << 16  # bytes of a reply


class _Nodes(Protocol):
    """The known nodes, and how much is read of them."""

    largest: int

    def get_node_id_by_public_key(self, public_key: bytes) -> int | None: ...


class Measured:
    """Refuse a body before it is read, and wait neither for it nor for a reader forever.

    Parameters
    ----------
    app : ASGIApp
        What is behind the door.
    fleet : Fleet
        Whose nodes may send and fetch parts of messages.
    sends, fetches : str
        The paths on which they do.

    """

    def __init__(self, app: ASGIApp, fleet: _Nodes, sends: str, fetches: str) -> None:
        self.app, self.fleet = app, fleet
        self.sends, self.fetches = sends, fetches
        self.busy: Counter[tuple[int, str]] = Counter()  # by node and path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in that is small enough, signed where it must be, and one of few."""
        if scope["type"] != "http":
            return
        headers, path = dict(scope["headers"]), scope["path"]
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or b"transfer-encoding" in headers:
            await PlainTextResponse("length required\n", 411)(scope, receive, send)
            return
        if int(length) > OVERHEAD + (self.fleet.largest if path == self.sends else 0):
            await PlainTextResponse("too large\n", 413)(scope, receive, send)
            return
        timed = _receiving(receive, int(length)), _sending(send)
        if path not in (self.sends, self.fetches):
            await self.app(scope, *timed)
            return
        node = await run_in_threadpool(self._signer, Request(scope))
        if node is None or self.busy[node, path] >= _AT_ONCE:
            refused = 401 if node is None else 429
            await PlainTextResponse("not now\n", refused)(scope, receive, send)
            return
        self.busy[node, path] += 1
        try:
            await self.app(scope, *timed)
        finally:
            self.busy[node, path] -= 1

    def _signer(self, request: Request) -> int | None:
        """Return the node whose key signed the headers of a request."""
        try:
            key = b64decode(request.headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER, ""), validate=True)
            node = self.fleet.get_node_id_by_public_key(key)
            if node is not None:
                request.state.protobuf_request = PullMessagesRequest(node=Node(node_id=node))
                authenticate_node(request)
        except (NotBase64, ValueError, HTTPException):
            return None
        return node


def _receiving(receive: Receive, length: int) -> Receive:
    """``receive``, until the body must be here; a handler may wait longer for the other side."""
    until = time.monotonic() + _PATIENCE + length / _SLOWEST
    whole = False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        event = await asyncio.wait_for(receive(), until - time.monotonic())
        whole = not event.get("more_body", False)
        return event

    return receive_in_time


def _sending(send: Send) -> Send:
    """``send`` in pieces, each after the last was taken, until the body must be there."""

    async def send_in_time(event: Message) -> None:
        body, more = event.get("body", b""), event.get("more_body", False)
        if len(body) <= _PIECE:
            pieces = [event]
        else:
            starts = range(0, len(body), _PIECE)
            pieces = [{**event, "body": body[i : i + _PIECE], "more_body": True} for i in starts]
            pieces[-1]["more_body"] = more
        async with asyncio.timeout(_PATIENCE + len(body) / _SLOWEST):
            for piece in pieces:
                await send(piece)

    return send_in_time


class Prompt(H11Protocol):
    """Connections of which none waits forever for a request, or for a reply to be read.

    The web server has no such deadline, and of its two readers the faster one, which is not this,
    takes headers of any length.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next one."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(_PATIENCE, self._give_up)

    def _give_up(self) -> None:
        """End a connection without a request at hand; one at hand has times of its own."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle or self.transport.is_closing():
            self.transport.abort()
        else:
            self._wait()
