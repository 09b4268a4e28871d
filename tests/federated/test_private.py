"""What a server keeps is for nobody else on its machine."""

import os
import stat
from pathlib import Path

import pytest

from eigenveil.exceptions import StateError
from eigenveil.federated import Event, Happening, Journal
from eigenveil.storage import private_folder


@pytest.fixture(autouse=True)
def everybody():
    """No mask that would take rights away."""
    former = os.umask(0)
    yield
    os.umask(former)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_journal_is_read_by_its_owner_alone(tmp_path):
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.note(Event(happening=Happening.BEGUN, data=b"{}"))
        files = {each.name: rights(each) for each in tmp_path.iterdir()}
    assert files == dict.fromkeys(("journal", "journal-wal", "journal-shm"), 0o600)


def test_a_journal_that_others_could_read_is_taken_from_them(tmp_path):
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.note(Event(happening=Happening.BEGUN, data=b"{}"))
        for each in tmp_path.iterdir():
            each.chmod(0o644)
        with Journal(path) as again:  # of a server that crashed, all three are there
            assert len(again.events) == 1
            assert {rights(each) for each in tmp_path.iterdir()} == {0o600}


def test_what_is_no_file_keeps_its_rights(tmp_path):
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o755)
    with pytest.raises(StateError, match="cannot be used as a journal"):
        Journal(folder)
    assert rights(folder) == 0o755


def test_a_folder_is_private_or_refused(tmp_path):
    private_folder(tmp_path / "new" / "folder")
    assert rights(tmp_path / "new" / "folder") == 0o700
    (tmp_path / "wide").mkdir(mode=0o711)
    with pytest.raises(StateError, match="others can look into"):
        private_folder(tmp_path / "wide")


def test_keys_lie_in_a_folder_of_their_own(tmp_path):
    keys = pytest.importorskip("eigenveil.federated.flower.keys")
    keys.make_node_key(tmp_path / "north" / "north.key")
    assert rights(tmp_path / "north") == 0o700
    assert rights(tmp_path / "north" / "north.key") == 0o600
