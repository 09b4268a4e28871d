"""`plan --of regression`: public numbers in, an expected error and the next command out."""

import json

import pytest

from eigenveil.planning import predict_regression as regression
from tests.cli.conftest import fails, invoke


@pytest.fixture
def few_runs(monkeypatch):
    """Two releases from small tables: how errors are found, not how large they are."""
    predicted = regression.predict_regression
    monkeypatch.setattr(regression, "predict_regression", lambda s, runs=0: predicted(s, runs=2))
    monkeypatch.setattr(regression, "_ROWS", 300)


@pytest.mark.usefixtures("few_runs")
def test_the_command_plans_regressions(files):
    budget = ["--epsilon", 8, "--delta", 1e-6]
    words = [files.csv, "--of", "regression", "--target", "age", "--columns", "age,hours,gain"]
    plan = invoke("plan", *words, *budget, "--json")
    assert plan.exit_code == 0, plan.output
    told = json.loads(plan.stdout)
    assert "--target age" in told["next"]
    assert told["next"].startswith("eigenveil regress ")
    numbers = ["--of", "regression", "--rows", 4000, "--columns-count", 5]
    shown = invoke("plan", *numbers, "--delta", 1e-6, "--error", 0.1)
    assert shown.exit_code == 0, shown.output
    assert "for 0.1      epsilon of about" in shown.stdout
    assert "beyond the best line" in shown.stdout
    assert "--target TARGET" in shown.stdout
    assert "--of regression" in fails(2, "plan", *numbers[2:], *budget, "--r2", 0.3)
    assert "--of regression" in fails(2, "plan", *numbers[2:], *budget, "--correlation", 0.3)
    assert "between -1 and 1" in fails(2, "plan", *numbers, *budget, "--correlation", 1)
    assert invoke("plan", *numbers, *budget, "--correlation", -0.5).exit_code == 0
    assert "one --target" in fails(2, "plan", *numbers, *budget, "--target", "a,b")


@pytest.mark.usefixtures("few_runs")
def test_a_plan_refuses_what_the_release_would(files):
    words = ["plan", files.csv, "--of", "regression", "--epsilon", 8, "--delta", 1e-6]
    message = fails(3, *words, "--target", "job")
    assert "the target 'job' holds no numbers: choose another column" in message
    message = fails(3, *words, "--target", "agee", "--drop", "job")
    assert "not there: 'agee'; did you mean 'age'?" in message
    message = fails(2, *words, "--target", "age", "--encode", "job")
    assert "state them, --encode NAME=LEVEL,LEVEL" in message
    planned = invoke(*words, "--target", "age", "--columns", "hours,gain")
    assert planned.stdout.startswith("regression on 2 features")


@pytest.mark.usefixtures("few_runs")
def test_a_plan_counts_whom_it_protects(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("who,bmi,crp\n" + "".join(f"{i // 3},{i % 7},{i % 5}\n" for i in range(900)))
    words = ["plan", path, "--of", "regression", "--target", "crp", "--delta", 1e-6]
    persons = invoke(*words, "--unit", "who", "--epsilon", 0.5).stdout
    assert persons.startswith("regression on 1 feature, 300 persons, ")
    assert "more persons, a larger budget" in persons
    assert "900 rows" in invoke(*words, "--epsilon", 5, "--drop", "who").stdout
