"""The commands of a federation, with nothing on the network: owners answer in this process."""

import json
import os
import re
import shlex
import signal
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eigenveil import Ledger, Release
from eigenveil.cli.progress import stoppable
from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated import (
    BasisQuestion,
    Code,
    Coordinator,
    Happening,
    InProcess,
    Invitation,
    Journal,
    columns_digest,
    encode,
    largest_size,
    read_client,
    read_server,
)
from eigenveil.storage import JOURNAL, locked
from tests.cli.conftest import fails, invoke
from tests.cli.test_documents import examples, pattern
from tests.federated.stubs import NAMES, D, K, Stub, agreement
from tests.storage.test_reservation import FullDisk

SERVER = f"""\
[federation]
name = "test"
n_columns = {D}
components = {K}
join_seconds = 0.2
answer_seconds = 0.2
again_seconds = 0.1

[server]
address = "127.0.0.1:9092"
folder = "journal"
output = "release"

[owners.east]
[owners.north]
[owners.west]
"""
CLIENT = """\
[federation]
name = "test"
server = "127.0.0.1:9092"

[owner]
name = "east"
data = "table.csv"
epsilon = 1
delta = 1e-6
ledger = "east.ledger"
folder = "answers"
"""


class Line(InProcess):
    """What a server listens on, as far as the command knows."""

    address = "127.0.0.1:9092"
    pause = 0.01
    dismissed = False
    largest = 0

    def dismiss(self, *, least):
        self.dismissed, self.least = True, least


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """A server's file; those who are in the list answer it."""
    pytest.importorskip("flwr")
    present = list(NAMES)
    lines = []

    @contextmanager
    def superlink(address, owners, **options):
        lines.append(Line({name: Stub(name) for name in present}))
        lines[-1].largest = options["largest"]
        yield lines[-1]

    monkeypatch.setattr("eigenveil.federated.flower.server.superlink", superlink)
    config = tmp_path / "server.toml"
    config.write_text(SERVER)
    return config, present, lines


def test_a_server_asks_saves_and_says_what_happened(federation, tmp_path):
    config, _, lines = federation
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 0, result.output
    release = Release.verify(tmp_path / "release")
    assert {owner.name for owner in release.owners} == set(NAMES)
    for word in ("released ", "guarantee ", "owners       3", "fingerprint ", "next "):
        assert word in result.stdout
    for word in ("insecure: no encryption", "east joined: 100 records", "west answered values"):
        assert word in result.stderr
    assert lines[-1].dismissed
    assert lines[-1].largest == largest_size(D, K)
    again = invoke("federate", "server", config, "--insecure")
    assert again.exit_code == 0
    assert again.stdout == ""
    assert "released already" in again.stderr
    assert len(lines) == 1  # nobody was asked
    status = invoke("federate", "status", config).stdout
    assert "test: released" in status
    assert Release.fingerprint(tmp_path / "release") in status


def test_a_server_that_was_stopped_at_its_end_says_farewell(federation, monkeypatch):
    config, _, lines = federation

    def stopped(self, *, least):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Line, "dismiss", stopped)
        assert invoke("federate", "server", config, "--insecure").exit_code == 130
    asked = len(lines)
    for _ in range(2):  # once
        assert invoke("federate", "server", config, "--insecure").exit_code == 0
        assert len(lines) == asked + 1
    assert lines[-1].dismissed
    assert lines[-1].least > 0  # who waits has to find it


def test_a_server_that_was_stopped_before_it_could_say_so_goes_on(
    federation, tmp_path, monkeypatch
):
    config = federation[0]

    def stopped(self, happened):
        if happened.happening is Happening.RELEASED:
            raise KeyboardInterrupt
        note(self, happened)

    note = Journal.note
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note", stopped)
        assert invoke("federate", "server", config, "--insecure").exit_code == 130
    before = Release.fingerprint(tmp_path / "release")
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 0, result.output
    assert before in result.stdout


def test_a_release_of_owners_says_what_it_is_for(federation, tmp_path):
    refused = invoke("federate", "server", federation[0], "--insecure", "--title", "x" * 201)
    assert "title must be one line" in refused.stderr
    words = ("--title", "Three clinics", "--approver", "A")
    assert invoke("federate", "server", federation[0], "--insecure", *words).exit_code == 0
    about = Release.verify(tmp_path / "release").settings["about"]
    assert about == {"title": "Three clinics", "approver": "A"}


def test_json_on_standard_output_alone(federation):
    result = invoke("federate", "server", federation[0], "--insecure", "--json")
    document = json.loads(result.stdout)
    assert [owner["name"] for owner in document["owners"]] == list(NAMES)


def test_a_lost_quorum_has_its_exit_code_and_can_go_on(federation, tmp_path):
    config, present, lines = federation
    del present[1:]
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 6
    assert "start again to go on" in result.stderr.splitlines()[-1]
    assert not lines[-1].dismissed
    assert not (tmp_path / "release").exists()
    present.append(NAMES[1])
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 0, result.output
    assert "going on after: " in result.stderr
    assert "left out     west of join: it did not answer in time (no-answer)" in result.stdout


def test_a_weight_that_was_cut_is_told(federation):
    config, present, _ = federation
    present.pop()
    config.write_text(SERVER.replace("[owners.east]", "[owners.east]\nrecords = 10"))
    result = invoke("federate", "server", config, "--insecure")
    assert "cut          north to a weight of 0.5" in result.stdout


def test_a_claim_beyond_the_agreement_is_said_to_be_one(federation, tmp_path):
    config, _, _ = federation
    limits = "epsilon = 2\ndelta = 1e-5\nmechanism = 'spherical'"
    text = SERVER.replace("[owners.east]", f"[owners.east]\nrecords = 10\n{limits}")
    config.write_text(text.replace("[owners.west]", f"[owners.west]\nrecords = 100\n{limits}"))
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 0, result.output
    beyond = "more than the agreed 10 records are claimed and not counted"
    alone = "by the owner's word alone: records, epsilon, delta"
    joined = {line.split()[1]: line for line in result.stderr.splitlines() if " joined: " in line}
    assert joined["east"].endswith(
        f"10 records, epsilon = 1, delta = 1e-06, by spherical ({beyond})"
    )
    assert joined["north"].endswith(f"by spherical ({alone})")
    assert joined["west"].endswith("100 records, epsilon = 1, delta = 1e-06, by spherical")
    assert "claims       east more records than agreed" in result.stdout
    release = Release.verify(tmp_path / "release")
    owners = {owner.name: owner for owner in release.owners}
    assert {name: owner.n_rows for name, owner in owners.items()} == {
        "east": 10,
        "north": 100,
        "west": 100,
    }
    assert owners["east"].guarantee.bounds[-1] == beyond
    assert owners["north"].guarantee.bounds[-1] == alone
    assert owners["west"].guarantee.bounds == ("none needed",)
    assert release.settings["n_rows"] == 210
    for words in (beyond, alone):
        assert words in release.statement()
        assert words.replace("'", "&#x27;") in (tmp_path / "release" / "report.html").read_text()
    status = invoke("federate", "status", config).stdout.splitlines()
    assert [line for line in status if "claims more records than agreed" in line] == [
        line for line in status if line.startswith("  east ")
    ]
    assert json.loads(invoke("federate", "status", config, "--json").stdout)["beyond"] == ["east"]


def test_what_a_server_keeps_is_for_itself(federation, tmp_path):
    config, _, _ = federation
    former = os.umask(0)
    try:
        assert invoke("federate", "server", config, "--insecure").exit_code == 0
    finally:
        os.umask(former)
    folder = tmp_path / "journal"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    rights = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert JOURNAL in rights
    assert set(rights.values()) == {0o600}
    folder.chmod(0o755)
    assert "others can look into" in fails(3, "federate", "server", config, "--insecure")


def test_what_a_demo_leaves_is_for_itself(tmp_path, monkeypatch):
    demo = pytest.importorskip("eigenveil.cli.federate_demo")
    for name in ("_federate", "_compare"):
        monkeypatch.setattr(demo, name, lambda *_, **__: None)
    monkeypatch.setattr(demo, "Release", SimpleNamespace(load=lambda _: None))
    former = os.umask(0)
    try:
        assert invoke("federate", "demo", "--folder", tmp_path / "kept").exit_code == 0
    finally:
        os.umask(former)
    private = [*(tmp_path / "kept").rglob("table.npy"), *(tmp_path / "kept").rglob("ledger")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700


def test_a_demo_keeps_its_release(tmp_path, monkeypatch):
    demo = pytest.importorskip("eigenveil.cli.federate_demo")
    monkeypatch.chdir(tmp_path)

    def federate(place):
        (place / "release").mkdir()
        (place / "release" / "report.html").touch()

    for name in ("_prepare", "_compare"):
        monkeypatch.setattr(demo, name, lambda *_, **__: None)
    monkeypatch.setattr(demo, "_federate", federate)
    monkeypatch.setattr(demo, "Release", SimpleNamespace(load=lambda _: None))
    for name in ("federation-release", "federation-release-2"):
        result = invoke("federate", "demo")
        assert result.exit_code == 0, result.output
        assert f"open         {name}/report.html" in result.stdout
        assert (tmp_path / name / "report.html").exists()


def test_init_writes_files_that_are_read(tmp_path):
    words = ["federate", "init", tmp_path / "fed", "--name", "registry", "--k", 1]
    words += ["--owner", "north", "--owner", "east", "--epsilon", 1, "--delta", 1e-6]
    result = invoke(*words, "--columns", 'age,"a ""b"""', "--address", "sums.example.org:8443")
    assert result.exit_code == 0, result.output
    read = read_server(tmp_path / "fed" / "server.toml")
    assert read.agreement.columns == ("age", 'a "b"')
    assert sorted(read.agreement.owners) == ["east", "north"]
    for name in ("north", "east"):
        owner = read_client(tmp_path / "fed" / f"{name}.toml")
        assert (owner.settings.owner, owner.server) == (name, "sums.example.org:8443")
        assert owner.settings.epsilon == 1
    steps = [line.split("eigenveil ")[1].split()[:2] for line in result.stderr.splitlines()]
    assert [step[0] for step in steps] == ["federate", "federate", "ledger", "federate", "federate"]
    assert "choose a new folder" in fails(2, *words, "--columns", "a")
    assert "--columns-count" in fails(2, *words)
    words[2] = tmp_path / "other"
    assert "host:port" in fails(2, *words, "--columns-count", 3, "--address", "here")
    assert "twice" in fails(2, *words, "--columns-count", 3, "--owner", "east")
    assert not (tmp_path / "other").exists()


def test_one_server_at_a_time(federation, tmp_path):
    (tmp_path / "journal").mkdir(mode=0o700)
    with locked(tmp_path / "journal" / "server"):
        message = fails(3, "federate", "server", federation[0], "--insecure")
    assert "another server uses" in message


def test_the_place_of_the_release_is_looked_at_first(federation, tmp_path):
    (tmp_path / "release").mkdir()
    message = fails(2, "federate", "server", federation[0], "--insecure")
    assert "choose a new folder as output" in message


def test_of_two_servers_to_one_place_one_asks(federation, tmp_path, monkeypatch):
    config, *_ = federation
    other = tmp_path / "other.toml"
    other.write_text(SERVER.replace('folder = "journal"', 'folder = "other"'))
    seen = []

    class Curious(Stub):
        def answer(self, question):
            if not seen:
                seen.append(fails(2, "federate", "server", other, "--insecure"))
            return super().answer(question)

    monkeypatch.setattr("tests.cli.test_federate.Stub", Curious)
    result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 0, result.output
    assert "exists already and is empty" in seen[0]
    Release.verify(tmp_path / "release")


def test_a_server_that_was_killed_finds_its_place_again(federation, tmp_path):
    """It leaves an empty folder; one that has asked nobody yet does not take it for its own."""
    config, *_ = federation
    chosen = read_server(config, insecure=True)
    chosen.folder.mkdir(0o700)
    with Journal(chosen.journal) as journal:
        Coordinator(chosen.agreement, journal)
    (tmp_path / "release").mkdir()
    assert invoke("federate", "server", config, "--insecure").exit_code == 0
    Release.verify(tmp_path / "release")


def test_a_server_whose_disk_is_full_says_how_to_go_on(federation, tmp_path, monkeypatch):
    config, *_ = federation
    with monkeypatch.context() as patched:
        FullDisk(patched, tmp_path / ".release-")
        result = invoke("federate", "server", config, "--insecure")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert "No space left on device" in last
    assert "start the server again to go on" in last
    assert not (tmp_path / "release").exists()
    assert invoke("federate", "server", config, "--insecure").exit_code == 0
    Release.verify(tmp_path / "release")


def test_an_interrupt_says_how_to_go_on():
    with pytest.raises(KeyboardInterrupt, match="to go on"), stoppable("start again to go on"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("role", ["server", "client"])
def test_without_encryption_on_this_machine_only(tmp_path, role):
    pytest.importorskip("flwr")
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    config = tmp_path / "federation.toml"
    text = SERVER if role == "server" else CLIENT
    config.write_text(text.replace("127.0.0.1", "192.0.2.1"))
    result = invoke("federate", role, config, "--insecure")
    assert result.exit_code == 2
    assert "192.0.2.1 is not this machine" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("role", "text"), [("server", SERVER), ("client", CLIENT)])
def test_keys_are_the_rule(tmp_path, role, text):
    config = tmp_path / "federation.toml"
    config.write_text(text)
    assert "has no certificate in" in fails(2, "federate", role, config)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """An owner's file; what its process is asked, by a list of questions."""
    pytest.importorskip("flwr")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 3)) * [5, 1, 1] + 777.123456
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    questions = []

    def serve(owner, address, *, largest, **options):
        assert largest >= largest_size(3, 3)  # however many directions are asked for
        for question in questions:
            owner.answer(question)

    monkeypatch.setattr("eigenveil.federated.flower.client.serve", serve)
    config = tmp_path / "client.toml"
    config.write_text(CLIENT)
    return config, questions


TERMS = {
    "federation": "test",
    "n_columns": 3,
    "n_components": 1,
    "n_directions": 1,
    "share": 0.8,
    "columns": columns_digest(["a", "b", "c"]),
    "unit": "shares",
}


def test_an_owner_sees_what_each_question_cost(asked, tmp_path):
    config, questions = asked
    ledger = Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    basis = encode(BasisQuestion(**TERMS))
    questions += [encode(Invitation(**TERMS)), basis, basis, b"nonsense"]
    result = invoke("federate", "client", config, "--insecure")
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if line.startswith("asked ")]
    assert "declared 2,000 records, epsilon = 1; nothing charged" in told[0]
    assert "answered; charged epsilon = " in told[1]
    assert told[2].endswith("sent the stored answer again; nothing charged")
    assert told[3] == "asked something unreadable: refused (malformed); nothing charged"
    assert len(ledger.entries) == 1
    assert result.stdout.startswith("guarantee    Protected: ")
    assert ledger.summary() in result.stdout
    assert "777." not in result.output


def test_the_same_question_is_told_once(asked, tmp_path):
    config, questions = asked
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    questions += [b"nonsense"] * 100
    result = invoke("federate", "client", config, "--insecure")
    assert len([line for line in result.stderr.splitlines() if "unreadable" in line]) == 1


@pytest.mark.parametrize(("epsilon", "code"), [(0.5, 4), (1, 3)])
def test_a_server_that_is_gone_does_not_hide_a_refusal(asked, tmp_path, monkeypatch, epsilon, code):
    """The budget does not cover both answers; or other columns are asked for."""
    Ledger.create(tmp_path / "east.ledger", epsilon=epsilon, delta=1e-6)
    question = Invitation(**{**TERMS, "n_columns": 3 if code == 4 else 2})

    def serve(owner, address, **options):
        owner.answer(encode(question))
        raise FederationConnectionError("no word from the server")

    monkeypatch.setattr("eigenveil.federated.flower.client.serve", serve)
    result = invoke("federate", "client", asked[0], "--insecure")
    assert result.exit_code == code
    assert "error: no word from the server" in result.stderr
    assert "refused      the last question" in result.stdout


def test_an_owner_that_was_asked_nothing(asked, tmp_path):
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    result = invoke("federate", "client", asked[0], "--insecure", "--json")
    document = json.loads(result.stdout)
    assert document["promise"] is None
    assert document["balance"]["entries"] == 0


def test_an_owner_needs_a_ledger(asked):
    message = fails(3, "federate", "client", asked[0], "--insecure")
    assert "eigenveil ledger init FILE --epsilon E --delta D" in message


def test_an_owner_with_an_odd_table(asked, tmp_path):
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    (tmp_path / "table.csv").write_text('a,b,c\n1,2,"secret\n1,2,secret"\n')
    message = fails(3, "federate", "client", asked[0], "--insecure")
    assert "not one record, line 2" in message
    assert "secret" not in message
    (tmp_path / "table.csv").unlink()
    (tmp_path / "table.csv").mkdir()
    assert "no file at" in fails(3, "federate", "client", asked[0], "--insecure")


def test_mistakes_are_in_the_words_of_the_file(asked, tmp_path):
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    (tmp_path / "table.csv").write_text("a,b,c\n1,x,2\n")
    message = fails(3, "federate", "client", asked[0], "--insecure")
    assert 'leave out with columns = ["a", "c"]' in message


@pytest.fixture
def journal(tmp_path):
    """Of a federation that one owner has missed."""
    folder = tmp_path / "journal"
    folder.mkdir()
    with Journal(folder / JOURNAL) as journal:
        owners = {name: Stub(name) for name in NAMES[:2]}
        Coordinator(agreement(join_seconds=0.05), journal).run(InProcess(owners))
        yield folder


@pytest.mark.parametrize("place", ["journal", "server.toml"])
def test_status_while_a_server_runs(journal, tmp_path, place):
    (tmp_path / "server.toml").write_text(SERVER)
    result = invoke("federate", "status", tmp_path / place)
    assert result.exit_code == 0, result.output
    assert "test: open, round values" in result.stdout
    assert "east   join yes, basis answered, values answered" in result.stdout
    assert "west   join left out (no-answer: it did not answer in time)" in result.stdout


def test_status_for_programs(journal):
    result = invoke("federate", "status", journal, "--json")
    state = json.loads(result.stdout)
    assert state["closed"] == ["join", "basis", "values"]
    assert state["owners"]["east"]["values"]["left_out"] is None
    assert state["owners"]["west"]["join"]["left_out"] == "no-answer"
    assert state["owners"]["west"]["basis"] is None


def test_status_without_a_journal(tmp_path):
    assert "start the server first" in fails(3, "federate", "status", tmp_path)
    assert "check the path" in fails(3, "federate", "status", tmp_path / "nowhere.toml")


def test_keys_of_a_server(tmp_path):
    pytest.importorskip("flwr")
    words = ["federate", "keys", "server", "--host", "hub.example", "--host", "127.0.0.1"]
    result = invoke(*words, "-o", tmp_path / "hub")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == [
        "authority.pem",
        "server.key",
        "server.pem",
    ]
    assert stat.S_IMODE((tmp_path / "hub" / "server.key").stat().st_mode) == 0o600
    assert "exists already" in fails(2, *words, "-o", tmp_path / "hub")


def test_key_of_an_owner(tmp_path):
    pytest.importorskip("flwr")
    result = invoke("federate", "keys", "owner", "east", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    key = tmp_path / "east.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert str(key) + ".pub" in result.stdout
    before = key.read_bytes()
    assert "exists already" in fails(2, "federate", "keys", "owner", "east", "-o", tmp_path)
    assert key.read_bytes() == before
    assert "NAME must be a name" in fails(2, "federate", "keys", "owner", "../x", "-o", tmp_path)


def test_no_path_or_name_is_obeyed_by_a_terminal(federation, asked, tmp_path, monkeypatch):
    config, _, _ = federation
    strange = "a\x1b[31m\u202eb"
    for words in (["keys", "owner", "east"], ["keys", "server", "--host", "hub.example"]):
        result = invoke("federate", *words, "-o", tmp_path / strange)
        assert result.exit_code == 0
        assert "a\\x1b[31m\\u202eb" in result.stdout
        assert result.output.replace("\n", "").isprintable()
    name = json.dumps(strange)[1:-1]
    config.write_text(SERVER.replace('folder = "journal"', f'folder = "{name}/journal"'))
    monkeypatch.setattr(Line, "dismiss", lambda self, least: signal.raise_signal(signal.SIGINT))
    stopped = invoke("federate", "server", config, "--insecure")
    assert stopped.exit_code == 130
    assert stopped.stderr.replace("\n", "").isprintable()
    assert "a\\x1b[31m\\xe2\\x80\\xaeb/journal'" in stopped.stderr  # as a shell can read it
    Ledger.create(tmp_path / "east.ledger", epsilon=1, delta=1e-6)
    asked[0].write_text(CLIENT.replace("127.0.0.1:9092", f"{name}:1"))
    client = invoke("federate", "client", asked[0], "--insecure")
    assert "waiting for questions of a\\x1b[31m\\u202eb:1" in client.stderr
    assert client.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "words", [["server", "server.toml", "--insecure"], ["keys", "owner", "east", "-o", "."]]
)
def test_without_the_extra(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(SERVER)
    for name in [name for name in sys.modules if name.startswith("eigenveil.federated.flower")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    message = fails(3, "federate", *words)
    assert "pip install 'eigenveil[federated]'" in message
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize(
    "words",
    [["x"], ["server"], ["client", "a", "b"], ["status"], ["keys", "server"], ["keys", "x"]],
)
def test_nonsense_is_one_line(words):
    assert "--help" in fails(2, "federate", *words)


@pytest.mark.parametrize("words", [[], ["server"], ["client"], ["status"], ["keys"], ["demo"]])
def test_help(words):
    result = invoke("federate", *words, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


PAGE = (Path(__file__).parents[2] / "docs" / "federation.md").read_text("utf-8")


def test_the_files_of_the_guide_are_read(tmp_path):
    server, client = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "server.toml").write_text(server)
    (tmp_path / "client.toml").write_text(client)
    agreed = read_server(tmp_path / "server.toml").agreement
    settings = read_client(tmp_path / "client.toml").settings
    assert settings.federation == agreed.federation
    assert settings.owner in agreed.owners
    assert settings.columns == agreed.columns
    assert settings.scale == agreed.scale


def test_the_commands_of_the_guide_run(tmp_path, monkeypatch):
    pytest.importorskip("flwr")
    monkeypatch.chdir(tmp_path)
    ran = 0
    for command, shown in examples(PAGE):
        program, *words = shlex.split(command)
        if program == "eigenveil" and words[:2] != ["federate", "demo"]:
            result = invoke(*words)
            assert result.exit_code == 0, result.output
            assert re.fullmatch(pattern(shown), result.output)
            ran += 1
    assert ran == 3


def test_the_guide_explains_every_code():
    for code in Code:
        assert f"| `{code}` | {code.explanation} |" in PAGE
