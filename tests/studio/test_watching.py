"""The tabs Ledger and Federation: what was spent and would be, and how far a federation is."""

import pytest

from eigenveil import Ledger
from eigenveil.federated import Code, Event, Happening, Journal
from eigenveil.privacy import Adjacency, Gaussian, Pure
from eigenveil.storage import JOURNAL
from tests.cli.conftest import invoke


def charged(folder, costs, **total):
    ledger = Ledger.create(folder / "people.ledger", **total)
    for i, cost in enumerate(costs):
        ledger.charge(cost, label=f"release {i}", adjacency=Adjacency.REPLACE_ONE)
    return ledger


@pytest.mark.parametrize(
    ("costs", "total"),
    [
        ([], {"epsilon": 2.0, "delta": 1e-6}),
        ([Gaussian(0.1), Gaussian(0.2)], {"epsilon": 2.0, "delta": 1e-6}),
        ([Pure(0.25)], {"epsilon": 2.0}),
        ([Gaussian(0.1)], {"rho": 0.5}),
    ],
    ids=["new", "gaussian", "pure", "rho"],
)
def test_a_ledger_tells_its_history_and_what_is_next(browser, folder, costs, total):
    ledger = charged(folder, costs, **total)
    found = browser.ask("ledger", name="people.ledger").json()
    now = ledger.balance()
    assert (found["spent"], found["granted"]) == (now.spent, now.granted)
    assert [entry["label"] for entry in found["entries"]] == [e.label for e in ledger.entries]
    steps = [entry["after"] for entry in found["entries"]]
    assert steps == sorted(steps)
    assert found["next"]
    for one in found["next"]:
        assert one["before"] == pytest.approx(now.spent)
        assert now.spent < one["after"] <= now.granted * (1 + 1e-9)
        assert one["largest"] <= now.largest_next


def test_a_ledger_can_be_taken_along(browser, folder):
    charged(folder, [Gaussian(0.1)], epsilon=2.0, delta=1e-6)
    answer = browser.ask("ledger/export", name="people.ledger")
    title, line = answer.text.splitlines()
    assert title.startswith("number,time,label")
    assert "release 0" in line
    assert answer.headers["content-type"].startswith("text/csv")


def test_what_a_release_would_leave_is_what_it_leaves(folder):
    ledger = charged(folder, [Gaussian(0.1)], epsilon=2.0, delta=1e-6)
    foreseen = ledger.balance_with(Gaussian(0.2))
    ledger.charge(Gaussian(0.2), label="next", adjacency=Adjacency.REPLACE_ONE)
    assert ledger.balance() == foreseen


def test_a_damaged_ledger_is_one_line(browser, folder):
    (folder / "bad.ledger").write_bytes(b"no ledger\n")
    answer = browser.ask("ledger", name="bad.ledger")
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]


BEGUN = (
    '{"federation": "registry", "quorum": 2, "owners": {"north": {}, "south": {}, "<b>": {}},'
    ' "steps": [{"kind": "mean"}]}'
)


def test_a_federation_is_told_as_by_the_command_line(browser, folder):
    place = folder / "server"
    place.mkdir(mode=0o700)
    with Journal(place / JOURNAL) as journal:
        for event in (
            Event(happening=Happening.BEGUN, data=BEGUN.encode()),
            Event(happening=Happening.ASKED, round="join"),
            Event(happening=Happening.JOINED, round="join", owner="north"),
            Event(happening=Happening.LEFT_OUT, round="join", owner="<b>", code=Code.COLUMNS),
            Event(
                happening=Happening.LEFT_OUT, round="join", owner="mallory", code=Code.FEDERATION
            ),
        ):
            journal.note(event)
    assert browser.ask("state").json()["federations"] == ["server"]
    found = browser.ask("federation", name="server").json()
    told = invoke("federate", "status", place).stdout
    assert found["federation"] in told
    assert found["waiting"] == ["south"]
    assert "waiting for  south" in told
    (out,) = [owner for owner in found["owners"] if owner["name"] == "<b>"]
    assert out["rounds"][0]["left_out"] == Code.COLUMNS.explanation
    assert found["strangers"][0]["name"] == "mallory"
    assert found["events"][-1]["words"].startswith("mallory dropped out")
    assert browser.ask("federation", name="first").status_code == 400
