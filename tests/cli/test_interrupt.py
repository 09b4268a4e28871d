"""Ctrl-C says what was spent."""

import signal
import subprocess
import sys
import time

import pytest

from eigenveil import Ledger

# The child stops at a known place and says so by a file.
CHILD = """
import sys, time
from pathlib import Path
from eigenveil.cli import main
from eigenveil.data.sources import CSVSource
from eigenveil.release import Release

def wait(*arguments, **options):
    Path(sys.argv[1]).touch()
    time.sleep(60)

{place} = wait
main(sys.argv[2:])
"""


def interrupted(place, files, asked, tmp_path, *options):
    output = tmp_path / "released"
    words = map(str, ["fit", files.csv, *asked, "-o", output, *options])
    err = signalled(CHILD.format(place=place), tmp_path, *words)
    assert not output.exists()
    return err


def signalled(code, tmp_path, *words):
    """What a program says that gets SIGINT once it is ready."""
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
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("interrupted: ")
    return err


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", epsilon=2, delta=1e-6)


def test_while_rows_are_read(files, asked, ledger, tmp_path):
    told = interrupted("CSVSource.chunks", files, asked, tmp_path, "--ledger", ledger.path)
    assert told == "interrupted: nothing was charged\n"
    assert ledger.entries == ()


def test_outside_of_any_release(tmp_path):
    """Where nothing has words of its own."""
    child = """
import sys, time
from pathlib import Path
import eigenveil.planner

def wait(*arguments, **options):
    Path(sys.argv[1]).touch()
    time.sleep(60)

eigenveil.planner.recommend = wait
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
    assert len(ledger.entries) == 1


def test_without_a_ledger(files, asked, tmp_path):
    told = interrupted("Release.save", files, asked, tmp_path)
    assert "no ledger recorded this run" in told
    assert "counts as spent" in told
