"""Journals that no coordinator has written."""

import sqlite3
from contextlib import closing

import pytest

from eigenveil.cli.federate_status import tell
from eigenveil.exceptions import StateError
from eigenveil.federated import Coordinator, Event, Happening, InProcess, Journal
from tests.federated.stubs import NAMES, Stub, agreement


@pytest.fixture
def journal(tmp_path):
    """Return the file of a federation that has come to its end."""
    path = tmp_path / "journal.sqlite"
    owners = InProcess({name: Stub(name) for name in NAMES})
    Coordinator(agreement(), Journal(path)).run(owners)
    return path


def alter(path, statement):
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(statement).rowcount > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET round = 'prayer' WHERE event = 'asked'",
        "UPDATE events SET round = 'join' WHERE event = 'answered'",
        "UPDATE events SET code = 'absent' WHERE event = 'joined'",
        "UPDATE events SET event = 'dreamt' WHERE event = 'joined'",
    ],
)
def test_impossible_events_are_refused(journal, statement):
    alter(journal, statement)
    with pytest.raises(StateError, match="damaged, or no journal"):
        Journal.read(journal)
    with pytest.raises(StateError, match="damaged, or no journal"):
        Coordinator(agreement(), Journal(journal))


@pytest.mark.parametrize("column", ["at", "round", "owner", "data"])
def test_cells_of_other_types_are_refused(journal, column):
    with closing(sqlite3.connect(journal)) as file, file:
        file.execute("CREATE TABLE loose AS SELECT * FROM events")  # which has no types
        file.execute("DROP TABLE events")
        file.execute("ALTER TABLE loose RENAME TO events")
    assert Journal.read(journal)
    with closing(sqlite3.connect(journal)) as file, file:
        file.execute(f"UPDATE events SET {column} = NULL WHERE event = 'joined'")
    with pytest.raises(StateError, match="damaged, or no journal"):
        Journal.read(journal)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE event = 'asked' AND round = 'basis'",
        "DELETE FROM events WHERE event = 'closed' AND round = 'join'",
        "DELETE FROM events WHERE event = 'joined' AND owner = 'east'",
        "UPDATE events SET owner = 'south' WHERE event = 'answered' AND owner = 'east'",
    ],
)
def test_a_journal_that_contradicts_itself_is_refused(journal, statement):
    alter(journal, statement)
    with pytest.raises(StateError, match="contradicts itself"):
        Coordinator(agreement(), Journal(journal))


def test_a_journal_that_holds_together_is_gone_on_with(journal):
    assert Coordinator(agreement(), Journal(journal)).complete


def test_what_is_released_has_a_name_in_letters(tmp_path):
    path = tmp_path / "journal.sqlite"
    Journal(path).note(Event(happening=Happening.RELEASED, data=b"\xff"))
    with pytest.raises(StateError, match="damaged"):
        Journal.read(path)


@pytest.mark.parametrize("settings", [b"{}", b"nonsense", b"[" * 9000, b"[]", b'{"owners": 7}'])
def test_the_status_of_odd_settings_is_one_error(journal, settings):
    alter(journal, f"UPDATE events SET data = x'{settings.hex()}' WHERE event = 'begun'")
    with pytest.raises(StateError, match="damaged, or no journal"):
        tell(journal.parent, as_json=False)
