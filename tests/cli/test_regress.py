"""`regress`: what it releases, says and refuses."""

import json

import numpy as np
import pytest

from eigenveil import Ledger, Release
from tests.cli.conftest import fails, invoke

BUDGET = ("--epsilon", 5, "--delta", 1e-6)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 3)) * [1, 10, 0.1] + [5, 100, 0]
    y = rows @ [1.0, 0.1, 5.0] + 3 + rng.standard_normal(3000)
    person = np.arange(3000) // 2
    path = tmp_path_factory.mktemp("regress") / "t.csv"
    columns = np.column_stack([rows[:, :2], y, rows[:, 2], person])
    np.savetxt(path, columns, delimiter=",", header="age,weight,price,dose,whose", comments="")
    return path


def test_a_regression_is_released_told_and_verified(table, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5, delta=1e-6)
    folder = tmp_path / "r"
    columns = ("--columns", "age,weight,dose")
    result = invoke(
        "regress",
        table,
        "--target",
        "price",
        *columns,
        *BUDGET,
        "--ledger",
        ledger.path,
        "-o",
        folder,
    )
    assert result.exit_code == 0, result.output
    release = Release.verify(folder)
    assert release.kind == "regression"
    assert release.settings["feature_names"] == ["age", "weight", "dose"]
    assert release.settings["target_names"] == ["price"]
    assert release.arrays["coef"][0] == pytest.approx([1.0, 0.1, 5.0], rel=0.2)
    assert "regression of 1 target on 3 columns, by joined; 3 of 3 coefficients" in result.stdout
    shown = [line.split() for line in result.stdout.splitlines()]
    for name, number, (low, high) in zip(
        ["age", "weight", "dose", "(intercept)"],
        [*release.arrays["coef"][0], release.arrays["intercept"][0]],
        release.arrays["interval"][0],
        strict=True,
    ):
        assert [name, f"{number:.4g}", f"{low:.4g}", "to", f"{high:.4g}"] in shown
    assert release.guarantee.sentence() in " ".join(result.stdout.split())
    assert len(ledger.entries) == 1
    for command in ("verify", "inspect"):
        assert invoke(command, folder).exit_code == 0


def test_persons_ranges_and_json(table, tmp_path):
    result = invoke(
        "regress",
        table,
        *("--target", "price", "--unit", "whose", *BUDGET, "--json"),
        *("--bounds", "age=0:10,weight=50:150,dose=-1:1", "--target-bounds", "0,40"),
        *("-o", tmp_path / "r"),
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["kind"] == "regression"
    assert told["settings"]["n_rows"] == 1500
    assert told["guarantee"]["unit_column"] == "whose"


def test_an_export_has_coefficients_and_their_intervals(table, tmp_path):
    invoke("regress", table, "--target", "price", *BUDGET, "-o", tmp_path / "r")
    result = invoke("export", tmp_path / "r", tmp_path / "c.csv")
    assert result.exit_code == 0, result.output
    header, *lines = (tmp_path / "c.csv").read_text().splitlines()
    assert header == "feature,price,price_low,price_high"
    assert [line.split(",")[0] for line in lines][-1] == "(intercept)"
    assert "components" in fails(2, "export", tmp_path / "r", tmp_path / "x.plink")


def test_figures_of_a_regression_are_none(table, tmp_path):
    pytest.importorskip("matplotlib")
    invoke("regress", table, "--target", "price", *BUDGET, "-o", tmp_path / "r")
    result = invoke("report", tmp_path / "r", "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output


def test_mistakes_are_one_line(table, tmp_path):
    folder = tmp_path / "r"
    asked = ("regress", table, "-o", folder)
    assert "--target" in fails(2, *asked, *BUDGET)
    assert "not there" in fails(3, *asked, *BUDGET, "--target", "cost")
    assert "budget" in fails(2, *asked, "--target", "price")
    error = fails(2, *asked, "--target", "price", "--epsilon", 0.001, "--delta", 1e-9)
    assert "--target-bounds" in error
    error = fails(
        2, *asked, "--target", "price", *BUDGET, "--adjacency", "add-remove", "--scale", "private"
    )
    assert "--adjacency replace-one" in error
    assert not folder.exists()


def test_what_public_numbers_tell_to_be_useless_is_not_charged(table, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5, delta=1e-6)
    words = ("regress", table, "--target", "price", "--drop", "whose", "--epsilon", 0.15)
    words += ("--delta", 1e-6, "--ledger", ledger.path, "-o", tmp_path / "r")
    error = fails(2, *words)
    assert "public numbers allow no coefficients" in error
    assert "rows would do, or epsilon = 0.164 for these; or state --scale or --bounds; " in error
    assert "--means-alone releases" in error
    assert ledger.entries == ()
    result = invoke(*words, "--means-alone")
    assert result.exit_code == 0, result.output
    assert "of 1 target alone, by linear; coefficients were not estimated" in result.stdout
    release = Release.verify(tmp_path / "r")
    (price,) = release.arrays["intercept"]
    shown = [line.split() for line in result.stdout.splitlines()]
    assert ["price", f"{price:.4g}", "not", "known"] in shown
    for absent in ("age", "zero", "inf", "(intercept)"):
        assert not any(absent in line for line in shown), absent
    assert "made of epsilon = 0.15 (pure)" in result.stdout
    assert len(ledger.entries) == 1


def test_a_plan_for_means_alone_is_followed_as_it_is(table):
    words = (table, "--of", "regression", "--target", "price", "--delta", 1e-6)
    planned = invoke("plan", *words, "--epsilon", 0.15)
    assert "only the mean of the target can be released" in planned.stdout
    assert " --means-alone " in planned.stdout.splitlines()[-1]
    assert "--means-alone" not in invoke("plan", *words, "--epsilon", 5).stdout


def test_an_empty_target_is_told_what_helps(table, tmp_path):
    """With a bad feature or a bad target: which one it is, no message tells."""
    header, first, *lines = table.read_text().splitlines()
    words = ("--target", "price", "--drop", "whose", *BUDGET, "-o", tmp_path / "r")
    for place, on_missing in ((2, "invalid"), (2, "centre"), (0, "invalid")):
        cells = first.split(",")
        cells[place] = ""
        path = tmp_path / "holes.csv"
        path.write_text("\n".join([header, ",".join(cells), *lines]) + "\n")
        error = fails(3, "regress", path, *words, "--on-missing", on_missing)
        if on_missing == "centre":
            assert "has no target price, or holds an infinite value" in error
            assert "add --on-invalid zero" in error
        else:
            assert "pass --on-invalid zero" in error
            assert "fills empty cells of other columns than the target price" in error
    filled = invoke("regress", path, *words, "--on-missing", "centre")
    assert filled.exit_code == 0, filled.output


def test_questions_about_columns_are_those_of_a_regression(tmp_path):
    lines = ["case_no,sex,notes,bmi,crp", *(f"{i},f,fine,{i % 7},{i % 5}" for i in range(200))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    words = (*BUDGET, "-o", tmp_path / "r")
    error = fails(3, "regress", path, "--target", "notes", "--unit", "case_no", *words)
    assert "the target 'notes' holds no numbers: choose another column" in error
    assert "--drop" not in error
    error = fails(3, "regress", path, "--target", "case_no", *words)
    assert "the target 'case_no' is named like an id" in error
    error = fails(3, "regress", path, "--target", "crp", *words)
    assert "--drop case_no,sex,notes" in error
    assert "privately" not in error
    named = ("--columns", "bmi,sex", "--target", "crp")
    error = fails(3, "regress", path, *named, *words)
    assert "leave out with --columns bmi;" in error


def test_many_coefficients_are_not_all_shown(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(22)] + [f"y{j}" for j in range(4)]
    rows = rng.standard_normal((4000, len(names)))
    path = tmp_path / "wide.csv"
    np.savetxt(path, rows, delimiter=",", header=",".join(names), comments="", fmt="%.3f")
    words = ("--target", "y0,y1,y2,y3", "--epsilon", 30, "--delta", 1e-6)
    result = invoke("regress", path, *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("and 2 more: eigenveil export writes all") == 3
    assert "and 1 more target: eigenveil export writes all" in result.stdout
    assert "not told from zero" in result.stdout


def test_the_help_offers_no_levels_that_are_found():
    """`fit` finds levels, a regression refuses to."""
    told = {name: " ".join(invoke(name, "--help").output.split()) for name in ("fit", "regress")}
    assert "Levels are found privately" in told["fit"]
    assert "0 or 1 for each stated level" in told["regress"]
    assert "found privately" not in told["regress"]
