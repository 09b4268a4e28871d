"""The tab Plan and release: predictions spend nothing, the promise is the guarantee's own, and the
run is the command that the page shows.
"""

import json
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from eigenveil import Ledger, PrivatePCA, Release, open_rows
from eigenveil.cli import main
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.cost import Gaussian
from eigenveil.studio.runs import Run
from eigenveil.studio.words import command_words
from tests.cli.conftest import invoke
from tests.planner.few import few_simulations
from tests.studio.conftest import NAMES, SECRET

LEDGER = "people.ledger"


@pytest.fixture(autouse=True)
def quick():
    with few_simulations():
        yield


@pytest.fixture
def ledger(folder):
    return Ledger.create(folder / LEDGER, epsilon=20.0, delta=1e-5, unit="person")


def chosen(**changed):
    return {
        "table": "people.csv",
        "of": "components",
        "columns": list(NAMES),
        "unit": "patient_id",
        "k": 2,
        "epsilon": 8.0,
        "delta": 1e-5,
        "ledger": LEDGER,
        "output": "out",
        **changed,
    }


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
        names = open_rows(X).feature_names if not hasattr(X, "feature_names") else X.feature_names
        params = {k: str(v) for k, v in self.get_params().items() if k != "ledger"}
        asked.append((params, names, str(X.protects)))
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


def words(studio, **changed):
    return command_words(studio, chosen(**changed), complete=True)


def test_choices_become_options(studio):
    assert words(studio)[:6] == ["fit", "people.csv", "--unit", "patient_id", "--drop", "ward"]
    assert "--show-scores" in words(studio, show_scores=True)
    assert words(studio, of="covariance")[0] == "covariance"
    assert "--k" not in words(studio, of="covariance")
    levels = words(studio, columns=[*NAMES, "ward"], encode={"ward": "north,south"})
    assert levels[levels.index("--encode") + 1] == "ward=north,south"
    private = words(studio, columns=[*NAMES, "ward"], encode={"ward": "private"})
    assert private[private.index("--encode") + 1] == "ward"
    bounds = {name: [0, 200] for name in NAMES}
    ranged = words(studio, bounds=bounds)
    assert ranged[ranged.index("--bounds") + 1].startswith("age=0:200,height=0:200")
    single = words(studio, unit=None)
    assert "--unit" not in single
    assert single[single.index("--drop") + 1] == "patient_id,ward"
    assert words(studio, missing="centre").count("--on-missing") == 1
    assert words(studio, adjacency="add-remove").count("--adjacency") == 1


def test_what_is_checked_is_what_the_command_names(studio, folder):
    """A file of a subfolder is not taken for its namesake of the folder, which may be a link."""
    (folder / "sub").mkdir()
    shutil.copy(folder / "people.csv", folder / "sub" / "t.csv")
    (folder / "sub" / "k.pem").touch()
    for name in ("t.csv", "x.ledger", "k.pem", "out"):
        (folder / name).symlink_to(folder.parent / "elsewhere")
    told = words(studio, table="sub/t.csv", ledger="sub/x.ledger", sign="sub/k.pem", output="sub/o")
    assert told[1] == "sub/t.csv"
    for option, name in (("--ledger", "sub/x.ledger"), ("--sign", "sub/k.pem"), ("-o", "sub/o")):
        assert told[told.index(option) + 1] == name


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


def finished(browser, id):
    for _ in range(1200):
        found = browser.ask("run", id=id).json()
        if found["state"] != "running":
            return found
        time.sleep(0.02)
    raise AssertionError("the run does not end")


def test_a_run_is_confirmed_charged_and_saved_by_itself(browser, folder, ledger):
    """Nobody asks after it until the release is there: the browser may be closed."""
    assert browser.tell("run/start", **chosen()).status_code == 400
    assert browser.tell("run/start", **chosen(confirmed="yes")).status_code == 400
    assert ledger.entries == ()
    id = browser.tell("run/start", **chosen(confirmed=True, title="Profiles")).json()["id"]
    for _ in range(1500):
        if (folder / "out" / "release.json").exists():
            break
        time.sleep(0.02)
    ended = finished(browser, id)
    assert ended["state"] == "released"
    assert ended["release"] == {"name": "out", "fingerprint": Release.fingerprint(folder / "out")}
    assert len(ledger.entries) == 1
    assert Release.verify(folder / "out").settings["about"]["title"] == "Profiles"
    assert browser.ask("state").json()["runs"][0]["state"] == "released"
    text = browser.ask("run", id=id).text
    assert str(SECRET) not in text
    taken = browser.tell("run/start", **chosen(confirmed=True))
    assert taken.status_code == 400  # the name is taken
    assert len(ledger.entries) == 1
    kept = browser.studio.runs.get(id).out.parent
    browser.studio.runs.remove()
    assert not kept.exists()


def test_a_stopped_run_says_whether_it_was_charged(browser, folder, ledger):
    run = browser.tell("run/start", **chosen(confirmed=True)).json()["id"]
    stopped = browser.tell("run/stop", id=run).json()
    assert stopped["state"] in ("running", "stopped", "released")
    ended = finished(browser, run)
    if ended["state"] == "released":  # the stop came too late, which a quick machine may do
        assert (len(ledger.entries), (folder / "out").exists()) == (1, True)
        return
    assert ended["state"] == "stopped", ended
    assert ended["words"] == "nothing was charged" or "counts as spent" in ended["words"]
    assert bool(ledger.entries) == ("counts as spent" in ended["words"])
    assert not (folder / "out").exists()
    assert browser.tell("run/stop", id="none").status_code == 400


@pytest.mark.parametrize(("asked", "state"), [(True, "stopped"), (False, "failed")])
def test_a_run_that_is_stopped_while_it_starts_is_stopped(folder, ledger, asked, state):
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"]) as process:
        process.wait()
    (folder / "err").touch()
    run = Run(
        id="x",
        words=(),
        about={},
        process=process,
        out=folder / "out",
        err=folder / "err",
        started=0.0,
        ledger=ledger,
        entries=ledger.entries,
        asked_to_stop=asked,
    )
    assert run.status()["state"] == state
    assert run.status()["words"].endswith("nothing was charged")


@pytest.mark.parametrize(("number", "state"), [("SIGINT", "stopped"), ("SIGKILL", "failed")])
def test_of_a_run_that_ended_without_a_word_the_ledger_tells(folder, ledger, number, state):
    code = (
        f"import os, signal as s; s.signal(s.SIGINT, s.SIG_DFL); os.kill(os.getpid(), s.{number})"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        process.wait()
    (folder / "err").touch()
    run = Run(
        id="x",
        words=(),
        about={},
        process=process,
        out=folder / "out",
        err=folder / "err",
        started=0.0,
        ledger=ledger,
        entries=ledger.entries,
    )
    assert run.status()["state"] == state
    assert run.status()["words"].endswith("nothing was charged")
    ledger.charge(
        Gaussian(0.1), label="x", adjacency=Adjacency.REPLACE_ONE, unit=Unit("person", "patient_id")
    )
    assert run.status()["words"].endswith("what was charged is in the ledger: look there")
    ledger.path.unlink()
    assert "nothing was charged" not in run.status()["words"]


def test_what_is_said_of_a_charge_is_of_this_run(ledger):
    """Another run that charges meanwhile is not taken for this one."""
    from eigenveil.exceptions import BudgetExceededError
    from eigenveil.privacy.account import Account

    terms = {"label": "x", "adjacency": Adjacency.REPLACE_ONE, "unit": Unit("person", "patient_id")}
    mine, other = Account(ledger.path), Account(ledger.path)
    other.charge(Gaussian(0.1), **terms)
    assert mine.last_charge() is None
    assert other.last_charge() is not None
    with pytest.raises(BudgetExceededError):
        mine.charge(Gaussian(1e3), **terms)
    assert mine.last_charge() is None

    third = Account(ledger.path)
    third._unsure = True  # an interrupt came while a charge was written
    assert third.last_charge() is None
    other.charge(Gaussian(0.1), **terms)
    assert third.last_charge() is not None  # it may have been this run


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
