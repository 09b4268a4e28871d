"""A server and owners as an operator starts them, and what goes wrong: real processes, TLS, keys.

Nothing here hopes for a moment: a fault is timed by an event in the server's journal, and owners
who must not be done yet wait for a file. Seconds are short only where nobody can make it.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from eigenveil import Ledger, Release
from eigenveil.federated import Happening, Journal, make_certificate, make_node_key
from eigenveil.storage import JOURNAL
from tests.cli.conftest import fails, invoke
from tests.federated.standins import SECRET, serving
from tests.federated.stubs import D, K

ROOT = Path(__file__).parents[2]
LONG, SHORT = 600, 1  # s
LIMIT = 240  # s for whatever is waited for
SERVER = """\
[federation]
name = "test"
n_columns = {columns}
components = {k}
quorum = 2
join_seconds = {long}
answer_seconds = {seconds}

[server]
address = "{address}"
certificate = "server.pem"
private_key = "server.key"
folder = "journal"
output = "release"
"""
CLIENT = """\
[federation]
name = "test"
server = "{address}"
certificate = "authority.pem"
key = "{name}.key"

[owner]
name = "{name}"
data = "{name}.npy"
epsilon = 1
delta = 1e-6
centring = "none"
ledger = "{name}.ledger"
folder = "{name}-answers"
patience = {patience}
"""


class Process:
    """A child with its lines in files."""

    def __init__(self, folder, label, *words):
        self.files = [folder / f"{label}.{end}" for end in ("out", "err")]
        with self.files[0].open("wb") as out, self.files[1].open("wb") as err:
            self.child = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    @property
    def out(self):
        return self.files[0].read_text()

    @property
    def err(self):
        return self.files[1].read_text()

    def ends(self, code):
        assert self.child.wait(LIMIT) == code, self.err
        return self

    def end(self, number=signal.SIGKILL):
        self.child.send_signal(number)
        self.child.wait(LIMIT)


class Federation:
    """Files of a server and its owners in one folder, and the processes that run on them."""

    def __init__(self, folder, names):
        self.folder, self.names, self.processes = folder, names, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        make_certificate(folder, ["127.0.0.1"])
        for name in names:
            make_node_key(folder / f"{name}.key")

    def start(self, label, *words):
        process = Process(self.folder, f"{label}-{len(self.processes)}", *words)
        self.processes.append(process)
        return process

    def server(self, seconds):
        """Only how long it waits differs from one start to the next."""
        config = self.folder / "server.toml"
        text = SERVER.format(
            columns=D, k=K, long=LONG, seconds=seconds, address=self.address
        ) + "".join(f'[owners.{name}]\nkey = "{name}.key.pub"\n' for name in self.names)
        config.write_text(text)
        self.running = self.start("server", "eigenveil", "federate", "server", config)
        return self.running

    def prepare(self, name):
        """Table, ledger and file of an owner."""
        rows = np.random.default_rng(len(name)).standard_normal((500, D))
        np.save(self.folder / f"{name}.npy", rows * [8, 6, 1, 1, 1, 1])
        Ledger.create(self.folder / f"{name}.ledger", epsilon=2, delta=1e-5)
        config = self.folder / f"{name}.toml"
        config.write_text(CLIENT.format(address=self.address, name=name, patience=LIMIT))
        return config

    def owner(self, name):
        config = self.folder / f"{name}.toml"
        if not config.exists():
            self.prepare(name)
        return self.start(name, "eigenveil", "federate", "client", config)

    def standins(self, *names):
        self.start("standins", "tests.federated.standins", self.folder, self.address, *names)

    def gate(self):
        """The owner that waits for the file ``open``, in this process: it is none of the faults."""
        thread = serving("gate", self.folder, self.address)
        thread.start()
        return thread

    def charges(self, name):
        return Ledger(self.folder / f"{name}.ledger").entries

    @property
    def events(self):
        journal = self.folder / "journal" / JOURNAL
        return Journal.read(journal) if journal.exists() else []

    def answers(self, round_, name):
        """Whatever the journal holds from an owner in a round."""
        return [
            event.data
            for event in self.events
            if (event.happening, event.round, event.owner) == (Happening.ANSWERED, round_, name)
        ]

    def left_out(self):
        return {
            (event.round, event.owner): event.code
            for event in self.events
            if event.happening is Happening.LEFT_OUT
        }

    def until(self, condition):
        """Wait for something that the journal or a process will say while the server runs."""
        deadline = time.monotonic() + LIMIT
        while True:
            over = self.running.child.poll() is not None or time.monotonic() > deadline
            if condition():
                return
            assert not over, self.running.err
            time.sleep(0.05)

    def close(self):
        for process in self.processes:
            process.child.kill()
        for process in self.processes:
            process.child.wait()


@pytest.fixture
def federation(tmp_path):
    running = []

    def begin(*names):
        running.append(Federation(tmp_path, names))
        return running[0]

    yield begin
    for each in running:
        each.close()


SPOILED = {
    ("basis", "nan"): "not-finite",
    ("basis", "skew"): "not-orthonormal",
    ("basis", "shape"): "shape",
    ("basis", "garbage"): "malformed",
    ("basis", "pickle"): "malformed",
    ("basis", "text"): "malformed",
    ("basis", "broken"): "internal",
}
SILENT = {
    ("values", "wild"): "out-of-range",
    ("values", "fickle"): "contradiction",
    ("values", "late"): "no-answer",
    ("values", "south"): "no-answer",
}


@pytest.mark.audit
def test_who_fails_is_named_and_a_killed_server_goes_on(federation):
    spoilers = [name for _, name in SPOILED]
    good = ("liar", "wild", "fickle", "late")  # with their bases
    run = federation("north", "south", "gate", *good, *spoilers)
    run.server(LONG)
    north, south = run.owner("north"), run.owner("south")
    run.standins("gate", *good, *spoilers)
    heard = ("north", "south", *good)
    run.until(
        lambda: (
            all(run.answers("basis", name) for name in heard)
            and SPOILED.keys() <= run.left_out().keys()
        )
    )
    # The gate keeps the round open: both are killed between rounds, one of them for good.
    south.end()
    run.running.end()
    first = {name: run.answers("basis", name) for name in heard}

    (run.folder / "open").touch()
    run.server(LONG)
    run.until(
        lambda: (
            all(run.answers("values", name) for name in ("north", "gate", "liar"))
            and {("values", "fickle"), ("values", "wild")} <= run.left_out().keys()
        )
    )
    run.running.end(signal.SIGTERM)
    run.running.ends(130)
    assert "start the server again to go on" in run.running.err.splitlines()[-1]

    run.server(SHORT)
    run.until(lambda: ("values", "late") in run.left_out())
    (run.folder / "wake").touch()  # too late
    run.running.ends(0)
    assert "going on after: " in run.running.err

    # Each basis was taken once, and each answer paid for once.
    assert {name: run.answers("basis", name) for name in heard} == first
    assert all(len(answers) == 1 for answers in first.values())
    assert [len(run.charges(name)) for name in ("north", "south")] == [2, 1]
    assert north.err.count("; charged epsilon") == 1
    assert north.err.count("; paid for with the first answer") == 1

    release = Release.verify(run.folder / "release")
    about = release.settings["federation"]
    named = {(each["round"], each["owner"]): each["code"] for each in about["left_out"]}
    assert named == {**SPOILED, **SILENT}
    for (round_, name), code in named.items():
        assert f"left out     {name} of {round_}: " in run.running.out
        assert f"({code})" in run.running.out
    owners = {owner.name: owner for owner in release.owners}
    assert owners.keys() == set(run.names)
    assert {name for name, owner in owners.items() if owner.basis_weight} == {*heard, "gate"}
    assert {name for name, owner in owners.items() if owner.values_weight > 0} == {
        "north",
        "gate",
        "liar",
    }
    # Who claims a million million records has the most weight that anybody can have.
    assert about["cut"] == ["liar"]
    assert owners["liar"].basis_weight == owners["liar"].values_weight == 0.5

    # Nothing of what was refused is kept or shown, and nothing of it was run.
    assert not (run.folder / "exploded").exists()
    kept = [*run.folder.glob("server-*.*"), *run.folder.glob("journal/*")]
    kept += run.folder.glob("release/**/*")
    assert len(kept) > 8
    for file in kept:
        if file.is_file():
            data = file.read_bytes()
            assert SECRET.encode() not in data, file
            assert b"Traceback" not in data, file


@pytest.mark.audit
def test_owners_start_again_and_send_what_they_have_stored(federation):
    run = federation("north", "gate")
    make_node_key(run.folder / "stranger.key")
    server = run.server(SHORT)
    north, gate = run.owner("north"), run.gate()
    run.until(lambda: "waiting for questions" in north.err)
    message = fails(3, "federate", "client", run.folder / "north.toml")
    assert message.startswith("error: another client uses ")

    # The gate is closed: one owner of two is no quorum.
    last = server.ends(6).err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "start again to go on" in last
    assert run.left_out()["basis", "gate"] == "no-answer"
    assert not (run.folder / "release").exists()
    status = invoke("federate", "status", run.folder / "journal").stdout
    assert "gate   join yes, basis left out (no-answer: it did not answer in time)" in status

    run.server(LONG)
    refused = invoke("federate", "client", run.prepare("stranger"))
    assert refused.exit_code == 3
    assert "does not know the key of this owner" in refused.stderr.splitlines()[-1]
    assert len(run.charges("stranger")) == 0
    (run.folder / "open").touch()
    said = run.running.ends(0).err
    assert "going on after: " in said
    assert "KEY" not in said  # what a stranger sends is not shown
    north.ends(0)
    gate.join(LIMIT)
    assert north.out.startswith("guarantee    Protected: ")
    charged = run.charges("north")
    assert len(charged) == 2
    release = Release.verify(run.folder / "release")
    assert release.settings["federation"]["left_out"] == []
    assert [owner.name for owner in release.owners] == ["north", "gate"]

    # The server has lost its disk, and the owners have started again.
    before = run.events
    for lost in ("journal", "release"):
        (run.folder / lost).rename(run.folder / f"lost-{lost}")
    run.server(LONG)
    north, gate = run.owner("north"), run.gate()
    run.running.ends(0)
    north.ends(0)
    gate.join(LIMIT)
    assert run.charges("north") == charged
    assert north.err.count("sent the stored answer again; nothing charged") >= 2
    for name in ("basis", "values"):
        (sent,) = run.answers(name, "north")
        assert sent in [event.data for event in before]
    again = Release.verify(run.folder / "release")
    for name, array in release.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
