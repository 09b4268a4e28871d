"""A slice of ``make fuzz``; and faults that it must find."""

import itertools
import time

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("pyarrow")

from eigenveil import Ledger
from eigenveil.privacy import ledger_file
from eigenveil.release import Release
from eigenveil.rows import CSVSource
from tests.fuzz import case
from tests.fuzz.case import Call, Case, Command, examine
from tests.fuzz.engine import run
from tests.fuzz.federations import OPTIONS, toml
from tests.fuzz.kinds import KINDS, kind_of
from tests.fuzz.secrets import NUMBER, TEXT, quoted_in, shown_in
from tests.fuzz.stock import rows

SEED, CASES = 0, 10


def numbers(kind, count):
    return itertools.islice((n for n in itertools.count() if kind_of(n) == kind), count)


def found(kind, count):
    return (each for number in numbers(kind, count) for each in run(SEED, number).findings)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_inputs_end_in_one_line(kind):
    for number in numbers(kind, CASES):
        assert run(SEED, number).findings == [], f"python -m tests.fuzz --seed 0 --case {number}"


def test_a_case_is_the_same_every_time():
    shown = []
    for _ in range(2):
        lines = []
        run(SEED, next(numbers("statement", 1)), tell=lines.append)
        shown.append([line for line in lines if line.startswith("file ")])
    assert shown[0] == shown[1] != []


def test_every_command_is_called():
    from tests.fuzz.commands import _LEFT_OUT, _commands

    assert {words[0] for words, _ in _commands()} >= {
        *("plan", "fit", "covariance", "stream", "transform", "report", "inspect", "verify"),
        *("sign", "keygen", "export", "audit", "mechanisms", "ledger", "federate"),
        *("sample", "regress", "watch"),
    }
    assert _LEFT_OUT  # servers and demonstrations


@pytest.mark.parametrize("command", OPTIONS)
def test_what_is_altered_was_good(command, tmp_path, monkeypatch):
    """A file of options that is refused as it is would hide what its alterations do."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows(40))
    Ledger.create("ledger", epsilon=5.0, delta=1e-6)
    (tmp_path / "file.toml").write_text(toml(OPTIONS[command]))
    step = Command((command, "rows.npy", "--config", "file.toml"))
    findings, (outcome,) = examine(Case([step], ("state",)), tmp_path)
    assert (findings, outcome.code) == ([], 0), outcome.stderr


# Faults: what the oracle is for.


def test_a_quoted_cell_is_found(monkeypatch):
    monkeypatch.setattr("eigenveil.rows.csv.check_header", lambda *_: None)
    assert any("quotes a cell" in each or "writes a cell" in each for each in found("csv", 120))


def test_a_lost_record_is_found(monkeypatch):
    inner = CSVSource._read
    monkeypatch.setattr(CSVSource, "_read", lambda self: (each[1:] for each in inner(self)))
    assert any("records were written" in each for each in found("csv", 120))


def test_an_internal_error_is_found(monkeypatch):
    monkeypatch.setattr(
        "eigenveil.release.artefact.check_arrays", lambda kind, settings, arrays: None
    )
    assert any("internal error" in each or "of its own" in each for each in found("array", 60))


def test_an_altered_ledger_that_is_taken_is_found(monkeypatch):
    def unchained(file):
        file.seek(0)
        first, *rest = [ledger_file._parsed(line) for line in file if line.endswith(b"\n")]
        return ledger_file.Terms.parse(first[0]), tuple(
            ledger_file.Entry.parse(*each) for each in rest
        )

    monkeypatch.setattr(ledger_file, "entries", unchained)
    assert any("chain is broken" in each for each in found("ledger", 150))


def test_a_hang_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(case, "SECONDS", 0.05)
    stuck = Call("stuck", lambda: time.sleep(60))
    findings, _ = examine(Case([stuck]), tmp_path)
    assert ["hangs" in each for each in findings] == [True]


def test_what_else_is_a_finding(monkeypatch, tmp_path):
    def failing(folder, **_):
        raise KeyError(TEXT)

    assert examine(Case([Command(("verify", "nowhere"))]), tmp_path)[0] == []
    monkeypatch.setattr(Release, "examine", failing)
    (finding,) = examine(Case([Command(("verify", "nowhere"))]), tmp_path)[0]
    assert "internal error" in finding
    said = Call("said", lambda: (_ for _ in ()).throw(ValueError(TEXT)))
    assert "of its own" in examine(Case([said]), tmp_path)[0][0]
    written = Call("written", lambda: (tmp_path / "out").write_text(f"a {NUMBER} b"))
    assert examine(Case([written]), tmp_path)[0] == ["writes a cell to out"]
    assert examine(Case([written], private=("out",)), tmp_path)[0] == []


def test_secrets_are_found_however_they_are_written():
    digits = ",".join((NUMBER[:3], NUMBER[3:6], NUMBER[6:]))
    for text in (f"7.{NUMBER[1:]}e3", digits, TEXT.upper(), f"x{TEXT}y"):
        assert shown_in(text)
    assert quoted_in("about 7.39184")
    assert not quoted_in("hash 0123456789abcdef739184")
    assert not shown_in("7.39184")
