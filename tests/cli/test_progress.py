"""Progress: on a terminal only, and never a number that is private."""

import io
import re
from types import SimpleNamespace

import numpy as np
import pytest

from eigenveil.cli.progress import watched
from eigenveil.exact import public_rows
from eigenveil.rows import ArraySource, CSVSource, IterableSource, decided, open_rows, tables


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("eigenveil.cli.progress.sys", SimpleNamespace(stderr=screen))
    monkeypatch.setattr("eigenveil.cli.progress._EVERY", 0.0)
    return screen


def read(source, *, public, passes=2):
    with watched(source, count_is_public=public) as rows:
        return [np.concatenate(list(tables(rows))) for _ in range(passes)]


def test_rows_are_the_same_and_a_share_is_shown(terminal):
    table = np.zeros((700_000, 8))
    first, second = read(ArraySource(table), public=True)
    assert first.shape == second.shape == table.shape
    shares = [int(share) for share in re.findall(r"(\d+)%", terminal.getvalue())]
    assert shares[0] == 0
    assert max(shares) > 50
    assert "pass 2" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")  # nothing stays behind


def test_a_private_number_of_rows_stays_private(terminal):
    """Whatever the number of rows, the same is shown."""
    shown = []
    for rows in (10, 700_000):
        read(ArraySource(np.zeros((rows, 8))), public=False)
        shown.append(terminal.getvalue())
        terminal.seek(0)
        terminal.truncate()
    assert shown[0] == shown[1]
    assert not re.search(r"\d", shown[0].replace("pass 1", "").replace("pass 2", ""))


def test_where_the_length_is_unknown_rows_are_counted(terminal):
    source = IterableSource([np.zeros((1000, 2))] * 3)
    read(source, public=True)
    assert ": 2,000" in terminal.getvalue()
    assert "%" not in terminal.getvalue()


def test_nothing_without_a_terminal(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr("eigenveil.cli.progress.sys", SimpleNamespace(stderr=pipe))
    source = ArraySource(np.zeros((10, 2)))
    with watched(source, count_is_public=True) as rows:
        assert rows is source
        assert rows._watch is None
        list(tables(rows))
    assert pipe.getvalue() == ""


def test_what_is_known_about_a_source_stays_known(terminal, tmp_path):
    """The number of rows of an array is not found by reading it."""
    source = ArraySource(np.zeros((10, 2)))
    with watched(source, count_is_public=True) as rows:
        assert isinstance(rows, ArraySource)
        assert public_rows(rows) == 10
    assert terminal.getvalue() == "\r\x1b[K"
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 10)
    with watched(CSVSource(tmp_path / "a.csv"), count_is_public=True) as rows:
        assert public_rows(rows) == 10


def test_rows_whose_levels_were_found_are_the_ones_that_are_read(terminal, tmp_path):
    (tmp_path / "a.csv").write_text("age,ward\n" + "41,a\n42,b\n" * 5)
    source = open_rows(tmp_path / "a.csv", encode={"ward": "private"})
    with watched(source, count_is_public=True) as rows:
        found = decided(rows, {"ward": ["b"]})
        table = np.concatenate(list(tables(found)))
    assert np.array_equal(table, [[41, 0], [42, 1]] * 5)
    assert "pass 1" in terminal.getvalue()
