"""What a hostile server can make an owner hold, and how long it can make it wait."""

import gzip
import socket
import threading
import time
from contextlib import suppress

import pytest

pytest.importorskip("flwr")

from httpx._decoders import GZipDecoder

from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated.flower import client, connection, keys
from tests.federated.hostile import MANY, SLOW, Hostile, head, serving

ZEROS = bytes(1 << 16)


class Stub:
    """Answers with as many bytes as it is told."""

    def __init__(self, size=4):
        self.asked, self.size = [], size

    def answer(self, question):
        self.asked.append(question)
        return bytes(self.size)


def served(hostile, owner=None, *, patience=0.5):
    """What becomes of an owner: why it gave up, None where it was told that all is over."""
    with serving(hostile):
        try:
            client.serve(owner or Stub(), hostile.address, insecure=True, patience=patience)
        except FederationConnectionError as error:
            return str(error)


# Bytes


def flood(start, piece=ZEROS):
    """Send a start and then piece after piece, as long as somebody takes them."""

    def act(handler):
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        handler.connection.sendall(start)
        while act.hostile.moved < MANY:
            handler.connection.sendall(piece)
            act.hostile.moved += len(piece)

    return act


def hostile_by(path, act, questions=10**6):
    act.hostile = Hostile(path, act, questions=questions)
    return act.hostile


CHUNKED = head("transfer-encoding: chunked")
FLOODS = {
    "a stated length": flood(head(f"content-length: {MANY}")),
    "no length": flood(head("connection: close")),
    "chunks": flood(CHUNKED, b"10000\r\n" + ZEROS + b"\r\n"),
    "chunks of a byte": flood(CHUNKED, b"1\r\n0\r\n" * 10_000),
    "interim replies": flood(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 1000),
    "headers": flood(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 10_000),
    "an error": flood(head(f"content-length: {MANY}", status="500 Internal Server Error")),
}


@pytest.mark.parametrize("way", FLOODS)
@pytest.mark.parametrize("path", ["activate-node", "pull-messages", "push-messages"])
def test_a_flood_is_not_taken_in(path, way):
    hostile = hostile_by(path, FLOODS[way])
    assert "no word from" in served(hostile)
    assert hostile.moved < MANY / 4  # what lies in the buffers of two sockets


def test_a_question_is_no_longer_than_agreed():
    hostile = hostile_by("pull-object", flood(head(f"content-length: {MANY}")))
    with serving(hostile), pytest.raises(FederationConnectionError, match="no word from"):
        client.serve(Stub(), hostile.address, insecure=True, patience=0.5, largest=1 << 20)
    assert hostile.moved < MANY / 4


def test_packed_bytes_are_not_unpacked(monkeypatch):
    unpacked = []
    unpack = GZipDecoder.decode

    def seen(self, data):
        unpacked.append(len(unpack(self, data)))
        return b""

    monkeypatch.setattr(GZipDecoder, "decode", seen)
    packed = gzip.compress(bytes(1 << 24))

    def act(handler):
        length = f"content-length: {len(packed)}"
        handler.connection.sendall(head(length, "content-encoding: gzip") + packed)

    hostile = Hostile("activate-node", act)
    assert "no word from" in served(hostile)
    assert hostile.heads[-1]["accept-encoding"] == "identity"
    assert unpacked == []


def test_a_server_is_not_remembered():
    def act(handler):
        handler.connection.sendall(head("set-cookie: who=owner", "content-length: 2") + b"\x08\x02")

    hostile = Hostile("activate-node", act)
    assert served(hostile, patience=30.0) is None  # questions and the farewell came
    assert "pull-messages" in hostile.calls
    assert not any("cookie" in each for each in hostile.heads)


def test_objects_are_fetched_one_by_one():
    hostile = Hostile("", questions=1)
    large = bytes(3000)

    def reply(call, body, former=hostile.reply):
        found = former(call, body)
        if call == "pull-object":
            found.object_content = large  # the message and its dictionary are small
        return found

    hostile.reply = reply
    owner = Stub()
    assert served(hostile, owner, patience=30.0) is None
    assert owner.asked == [b""]
    assert hostile.calls.count("pull-object") == 1


# Seconds


def trickle(start=b"", byte=b"0"):
    """Send a start and then a byte now and then, as long as somebody waits."""

    def act(handler):
        handler.connection.sendall(start)
        for _ in range(SLOW):
            handler.connection.sendall(byte)
            act.hostile.moved += 1
            time.sleep(0.001)

    return act


TRICKLES = {
    "the head": trickle(byte=b"H"),
    "interim replies": trickle(byte=b"HTTP/1.1 102 Processing\r\n\r\n"),
    "the body": trickle(head("content-length: 1000")),
}


@pytest.mark.parametrize("way", TRICKLES)
@pytest.mark.parametrize("path", ["activate-node", "pull-messages", "pull-object"])
def test_a_trickle_is_not_waited_for(path, way):
    hostile = hostile_by(path, TRICKLES[way])
    assert "no word from" in served(hostile)
    assert hostile.moved < SLOW


def test_an_answer_that_is_not_read_is_given_up():
    def act(handler):
        length = int(handler.headers["content-length"])
        if length < 1 << 20:  # what comes before it is
            handler.rfile.read(length)
            handler.connection.sendall(head("content-length: 2") + b"\x08\x01")
            return
        while act.hostile.moved < length:
            piece = handler.rfile.read1(1 << 12)
            if not piece:
                return
            act.hostile.moved += len(piece)
            time.sleep(0.002)

    hostile = hostile_by("push-object", act)
    assert "no word from" in served(hostile, Stub(1 << 24), patience=1.0)
    assert 0 < hostile.moved < 1 << 24


def test_a_farewell_is_short(monkeypatch):
    monkeypatch.setattr(connection, "_FAREWELL", 0.2)
    hostile = hostile_by("deactivate-node", trickle(), questions=1)
    assert served(hostile, patience=30.0) is None
    assert hostile.moved < SLOW


def test_a_heartbeat_is_short(monkeypatch):
    monkeypatch.setattr(connection, "_FAREWELL", 0.2)
    monkeypatch.setattr(connection, "_HEARTBEAT", 0.02)
    hostile = hostile_by("send-node-heartbeat", trickle(), questions=1)
    moved = []

    class Slow(Stub):
        def answer(self, question):
            while hostile.calls.count("send-node-heartbeat") < 2:  # the first was given up
                time.sleep(0.01)
            moved.append(hostile.moved)
            return super().answer(question)

    assert served(hostile, Slow(), patience=30.0) is None
    assert moved[0] < SLOW


def test_a_refused_heartbeat_does_not_end_the_others(monkeypatch):
    monkeypatch.setattr(connection, "_HEARTBEAT", 0.02)

    def act(handler):
        length = handler.headers["content-length"]
        handler.rfile.read(int(length))
        handler.connection.sendall(head("content-length: 0", status="413 Too Large"))

    hostile = Hostile("send-node-heartbeat", act)

    class Slow(Stub):
        def answer(self, question):
            until = time.monotonic() + 20
            while hostile.calls.count("send-node-heartbeat") < 3 and time.monotonic() < until:
                time.sleep(0.01)
            return super().answer(question)

    assert served(hostile, Slow(), patience=30.0) is None
    assert hostile.calls.count("send-node-heartbeat") >= 3


def secured(tmp_path):
    """What an owner needs for a connection with TLS."""
    keys.make_node_key(tmp_path / "key")
    authority, _, _ = keys.make_certificate(tmp_path, ["127.0.0.1"])
    return {"root_certificate": authority, "key": tmp_path / "key"}


def trickled(start, connect, *, most=16_000):
    """How many bytes somebody waits for, on a line on which one comes now and then."""
    moved = []

    def accept():
        with suppress(OSError), listener.accept()[0] as line:
            line.sendall(start)
            for _ in range(most):
                line.sendall(b"\x02")
                moved.append(1)
                time.sleep(0.001)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        with pytest.raises(FederationConnectionError, match="no word from"):
            connect(f"127.0.0.1:{listener.getsockname()[1]}")
    return len(moved)


def test_a_handshake_is_not_waited_for(tmp_path):
    files = secured(tmp_path)
    record = b"\x16\x03\x03\x40\x00"  # of 16 KiB, and never whole

    def connect(address):
        client.serve(Stub(), address, patience=0.5, **files)

    assert trickled(record, connect) < 16_000


def test_a_proxy_is_not_waited_for(tmp_path, monkeypatch):
    files = secured(tmp_path)

    def connect(address):
        monkeypatch.setenv("HTTPS_PROXY", f"http://{address}")
        client.serve(Stub(), "hub.invalid:9092", patience=0.5, **files)

    assert trickled(b"HTTP/1.1 200 OK\r\na: ", connect) < 16_000


def test_a_name_is_not_looked_up_forever(monkeypatch):
    enough, late = threading.Event(), []
    look_up = socket.getaddrinfo

    def slow(host, *args, **options):
        if host == "localhost" and not enough.wait(20):
            late.append(host)
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        with pytest.raises(FederationConnectionError, match="no word from"):
            client.serve(Stub(), "localhost:9", insecure=True, patience=0.5)
    finally:
        enough.set()
    assert late == []


# Words


@pytest.mark.parametrize("kind", ["", "no-kind", "query.", "QUERY.question"])
def test_a_message_that_flower_does_not_know_is_no_word(kind):
    hostile = Hostile("", questions=10**6)

    def reply(call, body, former=hostile.reply):
        found = former(call, body)
        if call == "pull-messages":
            found.messages_list[0].metadata.message_type = kind
        return found

    hostile.reply = reply
    owner = Stub()
    assert "no word from" in served(hostile, owner)
    assert owner.asked == []


def test_no_word_of_a_server_is_taken_for_its_certificate():
    def act(handler):
        handler.connection.sendall(
            head("content-length: 0", status="500 CERTIFICATE_VERIFY_FAILED")
        )

    assert "no word from" in served(Hostile("activate-node", act))


def test_nobody_can_hurry_an_owner(monkeypatch):
    """Questions that are always there are answered one at a time, with a pause after each."""
    waited = []

    class Stop:
        def is_set(self):
            return len(waited) == 3

        def wait(self, seconds):
            waited.append(seconds)

    class Stopped:
        def __enter__(self):
            return Stop()

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(client, "_stopped_by_signals", Stopped)
    owner = Stub()
    assert served(Hostile("", questions=10**6), owner, patience=30.0) is None
    assert len(owner.asked) == len(waited) == 3
