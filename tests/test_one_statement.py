"""Every interface states the same guarantee for the same release, word for word."""

import html
import json
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from eigenveil import PrivateCovariance, PrivatePCA, Release, StreamingPCA
from eigenveil.cli import main
from eigenveil.privacy import Ledger
from eigenveil.release.export import export
from eigenveil.report import write
from eigenveil.rows import open_rows

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((400, 3)) * [3, 1, 1], columns=["<a>", "b", "c & d"])
    frame.insert(0, "whose", rng.integers(0, 150, 400))
    frame.loc[7, "b"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def components(csv, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-6)
    return PrivatePCA(2, **BUDGET, ledger=ledger, on_missing="centre"), open_rows(csv)


def persons(csv, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-6, unit="person")
    estimator = PrivatePCA(2, **BUDGET, ledger=ledger, on_invalid="zero")
    return estimator, open_rows(csv, unit="whose")


def streamed(csv, tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=300.0)
    return StreamingPCA(2, rho=200.0, ledger=ledger, on_missing="centre"), csv


def covariance(csv, tmp_path):
    bounds = ([-9, -9, -9, 0], [9, 9, 9, 150])
    return PrivateCovariance(rho=0.5, bounds=bounds, on_missing="centre"), open_rows(csv)


def simulated(csv, tmp_path):
    return PrivateCovariance(epsilon=4.0, row_norm=9.0, on_invalid="zero", random_state=0), csv


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())  # clauses have lines of their own


def on_page(page, guarantee):
    """The clauses of the sentence in their order, as a reader sees them."""
    seen = html.unescape(re.sub(r"<[^>]*>", "\n", page))
    words = "\n".join(line for line in seen.splitlines() if line.strip())
    clauses = [piece for label, text in guarantee.statements() for piece in (label, text)]
    return "\n".join(clauses) in words


@pytest.mark.parametrize("release_of", [components, persons, streamed, covariance, simulated])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
def test_all_say_the_same(release_of, csv, tmp_path):
    estimator, rows = release_of(csv, tmp_path)
    fitted = estimator.fit(rows)
    sentence = fitted.privacy_.sentence()
    folder = fitted.release_.save(tmp_path / "release")
    assert json.loads((folder / "release.json").read_text())["guarantee"]["sentence"] == sentence
    loaded = Release.load(folder)
    assert loaded.guarantee.sentence() == sentence
    for command in ("verify", "inspect"):
        assert sentence in run(command, folder)
    assert json.loads(run("inspect", folder, "--json"))["guarantee"]["sentence"] == sentence
    pages = [folder / "report.html", write(loaded, tmp_path / "page.html")]
    for page in pages:
        assert on_page(page.read_text("utf-8"), fitted.privacy_)
    for name in ("x.csv", "x.parquet"):
        export(loaded, tmp_path / name)
    assert sentence in (tmp_path / "x.csv.statement.txt").read_text("utf-8")
    stored = pq.read_schema(tmp_path / "x.parquet").metadata.values()
    assert any(sentence in value.decode() for value in stored)


@pytest.mark.parametrize("json_wanted", [False, True])
def test_the_command_line_says_what_its_folder_says(csv, tmp_path, json_wanted):
    ledger, folder = tmp_path / "l", tmp_path / "release"
    run("ledger", "init", ledger, "--epsilon", 2, "--delta", 1e-6)
    asked = ("--columns", "b,c & d", "--k", 1, "--on-missing", "centre", "--ledger", ledger)
    options = ("--epsilon", 1, "--delta", 1e-6, *asked, "-o", folder)
    said = run("fit", csv, *options, *(["--json"] if json_wanted else []))
    sentence = Release.load(folder).guarantee.sentence()
    if json_wanted:
        assert json.loads(said)["guarantee"]["sentence"] == sentence
    else:
        assert sentence in said
