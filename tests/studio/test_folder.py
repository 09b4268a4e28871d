"""Nothing outside the folder is reached, by whatever name."""

import os

import pytest

from eigenveil.exceptions import InvalidParameterError
from eigenveil.studio.folder import Folder

OUTSIDE = [
    "..",
    "../secret.txt",
    "first/../../secret.txt",
    "/etc/passwd",
    "./people.csv",
    "a//b",
    "",
    "x\0",
    "..\\secret.txt",
    "-o",
    "first/-o",
    "file:/secret.txt",
    "s3:/bucket/t.parquet",
    "a\udcff",
    "\ud800",
    None,
    7,
    "/".join("a" * 9),
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_elsewhere_are_refused(folder, name):
    (folder.parent / "secret.txt").write_text("secret")
    with pytest.raises(InvalidParameterError):
        Folder(folder).place(name)


def test_a_folder_that_is_named_like_an_address_leads_nowhere_else(browser, folder):
    """The command line takes file:/x for the address of a file outside."""
    (folder / "file:").mkdir()
    (folder / "s3:").mkdir()
    for name in ("file:/people.csv", "s3:/people.csv"):
        (folder / name).write_bytes((folder / "people.csv").read_bytes())
        answer = browser.ask("table", name=name)
        assert answer.status_code == 400
        assert "taken for an address" in answer.json()["error"]
    assert Folder(folder).place("10:30 visits.csv").name == "10:30 visits.csv"


def test_a_table_is_a_file(browser, folder):
    """A folder of parquet files may hold links that lead out of it."""
    (folder / "parts").mkdir()
    (folder / "parts" / "a.parquet").symlink_to(folder.parent / "elsewhere.parquet")
    answer = browser.ask("table", name="parts")
    assert answer.status_code == 400
    assert "not a file" in answer.json()["error"]


def test_links_are_refused_at_every_step(folder):
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "secret.csv").write_text("a,b\n1,2\n")
    os.symlink(folder.parent / "outside", folder / "linked")
    os.symlink(folder.parent / "outside" / "secret.csv", folder / "linked.csv")
    os.symlink(folder.parent / "nowhere", folder / "new")
    found = Folder(folder)
    for name in ("linked", "linked/secret.csv", "linked.csv", "new"):
        with pytest.raises(InvalidParameterError, match="link"):
            found.place(name)
    assert found.tables() == ["people.csv"]


def test_it_knows_tables_releases_ledgers_and_keys(folder):
    for name in (".hidden.csv", "-o.csv", "a.ledger", "k.pem", "k.pem.pub", "b.zip", "n.txt"):
        (folder / name).touch()
    found = Folder(folder)
    assert found.tables() == ["people.csv"]
    assert found.releases() == ["b.zip", "first", "second"]
    assert found.ledgers() == ["a.ledger"]
    assert found.keys() == ["k.pem", "k.pem.pub"]
    assert found.federations() == []
    assert found.new_name("first") == "first-2"
    assert found.new_name("third") == "third"


@pytest.mark.parametrize("name", ["../first", "/etc", "linked", "received:../first"])
def test_the_page_reaches_nothing_else(browser, folder, name):
    os.symlink(folder.parent, folder / "linked")
    answer = browser.ask("release", name=name)
    assert answer.status_code == 400
    assert "error" in answer.json()
