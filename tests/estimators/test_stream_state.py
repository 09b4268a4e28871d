"""States that no stream has written: their sums are right, and what they say is impossible."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

from eigenveil import StreamingPCA
from eigenveil.exceptions import StateError
from eigenveil.release import SUMS
from eigenveil.storage.state_file import _sums
from tests.estimators.streams import label

ROWS = np.random.default_rng(0).standard_normal((50, 3)) * [3, 1, 1]
OPTIONS = {"rho": 50.0, "centring": "none", "batch_size": 20}


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state"
    StreamingPCA(1, **OPTIONS, state=path).partial_fit(ROWS, batch=label())
    return path


def opened(path):
    return StreamingPCA(1, **OPTIONS, state=path).restore()


def rewrite(path, change):
    """Write the state with something changed in it, and sums that go with it."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(content["state.json"])
    with np.load(io.BytesIO(content["arrays.npz"])) as stored:
        arrays = {name: stored[name] for name in stored.files}
    change(document, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content |= {"state.json": json.dumps(document).encode(), "arrays.npz": buffer.getvalue()}
    content[SUMS] = _sums(content)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def test_a_state_that_was_rewritten_as_it_was_is_whole(state):
    rewrite(state, lambda document, arrays: None)
    assert opened(state).n_buffered_ == 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spent", "40"),
        ("spent", True),
        ("used", 41),
        ("used", -1),
        ("centre_error", float("nan")),
        ("centre_error", -1.0),
        ("labels", [1]),
        ("settings", {}),
        ("settings", []),
        ("finished", 1),
        ("rows", 7),
    ],
)
def test_impossible_notes_are_refused(state, name, value):
    rewrite(state, lambda document, arrays: document.update({name: value}))
    with pytest.raises(StateError):
        opened(state)


@pytest.mark.parametrize("value", ["../../state", "state", None, -5])
def test_rows_lie_beside_the_state_under_a_name_of_their_own(state, value):
    rewrite(state, lambda document, arrays: document["rows"].update(file=value))
    with pytest.raises(StateError, match="not a whole state"):
        opened(state)


@pytest.mark.parametrize("first", [-5, 10**6, "0"])
def test_rows_begin_where_records_were_spent(state, first):
    rewrite(state, lambda document, arrays: document["rows"].update(first=first))
    with pytest.raises(StateError, match="not a whole state"):
        opened(state)


@pytest.mark.parametrize("odd", [np.array("x"), np.array(np.nan), np.zeros((3, 1, 1)), None])
def test_impossible_arrays_are_refused(state, odd):
    def change(document, arrays):
        name = next(name for name in arrays if "basis" in name)
        arrays.pop(name)
        if odd is not None:
            arrays[name] = odd

    rewrite(state, change)
    with pytest.raises(StateError, match="not a whole state"):
        opened(state)


def test_waiting_rows_have_the_columns_of_the_stream(state):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((10, 2)))

    def change(document, arrays):
        state.with_name(document["rows"]["file"]).write_bytes(buffer.getvalue())
        document["rows"]["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewrite(state, change)
    with pytest.raises(StateError, match="not a whole state"):
        opened(state)


def test_a_state_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StateError):
        opened(tmp_path / "loop")
