"""Ctrl-C, a request to end and a closed terminal leave nothing behind and say what was spent."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from eigenveil import Ledger, Release
from eigenveil.__main__ import _interrupt_when_asked_to_end
from eigenveil.cli.federate_run import ledger_standing
from eigenveil.cli.progress import stoppable
from eigenveil.privacy import Adjacency, Gaussian
from tests.cli.conftest import but_for_noise, invoke

# The child stops at a known place and says so by a file.
CHILD = """
import sys, time
from pathlib import Path
from eigenveil.__main__ import run
from eigenveil.rows import CSVSource
from eigenveil.release import Release

def wait(*arguments, **options):
    Path(ready).touch()
    time.sleep(60)

{place} = wait
sys.argv[1:], ready = sys.argv[2:], sys.argv[1]
run()
"""


def interrupted(place, files, asked, tmp_path, *options, by=signal.SIGINT):
    output = tmp_path / "released"
    words = map(str, ["fit", files.csv, *asked, "-o", output, *options])
    err = signalled(CHILD.format(place=place), tmp_path, *words, by=by)
    assert not output.exists()
    assert not list(tmp_path.glob(".*"))
    return err


def signalled(code, tmp_path, *words, by=signal.SIGINT):
    """What a program says that gets a signal once it is ready."""
    ready = tmp_path / "ready"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(ready), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not ready.exists() and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(by)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert out == ""
    told = but_for_noise(err)
    assert told.count("\n") == 1
    assert told.startswith("interrupted: ")
    return told


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", epsilon=2, delta=1e-6)


def test_while_rows_are_read(files, asked, ledger, tmp_path):
    told = interrupted("CSVSource.chunks", files, asked, tmp_path, "--ledger", ledger.path)
    assert told == "interrupted: nothing was charged\n"
    assert ledger.entries == ()


@pytest.mark.parametrize(
    "by", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.audit)]
)
def test_other_signals_are_answered_alike(by, files, asked, ledger, tmp_path):
    told = interrupted("CSVSource.chunks", files, asked, tmp_path, "--ledger", ledger.path, by=by)
    assert told == "interrupted: nothing was charged\n"
    assert ledger.entries == ()


def test_what_nohup_ignores_stays_ignored():
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _interrupt_when_asked_to_end()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def test_outside_of_any_release(tmp_path):
    """Where nothing has words of its own."""
    child = """
import sys, time
from pathlib import Path
import eigenveil.planning

def wait(*arguments, **options):
    Path(sys.argv[1]).touch()
    time.sleep(60)

import eigenveil.planning.prediction
eigenveil.planning.prediction.recommend = wait
from eigenveil.cli import main
main(sys.argv[2:])
"""
    words = ["plan", "--rows", "100", "--columns-count", "3", "--epsilon", "1"]
    assert signalled(child, tmp_path, *words) == "interrupted: nothing was charged\n"


def test_while_the_program_starts(tmp_path):
    """Before there is a command that could answer."""
    child = """
import sys, time
from pathlib import Path

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            Path(sys.argv[1]).touch()
            time.sleep(60)

sys.meta_path.insert(0, Slow())
import eigenveil.__main__
eigenveil.__main__.run()
"""
    assert signalled(child, tmp_path) == "interrupted: nothing was charged\n"


def test_after_the_charge(files, asked, ledger, tmp_path):
    told = interrupted("Release.save", files, asked, tmp_path, "--ledger", ledger.path)
    assert "the ledger was charged" in told
    assert ledger.summary() in told
    assert "counts as spent" in told
    charge, mark = ledger.entries
    assert mark.failed == charge.number
    assert "failed: nothing was released for it" in invoke("ledger", "history", ledger.path).output


@pytest.mark.parametrize("command", ["stream", "watch"])
def test_a_state_keeps_what_was_paid_for(command, tmp_path, ledger):
    """Whoever can get the release without new rows does not hand the same ones over again."""
    rows = np.random.default_rng(0).standard_normal((4000, 3)) * [5, 1, 1] + 10
    day, output = tmp_path / "day.csv", tmp_path / "released"
    np.savetxt(day, rows, delimiter=",", header="a,b,c", comments="")
    horizon = ["--horizon", 3] if command == "watch" else []
    words = ["--k", 1, "--epsilon", 1, "--delta", 1e-6, *horizon, "-o", output]
    words = [*map(str, words), "--state", str(tmp_path / "s"), "--ledger", str(ledger.path)]
    told = signalled(CHILD.format(place="Release.save"), tmp_path, command, str(day), *words)
    assert told.endswith("a call without DATA releases what it holds\n")
    assert ledger.summary() in told
    again = invoke(command, str(day), *words)
    assert "comes again from a call without DATA" in again.stderr
    spent = ledger.summary()
    assert invoke(command, *words).exit_code == 0
    assert Release.verify(output)
    assert ledger.summary() == spent


@pytest.mark.parametrize("place", ["tell", "balance"])
def test_after_the_release_is_in_place(place, files, asked, ledger, tmp_path):
    """Whoever is told that it failed would pay again."""
    output = tmp_path / "released"
    words = ["fit", files.csv, *asked, "-o", output, "--json", "--ledger", ledger.path]
    child = CHILD.format(place=f"releasing.{place}")
    child = child.replace("def wait", "from eigenveil.cli import releasing\n\ndef wait")
    told = signalled(child, tmp_path, *map(str, words))
    assert Release.verify(output)
    assert f"the release is whole, in {output}" in told
    assert ledger.summary() in told
    assert "failed" not in told
    assert [entry.failed for entry in ledger.entries] == [None]


def test_an_owner_that_is_interrupted_reads_its_ledger(ledger):
    """Whatever it was doing: it may have answered before."""
    ledger.charge(Gaussian(0.1), label="x", adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(KeyboardInterrupt) as stopped, stoppable(ledger_standing(ledger)):
        raise KeyboardInterrupt
    assert ledger.summary() in str(stopped.value)


@pytest.mark.audit  # what is interrupted with one stays
def test_without_a_ledger(files, asked, tmp_path):
    told = interrupted("Release.save", files, asked, tmp_path)
    assert "no ledger recorded this run" in told
    assert "counts as spent" in told
