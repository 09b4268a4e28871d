"""A folder with a table and two releases, and a browser that has opened the studio of it."""

import csv
import json
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from eigenveil import Ledger, PrivatePCA
from eigenveil.studio.folder import Folder
from eigenveil.studio.guard import PAGE_HEADER, Address
from eigenveil.studio.server import _QUESTIONS, Studio, application

PORT = 8800
NAMES = ("age", "height", "weight", "pulse")
SECRET = 73.25  # a cell that no answer may hold


class Browser(TestClient):
    """A client that behaves as a browser with the page open: cookie, origin, token of the page."""

    def __init__(self, studio, *, opened=True):
        address = studio.address
        super().__init__(application(studio), base_url=address.origin, follow_redirects=False)
        self.studio, self.base = studio, address.path
        if opened:
            assert self.get(f"{self.base}?token={address.token}").status_code == 200

    def ask(self, path, **asked):
        return self.get(f"{self.base}api/{path}", params=asked)

    def tell(self, path, **asked):
        address = self.studio.address
        headers = {"origin": address.origin, PAGE_HEADER: address.page}
        return self.post(f"{self.base}api/{path}", json=asked, headers=headers)

    def ask_anything(self, path, body):
        """Ask a question with any body, or with its fields in the address, by the path's method."""
        where, address = f"{self.base}{path}", self.studio.address
        if _QUESTIONS[path][0] == "POST":
            headers = {"origin": address.origin, PAGE_HEADER: address.page}
            return self.post(where, content=body, headers=headers)
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            fields = {"name": body.decode()}
        return self.get(f"{where}?{urlencode(fields, errors='surrogatepass')}")

    def drop(self, path, content):
        address = self.studio.address
        headers = {"origin": address.origin, PAGE_HEADER: address.page}
        return self.put(f"{self.base}api/{path}", content=content, headers=headers)


def write_table(path, n=400):
    """Write rows of persons with two rows each, a column of text, and one cell to look for."""
    rng = np.random.default_rng(3)
    rows = np.round(rng.standard_normal((n, 4)) @ np.diag([9.0, 6.0, 3.0, 1.0]) + 50, 2)
    rows[7, 1] = SECRET
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient_id", "ward", *NAMES])
        writer.writerows([i // 2, "secretive", *row] for i, row in enumerate(rows.tolist()))
    return rows


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Rows, and two releases of them."""
    folder = tmp_path_factory.mktemp("made")
    rows = write_table(folder / "people.csv")
    for name, epsilon in (("first", 8.0), ("second", 4.0)):
        fitted = PrivatePCA(2, epsilon=epsilon, delta=1e-5, random_state=1).fit(rows)
        fitted.release_.described(title="Profiles").save(folder / name)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of it, in which the studio is started."""
    from shutil import copytree

    place = tmp_path / "work"
    copytree(made, place)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def studio(folder):
    found = Studio(Folder(folder), Address(PORT), "people.csv")
    yield found
    found.received.remove()
    found.runs.remove()


@pytest.fixture
def browser(studio):
    return Browser(studio)


@pytest.fixture
def ledger(folder):
    return Ledger.create(folder / "people.ledger", epsilon=20.0, delta=1e-5, unit="person")
