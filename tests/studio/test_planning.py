"""The tab Plan and release: predictions spend nothing, the promise is the guarantee's own, and the
run is the command that the page shows.
"""

import csv
import json
import shlex
import shutil

import pytest

from eigenveil import Ledger, PrivatePCA, Release, open_rows
from eigenveil.cli import main
from eigenveil.cli.next_command import command_line
from eigenveil.cli.releases import fit as fit_command
from eigenveil.studio.commands import release_options
from tests.cli.conftest import invoke
from tests.planner.few import few_simulations
from tests.studio.choices import LEDGER, chosen, confirmed, finished
from tests.studio.conftest import NAMES, SECRET


@pytest.fixture(autouse=True)
def quick():
    with few_simulations():
        yield


def test_columns_come_with_names_and_kinds_alone(browser):
    found = browser.ask("table", name="people.csv").json()
    assert found["columns"][:3] == [
        {"name": "patient_id", "kind": "id"},
        {"name": "ward", "kind": "text"},
        {"name": "age", "kind": "number"},
    ]
    assert found["ledger"] == LEDGER
    assert found["output"] == "people-release"


def test_a_plan_predicts_from_public_numbers_and_spends_nothing(browser, ledger):
    found = browser.tell("plan", **chosen()).json()
    assert found["rows"] == 200  # persons
    assert found["columns"] == 4
    assert 0 <= found["prediction"]["low"] <= found["prediction"]["error"]
    assert len(found["prediction"]["reliability"]) == 2
    assert found["ledger"]["before"] == 0
    assert found["ledger"]["after"] == pytest.approx(8.0, rel=1e-6)
    assert found["ledger"]["covered"]
    assert found["promise"].startswith("A 50 % guess whether the rows of one person")
    assert ledger.entries == ()
    # The same as on the command line.
    told = invoke("plan", *shlex.split(found["command"])[2:-2], "--json")
    assert json.loads(told.stdout)["mechanism"] == found["mechanism"]


def test_columns_of_one_unit_are_stated_to_share_it(browser, ledger):
    for scale in ("private", "same"):
        found = browser.tell("plan", **chosen(of="covariance", scale=scale)).json()
        assert f"--scale {scale}" in found["command"]


def test_components_of_standardised_columns_are_planned_for(browser, ledger):
    """By default, as columns have names; plan, promise and script agree."""
    for scale in ({"scale": "private"}, {"scale": None}):
        asked = chosen(unit=None, **scale)
        found = browser.tell("plan", **asked).json()
        assert found["mechanism"] == "correlation"
        assert "--scale private" in found["command"]
        assert found["prediction"]["error"] < 0.5
    small = browser.tell("plan", **chosen(unit=None, scale="private", epsilon=0.01)).json()
    assert "state that all columns share one unit" in small["refused"]
    Ledger.create("rows.ledger", epsilon=9, delta=1e-5)
    told = browser.tell("promise", **chosen(unit=None, scale=None, ledger="rows.ledger")).json()
    assert told["mechanism"] == "correlation"
    assert "--scale private" in told["command"]
    assert "scale='private'" in told["script"].replace('"', "'")


def test_ranges_replace_private_scales(browser, ledger):
    bounds = {name: [0, 200] for name in NAMES}
    found = browser.tell("plan", **chosen(scale="private", bounds=bounds)).json()
    assert "refused" not in found
    assert found["mechanism"] != "correlation"
    assert "--scale" not in found["command"]


def test_more_privacy_costs_accuracy(browser, ledger):
    large = browser.tell("curve", **chosen(epsilon=8.0)).json()["prediction"]["error"]
    small = browser.tell("curve", **chosen(epsilon=0.5)).json()["prediction"]["error"]
    assert large < small


def test_a_budget_beyond_the_ledger_is_refused_with_what_fits(browser, folder):
    Ledger.create(folder / LEDGER, epsilon=1.0, delta=1e-5, unit="person")
    found = browser.tell("plan", **chosen(epsilon=2.0)).json()["ledger"]
    assert not found["covered"]
    assert found["after"] > found["granted"]
    assert found["largest"] == 1.0
    answer = browser.tell("promise", **chosen(epsilon=2.0))
    assert answer.status_code == 400
    assert "would be epsilon" in answer.json()["error"]
    wrong = browser.tell("plan", **chosen(unit=None, epsilon=0.5)).json()["ledger"]
    assert "single rows" in wrong["refused"]


def test_without_a_ledger_nothing_is_promised(browser):
    assert browser.tell("plan", **chosen()).json()["ledger"] is None
    assert browser.tell("promise", **chosen()).status_code == 400
    made = browser.tell("ledger/new", name=LEDGER, epsilon=3, delta=1e-5, unit="person")
    assert made.status_code == 200
    assert browser.tell("ledger/new", name=LEDGER, epsilon=9, delta=1e-5).status_code == 400
    assert browser.tell("ledger/new", name="../x.ledger", epsilon=9).status_code == 400
    assert browser.tell("ledger/new", name="first/x.ledger", epsilon=9).status_code == 400
    assert browser.tell("promise", **chosen(epsilon=1.0)).status_code == 200


def test_the_promise_is_what_the_release_will_say(browser, ledger):
    told = browser.tell("promise", **chosen()).json()
    rows = open_rows("people.csv", unit="patient_id", drop=["ward"])
    fitted = PrivatePCA(2, epsilon=8.0, delta=1e-5, ledger=LEDGER).fit(rows)
    real = dict(fitted.privacy_.statements())
    shown = dict(told["promise"]["statements"])
    for name in ("Protected", "Spent", "Not protected"):
        assert shown[name] == real[name]
    assert told["promise"]["lead"] == fitted.privacy_.odds()
    assert told["mechanism"] == fitted.mechanism_
    assert told["ledger"]["after"] == pytest.approx(ledger.balance().spent, rel=1e-9)
    assert len(ledger.entries) == 1  # that of the fit above


def test_the_script_is_the_command(browser, ledger, monkeypatch, capsys):
    """Both ask an estimator for the same, of the same columns."""
    asked = []

    def fit(self, X, y=None, **more):
        names = open_rows(X).schema.feature_names
        params = {k: str(v) for k, v in self.get_params().items() if k != "ledger"}
        asked.append((params, names, str(open_rows(X).units.protects)))
        raise KeyboardInterrupt

    told = browser.tell("promise", **chosen(title="A 'title'", scale="private")).json()
    monkeypatch.setattr(PrivatePCA, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        exec(compile(told["script"], "script", "exec"), {})
    with pytest.raises(SystemExit):
        main(shlex.split(told["command"])[1:])
    assert asked[0] == asked[1]
    assert asked[0][1] == NAMES
    notebook = json.loads(told["notebook"])
    code = [c["source"] for c in notebook["cells"] if c["cell_type"] == "code"]
    assert "\n".join(code) + "\n" == told["script"]
    assert "'A \\'title\\''" in told["script"] or "\"A 'title'\"" in told["script"]
    capsys.readouterr()


def options(studio, **changed):
    return release_options(studio, chosen(**changed), complete=True)


def test_choices_become_options(studio):
    found = options(studio)
    assert (found.command, found.table) == ("fit", "people.csv")
    assert found.terms["unit"] == "patient_id"
    assert found.terms["drop"] == ["ward"]
    assert found.record == {"output": "out"}
    assert options(studio, show_scores=True).terms["show_scores"] is True
    assert options(studio, of="covariance").command == "covariance"
    assert "k" not in options(studio, of="covariance").terms
    taken = {"columns": [*NAMES, "ward"]}
    levels = options(studio, **taken, encode={"ward": {"levels": ["north ", "", "a, b"]}})
    assert levels.terms["encode"] == [["ward", ["north", "a, b"]]]
    private = options(studio, **taken, encode={"ward": "private"})
    assert private.terms["encode"] == [["ward", "private"]]
    day = options(studio, **taken, encode={"ward": {"date": "2024-01-31"}})
    assert day.terms["encode"] == [["ward", "2024-01-31"]]
    assert options(studio, bounds={"age": [0, 200]}).terms["bounds"] == {"age": [0, 200]}
    single = options(studio, unit=None).terms
    assert "unit" not in single
    assert single["drop"] == ["patient_id", "ward"]
    as_number = options(studio, unit=None, columns=["patient_id", *NAMES]).terms
    assert as_number["columns"] == ["patient_id", *NAMES]  # an id that was chosen is named
    assert "drop" not in as_number
    assert options(studio, missing="centre").terms["on_missing"] == "centre"
    assert options(studio, missing="zero").terms["on_invalid"] == "zero"
    assert options(studio, adjacency="add-remove").terms["adjacency"] == "add-remove"


ODD_NAMES = ("a,b", "c=d", 'e "f"', " g ", "h=1:2,i", "-k", "it's")


def test_columns_of_any_name_have_ranges_and_levels(browser, folder):
    """Nothing in a name is taken for the syntax of an option, in the run and as a typed command."""
    with (folder / "odd.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*ODD_NAMES, "l=m,n"])
        writer.writerows([*(i % (j + 2) for j in range(7)), "xy"[i % 2]] for i in range(400))
    Ledger.create(folder / "odd.ledger", epsilon=20.0, delta=1e-5)
    form = chosen(
        table="odd.csv",
        columns=[*ODD_NAMES, "l=m,n"],
        unit=None,
        ledger="odd.ledger",
        bounds={name: [0, 0.1234567890123456] for name in ODD_NAMES[:3]},
        encode={"l=m,n": {"levels": ["x", "y, z", "2024-01-31"]}},
        title='2 < 3, "a"',
    )
    found = release_options(browser.studio, form, complete=True)
    structured = fit_command.make_context("fit", [found.table], default_map=found.all)
    assert structured.params["bounds"]["a,b"] == (0, 0.1234567890123456)
    assert structured.params["encode"] == (("l=m,n", ["x", "y, z", "2024-01-31"]),)
    shown = command_line(fit_command, found.table, {n: structured.params[n] for n in found.all})
    typed = fit_command.make_context("fit", shlex.split(shown)[2:])
    assert typed.params == structured.params
    single = command_line(fit_command, "t", {"encode": (("day", ["2024-01-31"]),)})
    again = fit_command.make_context("fit", [*shlex.split(single)[2:], "-o", "out"])
    assert again.params["encode"] == (("day", ["2024-01-31"]),)
    form["bounds"] = {}
    told = browser.tell("promise", **form).json()
    assert "levels stated by the caller: 'x', 'y, z', '2024-01-31'" in str(told["promise"])
    id = browser.tell("run/start", **form, confirmed=True, receipt=told["receipt"]).json()["id"]
    assert finished(browser, id)["state"] == "released"
    assert Release.load(folder / "out").feature_names[-3:] == (
        "l=m,n=x",
        "l=m,n=y, z",
        "l=m,n=2024-01-31",
    )


def test_levels_are_never_filled_in_and_shown_before_and_after(browser, ledger, folder):
    taken = {"columns": [*NAMES, "ward"], "epsilon": 9.0}
    for how in ({"levels": []}, {"levels": [" "]}, {"date": ""}, "a,b", {"levels": "a,b"}, 7):
        for path in ("plan", "promise"):
            answer = browser.tell(path, **chosen(**taken, encode={"ward": how}))
            assert answer.status_code == 400, (how, answer.text)
    form = chosen(**taken, encode={"ward": {"levels": ["north", "a, b"]}})
    told = browser.tell("promise", **form).json()
    assert told["encoded"] == [
        ["ward", "0 or 1 for each of 'north', 'a, b'; 0 in all for any other value"]
    ]
    assert "2 levels stated by the caller: 'north', 'a, b'" in str(told["promise"]["statements"])
    dated = chosen(**taken, encode={"ward": {"date": "2024-01-31"}})
    assert "'ward' holds no dates such as" in browser.tell("promise", **dated).json()["error"]
    people = (folder / "people.csv").read_text()
    (folder / "dated.csv").write_text(people.replace("secretive", "2024-02-28"))
    dated["table"] = "dated.csv"
    assert browser.tell("promise", **dated).json()["encoded"] == [["ward", "days since 2024-01-31"]]
    found = chosen(**taken, encode={"ward": "private"})
    (only,) = browser.tell("promise", **found).json()["encoded"]
    assert only[1].startswith("levels found privately")
    id = confirmed(browser, **form)
    assert finished(browser, id)["state"] == "released"
    assert (
        "levels stated by the caller: 'north', 'a, b'" in Release.load(folder / "out").statement()
    )


def test_what_is_checked_is_what_the_command_names(studio, folder):
    """A file of a subfolder is not taken for its namesake of the folder, which may be a link."""
    (folder / "sub").mkdir()
    shutil.copy(folder / "people.csv", folder / "sub" / "t.csv")
    (folder / "sub" / "k.pem").touch()
    for name in ("t.csv", "x.ledger", "k.pem", "out"):
        (folder / name).symlink_to(folder.parent / "elsewhere")
    told = options(
        studio, table="sub/t.csv", ledger="sub/x.ledger", sign="sub/k.pem", output="sub/o"
    )
    assert told.table == "sub/t.csv"
    assert told.terms["ledger"] == "sub/x.ledger"
    assert told.record == {"sign": "sub/k.pem", "output": "sub/o"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": "../people.csv"},
        {"table": "none.csv"},
        {"columns": []},
        {"columns": "age"},
        {"columns": ["age", "no such"]},
        {"unit": "no such"},
        {"encode": ["ward"]},
        {"encode": {"no such": "private"}},
        {"adjacency": "both"},
        {"missing": "guess"},
        {"scale": "public"},
        {"table": "first"},
        {"of": "secrets"},
        {"k": "2; rm"},
        {"epsilon": True},
        {"epsilon": None},
        {"epsilon": -1.0},
        {"delta": 2.0},
        {"bounds": {"age": [1]}},
        {"bounds": {"age": [0, 1]}},
        {"ledger": "/tmp/x.ledger"},
        {"output": "../out"},
        {"output": "first"},
        {"output": "-o"},
        {"output": "first/-o"},
        {"sign": "none.pem"},
        {"title": 7},
        {"title": "x" * 3000},
    ],
    ids=str,
)
def test_wrong_choices_are_one_line_and_start_nothing(browser, studio, ledger, wrong):
    for path in ("promise", "run/start"):
        answer = browser.tell(path, **chosen(**wrong, confirmed=True))
        assert answer.status_code == 400, answer.text
        assert "\n" not in answer.json()["error"]
    assert studio.runs.overview() == []
    assert ledger.entries == ()


def test_the_sample_table_takes_a_new_name(browser, folder, monkeypatch):
    monkeypatch.setattr("eigenveil.studio.planning._SAMPLE_ROWS", 200)
    (folder / "sample.csv").touch()
    assert browser.tell("sample").json()["name"] == "sample-2.csv"
    assert (folder / "sample-2.csv").stat().st_size > 10_000


def test_no_answer_about_a_table_holds_a_cell(browser, ledger):
    answers = [
        browser.ask("table", name="people.csv"),
        browser.tell("plan", **chosen()),
        browser.tell("promise", **chosen()),
        browser.tell("plan", **chosen(columns=["ward"])),
        browser.tell("promise", **chosen(columns=["ward", *NAMES])),
    ]
    for answer in answers:
        assert str(SECRET) not in answer.text
        assert "secretive" not in answer.text
    assert answers[-1].status_code == 400
    assert "--" not in answers[-1].json()["error"]
