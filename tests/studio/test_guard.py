"""Who is answered: the browser that opened the first address, its own page, and nobody else."""

import socket
import stat
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from eigenveil.studio.guard import HOST, LARGEST_UPLOAD, PAGE_HEADER
from tests.cli.conftest import invoke
from tests.studio.conftest import Browser

STATE = "api/state"


def test_the_first_address_becomes_a_strict_cookie(studio):
    browser = Browser(studio, opened=False)
    assert browser.ask("state").status_code == 403
    answer = browser.get(f"{browser.base}?token={studio.address.token}")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert f"Path={studio.address.path}" in cookie  # other ports of this computer do not get it
    assert studio.address.token not in cookie
    assert f'content="0; url={studio.address.path}"' in answer.text  # on to the page, from here
    assert studio.address.token not in answer.text
    assert browser.ask("state").status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_another_token_opens_nothing(studio, token):
    browser = Browser(studio, opened=False)
    answer = browser.get(browser.base, params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "Open the address" in answer.text


def test_a_token_opens_the_page_alone(studio):
    browser = Browser(studio, opened=False)
    assert browser.ask("state", token=studio.address.token).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8800", "127.0.0.1", "127.0.0.1:8801", "localhost:8800", ""],
)
def test_another_name_for_this_computer_is_refused(browser, host):
    """A name that somebody else owns may point here: DNS rebinding."""
    answer = browser.get(f"{browser.base}{STATE}", headers={"host": host})
    assert answer.status_code == 421
    assert "people" not in answer.text


def test_another_origin_is_refused_even_for_a_look(browser):
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://127.0.0.1:8800",
    ):
        answer = browser.get(f"{browser.base}{STATE}", headers={"origin": origin})
        assert answer.status_code == 403
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert browser.get(f"{browser.base}{STATE}", headers=headers).status_code == 403


def test_more_than_a_look_needs_origin_and_token_of_the_page(browser):
    address = browser.studio.address
    path = f"{browser.base}api/received"
    right = {"origin": address.origin, PAGE_HEADER: address.page}
    assert browser.post(path, json={}, headers=right).status_code == 200
    for name in right:
        fewer = {key: value for key, value in right.items() if key != name}
        assert browser.post(path, json={}, headers=fewer).status_code == 403
    assert browser.post(path, json={}, headers={**right, PAGE_HEADER: "x"}).status_code == 403
    assert browser.post(path, json={}, headers={**right, "origin": "null"}).status_code == 403
    assert (
        browser.put(f"{path}/x/y", content=b"", headers={"origin": address.origin}).status_code
        == 403
    )


def test_without_the_path_nothing_is_there(browser):
    assert browser.get("/").status_code == 404
    assert browser.get("/api/state").status_code == 404


def test_a_browser_may_do_little_with_an_answer(browser):
    for path in ("", STATE, "static/studio.js", "api/none", "api/release?name=none"):
        headers = browser.get(f"{browser.base}{path}").headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_large_questions_are_not_read(browser):
    address = browser.studio.address
    headers = {"origin": address.origin, PAGE_HEADER: address.page}
    path = f"{browser.base}api/received"
    large = {**headers, "content-length": str(2**20 + 1)}
    assert browser.post(path, content=b"", headers=large).status_code == 413
    assert (
        browser.post(path, content=b"", headers={**headers, "content-length": "x"}).status_code
        == 413
    )
    streamed = browser.post(path, content=(b" " * 2**18 for _ in range(5)), headers=headers)
    assert streamed.status_code == 413
    upload = {**headers, "content-length": str(LARGEST_UPLOAD + 1)}
    assert browser.put(f"{path}/a/release.zip", content=b"", headers=upload).status_code == 413


def test_a_socket_is_closed(studio):
    from starlette.websockets import WebSocketDisconnect

    browser = Browser(studio)
    with pytest.raises(WebSocketDisconnect), browser.websocket_connect(f"{browser.base}{STATE}"):
        pass


def test_the_token_is_in_no_command_line(folder, monkeypatch):
    """Browsers are started with an address as a word, which every user of a computer can read."""
    opened, seen = threading.Event(), {}

    def open_browser(address):
        file = Path(unquote(urlsplit(address).path))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)]
        seen.update(address=address, file=file, modes=modes, text=file.read_text())
        opened.set()

    monkeypatch.setattr("webbrowser.open", open_browser)
    monkeypatch.setattr("eigenveil.studio.command._serve", lambda *_: opened.wait(20))
    told = invoke("studio").stdout.split()[1]
    assert "token=" in told
    assert seen["address"].startswith("file:///")
    assert told.partition("token=")[2] not in seen["address"]
    assert f'content="0; url={told}"' in seen["text"]
    assert seen["modes"] == [0o600, 0o700]
    assert not seen["file"].parent.exists()


def test_it_binds_to_this_computer_alone():
    from eigenveil.studio.command import _listening

    with _listening(0) as listener:
        assert listener.getsockname()[0] == HOST == "127.0.0.1"
        socket.create_connection(listener.getsockname(), 5).close()  # before anybody answers


def test_two_studios_share_no_secret(studio):
    from eigenveil.studio.guard import Address

    other = Address(studio.address.port)
    for name in ("path", "token", "cookie", "page"):
        assert getattr(other, name) != getattr(studio.address, name)
        assert len(getattr(other, name)) >= 16
