"""A stream that is kept in a state: resumed after a crash, for one caller at a time."""

import copy
import json
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from eigenveil import Ledger, Release, StreamingPCA
from eigenveil.estimators import State, StreamProgress, StreamRun, planned
from eigenveil.exceptions import (
    DuplicateBatchError,
    EigenveilError,
    InvalidParameterError,
    LedgerError,
    NothingFoundError,
    StateError,
)
from eigenveil.mechanisms import Oja
from eigenveil.numerics import captured_variance
from eigenveil.rows import Batch
from eigenveil.storage import locked
from tests.estimators.streams import BUDGET, STRONG, charges, label, table


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", rho=1000.0)


def test_a_state_goes_on_where_it_stopped(tmp_path, ledger):
    rows, state = table(1500), tmp_path / "state"
    for i, part in enumerate(np.array_split(rows, 25)):
        # Each time another estimator, as in another process.
        pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
        pca.partial_fit(part, batch=f"day {i}")
        assert pca.n_samples_ + pca.n_buffered_ == 60 * (i + 1)
    assert len(charges(ledger)) == 1
    last = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    with pytest.raises(NotFittedError):
        last.transform(rows)
    assert np.array_equal(last.partial_fit(rows[:0], batch=label()).components_, pca.components_)
    last.finish()
    assert last.n_samples_ == 1500
    assert captured_variance(last.components_, np.cov(rows.T)) > 0.99
    again = StreamingPCA(1, **STRONG, ledger=ledger, state=state).finish()
    assert np.array_equal(again.components_, last.components_)
    assert again.privacy_.sentence() == last.privacy_.sentence()
    assert len(charges(ledger)) == 1


def test_the_state_is_for_its_owner(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300), batch=label())
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    document = json.loads(zipfile.ZipFile(state).read("state.json"))
    assert document["notice"].startswith("PRIVATE")
    (records,) = tmp_path.glob("state.*.rows")
    assert stat.S_IMODE(records.stat().st_mode) == 0o600
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(["state", "state.lock", records.name])
    assert np.array_equal(np.load(records), table(300)[256:])  # those that were used are gone
    assert "_stream" not in vars(pca)  # no record stays in memory
    folder = pca.release_.save(tmp_path / "release")
    with pytest.raises(InvalidParameterError, match="is a release folder"):
        StreamingPCA(1, **STRONG, state=folder / "state").partial_fit(table(3), batch=label())


def test_a_saved_release_holds_no_row_and_no_label(tmp_path):
    rows = np.round(table(300), 6)
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(rows, batch="secret label")
    assert pca.n_buffered_ == 44
    folder = pca.release_.save(tmp_path / "release")
    held = b"".join(path.read_bytes() for path in folder.iterdir())
    (records,) = tmp_path.glob("state.*.rows")
    assert rows[-1].tobytes() in records.read_bytes()  # so the search below would find them
    for row in rows:
        assert row.tobytes() not in held
        assert repr(float(row[0])).encode() not in held
    name = State.load(state, StreamProgress).name
    for secret in ("secret label", name):
        assert secret.encode() not in held
        assert secret in zipfile.ZipFile(state).read("state.json").decode()
    assert Release.load(folder).settings["n_rows"] == 256
    assert Release.load(folder).transform(rows) == pytest.approx(pca.transform(rows))


def test_states_beside_each_other_do_not_touch(tmp_path):
    streams = [
        StreamingPCA(1, **STRONG, state=tmp_path / name)
        for name in ("a", "a.b", "a.rows", "[ab]", "a.0123abcd", "a.new")
    ]
    for seed in range(3):
        for pca in streams:
            pca.partial_fit(table(10, seed=seed), batch=label())
    assert [pca.partial_fit(table(1, seed=9), batch=label()).n_buffered_ for pca in streams] == [
        31
    ] * 6
    assert len(list(tmp_path.glob("*.rows"))) == 7  # one each, and the state of that name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 2),
        ("rho", 201.0),
        ("mechanism", "adaptive-oja"),
        ("mechanism", Oja(batch_size=40)),
        ("row_norm", 3.0),
        ("centring", "none"),
        ("batch_size", 40),
        ("on_invalid", "zero"),
        ("on_missing", "centre"),
        ("random_state", 1),
    ],
)
def test_another_configuration_is_refused_by_name(name, value, tmp_path):
    for state in (None, tmp_path / "state"):
        pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300), batch=label())
        other = pca if state is None else StreamingPCA(1, **STRONG, state=state)
        with pytest.raises(StateError, match=f"began with another {name}: ") as caught:
            other.set_params(**{name: value}).partial_fit(table(10), batch=label())
        assert str(value) not in str(caught.value)


def test_a_configured_mechanism_goes_on_from_its_state(tmp_path):
    options = {**BUDGET, "centring": "none", "random_state": 0}
    whole = StreamingPCA(1, **options, batch_size=100).partial_fit(table(300, 4), batch=label())
    for part in np.array_split(table(300, 4), 3):
        configured = Oja(batch_size=100)
        pca = StreamingPCA(1, **options, mechanism=configured, state=tmp_path / "state")
        pca.partial_fit(part, batch=label())
    assert (pca.n_samples_, whole.n_samples_) == (300, 300)
    assert pca.privacy_.cost == whole.privacy_.cost
    with pytest.raises(StateError, match="another mechanism"):
        StreamingPCA(1, **options, state=tmp_path / "state").partial_fit(
            table(10, 4), batch=label()
        )


def test_a_state_of_another_version_is_refused(tmp_path, monkeypatch):
    """Settings that this version does not know would be passed over, or missed."""
    with monkeypatch.context() as patched:
        patched.setattr(StreamProgress, "formats", ("eigenveil-stream/3",))
        StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(table(300), batch=label())
    with pytest.raises(StateError, match="another version"):
        StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(table(10), batch=label())


def test_another_ledger_is_refused(tmp_path, ledger):
    state = tmp_path / "state"
    StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(300), batch=label())
    other = Ledger.create(tmp_path / "other", rho=1000.0)
    for wrong in (None, other):
        with pytest.raises(LedgerError, match="another ledger, or from none"):
            StreamingPCA(1, **STRONG, ledger=wrong, state=state).partial_fit(
                table(10), batch=label()
            )
    assert other.entries == ()


def test_a_ledger_without_the_charge_is_refused(tmp_path):
    """An old copy of the ledger, from before the stream began."""
    ledger, state = Ledger.create(tmp_path / "l", rho=1000.0), tmp_path / "state"
    old = ledger.path.read_bytes()
    StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(300), batch=label())
    ledger.path.write_bytes(old)
    with pytest.raises(LedgerError, match="does not hold the charge"):
        StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(10), batch=label())
    assert ledger.entries == ()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "swap", "rows", "no rows"])
def test_a_damaged_state_is_refused(damage, tmp_path):
    state = tmp_path / "state"
    StreamingPCA(1, **STRONG, state=state).partial_fit(table(300), batch=label())
    data = bytearray(state.read_bytes())
    (records,) = tmp_path.glob("state.*.rows")
    if damage == "rows":
        records.write_bytes(records.read_bytes()[:-1] + b"x")
    elif damage == "no rows":
        records.unlink()
    elif damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "empty":
        data = b""
    elif damage == "other":
        data = b"label,value\n1,2\n"
    else:
        with zipfile.ZipFile(state) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        content["state.json"] = content["state.json"].replace(b'"spent": 256', b'"spent": 000')
        with zipfile.ZipFile(state, "w") as archive:
            for name, member in content.items():
                archive.writestr(name, member)
        data = state.read_bytes()
    state.write_bytes(bytes(data))
    with pytest.raises(StateError, match="not a whole state") as caught:
        StreamingPCA(1, **STRONG, state=state).partial_fit(table(10), batch=label())
    assert "\n" not in str(caught.value)


def test_one_writer_at_a_time(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(10), batch=label())
    with locked(state), pytest.raises(StateError, match="in use by another process"):
        pca.partial_fit(table(10, seed=1), batch=label())
    code = (
        "import sys; from pathlib import Path; from eigenveil.storage import locked\n"
        f"with locked(Path({str(state)!r})): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StateError, match="wait until it is done"):
        pca.partial_fit(table(10, seed=1), batch=label())
    holder.kill()  # a lock does not outlive its process
    holder.communicate()
    assert pca.partial_fit(table(10, seed=1), batch=label()).n_buffered_ == 20
    with pytest.raises(StateError, match="is its folder there"):
        StreamingPCA(1, **STRONG, state=tmp_path / "no" / "state").partial_fit(
            table(3), batch=label()
        )


def test_a_stream_is_not_begun_again_by_mistake(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300), batch=label())
    with pytest.raises(StateError, match="fit starts afresh"):
        pca.fit(table(300))
    state.unlink()
    with pytest.raises(StateError, match="this copy does not hold the stream"):
        pca.partial_fit(table(10), batch=label())
    original = StreamingPCA(1, **STRONG).partial_fit(table(300), batch=label())
    for twin in (copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert np.array_equal(twin.components_, original.components_)
        with pytest.raises(StateError, match="this copy does not hold the stream"):
            twin.partial_fit(table(10), batch=label())
    assert b"waiting" not in pickle.dumps(original)
    assert not hasattr(clone(original).partial_fit(table(3), batch=label()), "components_")
    assert original.fit(table(300, seed=1)).n_samples_ == 300


def test_an_error_in_a_step_loses_that_batch_only(tmp_path, ledger, monkeypatch):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    inner, failing = Oja.step, [True]

    def step(self, *arguments):
        if failing and failing.pop():
            raise NothingFoundError("nothing was found, and the budget is spent")
        return inner(self, *arguments)

    monkeypatch.setattr(Oja, "step", step)
    with pytest.raises(NothingFoundError):
        pca.partial_fit(table(150), batch="one")
    assert (pca.n_samples_, pca.n_buffered_) == (32, 86)  # the first batch after the centre is lost
    with pytest.raises(DuplicateBatchError):
        pca.partial_fit(table(150), batch="one")
    pca.partial_fit(table(150, seed=1), batch="two")
    left = State.load(state, StreamProgress).progress
    assert (left.spent, left.used, left.buffered) == (288, 256, 12)
    assert pca.n_lost_ == 32
    assert len(charges(ledger)) == 1


def test_records_are_noted_as_spent_before_their_step(tmp_path, ledger, monkeypatch):
    """What a process that is killed in a step leaves behind."""
    state, inner, noted = tmp_path / "state", Oja.step, []

    def step(self, current, batch, *arguments):
        noted.append((State.load(state, StreamProgress).progress.spent, batch.records.stop))
        return inner(self, current, batch, *arguments)

    monkeypatch.setattr(Oja, "step", step)
    StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(150), batch=label())
    assert noted
    assert all(spent == used for spent, used in noted)


def run_killed(folder, order):
    script = Path(__file__).with_name("kill_stream.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), order],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def used_twice(draws):
    """Whether a process drew on records that another had drawn on."""
    return any(
        one[0] != other[0] and one[1] < other[2] and other[1] < one[2]
        for i, one in enumerate(draws)
        for other in draws[:i]
    )


@pytest.mark.audit  # `tests.kill` does it at every change of a file; a slice of that stays
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_processes_use_no_record_twice_and_charge_once(tmp_path):
    found = run_killed(tmp_path, "honest")
    assert found["killed"] >= 8
    assert found["charges"] == 1
    assert found["finished"]
    assert found["spent"] == found["records"] == 600  # all that came is accounted for
    assert 0 < found["used"] < 600  # and some batches were lost
    assert found["waiting"] == 0
    assert found["draws"]
    assert not used_twice(found["draws"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.audit
def test_a_note_after_the_draw_would_be_noticed(tmp_path):
    assert used_twice(run_killed(tmp_path, "careless")["draws"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.audit
def test_rows_that_a_killed_process_leaves_are_removed_by_the_next_call(tmp_path):
    """Killed before each change of a file: of the first state, of later ones and of the last."""
    moments = run_killed(tmp_path, "everywhere")
    assert len(moments) > 50
    for left, named in moments:
        assert left == named
    assert {len(left) for left, _ in moments} == {2, 3, 4}  # no state, nothing waits, rows wait


# One stream, one caller


def test_a_stream_is_fed_by_one_thread_at_a_time(monkeypatch):
    """Two would take the same rows, under different positions."""
    pca = StreamingPCA(1, **BUDGET, centring="none", batch_size=100, random_state=0)
    rows = table(250, 4)
    inner = StreamRun.step

    def step(run, size):
        with pytest.raises(StateError, match="another thread"):
            pca.partial_fit(rows[:10])
        return inner(run, size)

    monkeypatch.setattr(StreamRun, "step", step)
    pca.partial_fit(rows)
    assert pca.n_samples_ == 200
    assert pca.n_buffered_ == 50


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_state_of_two_names_is_one_stream(tmp_path, link):
    options = {**BUDGET, "centring": "none", "batch_size": 400, "random_state": 0}
    rows = table(500, 4)
    real, other = tmp_path / "real", tmp_path / "other"
    StreamingPCA(1, state=real, **options).partial_fit(rows[:399], batch="mon")
    getattr(other, link)(real)
    if link == "hardlink_to":
        for path in (other, real):
            with pytest.raises(StateError, match="several names"):
                StreamingPCA(1, state=path, **options).partial_fit(rows[399:], batch="tue")
        return
    StreamingPCA(1, state=other, **options).partial_fit(rows[399:], batch="tue")
    with pytest.raises(DuplicateBatchError):
        StreamingPCA(1, state=real, **options).partial_fit(rows[399:], batch="tue")


def test_records_of_a_lost_batch_are_refused_by_the_gate(tmp_path, monkeypatch):
    options = {**BUDGET, "centring": "none", "batch_size": 100, "random_state": 0}
    rows = table(150, 4)
    pca = StreamingPCA(1, state=tmp_path / "s", **options)

    def dies(*arguments):
        raise OSError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(StreamRun, "use", dies)
        with pytest.raises(OSError, match="cut off"):
            pca.partial_fit(rows, batch=label())
    again = StreamingPCA(1, state=tmp_path / "s", **options).restore()
    assert again.n_lost_ == 100
    state = State.load(tmp_path / "s", StreamProgress)
    run = again._run(state, planned(again, state.settings))
    with pytest.raises(EigenveilError):
        run.use(Batch(rows[:100], 0))


def test_what_was_released_is_read_from_the_state(tmp_path):
    options = {**BUDGET, "centring": "none", "batch_size": 100, "state": tmp_path / "s"}
    first = StreamingPCA(1, **options).partial_fit(table(250, 4), batch=label())
    second = StreamingPCA(1, **options)
    with pytest.raises(NotFittedError, match="no components yet, 0 records wait"):
        second.transform(table(5, 4))
    assert np.array_equal(second.restore().components_, first.components_)
    assert second.n_buffered_ == 50
