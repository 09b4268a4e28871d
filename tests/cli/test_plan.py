"""`plan`: public numbers in, a recommendation and the next command out."""

import json
import shlex

import pytest

import eigenveil.planner
from tests.cli.conftest import ROWS, fails, invoke

pytestmark = pytest.mark.skipif(
    not hasattr(eigenveil.planner, "recommend"), reason="needs the planner"
)
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
SIZE = ["--rows", 1000, "--columns-count", 5]


def told(*words):
    result = invoke("plan", *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_file_and_its_public_numbers_are_the_same_plan(files):
    by_file = told(files.csv, "--columns", "age,hours,gain", "--k", 2, *BUDGET)
    by_numbers = told("--rows", ROWS, "--columns-count", 3, "--k", 2, *BUDGET)
    assert by_file["predictions"] == by_numbers["predictions"]
    assert by_file["mechanism"] == by_numbers["mechanism"]


def test_no_row_is_read_where_the_number_of_rows_is_given(files, monkeypatch):
    from eigenveil.data.source import CSVSource

    def refuse(self):
        raise AssertionError("read")

    monkeypatch.setattr(CSVSource, "chunks", refuse)
    words = [files.csv, "--columns", "age,hours", *BUDGET, "--adjacency", "add-remove"]
    assert "--rows" in fails(2, "plan", *words)
    told(*words, "--rows", 500)


def test_the_next_command_works(files, tmp_path):
    words = [files.csv, "--columns", "gain,age", "--k", 1, *BUDGET, "--bounds", "gain=0:9,age=0:99"]
    following = shlex.split(told(*words)["next"])
    assert following[:2] == ["eigenveil", "fit"]
    following[following.index("FOLDER")] = str(tmp_path / "released")
    result = invoke(*following[1:])
    assert result.exit_code == 0, result.output


def test_the_plan_for_people():
    result = invoke("plan", *SIZE, "--k", 2, *BUDGET, "--error", 0.2)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "recommended  " in result.stdout
    assert "epsilon of about" in result.stdout
    assert "rows of about" in result.stdout
    assert "next         eigenveil fit DATA --k 2 --epsilon 1 --delta 1e-06" in result.stdout


def test_an_error_alone_asks_for_its_epsilon():
    plan = told(*SIZE, "--k", 2, "--delta", 1e-6, "--error", 0.2)
    needed = plan["needed_epsilon"]["value"]
    assert f"--epsilon {needed:g} --delta 1e-06" in plan["next"]
    assert plan["prediction"]["error"] < 0.21  # three digits of epsilon are shown
    words = ["--of", "covariance", "--bounds", "0,1", "--error", 1e-12]
    assert "larger --error" in fails(2, "plan", *SIZE, *words)


def test_a_budget_of_a_file_gives_way(tmp_path):
    (tmp_path / "o.toml").write_text("epsilon = 1\ndelta = 1e-6")
    following = told(*SIZE, "--rho", 0.5, "--config", tmp_path / "o.toml")["next"]
    assert "--rho 0.5" in following
    assert "--epsilon" not in following


def test_mistakes(files):
    assert "give a budget" in fails(2, "plan", *SIZE)
    assert "--columns-count" in fails(2, "plan", *BUDGET)
    assert "--bounds LOW,HIGH" in fails(3, "plan", *SIZE, *BUDGET, "--of", "covariance")
    assert "holds text" in fails(3, "plan", files.csv, *BUDGET)
    assert "guess a number for --k" in fails(2, "plan", *SIZE, *BUDGET, "--k", "private")
    fails(2, "plan", *SIZE, *BUDGET, "--k", 9)
    fails(2, "plan", *SIZE, *BUDGET, "--error", 0)
