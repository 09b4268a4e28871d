"""What happened in a federation, on the coordinator's disk: enough to go on after a crash.

One SQLite file. Everything in it was released by an owner, to this server, or is public: the file
is for who runs the server alone. An event is committed before anything follows from it.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

from eigenveil.exceptions import StateError
from eigenveil.federated.codes import Code
from eigenveil.storage.paths import private_file

_JOIN = "join"
# Rounds of owners with noise of their own, and of the steps of secure sums.
_ROUND = re.compile(r"basis|values|(ready|upload)-[0-9]{1,2}-[a-z]{1,32}")

_TABLE = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    event TEXT NOT NULL,
    round TEXT NOT NULL,
    owner TEXT NOT NULL,
    code TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT
"""
_FORMAT = 1  # user_version of the file


class Happening(StrEnum):
    """What an event is about."""

    BEGUN = "begun"  # data: the settings
    JOINED = "joined"  # data: the declaration
    ASKED = "asked"  # data: the question of a round
    ANSWERED = "answered"  # data: the answer, which was found good
    LEFT_OUT = "left-out"
    CLOSED = "closed"  # a round, with those who had answered
    RELEASED = "released"  # data: the fingerprint of the release
    DISMISSED = "dismissed"  # owners who were there know that nothing more will be asked


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Event:
    """One line of the journal."""

    happening: Happening
    round: str = ""
    owner: str = ""
    code: Code | None = None
    data: bytes = b""
    at: str = ""


class Journal:
    """Events in their order, in a file or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._name = name = ":memory:" if path is None else str(path)
        try:
            if path is not None:
                _take_rights(path)
            self._connection = sqlite3.connect(name, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            (found,) = self._connection.execute("PRAGMA user_version").fetchone()
            if found not in (0, _FORMAT):
                raise StateError(f"{name} was written by another version: use a new folder")
            self._connection.execute(_TABLE)
            self._connection.execute(f"PRAGMA user_version={_FORMAT}")
        except (sqlite3.Error, OSError, ValueError):
            raise StateError(f"{name} cannot be used as a journal: use a new folder") from None

    @classmethod
    def read(cls, path: Path) -> list[Event]:
        """Return the events of a file that another process may be writing to."""
        if not path.is_file():
            raise StateError(f"no journal at {path}: start the server first")
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
                (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
                return list(_events(file)) if tables else []  # a server is about to begin
        except (sqlite3.Error, ValueError, TypeError) as error:
            # A server was killed while it made the file, which the next one puts right. Later on
            # there is nothing to roll back.
            if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_ROLLBACK":
                return []
            raise _damaged(path) from None

    @property
    def events(self) -> list[Event]:
        """All of them, the oldest first."""
        try:
            return list(_events(self._connection))
        except (sqlite3.Error, ValueError, TypeError):
            raise _damaged(self._name) from None

    def note(self, event: Event) -> None:
        """Commit one more."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        values = (at, event.happening, event.round, event.owner, event.code or "", event.data)
        self._connection.execute(
            "INSERT INTO events (at, event, round, owner, code, data) VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _take_rights(path: Path) -> None:
    """Keep the file, and those that SQLite makes beside it, from all others."""
    beside = (Path(f"{path}-wal"), Path(f"{path}-shm"))
    for each in (path, *(other for other in beside if other.exists())):
        private_file(each)


def _damaged(name: object) -> StateError:
    return StateError(f"{name} is damaged, or no journal: use a new folder")


def _events(connection: sqlite3.Connection) -> Iterator[Event]:
    """Yield the events, or raise `ValueError` or `TypeError` for what is none."""
    columns = "at, event, round, owner, code, data"
    for at, event, name, owner, code, data in connection.execute(
        f"SELECT {columns} FROM events ORDER BY number"
    ):
        texts = all(isinstance(text, str) for text in (at, name, owner))
        if not (texts and isinstance(data, bytes)):
            raise TypeError
        found = Event(
            happening=Happening(event),
            round=name,
            owner=owner,
            code=Code(code) if code else None,
            data=data,
            at=at,
        )
        _require_possible(found)
        yield found


def _require_possible(event: Event) -> None:
    """Raise `ValueError` for an event that no coordinator notes."""
    joining, later = event.round == _JOIN, _ROUND.fullmatch(event.round) is not None
    match event.happening:
        case Happening.JOINED:
            possible = joining
        case Happening.ANSWERED:
            possible = later
        case Happening.ASKED | Happening.LEFT_OUT | Happening.CLOSED:
            possible = joining or later
        case _:
            possible = event.round == ""
    if not possible:
        raise ValueError
    if (event.happening is Happening.LEFT_OUT) != (event.code is not None):
        raise ValueError
    if event.happening is Happening.RELEASED:
        event.data.decode("ascii")
