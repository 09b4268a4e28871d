"""Messy tables from the shell: ids, categories, dates, limits of detection."""

import json
import re

import numpy as np
import pytest

from eigenveil.privacy import Ledger

from .conftest import fails, invoke

BUDGET = ["--epsilon", 1, "--delta", 1e-6]
TOLD = ["--unit", "patient_id", "--encode", "ward", "--encode", "sex=f,m"]
TOLD += ["--encode", "admitted=2024-01-01", "--censored", "crp=half", "--on-missing", "centre"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "patients.csv"
    assert invoke("sample", path, "--rows", 3000).exit_code == 0
    return path


def test_everything_is_asked_about_at_once(table, tmp_path):
    message = fails(3, "fit", table, *BUDGET, "-o", tmp_path / "r")
    assert "'patient_id' is named like an id" in message
    assert "columns admitted, sex, ward hold no numbers" in message
    assert "--drop patient_id,admitted,sex,ward" in message
    assert "--unit patient_id" in message
    assert "surgery" not in message


def test_a_messy_table_is_released(table, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", **{"epsilon": 1, "delta": 1e-6}, unit="person")
    words = [*BUDGET, *TOLD, "--k", 2, "--scale", "private", "--ledger", ledger.path]
    result = invoke("fit", table, *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "levels found privately" in result.stdout
    assert "cells such as <0.5 count as half that limit" in result.stdout
    search, release = ledger.entries
    assert search.label == "levels of ward"
    assert release.label == json.loads((tmp_path / "r" / "release.json").read_text())["mechanism"]
    assert invoke("verify", tmp_path / "r").exit_code == 0
    stated = json.loads((tmp_path / "r" / "release.json").read_text())["settings"]
    assert stated["encoding"]["sex"] == {"levels": ["f", "m"]}
    assert stated["encoding"]["admitted"] == {"days_since": "2024-01-01"}
    assert "medicine" in stated["encoding"]["ward"]["levels"]
    assert "ward=medicine" in stated["feature_names"]
    with np.load(tmp_path / "r" / "arrays.npz") as arrays:
        levels = [name.startswith(("ward=", "sex=")) for name in stated["feature_names"]]
        assert (arrays["scale"][levels] < 0.7).all()  # standard deviations of 0 and 1
    assert "columns divided by released standard deviations" in result.stdout
    scores = invoke("transform", tmp_path / "r", table)
    assert scores.exit_code == 0, scores.output
    assert len(scores.stdout.splitlines()) == 3001


def test_options_in_a_file(table, tmp_path):
    (tmp_path / "fit.toml").write_text(
        'drop = ["patient_id", "admitted", "ward"]\nencode = ["sex=f,m"]\ncensored = ["limit"]\n'
        'on_missing = "centre"\nepsilon = 1\ndelta = 1e-6\nscale = "private"\n'
    )
    words = ["--config", tmp_path / "fit.toml", "-o", tmp_path / "r"]
    result = invoke("covariance", table, *words)
    assert result.exit_code == 0, result.output
    assert "cells such as <0.5 count as that limit" in result.stdout
    (tmp_path / "fit.toml").write_text('encode = {sex = "private"}\n')
    assert "holds no list for encode" in fails(
        2, "fit", table, *BUDGET, *words[:-1], tmp_path / "s"
    )


def test_other_dialects(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 2))
    lines = ["länge;breite", *(f"{a:.3f};{b:.3f}".replace(".", ",") for a, b in rows)]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("latin-1"))
    words = [tmp_path / "t.csv", *BUDGET, "--scale", "same", "-o", tmp_path / "r"]
    assert "--encoding latin-1" in fails(3, "fit", *words)
    words += ["--encoding", "latin-1"]
    assert "state --decimal if numbers are written 1,000" in fails(3, "fit", *words)
    assert invoke("fit", *words, "--decimal", ",").exit_code == 0


def test_standard_input_is_told_the_same(table, tmp_path):
    words = ["--drop", "patient_id,admitted", "--encode", "ward=medicine", "--encode", "sex=f"]
    words += ["--on-missing", "centre", *BUDGET, "-o", tmp_path / "r"]
    result = invoke("fit", "-", *words, input=table.read_text())
    assert result.exit_code == 0, result.output


def test_regress_takes_stated_levels(table, tmp_path):
    words = ["--target", "systolic", *BUDGET, "--on-missing", "centre", "-o", tmp_path / "r"]
    words += ["--drop", "patient_id,admitted,crp", "--encode", "sex=f,m"]
    assert "state them, --encode" in fails(2, "regress", table, *words, "--encode", "ward")
    result = invoke("regress", table, *words, "--encode", "ward=surgery")
    assert result.exit_code == 0, result.output


def test_a_share_of_variance_instead_of_a_number(table, tmp_path):
    words = [table, "--drop", "patient_id,admitted,sex,ward", "--on-missing", "centre", *BUDGET]
    words += ["--scale", "private", "--k", 0.8]
    planned = invoke("plan", *words)
    assert planned.exit_code == 0, planned.output
    assert "--k 0.8" in planned.stdout
    result = invoke("fit", *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    stated = json.loads((tmp_path / "r" / "release.json").read_text())["arrays"]
    assert 1 < stated["components"]["shape"][0] < 11


def test_a_plan_says_what_scales_cost(table):
    words = ["plan", table, "--drop", "patient_id,admitted,ward", "--encode", "sex=f,m", *BUDGET]
    words += ["--on-missing", "centre", "--scale", "private", "--mechanism", "spherical"]
    cost = (
        r"scales       found with \d+% of the budget; 2 columns of 0 and 1 need none; --scale same"
    )
    assert re.search(cost, invoke(*words).stdout)
    small = ["plan", "--rows", 300, "--columns-count", 11, *BUDGET]
    refused = invoke(*small, "--scale", "same").stdout
    assert "--scale private would be refused: too few rows for components of 11" in refused
    asked = ["--scale", "private", "--mechanism", "tangent"]
    message = fails(2, *small, *asked)
    assert "too few rows for private scales of 11 columns at this budget" in message
    assert "about 910 rows would do, or epsilon = 3.36 for these" in message
    assert "or state --scale or --bounds" in message


def test_a_column_without_a_scale_is_named_first(tmp_path):
    rows = np.random.default_rng(0).standard_normal((4000, 3)) * [1.0, 50.0, 0.0]
    text = "\n".join(["age,cost,same", *(",".join(map(str, row)) for row in rows.tolist())])
    (tmp_path / "t.csv").write_text(text + "\n")
    words = [tmp_path / "t.csv", *BUDGET, "--scale", "private", "-o"]
    result = invoke("fit", *words, tmp_path / "r", "--k", 1, "--mechanism", "tangent")
    first = "released     1 principal component of 2 of 3 columns, without same (no scale found)"
    assert result.stdout.startswith(first)
    assert "left out, as no scale was found for them: same" in result.stdout
    warned = "beware: no scale was found for same, which was left out: state its scale"
    assert result.stderr.startswith(warned)
    assert json.loads(invoke("inspect", tmp_path / "r", "--json").stdout)["left_out"] == ["same"]
    told = json.loads(invoke("covariance", *words, tmp_path / "c", "--json").stdout)
    assert told["left_out"] == ["same"]
    target = invoke("regress", *words, tmp_path / "g", "--target", "age").stdout
    assert target.startswith("released     regression of 1 target on 1 of 2 columns, without same")


def test_mistyped_dates_and_targets_get_a_hint(table, tmp_path):
    words = [*BUDGET, "--unit", "patient_id", "-o", tmp_path / "r"]
    wrong = ["--drop", "sex,ward", "--encode", "admitted=2024-13-45"]
    assert "no such day: write the date as 2024-01-31" in fails(2, "fit", table, *words, *wrong)
    for other in ("01/01/2024", "1.1.2024", "2024/01/01", "31-12-23"):
        wrong = ["--drop", "sex,ward", "--encode", f"admitted={other}"]
        message = fails(2, "fit", table, *words, *wrong)
        assert "write the first day as 2024-01-31; cells are dates if written so" in message
    words += ["--drop", "admitted,sex,ward", "--on-missing", "centre"]
    message = fails(3, "regress", table, *words, "--target", "sytolic")
    assert "did you mean 'systolic'?" in message


def test_scores_take_limits_as_they_are_told(table, tmp_path):
    words = ["--columns", "age,crp", "--censored", "crp=limit", "--on-missing", "centre"]
    assert invoke("fit", table, *BUDGET, *words, "-o", tmp_path / "r").exit_code == 0
    found = {}
    for rule in ("missing", "limit"):
        told = ["--censored", f"crp={rule}"]
        result = invoke("transform", tmp_path / "r", table, *told, "-o", tmp_path / f"{rule}.csv")
        assert result.exit_code == 0, result.output
        found[rule] = np.loadtxt(tmp_path / f"{rule}.csv", delimiter=",", skiprows=1)
    cells = [line.rsplit(",", 1)[1] for line in table.read_text().splitlines()[1:]]
    limited = np.array([cell.startswith("<") for cell in cells])
    same = np.isclose(found["missing"], found["limit"]).all(axis=1)
    np.testing.assert_array_equal(same, ~limited)


def test_a_stream_leaves_out_what_it_is_told_to(table, tmp_path):
    words = ["stream", table, *BUDGET, "--k", 1, "--on-missing", "centre"]
    words += ["--state", tmp_path / "s.state"]
    assert "--drop patient_id,admitted,sex,ward" in fails(3, *words)
    result = invoke(*words, "--drop", "patient_id,admitted,sex,ward")
    assert result.exit_code == 0, result.output


def test_amounts_are_read_by_name(tmp_path):
    """From the refusal to a release by what it says, and scores of the same cells."""
    rng = np.random.default_rng(0)
    lines = ["price\trate\tage"]
    for row in rng.integers(1000, 9000, (300, 3)):
        lines.append(f"${row[0]:,}\t{row[1] / 100:.2f} %\t{row[2] / 7:.2f}")
    path = tmp_path / "t.tsv"
    path.write_text("\n".join(lines) + "\n")
    words = [path, *BUDGET, "--k", "1", "--scale", "same", "-o", tmp_path / "r"]
    message = fails(3, "fit", *words)
    assert "columns price, rate hold no numbers" in message
    told = ["--as-number", "price,rate", "--decimal", "."]
    assert " ".join(told) in message
    assert "--encode" not in message
    unstated = fails(3, "fit", *words, *told[:2])
    assert "column 'price' holds no numbers" in unstated
    assert "--as-number price --decimal . (--decimal , where the comma" in unstated
    assert invoke("fit", *words, *told).exit_code == 0
    settings = json.loads((tmp_path / "r" / "release.json").read_text())["settings"]
    assert settings["feature_names"] == ["price", "rate", "age"]
    scored = invoke("transform", tmp_path / "r", path, *told)
    assert scored.exit_code == 0
    assert "nan" not in scored.stdout
