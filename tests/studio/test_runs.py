"""Runs are confirmed for one table, and what is said about money is read from the ledger."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from eigenveil import Release
from eigenveil.exceptions import BudgetExceededError, BusyError
from eigenveil.privacy import Account, Adjacency, Gaussian, Unit
from eigenveil.studio.runs import Run, Runs
from tests.cli.conftest import invoke
from tests.planner.few import few_simulations
from tests.studio.choices import LEDGER, chosen, confirmed, finished
from tests.studio.conftest import SECRET

TERMS = {"label": "x", "adjacency": Adjacency.REPLACE_ONE, "unit": Unit("person", "patient_id")}


@pytest.fixture(autouse=True)
def quick():
    with few_simulations():
        yield


def test_a_run_is_confirmed_charged_and_saved_by_itself(browser, folder, ledger):
    """Nobody asks after it until the release is there: the browser may be closed."""
    assert browser.tell("run/start", **chosen()).status_code == 400
    assert browser.tell("run/start", **chosen(confirmed="yes")).status_code == 400
    assert ledger.entries == ()
    id = confirmed(browser, title="Profiles")
    for _ in range(1500):
        if (folder / "out" / "release.json").exists():
            break
        time.sleep(0.02)
    ended = finished(browser, id)
    assert ended["state"] == "released"
    assert ended["release"] == {"name": "out", "fingerprint": Release.fingerprint(folder / "out")}
    assert len(ledger.entries) == 1
    assert Release.verify(folder / "out").settings["about"]["title"] == "Profiles"
    assert browser.ask("state").json()["runs"][0]["state"] == "released"
    text = browser.ask("run", id=id).text
    assert str(SECRET) not in text
    taken = browser.tell("run/start", **chosen(confirmed=True))
    assert taken.status_code == 400  # the name is taken
    assert len(ledger.entries) == 1
    kept = browser.studio.runs.get(id).err.parent
    browser.studio.runs.remove()
    assert not kept.exists()


def test_a_stopped_run_says_whether_it_was_charged(browser, folder, ledger):
    run = confirmed(browser)
    stopped = browser.tell("run/stop", id=run).json()
    assert stopped["state"] in ("running", "stopped", "released")
    ended = finished(browser, run)
    if ended["state"] == "released":  # the stop came too late, which a quick machine may do
        assert (len(ledger.entries), (folder / "out").exists()) == (1, True)
        return
    assert ended["state"] == "stopped", ended
    assert ended["money"]["charged"] is bool(ledger.entries)
    assert not (folder / "out").exists()
    assert browser.tell("run/stop", id="none").status_code == 400


CHANGES = {
    "appended": lambda table: table.write_bytes(table.read_bytes() + b"9999,x,1,2,3,4\n"),
    "same size and time": lambda table: _altered_in_place(table),
    "replaced": lambda table: (
        shutil.copy2(table, f"{table}.new"),
        os.replace(f"{table}.new", table),
    ),
}


def _altered_in_place(table):
    before = table.stat()
    with table.open("r+b") as file:
        file.seek(before.st_size - 3)
        file.write(b"7")
    os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert table.stat().st_size == before.st_size


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changed_since_its_promise_is_not_released(browser, folder, ledger, change):
    told = browser.tell("promise", **chosen()).json()
    CHANGES[change](folder / "people.csv")
    form = chosen(confirmed=True, receipt=told["receipt"])
    answer = browser.tell("run/start", **form)
    assert answer.status_code == 400
    assert "changed since the promise was shown" in answer.json()["error"]
    again = browser.tell("promise", **chosen()).json()["receipt"]
    assert again != told["receipt"]
    assert browser.studio.runs.overview() == []


def test_a_table_that_changes_while_its_run_starts_is_not_released(
    browser, folder, ledger, monkeypatch
):
    """The run itself looks again, once it has opened the file and before it is charged."""
    start = Runs.start

    def late(self, *words):
        CHANGES["appended"](folder / "people.csv")
        return start(self, *words)

    monkeypatch.setattr(Runs, "start", late)
    ended = finished(browser, confirmed(browser))
    assert ended["state"] == "failed"
    assert "changed since its release was confirmed" in ended["words"]
    assert ended["money"] == {
        "charged": False,
        "words": "this run charged nothing to the ledger people.ledger",
    }
    assert ledger.entries == ()
    assert not (folder / "out").exists()


def test_a_receipt_is_for_one_choice_and_one_studio(browser, folder, ledger):
    told = browser.tell("promise", **chosen()).json()["receipt"]
    shutil.copy(folder / "people.csv", folder / "other.csv")
    for changed in ({"epsilon": 8.5}, {"k": 1}, {"unit": None}, {"table": "other.csv"}):
        form = chosen(**{**changed, "confirmed": True, "receipt": told})
        assert browser.tell("run/start", **form).status_code == 400
    for receipt in (None, "", 7, "é", [told], told[:-1]):
        form = chosen(confirmed=True, receipt=receipt)
        assert browser.tell("run/start", **form).status_code == 400
    assert browser.studio.runs.overview() == []
    assert ledger.entries == ()


def test_starts_at_the_same_time_keep_to_the_limit(folder, ledger, monkeypatch):
    """Processes that wait until they are told to end stand for runs."""
    started = []

    def sleeping(words, **options):
        time.sleep(0.05)  # a check outside the lock would pass meanwhile
        code = "import sys; sys.stdin.read()"
        options["stdin"] = subprocess.PIPE
        started.append(popen([sys.executable, "-c", code], **options))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", sleeping)
    runs = Runs()

    def start(number):
        try:
            runs.start(("fit", "t"), {}, folder, {"output": f"o{number}"}, ledger)
        except BusyError:
            return "busy"
        return "started"

    try:
        with ThreadPoolExecutor(6) as pool:
            ends = sorted(pool.map(start, range(6)))
    finally:
        for process in started:
            process.communicate()  # closes what it waits for
    assert ends == ["busy"] * 2 + ["started"] * 4
    runs.remove()


def ended(folder, ledger, said="", code="raise SystemExit(1)", **facts):
    """Return a run that has ended, and has written lines to standard error."""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        process.wait()
    (folder / "err").write_text(said)
    return Run(
        id="x",
        place=folder / "out",
        about={"output": "out"},
        process=process,
        err=folder / "err",
        started=0.0,
        ledger=ledger,
        entries=ledger.entries,
        **facts,
    )


@pytest.mark.parametrize(("asked", "state"), [(True, "stopped"), (False, "failed")])
def test_a_run_that_is_stopped_while_it_starts_is_stopped(folder, ledger, asked, state):
    run = ended(folder, ledger, asked_to_stop=asked)
    assert run.status()["state"] == state
    assert run.status()["money"]["charged"] is False


@pytest.mark.parametrize(("number", "state"), [("SIGINT", "stopped"), ("SIGKILL", "failed")])
def test_of_a_run_that_ended_without_a_word_the_ledger_tells(folder, ledger, number, state):
    code = (
        f"import os, signal as s; s.signal(s.SIGINT, s.SIG_DFL); os.kill(os.getpid(), s.{number})"
    )
    found = ended(folder, ledger, code=code).status()
    assert (found["state"], found["money"]["charged"]) == (state, False)
    charged = ended(folder, ledger, code=code)
    ledger.charge(Gaussian(0.1), **TERMS)
    found = charged.status()["money"]
    assert found["charged"] is None  # it may have been another run
    assert "by this run or another" in found["words"]
    lost = ended(folder, ledger, code=code)
    ledger.path.unlink()
    assert lost.status()["money"]["charged"] is None


def test_words_of_a_run_decide_nothing_about_money(folder, ledger):
    """A line that nothing was charged is not believed where the ledger tells more."""
    run = ended(
        folder, ledger, said="interrupted: nothing was charged\n", code="raise SystemExit(130)"
    )
    ledger.charge(Gaussian(0.1), **TERMS)
    assert run.status()["money"]["charged"] is None
    own, other = ledger.charge(Gaussian(0.1), **TERMS), ledger.charge(Gaussian(0.1), **TERMS)
    run.entries, run.final = (), None
    run.err.write_text(f"error: too bad\n{json.dumps({'charged': [own.hash]})}\n")
    found = run.status()["money"]
    assert found["charged"] is True
    assert found["words"].startswith(
        "the ledger people.ledger was charged for x and now has spent epsilon"
    )
    run.err.write_text(json.dumps({"charged": []}))
    run.final = None
    assert run.status()["money"]["charged"] is False  # both were charged by other runs
    run.entries, run.final = (own, other), None
    assert "replaced" in run.status()["money"]["words"]


def test_a_run_that_was_interrupted_after_its_release_is_released(made, folder, ledger):
    run = ended(folder, ledger, code="raise SystemExit(130)", asked_to_stop=True)
    own = ledger.charge(Gaussian(0.1), **TERMS)
    run.err.write_text(json.dumps({"charged": [own.hash]}))
    shutil.copytree(made / "first", folder / "out")
    found = run.status()
    assert found["state"] == "released"
    assert found["release"]["fingerprint"] == Release.fingerprint(folder / "out")
    moved = ended(folder, ledger, code="raise SystemExit(0)")
    shutil.rmtree(folder / "out")
    assert moved.status()["state"] == "failed"
    assert "moved" in moved.status()["words"]


def test_a_run_reports_the_entries_that_it_charged(folder, ledger, monkeypatch):
    """Also where it fails after the charge."""

    def full(*_):
        raise MemoryError

    words = ["fit", "people.csv", "--drop", "ward", "--unit", "patient_id", "--k", "1"]
    words += ["--epsilon", "2", "--delta", "1e-5", "--ledger", LEDGER, "--progress", "-o"]
    refused = invoke(*words, "first")
    assert '"charged"' not in refused.stderr
    ledger.charge(Gaussian(0.1), **TERMS)
    monkeypatch.setattr("eigenveil.cli.releasing.keep", full)
    failed = invoke(*words, "out")
    *_, line = [each for each in failed.stderr.splitlines() if each.startswith("{")]
    _, charge, mark = ledger.entries
    assert json.loads(line) == {"charged": [charge.hash]}
    assert mark.failed == charge.number


def test_stopping_the_studio_says_what_its_runs_charged(folder, ledger, monkeypatch):
    def interrupted(app, listener):
        studio = studios[-1]
        for number, status in enumerate(statuses):
            run = SimpleNamespace(
                status=lambda status=status: status,
                process=SimpleNamespace(poll=lambda status=status: status.get("code")),
                about={"output": "out"},
            )
            studio.runs._runs[str(number)] = run
        raise KeyboardInterrupt

    studios, statuses = [], []

    def remembered(studio):
        studios.append(studio)

    monkeypatch.setattr("eigenveil.studio.server.application", remembered)
    monkeypatch.setattr("eigenveil.studio.command._serve", interrupted)
    stopped = invoke("studio", "--no-browser")
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == (
        "interrupted: the studio stopped; no release was started"
    )
    statuses += [
        {"state": "released", "code": 0, "money": {"charged": True}},
        {"state": "failed", "code": 2, "money": {"charged": False}},
        {"state": "running"},
    ]
    stopped = invoke("studio", "--no-browser")
    assert "nothing was charged" not in stopped.stderr
    assert stopped.stderr.splitlines()[-1] == (
        "interrupted: the studio stopped; of the releases that were started, 1 charged a ledger, "
        "1 charged nothing, 1 still running and may charge a ledger"
    )


def test_what_is_said_of_a_charge_is_of_this_run(ledger):
    """Another run that charges meanwhile is not taken for this one."""
    mine, other = Account(ledger.path), Account(ledger.path)
    other.charge(Gaussian(0.1), **TERMS)
    assert mine.last_charge() is None
    assert other.last_charge() is not None
    with pytest.raises(BudgetExceededError):
        mine.charge(Gaussian(1e3), **TERMS)
    assert mine.last_charge() is None

    third = Account(ledger.path)
    third._unsure = True  # an interrupt came while a charge was written
    assert third.last_charge() is None
    other.charge(Gaussian(0.1), **TERMS)
    assert third.last_charge() is not None  # it may have been this run
