"""Runs: seeded, kept as they come, never made twice."""

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eigenveil.exceptions import InvalidDataError
from eigenveil.papers import Figure, Method, Panel, Stored, run, tasks

CALLS = []


def work(at, seed, data):
    CALLS.append(dict(at))
    value = float(np.random.default_rng(seed).uniform(1, 2)) / at["n"]
    found = {"one": value, "all": 3 * value}
    return found if at["n"] > 1 else found | {"some": value}


FIGURE = Figure(
    name="toy:fig1",
    source="a toy",
    measure="error",
    methods=(Method("one", "ours"), Method("all", "not private"), Method("some", "published")),
    panels=(
        Panel("left", "n", (1, 2, 4), {"d": 2}, (1, 2)),
        Panel("right", "d", (1, 2), {"n": 3, "word": "a, b"}),
    ),
    work=work,
    claims=(),
    repeats={"small": 2, "paper": 9},
)


@pytest.fixture(autouse=True)
def forget():
    CALLS.clear()


def runs(path, repeats=3, **options):
    return run(FIGURE, path, scale="small", repeats=repeats, data=Stored(), **options)


def same(one, other):
    return all(
        np.array_equal(one.values[cell][name], other.values[cell][name], equal_nan=True)
        for cell in one.values
        for name in one.values[cell]
    )


def test_every_run_is_a_line_and_a_second_call_makes_none(tmp_path):
    path = tmp_path / "toy.csv"
    first = runs(path)
    assert len(CALLS) == len(tasks(FIGURE, "small", 3, 0)) == 12
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert set(rows[0]) == {
        *("panel", "d", "n", "word", "run", "seed"),
        *("one", "all (not private)", "some"),
    }
    assert [row["word"] for row in rows if row["panel"] == "right"][:1] == ['"a, b"']
    CALLS.clear()
    again = runs(path)
    assert CALLS == []
    assert same(again, first)


def test_what_a_method_does_not_answer_is_empty(tmp_path):
    results = runs(tmp_path / "toy.csv")
    assert np.isfinite(results.values["left", 0]["some"]).all()
    assert np.isnan(results.values["left", 1]["some"]).all()


def test_more_repeats_add_to_those_there_are(tmp_path):
    path = tmp_path / "toy.csv"
    runs(path, 2)
    CALLS.clear()
    runs(path, 3)
    assert len(CALLS) == 4
    assert len(runs(path, 2).values["left", 0]["one"]) == 2


def test_a_line_that_was_cut_off_is_made_again(tmp_path):
    path = tmp_path / "toy.csv"
    runs(path)
    whole = path.read_text()
    path.write_text(whole[:-7])
    CALLS.clear()
    runs(path)
    assert len(CALLS) == 1
    assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())


def test_seeds_give_other_runs_in_the_same_file(tmp_path):
    path = tmp_path / "toy.csv"
    first, second = runs(path), runs(path, seed=1)
    assert not same(first, second)
    CALLS.clear()
    runs(path)
    runs(path, seed=1)
    assert CALLS == []


def test_a_file_of_other_methods_is_refused(tmp_path):
    path = tmp_path / "toy.csv"
    path.write_text("panel,run,seed,another\n")
    with pytest.raises(InvalidDataError, match="other methods or settings"):
        runs(path)
    assert path.read_text() == "panel,run,seed,another\n"


@pytest.mark.parametrize(
    "line", ["left", 'nowhere,1,1,"",0,0,1,1,1', "left,x,1,,0,0,1,1,1", "\xff"]
)
def test_a_file_of_other_things_is_refused(tmp_path, line):
    path = tmp_path / "toy.csv"
    runs(path, 1)
    path.write_text(path.read_text() + line + "\n", "latin-1")
    with pytest.raises(InvalidDataError, match="remove it"):
        runs(path)


def test_progress_counts_what_was_there(tmp_path):
    path, told = tmp_path / "toy.csv", []
    runs(path, 2)
    runs(path, 3, progress=lambda finished, length: told.append((finished, length)))
    assert told == [(8, 12), (9, 12), (10, 12), (11, 12), (12, 12)]


SCRIPT = """
import sys, time
from pathlib import Path
from dataclasses import replace
from tests.reproduce import test_runner
from tests.reproduce.slow import work
figure = replace(test_runner.FIGURE, work=work)
from eigenveil.papers import run
from eigenveil.papers import Stored
if __name__ == "__main__":
    run(figure, Path(sys.argv[1]), scale="small", repeats=3, data=Stored(), jobs=int(sys.argv[2]))
"""


def test_two_processes_give_the_same_and_an_interrupt_loses_nothing(tmp_path):
    """Killed after its first lines, then finished by two processes: the same numbers."""
    path, alone = tmp_path / "toy.csv", tmp_path / "alone.csv"
    runs(alone)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), str(path)]
    options = {"cwd": Path(__file__).parents[2], "env": _environment()}
    process = subprocess.Popen([*words, "1"], stderr=subprocess.DEVNULL, **options)
    while not (path.exists() and len(path.read_text().splitlines()) >= 3):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    kept = path.read_text().splitlines()[1:]
    assert 2 <= len(kept) < 12
    subprocess.run([*words, "2"], check=True, timeout=120, **options)
    assert sorted(path.read_text().splitlines()) == sorted(alone.read_text().splitlines())


def _environment():
    import os

    root = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left", "nowhere"),
        ('"""a, b"""', '"[[["'),
        (",0,0,", ",0,"),
        (",0,0,", ',0,0,"'),
        ("\n", "\n\xff\n"),
        ("\n", "\nx,,,,,,,,,,,,,,\n"),
    ],
)
def test_lines_that_no_run_has_written_are_refused(old, new, tmp_path):
    path = tmp_path / "runs.csv"
    runs(path, repeats=1)
    header, _, lines = path.read_text().partition("\n")
    assert old in "\n" + lines
    path.write_text(header + ("\n" + lines).replace(old, new, 1), encoding="latin-1")
    with pytest.raises(InvalidDataError, match="other things than runs"):
        runs(path, repeats=1)
