"""Whatever a page asks, the answer is one line and no internal error."""

import asyncio
import logging
import os
import random

import pytest
from starlette.requests import ClientDisconnect

from eigenveil import Ledger
from eigenveil.studio.guard import PAGE_HEADER
from eigenveil.studio.server import _QUESTIONS, application
from tests.planner.few import few_simulations
from tests.studio import hostile
from tests.studio.choices import LEDGER, chosen
from tests.studio.conftest import Browser

COUNT = 60  # questions to each path


@pytest.fixture(autouse=True)
def quick(folder, monkeypatch):
    Ledger.create(folder / LEDGER, epsilon=20.0, delta=1e-5, unit="person")
    monkeypatch.setattr("eigenveil.studio.planning._SAMPLE_ROWS", 20)
    with few_simulations():
        yield


def require_one_line(answer, asked):
    assert answer.status_code in (200, 400), (asked, answer.status_code, answer.text)
    if answer.status_code == 400:
        assert "\n" not in answer.json()["error"], asked
        assert "internal" not in answer.text, asked


@pytest.mark.parametrize("path", _QUESTIONS)
def test_hostile_questions_are_answered_in_one_line(browser, folder, path):
    before = {file.name for file in folder.iterdir()}
    for body in hostile.bodies(random.Random(path), COUNT):
        require_one_line(browser.ask_anything(path, body), body)
    left = {file.name for file in folder.iterdir()} - before
    assert {name for name in left if not name.endswith((".ledger", ".csv"))} == set()
    assert browser.studio.runs.overview() == []
    assert Ledger(folder / LEDGER).entries == ()


@pytest.mark.parametrize("path", [path for path in _QUESTIONS if _QUESTIONS[path][0] == "POST"])
def test_numbers_and_text_that_json_has_not_are_refused(browser, path):
    for body in hostile.each_raw():
        answer = browser.ask_anything(path, body)
        assert answer.status_code == 400, body
        assert "finite numbers and Unicode text" in answer.json()["error"]


@pytest.mark.parametrize(
    "content",
    [b"[]", b"7", b"{", b"[" * 9999, b"\xff", b'{"a": NaN}', '{"a": 1}'.encode("utf-16"), b"null"],
)
def test_what_is_no_question(browser, content):
    address = browser.studio.address
    headers = {"origin": address.origin, PAGE_HEADER: address.page}
    for path in ("plan", "received"):
        answer = browser.post(f"{browser.base}api/{path}", content=content, headers=headers)
        assert answer.status_code == 400
        assert "error" in answer.json()


def test_a_name_that_is_not_utf_8_hides_one_file_alone(folder, studio):
    for name in (b"\xff.csv", b"\xe9.ledger", b"k\xff.pem"):
        (folder / os.fsdecode(name)).touch()
    (folder / os.fsdecode(b"r\xff")).mkdir()
    browser = Browser(studio)
    assert browser.get(browser.base).status_code == 200
    found = browser.ask("state").json()
    assert (found["tables"], found["ledgers"]) == (["people.csv"], [LEDGER])
    assert found["unnamed"] == 4
    assert browser.ask("table", name="people.csv").status_code == 200
    assert browser.ask("table", name="\ufffd.csv").status_code == 400


def test_a_folder_that_is_not_utf_8_is_shown(made, tmp_path, monkeypatch):
    from eigenveil.studio.folder import Folder
    from eigenveil.studio.guard import Address
    from eigenveil.studio.server import Studio

    place = tmp_path / os.fsdecode(b"clinic \xff")
    place.mkdir()
    browser = Browser(Studio(Folder(place), Address(8800)))
    assert browser.get(browser.base).status_code == 200
    assert browser.ask("state").json()["folder"] == "clinic \\udcff"


def test_text_of_files_that_is_no_unicode_is_answered(browser, monkeypatch):
    monkeypatch.setattr("eigenveil.studio.ledgers.ledger", lambda *_: {"label": "\ud800"})
    assert browser.ask("ledger", name=LEDGER).json() == {"label": "\ud800"}


@pytest.mark.parametrize("path", ["api/plan", "api/received/x/release.json", "api/run/start"])
def test_a_browser_that_goes_leaves_no_traceback(studio, caplog, path):
    """Both before the body is complete and while a file is received."""
    address = studio.address
    where = path.replace("/x/", f"/{studio.received.begin()}/")
    scope = {
        "type": "http",
        "method": "PUT" if "received" in path else "POST",
        "path": f"{address.path}{where}",
        "query_string": b"",
        "headers": [
            (name.encode(), value.encode())
            for name, value in (
                ("host", address.host),
                ("origin", address.origin),
                ("cookie", f"eigenveil={address.cookie}"),
                (PAGE_HEADER, address.page),
            )
        ],
    }
    messages = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )
    told = []

    async def receive():
        return next(messages)

    async def send(message):
        told.append(message)

    with caplog.at_level(logging.ERROR):
        try:
            asyncio.run(application(studio)(scope, receive, send))
        except ClientDisconnect:
            pytest.fail("the server would write a traceback")
    assert told == []
    assert caplog.records == []
    if "received" in path:
        assert list(studio.received.place(where.split("/")[2]).iterdir()) == []


def test_a_full_disk_while_a_file_is_received_is_one_line(browser, monkeypatch):
    id = browser.tell("received").json()["id"]
    monkeypatch.setattr(
        "eigenveil.studio.folder.Received.place",
        lambda *_: (_ for _ in ()).throw(OSError(28, "full")),
    )
    monkeypatch.setattr("pathlib.Path.open", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    answer = browser.drop(f"received/{id}/release.json", b"x")
    assert answer.status_code == 400
    assert answer.json()["error"] == "cannot use a file: full"


def test_values_of_every_kind_are_swept():
    """The questions reach all that pages send, so that no field is left out by accident."""
    assert {*chosen(), "encode", "bounds", "receipt"} <= set(hostile.FIELDS)
    assert len(list(hostile.bodies(random.Random(0), COUNT))) == COUNT
