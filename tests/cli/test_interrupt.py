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
from eigenveil.data.source import CSVSource
from eigenveil.release import Release

def wait(*arguments, **options):
    Path(sys.argv[1]).touch()
    time.sleep(60)

{place} = wait
main(sys.argv[2:])
"""


def interrupted(place, files, asked, tmp_path, *options):
    ready, output = tmp_path / "ready", tmp_path / "released"
    words = map(str, [ready, "fit", files.csv, *asked, "-o", output, *options])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(place=place), *words],
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
    assert not output.exists()
    return err


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", epsilon=2, delta=1e-6)


def test_while_rows_are_read(files, asked, ledger, tmp_path):
    told = interrupted("CSVSource.chunks", files, asked, tmp_path, "--ledger", ledger.path)
    assert told == "interrupted: nothing was charged\n"
    assert ledger.entries == ()


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
