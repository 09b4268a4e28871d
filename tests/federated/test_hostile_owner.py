"""What a hostile owner, or a stranger, can make a server hold, and how long it can make it wait."""

import asyncio
import gzip
import socket
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.message_pb2 import PullObjectRequest
from flwr.proto.node_pb2 import Node

from eigenveil.federated import host_and_port, superlink
from eigenveil.federated.flower import measured
from tests.federated.hostile import MANY, SLOW
from tests.federated.test_flower_server import Web

HEAD = b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: server\r\n"


def sent(start, piece, *, most, pause=0.0):
    """How many bytes of a request that never ends a server takes before it hangs up."""
    moved = 0
    with (
        superlink("127.0.0.1:0", insecure=True) as transport,
        socket.create_connection(host_and_port(transport.address), timeout=30) as line,
        suppress(ConnectionError),
    ):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        line.sendall(start)
        while moved < most:
            line.sendall(piece)
            moved += len(piece)
            time.sleep(pause)
    return moved


@pytest.mark.parametrize("start", [b"", HEAD, HEAD + b"a: "])
def test_headers_are_not_waited_for(start, monkeypatch):
    monkeypatch.setattr(measured, "_PATIENCE", 0.3)
    assert sent(start, b"P", most=SLOW, pause=0.001) < SLOW


@pytest.mark.parametrize("piece", [b"a: b\r\n" * 10_000, b"a" * 60_000])
def test_headers_have_an_end(piece):
    assert sent(HEAD, piece, most=MANY) < MANY / 4


def test_a_body_that_was_refused_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(measured, "_PATIENCE", 0.3)
    chunked = HEAD + b"transfer-encoding: chunked\r\n\r\n"
    assert sent(chunked, b"1\r\n0\r\n", most=6 * SLOW, pause=0.001) < 6 * SLOW


def test_a_silent_connection_is_ended(monkeypatch):
    monkeypatch.setattr(measured, "_PATIENCE", 0.3)
    with (
        superlink("127.0.0.1:0", insecure=True) as transport,
        socket.create_connection(host_and_port(transport.address), timeout=30) as line,
    ):
        assert line.recv(1) == b""


def test_packed_bytes_are_not_unpacked():
    web = Web("north")
    body = PullMessagesRequest(node=Node(node_id=web.nodes["north"])).SerializeToString()
    assert web.post("/v1/fleet/pull-messages", body, "north").status_code == 200
    headers = {"content-encoding": "gzip"}
    packed = web.post("/v1/fleet/pull-messages", gzip.compress(body), "north", **headers)
    assert packed.status_code == 400


def test_a_node_fetches_so_much_at_once(monkeypatch):
    web = Web("north")
    node = web.nodes["north"]
    question = web.fleet.send(node, b"who?")
    asked = PullObjectRequest(node=Node(node_id=node), object_id=question)
    path = "/v1/fleet/pull-object"
    assert web.post(path, asked, "north").status_code == 200
    assert web.post(path, asked).status_code == 401
    monkeypatch.setattr(measured, "_AT_ONCE", 0)
    assert web.post(path, asked, "north").status_code == 429


def reply(send, size=MANY):
    """Have a server send so many bytes."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    door = measured.Measured(app, SimpleNamespace(largest=0), "/sends", "/fetches")
    scope = {"type": "http", "path": "/", "headers": [(b"content-length", b"0")]}
    asyncio.run(door(scope, None, send))


@pytest.mark.parametrize("size", [0, 1, 1 << 16, 1 << 20, (1 << 20) + 1])
def test_a_reply_leaves_in_pieces(size):
    bodies = []

    async def send(event):
        if event["type"] == "http.response.body":
            bodies.append((len(event["body"]), event.get("more_body", False)))

    reply(send, size)
    assert sum(length for length, _ in bodies) == size
    assert max(length for length, _ in bodies) <= 1 << 16
    assert [more for _, more in bodies] == [True] * (len(bodies) - 1) + [False]


def test_a_reply_that_is_not_read_is_given_up(monkeypatch):
    monkeypatch.setattr(measured, "_PATIENCE", 0.05)
    monkeypatch.setattr(measured, "_SLOWEST", 1 << 40)
    taken = []

    async def send(event):
        taken.append(event)
        if len(taken) == 3:  # the node reads no more
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        reply(send)
    assert len(taken) == 3
