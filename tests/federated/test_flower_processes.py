"""A server with certificate and keys, and owners as processes of their own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

import eigenveil.federated.flower.server as server_module
from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated import fleet_app, superlink
from eigenveil.federated.flower import client, keys
from tests.federated.asking import ask

LIMIT = 240  # s for whatever is waited for
OWNER = Path(__file__).with_name("echo_owner.py")


class Never:
    """An owner who is not asked."""

    def answer(self, question):
        pytest.fail("asked")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    root, certificate, private = keys.make_certificate(folder, ["127.0.0.1", "localhost"])
    for name in ("north", "south", "stranger"):
        keys.make_node_key(folder / name)
    return SimpleNamespace(
        folder=folder,
        root=root,
        files={"certificate": certificate, "private_key": private},
        public={name: folder / f"{name}.pub" for name in ("north", "south")},
    )


class Federation:
    """A server in this process, and the owners' processes by name."""

    def __init__(self, place):
        self.place, self.owners, self.stack = place, {}, ExitStack()
        self.address = "127.0.0.1:0"
        self.serve()

    def serve(self):
        listening = superlink(self.address, self.place.public, **self.place.files)
        self.transport = self.stack.enter_context(listening)
        self.address = self.transport.address

    def start(self, name):
        folder = self.place.folder
        self.owners[name] = subprocess.Popen(
            [
                sys.executable,
                OWNER,
                self.address,
                self.place.root,
                folder / name,
                folder / f"{name}.trace",
            ],
            env={**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9"},  # nobody is there
        )

    def node(self, name):
        """The node of an owner, once it is connected; an earlier test may have ended it."""
        if self.owners[name].poll() is not None:
            self.start(name)
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            for node, owner in self.transport.nodes().items():
                if owner == name:
                    return node
            time.sleep(0.05)
        raise AssertionError(f"{name} never came")

    def close(self):
        self.stack.close()
        for process in self.owners.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def federation(place):
    requests = []

    def recorded(fleet, **options):
        app = fleet_app(fleet, **options)

        async def record(scope, receive, send):
            length = dict(scope["headers"]).get(b"content-length", b"0")
            requests.append((scope["path"], int(length)))
            await app(scope, receive, send)

        return record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "fleet_app", recorded)
        built = Federation(place)
        built.requests = requests
        for name in ("north", "south"):
            built.start(name)
        try:
            yield built
        finally:
            built.close()


def test_owners_are_known_by_their_keys_and_answer(federation):
    asked = {federation.node(name): name.encode() for name in ("north", "south")}
    answers = dict(ask(federation.transport, asked))
    pids = {name: process.pid for name, process in federation.owners.items()}
    assert answers == {node: b"%d %s" % (pids[name.decode()], name) for node, name in asked.items()}
    # Nothing else is ever requested: no run, no app.
    calls = ("activate-node", "pull-messages", "pull-object", "push-messages", "push-object")
    calls += ("confirm-message-received", "send-node-heartbeat", "deactivate-node")
    requested = {path.removeprefix("/v1/fleet/") for path, _ in federation.requests}
    assert set(calls[:5]) <= requested <= set(calls)


def test_a_message_costs_less_than_two_kilobytes_on_the_wire(federation):
    north = federation.node("north")
    federation.requests.clear()
    question = os.urandom(1_000_000)
    ((_, answer),) = ask(federation.transport, {north: question})
    assert answer.endswith(question)
    pushed = sum(size for path, size in federation.requests if "push" in path)
    assert len(answer) < pushed < len(answer) + 1400


def test_a_key_that_is_not_registered_is_refused(federation, place):
    with pytest.raises(FederationConnectionError, match="does not know the key") as refusal:
        client.serve(
            Never(),
            federation.address,
            root_certificate=place.root,
            key=place.folder / "stranger",
        )
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 3


def test_a_server_with_another_certificate_is_refused(federation, place, tmp_path):
    root, _, _ = keys.make_certificate(tmp_path, ["127.0.0.1"])
    with pytest.raises(FederationConnectionError, match="does not show a certificate"):
        client.serve(Never(), federation.address, root_certificate=root, key=place.folder / "north")


def test_a_taken_port_is_one_line(federation, place):
    with (
        pytest.raises(FederationConnectionError, match="choose another address"),
        superlink(federation.address, place.public, **place.files),
    ):
        pass


def test_who_is_killed_is_left_out_and_who_is_started_again_answers(federation):
    north, south = federation.node("north"), federation.node("south")
    asking = ask(federation.transport, {north: b"die", south: b"stay"})
    node, answer = next(asking)
    assert node == south
    assert answer.endswith(b" stay")
    assert federation.owners["north"].wait(LIMIT) == -signal.SIGKILL
    federation.start("north")
    ((node, answer),) = asking
    assert node == north
    assert answer == b"%d die" % federation.owners["north"].pid
    federation.owners["north"].kill()
    asking = ask(federation.transport, {north: b"more", south: b"more"})
    assert next(asking)[0] == south
    asking.close()


def test_owners_find_a_server_that_was_started_again(federation):
    south = federation.owners["south"].pid
    federation.stack.close()
    federation.serve()
    node = federation.node("south")
    ((_, answer),) = ask(federation.transport, {node: b"again"})
    assert answer == b"%d again" % south


def test_owners_leave_when_told(federation):
    federation.node("south")
    federation.transport.dismiss(LIMIT)
    assert federation.owners["south"].wait(LIMIT) == 0
    federation.start("south")
    federation.node("south")
    federation.owners["south"].terminate()
    assert federation.owners["south"].wait(LIMIT) == 0
    assert federation.transport.nodes() == {}
