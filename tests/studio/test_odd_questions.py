"""Whatever a page asks, the answer is one line and no internal error."""

import itertools

import pytest

from eigenveil import Ledger
from eigenveil.studio.guard import PAGE_HEADER
from eigenveil.studio.server import _QUESTIONS
from tests.planner.few import few_simulations
from tests.studio.choices import LEDGER, chosen

ODD = [None, True, 0, -1, 1e308, "", "x", "\0", "../x", "é" * 300, [], [1], {}, {"a": [1, 2]}]
# Started runs are processes: what would be refused is refused before, as for a promise.
PATHS = [path for path in _QUESTIONS if path not in ("api/run/start", "api/sample")]


@pytest.fixture(autouse=True)
def quick(folder):
    Ledger.create(folder / LEDGER, epsilon=20.0, delta=1e-5, unit="person")
    with few_simulations():
        yield


@pytest.mark.parametrize("path", PATHS)
def test_odd_answers_to_every_field(browser, folder, path):
    before = {file.name for file in folder.iterdir()}
    method = _QUESTIONS[path][0]
    fields = [*chosen(), "name", "id", "format", "key", "first", "bounds", "encode", "rows"]
    # Values take turns at the fields, from another one for each path: two dozen questions.
    values = itertools.islice(itertools.cycle(ODD), PATHS.index(path), None)
    for field in fields:
        asked = {**chosen(name="first", k=1, epsilon=9.0), field: next(values)}
        name = path.removeprefix("api/")
        answer = browser.tell(name, **asked) if method == "POST" else browser.ask(name, **asked)
        assert answer.status_code in (200, 400), (asked, answer.text)
        if answer.status_code == 400:
            assert "\n" not in answer.json()["error"]
    after = {file.name for file in folder.iterdir()}
    assert {name for name in after - before if not name.endswith(".ledger")} == set()


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{", b"[" * 9999, b"\xff", b'{"a": NaN}'])
def test_what_is_no_question(browser, content):
    address = browser.studio.address
    headers = {"origin": address.origin, PAGE_HEADER: address.page}
    answer = browser.post(f"{browser.base}api/plan", content=content, headers=headers)
    assert answer.status_code == 400
    assert "error" in answer.json()
