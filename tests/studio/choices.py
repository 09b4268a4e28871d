"""What a person chooses on the page, and the run of a release that was confirmed."""

import time

from tests.studio.conftest import NAMES

LEDGER = "people.ledger"


def chosen(**changed):
    return {
        "table": "people.csv",
        "of": "components",
        "columns": list(NAMES),
        "unit": "patient_id",
        "k": 2,
        "scale": "same",
        "epsilon": 8.0,
        "delta": 1e-5,
        "ledger": LEDGER,
        "output": "out",
        **changed,
    }


def confirmed(browser, **changed):
    """Start a run as the page does: look at the promise, tick the box."""
    told = browser.tell("promise", **chosen(**changed))
    assert told.status_code == 200, told.text
    answer = browser.tell(
        "run/start", **chosen(**changed), confirmed=True, receipt=told.json()["receipt"]
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def finished(browser, id):
    for _ in range(1200):
        found = browser.ask("run", id=id).json()
        if found["state"] != "running":
            return found
        time.sleep(0.02)
    raise AssertionError("the run does not end")
