"""Rows that arrive over days, from the command line."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from eigenveil import Ledger, Release
from eigenveil.privacy import Composed
from tests.cli.conftest import invoke

BUDGET = ["--k", "1", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def days(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6000, 3)) * [5.0, 1.0, 1.0] + 10
    for day, part in enumerate(np.array_split(rows, 3)):
        np.savetxt(f"day{day}.csv", part, delimiter=",", header="a,b,c", comments="")
    Ledger.create("visits.ledger", epsilon=1, delta=1e-6)
    return ["stream", *BUDGET, "--state", "visits.state", "--ledger", "visits.ledger"]


def charges():
    return [entry for entry in Ledger("visits.ledger").entries if entry.cost != Composed(())]


def test_days_are_charged_once_and_released(days):
    for day in range(3):
        done = invoke(*days, f"day{day}.csv", "--batch", f"day {day}")
        assert done.exit_code == 0
        assert "rows used" in done.stdout
    assert invoke(*days, "--finish", "-o", "release").exit_code == 0
    assert Release.load("release").settings["n_rows"] == 6000
    assert abs(Release.load("release").arrays["components"][0, 0]) > 0.9
    assert len(charges()) == 1


def test_a_line_of_the_ledger_that_was_cut_off_is_told_in_one(days):
    with Path("visits.ledger").open("a") as file:
        file.write('{"cost"')
    done = invoke(*days, "day0.csv")
    assert done.exit_code == 0
    assert done.stderr.startswith("beware: the last line of the ledger was cut off")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        ([], "nothing to do", 2),
        (["day0.csv", "--batch", "day 0"], "a batch of this label arrived before", 3),
        (["other/day0.csv"], "--batch 2026-11-15", 3),
        (["day1.csv", "--epsilon", "0.5"], "began with another epsilon", 3),
        (["--finish", "-o", "day1.csv"], "exists already", 2),
    ],
)
def test_mistakes_are_one_line(days, options, words, code):
    assert invoke(*days, "day0.csv", "--batch", "day 0").exit_code == 0
    assert invoke(*days, "day0.csv").exit_code == 0  # named by its file
    Path("other").mkdir()
    shutil.copy("day2.csv", "other/day0.csv")
    done = invoke(*days, *options)
    assert done.exit_code == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(charges()) == 1


def test_rows_from_standard_input_have_no_file_to_be_named_by(days):
    text = Path("day0.csv").read_text()
    refused = invoke(*days, "-", input=text)
    assert refused.exit_code == 2
    assert "every arrival needs a label" in refused.stderr
    assert invoke(*days, "-", "--batch", "day 0", input=text).exit_code == 0


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (
            [],
            "components of columns as they are, of rows pulled in to the released distance; "
            "--scale private asks a new stream for those of standardised columns",
        ),
        (
            ["--scale", "5,1,1"],
            "components of columns divided by the stated scales, of rows pulled in to the released "
            "distance; --scale private asks a new stream for those of standardised columns",
        ),
        (
            ["--scale", "private"],
            "components of standardised columns (correlations), of rows pulled in to the released "
            "limits; --scale same asks a new stream for those of columns as they are",
        ),
        (
            ["--centring", "none"],
            "directions of rows scaled to unit length; --row-norm private asks a new stream for "
            "those of the covariance itself",
        ),
    ],
)
def test_what_a_stream_estimates_is_said(days, options, target):
    """Advice is what a stream accepts; --mechanism spherical, which it said, is none."""
    invoke(*days, *options, "day0.csv")
    invoke(*days, *options, "day1.csv")
    done = invoke(*days, *options, "day2.csv", "--finish", "-o", "release")
    assert f"target       {target}\n" in done.stdout
    assert f"target       {target}\n" in invoke("inspect", "release").stdout


def test_warnings_come_with_a_release_not_with_every_day(days):
    """Most of the variance is that of the column a."""
    first = invoke(*days, "day0.csv")
    assert "beware: the column" not in first.stderr
    second = invoke(*days, "day1.csv", "-o", "early")
    assert second.stderr.count("beware: the column 'a' alone holds") == 1
    assert "--scale private" in second.stderr
    last = invoke(*days, "day2.csv", "--finish", "-o", "late")
    assert last.stderr.count("beware: the column 'a' alone holds") == 1


def test_what_waits_is_no_release(days):
    np.savetxt("few.csv", np.ones((5, 3)) * [1, 2, 3], delimiter=",", header="a,b,c", comments="")
    done = invoke(*days, "few.csv", "-o", "release")
    assert done.exit_code == 2
    assert "no batch is full yet" in done.stderr
    assert Ledger("visits.ledger").entries == ()


def test_how_far_a_stream_has_come_is_read_from_its_ledger(days):
    assert invoke(*days, "day0.csv").exit_code == 0
    first, paid, *_, last = invoke("ledger", "history", "visits.ledger").stdout.splitlines()
    assert " spent to 1,014 records  nothing  " in first
    assert "  oja stream " in paid
    assert " spent to 1,644 records  nothing  " in last
    shown = invoke("ledger", "show", "visits.ledger").stdout
    assert "spent epsilon = 1 of 1" in shown
    assert "largest next release: epsilon = 0\n" in shown


def test_an_older_copy_of_the_state_is_one_line(days, tmp_path):
    few = np.loadtxt("day0.csv", delimiter=",", skiprows=1)[:1500]
    np.savetxt("few.csv", few, delimiter=",", header="a,b,c", comments="")
    assert invoke(*days, "few.csv").exit_code == 0
    old = {path: path.read_bytes() for path in tmp_path.glob("visits.state*")}
    assert invoke(*days, "day1.csv").exit_code == 0
    for path, data in old.items():
        path.write_bytes(data)
    done = invoke(*days, "day2.csv")
    assert done.exit_code == 3
    assert "the state is an older copy" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("moment", ["first", "later"])
def test_a_note_is_not_told_as_a_charge(days, monkeypatch, moment):
    inner, calls = Ledger.advance, []

    def interrupted(*arguments):
        inner(*arguments)
        calls.append(arguments)
        if len(calls) == (1 if moment == "first" else 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "advance", interrupted)
    done = invoke(*days, "day0.csv")
    assert done.exit_code == 130
    told = {"first": "nothing was charged", "later": "the ledger was charged for oja stream "}
    assert told[moment] in done.stderr


def test_scales_and_empty_cells_of_a_stream(days, tmp_path):
    rows = np.random.default_rng(5).normal(0, [1, 100, 1], (300, 3)).round(3).astype(str)
    rows[::7, 1] = ""
    Path("gaps.csv").write_text("a,b,c\n" + "\n".join(map(",".join, rows)) + "\n")
    refused = invoke(*days, "gaps.csv")
    assert refused.exit_code == 3
    assert "missing or infinite value" in refused.stderr
    told = ["--scale", "a=1,b=100,c=1", "--on-missing", "centre"]
    done = invoke(*days, "gaps.csv", *told)
    assert done.exit_code == 0, done.output
    assert " more until the next release" in done.stdout
    other = invoke(*days, "gaps.csv", "--scale", "2", "--on-missing", "centre")
    assert "the stream began with another scale" in other.stderr
    assert "another scale" in invoke(*days, "gaps.csv", "--scale", "private").stderr


def test_persons_who_come_on_several_days(days):
    """Ids as text; who comes too often is left out; a ledger of persons pays once."""
    Ledger.create("persons.ledger", rho=200, unit="person")
    rng = np.random.default_rng(1)
    for day in range(4):
        rows = rng.standard_normal((200, 2)).round(3) * [5, 1]
        lines = [f"{a},{b},p{i % 150}" for i, (a, b) in enumerate(rows)]
        Path(f"visits{day}.csv").write_text("a,b,patient_id\n" + "\n".join(lines) + "\n")
    words = ["stream", "--k", "1", "--rho", "200", "--state", "persons.state"]
    words += ["--ledger", "persons.ledger", "--centring", "none", "--batch-size", "60"]
    refused = invoke(*words, "visits0.csv", "--unit", "patient_id")
    assert refused.exit_code == 2
    assert "give the most arrivals of which rows of one person are used, --max-arrivals 5" in (
        refused.stderr
    )
    nobody = invoke(*words, "visits0.csv", "--drop", "patient_id", "--max-arrivals", "2")
    assert "say whose rows they are, --unit COLUMN" in nobody.stderr
    words += ["--unit", "patient_id", "--max-arrivals", "2"]
    for day in range(4):
        done = invoke(*words, f"visits{day}.csv")
        assert done.exit_code == 0, done.output
    assert "300 rows used, 0 wait" in done.stdout
    assert invoke(*words, "--finish", "-o", "release").exit_code == 0
    assert invoke("verify", "release").exit_code == 0
    assert Release.load("release").guarantee.arrivals == 2
    assert len(Ledger("persons.ledger").entries) == 1 + 5


def test_a_stream_says_what_it_is_for(days):
    refused = invoke(*days, "day0.csv", "-o", "release", "--title", "two\nlines")
    assert "title must be one line" in refused.stderr
    assert Ledger("visits.ledger").entries == ()
    words = ["--title", "Visits", "--purpose", "planning", "--owner", "clinic", "--approver", "A"]
    assert invoke(*days, "day0.csv", "-o", "release", *words).exit_code == 0
    about = Release.load("release").settings["about"]
    assert about == {"title": "Visits", "purpose": "planning", "owner": "clinic", "approver": "A"}
    wrong = invoke(*days, "day1.csv", "--state", "other", "--mechanism", "adaptive-ojja")
    assert "did you mean 'adaptive-oja'?" in wrong.stderr


def test_text_becomes_numbers_in_the_same_way_every_day(days):
    rng = np.random.default_rng(2)
    for day in range(2):
        rows = [f"{a:.3f},{'fm'[i % 2]},<0.5" for i, a in enumerate(rng.standard_normal(80))]
        Path(f"text{day}.csv").write_text("a,sex,crp\n" + "\n".join(rows) + "\n")
    words = ["stream", "--k", "1", "--rho", "200", "--state", "text.state", "--batch-size", "30"]
    words += ["--censored", "limit"]
    unknown = invoke(*words, "text0.csv", "--encode", "sex")
    assert "state them, --encode with a list" in unknown.stderr
    done = invoke(*words, "text0.csv", "--encode", "sex=f,m", "-o", "release")
    assert done.exit_code == 0, done.output
    release = Release.load("release")
    assert release.settings["encoding"] == {"sex": {"levels": ["f", "m"]}}
    assert "cells such as <0.5 count as that limit" in release.guarantee.sentence()
    other = invoke(*words, "text1.csv", "--encode", "sex=m,f")
    assert "other columns than the stream began with" in other.stderr
    half = invoke(*words[:-1], "half", "text1.csv", "--encode", "sex=f,m")
    assert "became numbers in another way" in half.stderr
    assert invoke(*words, "text1.csv", "--encode", "sex=f,m").exit_code == 0


def test_a_stream_goes_on_where_another_version_worded_its_levels(days, monkeypatch):
    for day in range(2):
        rows = [f"{i % 9}.{day},{'fm'[i % 2]}" for i in range(80)]
        Path(f"text{day}.csv").write_text("a,sex\n" + "\n".join(rows) + "\n")
    words = ["stream", "--k", "1", "--rho", "200", "--state", "text.state", "--encode", "sex=f,m"]
    with monkeypatch.context() as patch:
        patch.setattr(
            "eigenveil.rows.features.Levels.remark",
            lambda self, column: f"{column!r} is 0 or 1 for each of 2 levels stated by the caller",
        )
        assert invoke(*words, "text0.csv").exit_code == 0
    again = invoke(*words, "text1.csv")
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize("command", ["stream", "watch"])
def test_a_charge_line_that_was_cut_off_is_told_in_one_line(days, command):
    with Path("visits.ledger").open("ab") as file:
        file.write(b'{"cost":')
    if command == "watch":
        days = ["watch", *days[1:], "--horizon", "3"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = invoke(*days, "day0.csv")
    assert done.exit_code == 0
    assert "beware: the last line of the ledger was cut off" in done.stderr
