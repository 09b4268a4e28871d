"""`plan`: public numbers in, a recommendation and the next command out."""

import itertools
import json
import shlex

import numpy as np
import pytest

import eigenveil.planning
from eigenveil import Release
from tests.cli.conftest import ROWS, fails, invoke
from tests.planner.few import few_simulations

pytestmark = pytest.mark.skipif(
    not hasattr(eigenveil.planning, "recommend"), reason="needs the planner"
)
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
SIZE = ["--rows", 1000, "--columns-count", 5]


@pytest.fixture(autouse=True, scope="module")
def _few_simulations():
    """What is predicted is tested elsewhere."""
    with few_simulations():
        yield


def told(*words):
    result = invoke("plan", *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _run(plan, folder):
    """Run both commands of a plan, with their ledger and release in another folder."""
    for words in (plan["first"], plan["next"]):
        words = shlex.split(words)[1:]
        for option, place in (("--ledger", "a.ledger"), ("-o", "released")):
            if option in words:
                words[words.index(option) + 1] = folder / place
        if words[:2] == ["ledger", "init"]:
            words[2] = folder / "a.ledger"
        result = invoke(*words)
        assert result.exit_code == 0, result.output


def test_a_file_and_its_public_numbers_are_the_same_plan(files):
    by_file = told(files.csv, "--columns", "age,hours,gain", "--k", 2, *BUDGET)
    by_numbers = told("--rows", ROWS, "--columns-count", 3, "--k", 2, *BUDGET)
    assert by_file["predictions"] == by_numbers["predictions"]
    assert by_file["mechanism"] == by_numbers["mechanism"]


def test_no_row_is_read_where_the_number_of_rows_is_given(files, monkeypatch):
    from eigenveil.rows import CSVSource

    def refuse(self):
        raise AssertionError("read")

    monkeypatch.setattr(CSVSource, "chunks", refuse)
    words = [files.csv, "--columns", "age,hours", *BUDGET, "--adjacency", "add-remove"]
    assert "--rows" in fails(2, "plan", *words)
    told(*words, "--rows", 500)


def test_the_next_command_works(files, tmp_path):
    words = [files.csv, "--columns", "gain,age", "--k", 1, *BUDGET, "--bounds", "gain=0:9,age=0:99"]
    plan = told(*words)
    following = shlex.split(plan["next"])
    assert following[:2] == ["eigenveil", "fit"]
    assert "--mechanism" not in following
    _run(plan, tmp_path)
    assert Release.load(tmp_path / "released").mechanism == plan["mechanism"]


@pytest.mark.parametrize(
    "words",
    [
        ["--bounds", "0,100"],
        ["--bounds", "age=0:100,hours=0:100"],
        ["--bounds", "0,1e6", "--row-norm", 30],
        ["--row-norm", 30],
        ["--bounds", "0,100", "--adjacency", "add-remove", "--rows", ROWS],
    ],
)
@pytest.mark.parametrize("of", ["components", "covariance"])
def test_a_release_chooses_what_was_recommended(of, words, files, tmp_path):
    """Under add-remove it knows less than the plan, and may have to be told."""
    generous = ["--epsilon", 8, "--delta", 1e-6]  # 400 rows of two columns have distances to find
    plan = told(files.csv, "--columns", "age,hours", "--of", of, *generous, *words)
    _run(plan, tmp_path)
    assert Release.load(tmp_path / "released").mechanism == plan["mechanism"]


def test_a_guess_of_the_spread_tips_no_choice():
    """A stated range only tightens: what is chosen does not rest on how well values fill it."""
    size = ["--rows", 3000, "--columns-count", 20, "--k", 5, "--bounds", "0,1", *BUDGET]
    plans = [told(*size, "--spread", spread) for spread in (0.05, 0.5)]
    assert plans[0]["mechanism"] == plans[1]["mechanism"]
    assert not any("--mechanism" in plan["next"] for plan in plans)


def test_a_covariance_is_told_what_scales_cost(files):
    words = ["plan", "--rows", 4000, "--columns-count", 5, "--of", "covariance", *BUDGET]
    found = "scales       found with 20% of the budget; --scale same, where all columns share one"
    assert found in invoke(*words).stdout
    same = invoke(*words, "--scale", "same").stdout
    assert "none are looked for; without --scale same they would be found with 20% of" in same
    assert "budget       centre" in same
    assert found in invoke(*words, "--adjacency", "add-remove").stdout
    named = ["plan", files.csv, "--columns", "age,hours", "--of", "covariance", "--epsilon", 8]
    words = [*named, "--delta", 1e-6, "--rows", 400]
    assert "different units" not in invoke(*words).stderr
    plan = told(files.csv, *words[2:], "--scale", "same")
    assert "--scale same" in plan["next"]


def test_units_of_columns_are_hinted_at_where_nothing_bounds_them(files):
    without_names = ["plan", files.npy, "--k", 1, *BUDGET]
    assert "--scale private standardises them" in invoke(*without_names).stderr
    few = invoke(*without_names, "--rows", 50).stderr  # where private scales are refused
    assert "columns in different units drown one another: state --scale or --bounds\n" in few
    words = ["plan", files.csv, "--k", 1, *BUDGET, "--columns"]
    stated = (["--bounds", "0,9"], ["--row-norm", 9], ["--scale", "same"], [])
    for others in (["age"], *(["age,hours", *one] for one in stated)):
        assert "--scale" not in invoke(*words, *others).stderr


def test_columns_with_names_are_standardised(files, tmp_path):
    """Unless something is stated of them as they are; the next command means what was planned."""
    named = [files.csv, "--columns", "age,hours,gain", "--k", 1, *BUDGET]
    plan = told(*named)
    assert plan["mechanism"] == "correlation"
    assert plan["standardised"]
    assert "--scale private" in plan["next"]
    _run(plan, tmp_path)
    assert Release.load(tmp_path / "released").mechanism == "correlation"
    as_they_are = [
        [*named, "--scale", "same"],
        [*named, "--row-norm", "private"],
        [*named, "--bounds", "0,99"],
        [*named, "--variances"],
        [*named, "--mechanism", "spherical"],
        [files.npy, "--k", 1, *BUDGET],
        ["--rows", 4000, "--columns-count", 1000, "--k", 1, *BUDGET],
    ]
    for words in as_they_are:
        plan = told(*words)
        assert not plan["standardised"]
        assert "--scale private" not in plan["next"]
        assert "scale" not in dict(plan["prediction"]["shares"])


def test_what_standardised_components_hold_is_told(files):
    words = ["plan", "--rows", 5000, "--columns-count", 8, "--k", 2, *BUDGET]
    said = invoke(*words).stdout
    assert "captured     2 components should hold " in said
    assert "of the variance of standardised columns that any 2 could (" in said
    assert " in 8 of 10 releases of real tables)" in said
    assert ", as measured on real tables\n" in said
    assert "target       components of standardised columns (correlations), of rows" in said
    assert "\ncaptured " not in invoke(*words, "--scale", "same").stdout
    refused = fails(2, *words, "--rows", 200)
    assert "about 303 rows would do, or epsilon = " in refused
    assert "state --scale same if all columns share one unit" in refused


def test_empty_cells_are_hinted_at_in_words(files):
    """Whether there are any is not looked at."""
    hint = "hint: if cells may be empty, add --on-missing centre\n"
    words = ["plan", files.npy, "--k", 1, *BUDGET]
    assert hint in invoke(*words).stderr
    for said in (["--on-missing", "centre"], ["--on-invalid", "zero"]):
        assert "empty" not in invoke(*words, *said).stderr
    named = [files.csv, "--columns", "age,hours,gain", "--of", "regression", "--target", "age"]
    told = invoke("plan", *named, "--epsilon", 0.3, "--delta", 1e-6).stderr
    assert "add --on-missing centre, and --on-invalid zero if those of the target may be" in told


def test_a_recommendation_has_the_numbers_of_the_table():
    """And says what is ahead of it, where something is."""
    for epsilon in (1, 9):
        words = ["--rows", 1097, "--columns-count", 8, "--k", 2, "--delta", 1e-6]
        result = invoke("plan", *words, "--epsilon", epsilon)
        table, _, rest = result.stdout.partition("recommended  ")
        _, _, first, *lines = (line.split() for line in table.splitlines() if line)
        errors = {line[0]: line[1] for line in (first, *lines)}
        recommended, said = rest.splitlines()[:2]
        name, error = recommended.split()[:2]
        assert error == f"({errors[name]}):"
        assert "expected to lose" not in rest
        if first[0] == name:
            assert "is ahead" not in rest
        else:
            assert said.strip().startswith(f"{first[0]} ({first[1]}) is ahead on the assumed table")
            assert said.endswith(f"--mechanism {first[0]} asks for it")


def test_a_plan_that_loses_most_says_so():
    size = ["--columns-count", 100, "--k", 10, "--scale", "same", *BUDGET]
    assert "most of the variance would be lost" in invoke("plan", *size, "--rows", 200).stdout
    assert "beware" not in invoke("plan", *size, "--rows", 10**6).stdout


def test_a_covariance_needs_no_bound():
    plan = told("--rows", 5000, "--columns-count", 8, "--of", "covariance", *BUDGET)
    assert plan["mechanism"] == "elliptical"
    assert "--bounds" not in plan["next"]


def test_a_covariance_that_noise_would_drown():
    words = ["plan", "--of", "covariance", "--bounds", "0,1", *BUDGET, "--columns-count", 20]
    assert "beware" in invoke(*words, "--rows", 30).stdout
    assert "beware" not in invoke(*words, "--rows", 10**6).stdout


def test_all_components_have_no_error():
    every = [*SIZE, *BUDGET, "--k", 5]
    assert "error        none: all components" in invoke("plan", *every).stdout
    assert "give --k" in fails(2, "plan", *every, "--error", 0.1)


def test_a_few_components_are_planned_for_where_none_are_asked_for():
    for columns, expected in ((1, None), (2, 1), (5, 4), (100, 5)):
        size = ["--rows", 1000, "--columns-count", columns, "--scale", "same"]
        following = told(*size, *BUDGET)["next"]
        assert (f"--k {expected}" in following) == (expected is not None)
        assert ("--k" in following) == (expected is not None)
    few = ["--rows", 3, "--columns-count", 50, "--scale", "same", *BUDGET]
    assert "--k 2" in told(*few)["next"]


class TestOptionsOfFit:
    """`plan` takes them all, predicts with them, and hands them on."""

    def test_none_is_missing(self):
        from eigenveil.cli.plan import plan
        from eigenveil.cli.releases import fit

        names = [
            {option.name for option in each.params if not getattr(option, "hidden", False)}
            for each in (fit, plan)
        ]
        assert names[0] <= names[1]

    def test_they_are_handed_on(self, files):
        words = ["--unit", "job", "--scale", "private", "--on-missing", "centre", "--on-invalid"]
        words += ["zero", "--variances", "--adjacency", "replace-one", "--centring", "located"]
        words += ["--mechanism", "power", "--set", "passes=4", "--sign", "key.pem"]
        plan = told(files.csv, "--columns", "age,hours", *BUDGET, *words, "--rows", 4000)
        following = shlex.split(plan["next"])
        pairs = list(itertools.pairwise(following))
        for option, value in (
            ("--unit", "job"),
            ("--scale", "private"),
            ("--on-missing", "centre"),
            ("--on-invalid", "zero"),
            ("--centring", "located"),
            ("--mechanism", "power"),
            ("--set", "passes=4"),
            ("--sign", "key.pem"),
            ("--columns", "age,hours"),
            ("--ledger", "people.ledger"),
            ("-o", "release"),
        ):
            assert (option, value) in pairs
        assert "--variances" in following
        assert "--unit person" in plan["first"]
        assert "4,000 persons" in plan["situation"]

    def test_persons_are_counted(self, files):
        words = ["--columns", "age,hours", "--scale", "same", "--unit", "job"]
        plan = told(files.csv, *words, *BUDGET)
        assert plan["situation"].startswith("3 persons")

    def test_they_take_their_shares(self):
        """What scales and empty cells cost is in the prediction, as in a fit."""
        size = ["--rows", 20_000, "--columns-count", 5, "--k", 2, *BUDGET]
        plain = dict(told(*size, "--scale", "same")["prediction"]["shares"])
        words = ["--scale", "private", "--on-missing", "centre", "--mechanism", "tangent"]
        bought = dict(told(*size, *words)["prediction"]["shares"])
        assert {"scale", "present"} <= bought.keys()
        assert bought["components"] < plain["components"]
        as_they_are = ["--scale", "same", "--centring", "paired"]
        alone = dict(told(*size, *as_they_are)["prediction"]["shares"])
        assert "centre" in plain
        assert "centre" not in alone

    def test_a_mechanism_that_is_asked_for(self):
        plan = told(*SIZE, "--k", 2, *BUDGET, "--mechanism", "laplace")
        assert plan["mechanism"] == plan["prediction"]["mechanism"] == "laplace"
        assert "--mechanism laplace" in plan["next"]
        said = invoke("plan", *SIZE, "--k", 2, *BUDGET, "--mechanism", "laplace").stdout
        assert f"mechanism    laplace ({plan['prediction']['error']:.3g}): as asked for" in said
        words = ["plan", *SIZE, "--k", 2, "--epsilon", 1, "--mechanism", "tangent"]
        assert "pure epsilon" in fails(2, *words)

    def test_a_private_number_of_components(self):
        result = invoke("plan", *SIZE, *BUDGET, "--k", "private")
        assert "planned for 4" in result.stdout
        assert "--k private" in result.stdout.splitlines()[-1]

    def test_a_private_radius(self):
        plan = told("--rows", 20_000, "--columns-count", 5, *BUDGET, "--row-norm", "private")
        assert "radius" in dict(plan["prediction"]["shares"])
        assert "--row-norm private" in plan["next"]

    def test_a_ledger_that_is_there_needs_no_start(self, tmp_path):
        ledger = tmp_path / "a.ledger"
        words = [*SIZE, *BUDGET, "--ledger", ledger]
        first = told(*words)["first"]
        assert first == f"eigenveil ledger init {ledger} --epsilon 2 --delta 1e-06"
        assert invoke(*shlex.split(first)[1:]).exit_code == 0
        plan = told(*words)
        assert plan["first"] is None
        assert f"--ledger {ledger}" in plan["next"]


def test_mechanisms_that_cannot_serve_share_a_line():
    words = ["--k", 2, "--scale", "same", "--adjacency", "add-remove"]
    said = invoke("plan", *SIZE, *words, *BUDGET).stdout
    lines = [line for line in said.splitlines() if line.startswith("without  ")]
    assert any("oja, " in line for line in lines)
    assert len(lines) == len({line.split(": ", 1)[1] for line in lines})


class TestFigure:
    @pytest.mark.parametrize("form", ["png", "svg"])
    def test_it_is_drawn(self, form, tmp_path):
        pytest.importorskip("matplotlib")
        place = tmp_path / f"plan.{form}"
        result = invoke("plan", *SIZE, "--k", 2, *BUDGET, "--figure", place)
        assert result.exit_code == 0, result.output
        assert f"figure       {place}" in result.stdout
        start = {"png": b"\x89PNG", "svg": b"<?xml"}[form]
        assert place.read_bytes().startswith(start)

    def test_what_it_shows(self, tmp_path, monkeypatch):
        """The best mechanisms at budgets about the one asked for, and what privacy costs alone."""
        pytest.importorskip("matplotlib")
        from eigenveil.cli import plan_figure as figure
        from eigenveil.planning import Situation, predict, recommend
        from eigenveil.privacy import Budget

        seen = {}
        honest = figure.PlanDisplay.from_predictions.__func__

        def keep(cls, *arguments, **options):
            seen["display"] = honest(cls, *arguments, **options)
            return seen["display"]

        monkeypatch.setattr(figure.PlanDisplay, "from_predictions", classmethod(keep))
        asked = Situation(task="pca", n=1000, d=5, k=2, budget=Budget(rho=0.02))
        advice = recommend(asked)
        figure.draw(asked, advice, tmp_path / "plan.svg")
        display = seen["display"]
        assert display.x.tolist() == [0.0063, 0.011, 0.02, 0.036, 0.063]
        at = Situation(task="pca", n=1000, d=5, k=2, budget=Budget(rho=0.063))
        assert display.reference_label.startswith("slope of D")  # Düngler and Sanyal
        curve = display.curves[advice.mechanism]
        expected = predict(at, advice.mechanism)
        assert curve[:, -1].tolist() == [expected.error, expected.low, expected.high]
        assert curve[0, 2] == advice.prediction.error
        # Lost variance goes as 1/epsilon^2, that is as 1/rho: sampling is not in predictions.
        np.testing.assert_allclose(
            display.reference * display.x, display.reference[0] * display.x[0], rtol=1e-6
        )

    def test_mistakes_come_before_the_predictions(self, tmp_path, monkeypatch):
        def refuse(*arguments):
            raise AssertionError("predicted")

        monkeypatch.setattr(eigenveil.planning, "recommend", refuse)
        words = ["plan", *SIZE, "--k", 2, *BUDGET, "--figure"]
        assert "in .png or .svg" in fails(2, *words, tmp_path / "plan.pdf")
        (tmp_path / "plan.png").touch()
        assert "exists already" in fails(2, *words, tmp_path / "plan.png")
        assert "no folder" in fails(2, *words, tmp_path / "none" / "plan.png")

    def test_nothing_to_draw(self, tmp_path):
        words = [*SIZE, "--k", 5, *BUDGET, "--figure", tmp_path / "x.png"]
        assert "give --k" in fails(2, "plan", *words)
        assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    "words",
    [["100000", "--k", 5000], ["20001", "--of", "covariance", "--row-norm", 1]],
    ids=["components", "matrix"],
)
def test_where_nothing_serves_there_is_no_next_command(words):
    size = ["--rows", 10_000, "--columns-count"]
    said = fails(2, "plan", *size, *words, *BUDGET)
    assert "fewer columns" in said
    assert ("or components" in said) == ("--k" in words)
    assert "next " not in said


def test_more_components_than_rows_are_refused_as_a_fit_does():
    said = fails(2, "plan", "--rows", 10, "--columns-count", 50, *BUDGET, "--k", 20)
    assert "exceeds the number of rows: ask for fewer components" in said
    assert "next " not in said


def test_mistakes(files):
    assert "give a budget" in fails(2, "plan", *SIZE)
    assert "--columns-count" in fails(2, "plan", *BUDGET)
    assert "holds no numbers" in fails(3, "plan", files.csv, *BUDGET)
    fails(2, "plan", *SIZE, *BUDGET, "--k", 9)
    fails(2, "plan", *SIZE, *BUDGET, "--bounds", "2,1")
    assert "make them agree" in fails(2, "plan", *SIZE, *BUDGET, "--bounds", "a=0:1")
    words = ["plan", "--columns-count", 5, *BUDGET, "--rows", 0]
    assert "--rows must be" in fails(2, *words)
    assert "--rows must be at most" in fails(2, *words[:-1], 2**39)
    words = [files.csv, "--columns", "age,hours", *BUDGET, "--bounds", "age=0:1,hour=0:1"]
    assert "did you mean 'hours'" in fails(3, "plan", *words)
    fails(2, "plan", *SIZE, *BUDGET, "--error", 0)
