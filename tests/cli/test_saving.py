"""What is paid for is not lost: a name before the charge, and another place if the disk is full."""

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release, StreamingPCA
from eigenveil.cli.releasing import expected_size
from eigenveil.storage import is_empty
from tests.cli.conftest import NUMBERS, fails, invoke
from tests.storage.test_reservation import FullDisk

COLUMNS = ["--columns", ",".join(NUMBERS)]
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
COMMANDS = {
    "fit": (["fit", *COLUMNS, "--k", 2, "--scale", "same", *BUDGET], PrivatePCA, "fit"),
    "covariance": (["covariance", *COLUMNS, "--row-norm", 9, *BUDGET], PrivateCovariance, "fit"),
    "stream": (
        ["stream", *COLUMNS, "--k", 1, *BUDGET, "--state", "state", "--centring", "none"],
        StreamingPCA,
        "partial_fit",
    ),
}


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Ledger.create(tmp_path / "people.ledger", epsilon=9, delta=1e-6)


@pytest.fixture(params=COMMANDS)
def asked(request, files, ledger):
    """A command but for its output, and where its estimator reads rows."""
    (verb, *options), estimator, method = COMMANDS[request.param]
    return [verb, files.csv, *options, "--ledger", ledger.path], estimator, method


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_of_two_runs_to_one_name_one_is_charged(name, asked, ledger, tmp_path, monkeypatch):
    words, estimator, method = asked
    output = tmp_path / name
    honest, second = getattr(estimator, method), []

    def meanwhile(self, *arguments, **options):
        """While the first run reads its rows, another one begins."""
        if not second:
            second.append(None)
            other = ["state2" if word == "state" else word for word in words]
            second[0] = invoke(*other, "-o", output)
        return honest(self, *arguments, **options)

    monkeypatch.setattr(estimator, method, meanwhile)
    first = invoke(*words, "-o", output)
    assert first.exit_code == 0, first.output
    assert second[0].exit_code == 2
    assert "exists already and is empty" in second[0].stderr
    assert [entry.is_note for entry in ledger.entries].count(False) == 1
    Release.verify(output)


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_a_refused_run_leaves_no_name(name, asked, ledger, tmp_path):
    words, *_ = asked
    fails(4, *words, "--epsilon", 10, "-o", tmp_path / name)
    fails(3, words[0], tmp_path / "none.csv", *words[2:], "-o", tmp_path / name)
    assert ledger.entries == ()
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_a_disk_that_fills_after_the_charge(name, asked, ledger, tmp_path, monkeypatch):
    """The release goes to another place, and the error says which."""
    words, *_ = asked
    (tmp_path / "small").mkdir()
    FullDisk(monkeypatch, tmp_path / "small" / ".release-")
    message = fails(2, *words, "-o", tmp_path / "small" / name)
    assert "cannot write" in message
    assert "the ledger was charged" in message
    assert [entry.is_note for entry in ledger.entries].count(False) == 1
    (rescued,) = Path.cwd().glob(f"eigenveil-*/{name}")
    assert f"the release is whole, in {rescued}" in message
    assert Release.verify(rescued).settings["ledger"]["spent"] > 0
    assert list((tmp_path / "small").iterdir()) == []


def test_the_second_place_may_be_full_too(asked, ledger, tmp_path, monkeypatch):
    words, *_ = asked
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "small").mkdir()
    for full in ("small/.release-", "here/eigenveil-"):
        FullDisk(monkeypatch, tmp_path / full)
    message = fails(2, *words, "-o", tmp_path / "small" / "out")
    (rescued,) = tmp_path.glob("eigenveil-*/out")
    assert f"the release is whole, in {rescued}" in message
    Release.verify(rescued)
    assert list(Path.cwd().glob("eigenveil-*")) == []


def test_no_place_at_all_is_said(asked, ledger, tmp_path, monkeypatch):
    words, *_ = asked
    FullDisk(monkeypatch, "/")
    if words[0] == "stream":  # which notes what it will spend before it draws
        message = fails(3, *words, "-o", tmp_path / "out")
        assert "the disk is full" in message
        assert ledger.entries == ()
    else:
        message = fails(2, *words, "-o", tmp_path / "out")
        assert "counts as spent" in message
    assert "the release is whole" not in message
    assert not (tmp_path / "out").exists()


def test_a_disk_without_room_is_noticed_before_the_charge(asked, ledger, tmp_path, monkeypatch):
    def full(folder, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("eigenveil.storage.reservation._kept", full)
    words, *_ = asked
    assert "no room for " in fails(2, *words, "-o", tmp_path / "out")
    assert ledger.entries == ()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "asked",
    ["fit", *(pytest.param(name, marks=pytest.mark.audit) for name in ("covariance", "stream"))],
    indirect=True,
)
def test_a_run_that_was_killed_is_explained(files, asked, ledger, tmp_path):
    """It leaves an empty folder, which says nothing and costs nothing."""
    words, estimator, method = asked
    code = f"""
import os, sys
from eigenveil.cli import main
from eigenveil.estimators import {estimator.__name__}

{estimator.__name__}.{method} = lambda *arguments, **options: os.kill(os.getpid(), 9)
main(sys.argv[1:])
"""
    arguments = [str(word) for word in (*words, "-o", tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False)
    assert done.returncode == -9
    assert is_empty(tmp_path / "out")
    assert ledger.entries == ()
    assert "remove it if no run is about to write there" in fails(2, *words, "-o", tmp_path / "out")
    assert "its run was cut off" in fails(5, "verify", tmp_path / "out")
    (tmp_path / "out").rmdir()
    assert invoke(*words, "-o", tmp_path / "out").exit_code == 0


@pytest.mark.parametrize("d", [1, 3, 300])
@pytest.mark.parametrize("k", [1, None])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
def test_the_room_that_is_kept_is_enough_and_not_much_more(d, k, tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).standard_normal((400, d))
    names = [f"{i} ß\N{GRINNING FACE}" * 9 for i in range(d)]
    frame = pandas.DataFrame(rows, columns=names)
    ranges = (np.full(d, -7.123456789012), np.full(d, 7.123456789012))
    options = {"epsilon": 1.0, "delta": 1e-6, "bounds": ranges}
    made = PrivatePCA(k, **options) if k else PrivateCovariance(**options)
    release = made.fit(frame).release_
    files = release.save(tmp_path / "r").iterdir()
    size = sum(path.stat().st_size for path in files)
    assert size <= expected_size(release.kind, d, k or d, names) <= 3 * size + 2**20


@pytest.mark.parametrize("as_json", [False, True])
def test_a_stream_without_a_full_batch_says_that_alone(files, ledger, tmp_path, as_json):
    words = ["stream", files.csv, *COLUMNS, "--k", 1, *BUDGET, "--state", "state"]
    words += ["--batch-size", 10**6, "-o", tmp_path / "out", *(["--json"] if as_json else [])]
    message = fails(2, *words)
    assert "no batch is full yet" in message
    assert "0 rows used, 400 wait" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_cannot_be_saved_says_that_alone(asked, tmp_path, monkeypatch, as_json):
    FullDisk(monkeypatch, tmp_path / ".release-")
    words, *_ = asked
    fails(2, *words, "-o", tmp_path / "out", *(["--json"] if as_json else []))
