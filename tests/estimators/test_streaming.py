"""Records over days: buffered, used once, resumed after a crash, one budget for all of it."""

import copy
import json
import math
import os
import pickle
import shutil
import stat
import subprocess
import sys
import threading
import traceback
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenveil import Ledger, PrivatePCA, Release, StreamingPCA
from eigenveil.audit import audit
from eigenveil.data import Clip, open_rows, second_moment, total
from eigenveil.data.sources import Batch, IterableSource
from eigenveil.estimators import stream_plan, stream_state
from eigenveil.estimators.stream_run import StreamRun
from eigenveil.estimators.stream_state import Stream, digest
from eigenveil.exceptions import (
    BudgetExceededError,
    DuplicateBatchError,
    EigenveilError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NothingFoundError,
    StateError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import GaussCov, GaussianNoise, PrivateMean
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.oja import Oja, OjaPCA
from eigenveil.mechanisms.pca.one_pass import OnePassState
from eigenveil.mechanisms.registry import entries
from eigenveil.numerics.metrics import captured_variance
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.privacy.accounting import (
    covers,
    delta_of,
    fits,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Composed, Gaussian, Pure
from eigenveil.storage.durable import locked, unchanged

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
STRONG = {"rho": 200.0}  # mu = 20: batches of 32 records and a centre of as many
REPLACE = Adjacency.REPLACE_ONE
UNIT = Clip(row_norm=1.0, normalise=True)
METHODS = pytest.mark.parametrize(
    "mechanism", [one.name for one in entries("components") if one.streams]
)


def table(n=2000, d=5, shift=4.0, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    rows[:, 0] *= 6.0
    return rows + shift


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", rho=1000.0)


def charges(ledger):
    return [entry for entry in ledger.entries if entry.cost != Composed(())]


# Buffering and batches.


def test_records_wait_until_their_batch_is_full():
    rows = table(300)
    pca = StreamingPCA(1, **STRONG)
    seen = []
    for row in rows[:130]:
        pca.partial_fit(row[None])
        seen.append((pca.n_samples_, pca.n_buffered_))
    assert all(used + waiting == i + 1 for i, (used, waiting) in enumerate(seen))
    # 32 for the centre, then batches of 32 and 64 and not of 1.
    assert sorted({used for used, _ in seen}) == [0, 32, 64, 128]


def test_how_records_arrive_does_not_matter():
    """The same batches, whatever the chunks are: the same draws, given the same noise."""
    rows = table(700)
    options = {**STRONG, "random_state": 3}
    expected = StreamingPCA(2, **options).partial_fit(rows).finish()
    for size in (50, 333):
        pca = StreamingPCA(2, **options)
        for i in range(0, 700, size):
            pca.partial_fit(rows[i : i + size])
        assert np.array_equal(pca.finish().components_, expected.components_)
    chunks = StreamingPCA(2, **options).partial_fit(iter(np.split(rows, 7))).finish()
    assert np.array_equal(chunks.components_, expected.components_)


@METHODS
@pytest.mark.parametrize("options", [{}, {"row_norm": 40.0}, {"batch_size": 400}], ids=str)
def test_the_components_are_found(mechanism, options):
    rows = table(20_000, 8)
    pca = StreamingPCA(1, **BUDGET, mechanism=mechanism, **options, random_state=0)
    for part in np.array_split(rows, 9):
        pca.partial_fit(part)
    pca.finish()
    assert pca.n_samples_ == 20_000
    assert pca.n_buffered_ == 0
    assert captured_variance(pca.components_, np.cov(rows.T)) > 0.99
    assert pca.reliability_[0] > 0.9
    assert np.linalg.norm(pca.mean_ - 4.0) < 1.5
    scores = pca.transform(rows)
    assert scores == pytest.approx((rows - pca.mean_) @ pca.components_.T)
    assert pca.inverse_transform(scores).shape == rows.shape
    if "row_norm" in options:  # pulled in nearer than stated by the others
        assert (29 if mechanism == "oja" else 15) < pca.explained_variance_[0] < 43
    else:
        assert pca.explained_variance_.sum() <= 1.0


def test_a_centre_of_its_own_is_as_good_as_known():
    """At a tenth of the loss that the origin as centre would bring."""
    rows = table(20_000, 8, shift=10.0)
    truth = np.cov(rows.T)
    options = {**BUDGET, "random_state": 1}
    found = captured_variance(StreamingPCA(1, **options).fit(rows).components_, truth)
    lost = StreamingPCA(1, **options, centring="none").fit(rows)
    assert found > 0.99
    assert captured_variance(lost.components_, truth) < 0.9


def test_fit_does_not_mind_how_a_table_is_sorted():
    rows = table(20_000, 8)
    rows = rows[np.argsort(rows[:, 0])]
    pca = StreamingPCA(1, **BUDGET, random_state=0)
    assert captured_variance(pca.fit(rows).components_, np.cov(rows.T)) > 0.99
    assert abs(pca.mean_[0] - 4.0) < 1
    first = StreamingPCA(1, **BUDGET, random_state=0).partial_fit(rows)
    assert abs(first.mean_[0] - 4.0) > 5  # a stream is taken as it comes


def test_a_fit_that_fails_after_its_charge_is_found_again(tmp_path, ledger, monkeypatch):
    """The order of the rows is the first thing drawn: the state has the name by then."""
    state = tmp_path / "state"

    def killed(self, size):
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "take", killed)
    with pytest.raises(KeyboardInterrupt):
        StreamingPCA(1, **STRONG, ledger=ledger, state=state).fit(table(300))
    monkeypatch.undo()
    assert len(ledger.entries) == 1
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    with pytest.raises(StateError, match="begun by fit, which was cut off"):
        pca.partial_fit(table(10, seed=1))
    assert pca.finish().n_samples_ == 300
    assert len(charges(ledger)) == 1


def test_a_stream_that_ends_early_says_how_many_records_it_needs(ledger):
    pca = StreamingPCA(1, **STRONG, ledger=ledger)
    pca.partial_fit(table(20))
    with pytest.raises(InvalidDataError, match=r"'oja' needs 256 records at least for 5 columns"):
        pca.finish()
    assert ledger.entries == ()
    pca.partial_fit(table(235, seed=1))  # it was not closed
    with pytest.raises(InvalidDataError, match="needs 256 records"):
        pca.finish()
    pca.partial_fit(table(1, seed=2)).finish()
    assert (pca.n_samples_, pca.n_buffered_) == (256, 0)
    with pytest.raises(InvalidParameterError, match="the stream is finished"):
        pca.partial_fit(table(1))
    assert pca.finish().n_samples_ == 256
    with pytest.raises(InvalidDataError, match="needs 256 records"):
        StreamingPCA(1, **STRONG, ledger=ledger).fit(table(255))
    assert len(ledger.entries) == 1
    with pytest.raises(InvalidDataError, match="no records came yet"):
        StreamingPCA(1, **STRONG).finish()


def test_what_waits_is_the_last_batch():
    pca = StreamingPCA(1, **STRONG, random_state=0).partial_fit(table(300))
    before = pca.components_.copy()
    assert (pca.n_samples_, pca.n_buffered_) == (256, 44)
    pca.finish()
    assert (pca.n_samples_, pca.n_buffered_) == (300, 0)
    assert not np.array_equal(pca.components_, before)


def test_reliability_waits_for_the_records_a_method_needs():
    pca = StreamingPCA(1, **STRONG, random_state=0).partial_fit(table(100))
    assert hasattr(pca, "components_")
    assert not pca.reliability_.any()
    assert pca.partial_fit(table(200, seed=1)).reliability_[0] > 0.9


# The budget.


@METHODS
def test_every_batch_fits_into_what_is_charged(mechanism):
    """Right and tight: the method has all of the budget, the centre no more than the method."""
    for budget in (BUDGET, {"rho": 0.03}, {"epsilon": 8.0, "delta": 1e-9}, {"rho": 1e6}):
        for d in (2, 3000):
            plan = StreamingPCA(1, **budget, mechanism=mechanism)._plan(d)
            assert fits(plan.total, Budget(**budget))
            assert covers(plan.total, plan.centre.cost())
            assert plan.centre.cost().mu > 0.999999 * plan.method.mu
            louder = plan.method.__class__
            fields = {"mu": plan.method.mu * (1 + 1e-9), "n_components": 1}
            if mechanism != "oja":
                fields["epsilon"] = plan.method.epsilon * (1 + 1e-9)
            assert not fits(louder(**fields).cost(), Budget(**budget))


def test_a_pure_step_is_covered_by_its_mu():
    """Every delta of a pure step is below that of the Gaussian pair; a smaller mu would not do."""
    for epsilon in (1e-6, 1e-3, 0.1, 0.9, 1.1, 3.0, 12.0):
        mu = gaussian_mu(epsilon)
        at = np.linspace(0, epsilon, 40)
        pure = [(math.exp(epsilon) - math.exp(e)) / (1 + math.exp(epsilon)) for e in at]
        assert all(d <= gaussian_delta(mu, e) * (1 + 1e-9) for d, e in zip(pure, at, strict=True))
        small = [gaussian_delta(mu * (1 - 1e-6), e) for e in at]
        if epsilon < 5:  # then a millionth shows
            assert any(d > s * (1 + 1e-9) for d, s in zip(pure, small, strict=True))
        assert mu == pytest.approx(2 * _quantile(epsilon), rel=1e-9, abs=1e-12)
        assert Fraction(gaussian_mu(gaussian_epsilon(mu))) <= Fraction(mu)
        assert gaussian_epsilon(mu) == pytest.approx(epsilon, rel=1e-9)
    for epsilon in (100.0, 1e4, 1e6):
        assert gaussian_mu(gaussian_epsilon(epsilon)) <= epsilon
    mixed = Composed((Pure(0.2), Gaussian(0.5)))
    covered = Gaussian(math.hypot(gaussian_mu(0.2), 0.5))
    for e in (0.0, 0.3, 1.0, 2.0):
        assert delta_of(mixed, e) <= delta_of(covered, e)


def _quantile(epsilon):
    """Solve Phi(x) = 1/(1 + exp(-epsilon)) by bisection."""
    low, high = 0.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        below = ndtr(-middle) > 1 / (1 + math.exp(epsilon))
        low, high = (middle, high) if below else (low, middle)
    return low


def test_the_whole_stream_is_charged_once_before_the_first_draw(ledger, monkeypatch):
    seen = []
    words = SystemSource.words

    def watching(self, count):
        seen.append(len(ledger.entries))
        return words(self, count)

    monkeypatch.setattr(SystemSource, "words", watching)
    pca = StreamingPCA(1, **STRONG, ledger=ledger)
    pca.partial_fit(table(20))
    assert ledger.entries == ()  # nothing was drawn: nothing is charged
    releases = []
    for seed in range(1, 20):
        pca.partial_fit(table(40, seed=seed))
        releases.append(pca.release_.guarantee if hasattr(pca, "release_") else None)
    pca.finish()
    assert set(seen) == {1}
    (entry,) = ledger.entries
    assert entry.cost == pca.privacy_.cost == Gaussian(OjaPCA(mu=20.0, n_components=1).mu)
    assert entry.label.startswith("oja stream ")
    assert pca.privacy_.ledger == f"entry 1 of {ledger} (hash {entry.hash[:16]})"
    assert {str(r.sentence()) for r in releases if r} == {pca.privacy_.sentence()}
    assert "all releases of this stream together cost the budget once" in pca.privacy_.sentence()


def test_an_exhausted_ledger_is_noticed_before_records_are_taken(tmp_path):
    ledger = Ledger.create(tmp_path / "small", rho=300.0)
    StreamingPCA(1, **STRONG, ledger=ledger).fit(table(300))
    late = StreamingPCA(1, **STRONG, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        late.partial_fit(table(10))
    assert not hasattr(late, "n_samples_")
    with pytest.raises(UnsupportedNotionError, match="pure epsilon"):
        StreamingPCA(1, epsilon=1.0).partial_fit(table(10))


def batches_of_one_record(batches):
    """What `oja` releases of five batches; ``batches`` have the record in question."""
    mu, source = 1.5, SimulationSource(0)
    method = OjaPCA(mu=mu, n_components=1)
    company = np.tile([1.0, 0.0], (4, 1))
    start = OnePassState(np.eye(2), np.zeros((2, 2)), 1.0)

    def run(record):
        gate = Gate(Gaussian(mu), label="x", adjacency=REPLACE, ledger=None, noise=source)
        seen = []
        for i in range(5):
            rows = np.vstack([company, record if i in batches else company[:1]])
            new = method.step(start, Batch(rows, 5 * i), UNIT, gate)
            found = new.image @ new.basis.T
            seen.append(found[0, 0] - found[1, 1])
        return np.array(seen)

    return audit(
        lambda: run([1.0, 0.0]),
        lambda: run([0.0, 1.0]),
        cost=Gaussian(mu),
        trials=400,
        direction=np.array([float(i in batches) for i in range(5)]),
        alpha=1e-3,
    )


@pytest.mark.audit
def test_the_audit_is_silent_and_speaks_of_a_record_in_every_batch():
    """Accuses the honest stream with probability at most 1e-3 over seeds."""

    honest = batches_of_one_record({3})
    assert not honest.violated, str(honest)
    assert honest.epsilon_lower_bound > 0.5  # it was attacked at all
    assert batches_of_one_record(set(range(5))).violated


def test_a_stream_that_hands_records_out_again_is_stopped_by_the_gate(monkeypatch, ledger):
    """The planted fault: the last five records of a batch come in the next one too."""
    take = Stream.take

    def careless(self, size):
        batch = take(self, size)
        first = max(0, batch.records.start - 5)
        return Batch(batch.array, first)

    monkeypatch.setattr(Stream, "take", careless)
    pca = StreamingPCA(1, **STRONG, ledger=ledger)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        pca.partial_fit(table(300))
    assert not hasattr(pca, "components_")


# The gate across processes.


ONE = Gaussian(1.0)


def resumed(entry, position, ledger, cost=ONE, label="stream"):
    return Gate.resume(
        cost,
        label=label,
        adjacency=REPLACE,
        ledger=ledger,
        noise=SystemSource(),
        entry=entry,
        position=position,
    )


def mean_of(rows, first):
    return total(Batch(rows, first), Clip(row_norm=1.0), REPLACE)


def test_a_gate_that_is_opened_again_pays_once_and_refuses_what_was_spent(ledger):
    rows, step = table(30), PrivateMean(noise=GaussianNoise(mu=1.0))
    first = Gate(
        Gaussian(1.0), label="stream", adjacency=REPLACE, ledger=ledger, noise=SystemSource()
    )
    first.draw(step, mean_of(rows[:10], 0))
    (entry,) = ledger.entries
    again = resumed(entry.hash, 10, ledger)
    assert again.receipt == first.receipt
    assert again.balance == first.balance
    for start in (0, 5, 9):
        with pytest.raises(InvalidParameterError, match="in the order of their records"):
            again.draw(step, mean_of(rows[:10], start))
    with pytest.raises(BudgetExceededError):
        again.draw(GaussCov(mu=1e-3), second_moment(open_rows(rows), Clip(row_norm=1.0), REPLACE))
    again.draw(step, mean_of(rows[:10], 10))
    with pytest.raises(BudgetExceededError):
        again.draw(step, mean_of(rows[:10], 10))
    assert len(ledger.entries) == 1


def test_a_gate_is_opened_again_for_its_own_entry_only(ledger, tmp_path):
    entry = ledger.charge(Gaussian(1.0), label="stream", adjacency=REPLACE)
    other = Ledger.create(tmp_path / "other", rho=1000.0)
    other.charge(Gaussian(1.0), label="stream", adjacency=REPLACE)
    for gate in (
        lambda: resumed(entry.hash, 0, other),
        lambda: resumed(entry.hash, 0, None),
        lambda: resumed("0" * 64, 0, ledger),
        lambda: resumed(entry.hash, 0, ledger, cost=Gaussian(1.1)),
        lambda: resumed(entry.hash, 0, ledger, label="another stream"),
    ):
        with pytest.raises(LedgerError, match="does not hold the charge"):
            gate()
    fresh = resumed(None, 10, ledger, label="new")  # noted as spent, killed before the charge
    fresh.draw(PrivateMean(noise=GaussianNoise(mu=1.0)), mean_of(table(5), 10))
    assert [e.label for e in ledger.entries] == ["stream", "new"]


# What arrives twice, and what is refused.


def test_a_label_arrives_once(tmp_path):
    for options in ({}, {"state": tmp_path / "state"}):
        pca = StreamingPCA(1, **STRONG, **options).partial_fit(table(10), batch="2026-11-15")
        with pytest.raises(DuplicateBatchError, match="label arrived before"):
            pca.partial_fit(table(10, seed=1), batch="2026-11-15")
        pca.partial_fit(table(10, seed=1), batch="2026-11-16")
        assert pca.n_buffered_ == 20
    for label in ("", 7):
        with pytest.raises(InvalidParameterError, match="batch must be a name"):
            pca.partial_fit(table(3), batch=label)
    assert DuplicateBatchError.exit_code == 3


def test_the_same_bytes_arrive_once():
    rows = table(40)
    pca = StreamingPCA(1, **STRONG).partial_fit(rows)
    frame = pd.DataFrame(rows)
    for again in (rows, np.asfortranarray(rows), iter([rows]), iter([table(5, seed=1), rows])):
        taken = pca.n_samples_ + pca.n_buffered_
        with pytest.raises(DuplicateBatchError, match="these rows arrived before"):
            pca.partial_fit(again)
    assert pca.n_samples_ + pca.n_buffered_ == taken + 5  # the chunk before it, read once
    pca.partial_fit(frame, batch="others with the same values")
    pca.partial_fit(rows[:31]).partial_fit(rows[:31])  # too few to tell
    assert pca.n_samples_ + pca.n_buffered_ == 85 + 62


def test_a_refused_table_leaves_no_trace(tmp_path, ledger):
    bad = table(400)
    bad[300, 2] = np.nan
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    with pytest.raises(InvalidDataError):
        pca.partial_fit(bad)
    assert not state.exists()
    assert not hasattr(pca, "n_features_in_")
    pca.partial_fit(table(400)[:, :3])
    before = state.read_bytes()
    with pytest.raises(ValueError, match="3 features"):
        pca.partial_fit(bad)
    with pytest.raises(InvalidDataError):
        pca.partial_fit(bad[:, :3])
    assert state.read_bytes() == before
    lenient = StreamingPCA(1, **STRONG, on_invalid="zero", random_state=0).fit(bad)
    assert lenient.n_samples_ == 400
    filled = StreamingPCA(1, **STRONG, on_missing="centre", random_state=0).fit(bad)
    assert "empty cells taken as the centre's" in filled.privacy_.sentence()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_components": 9}, "between 1 and the number of columns, 5"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"mechanism": "spherical"}, "mechanism must be one of: 'oja', 'adaptive-oja'"),
        ({"row_norm": "private"}, "row_norm must be a positive number"),
        ({"row_norm": -1.0}, "row_norm must be positive"),
        ({"on_invalid": "drop"}, "on_invalid must be"),
        ({"rho": None}, "give a budget"),
    ],
)
def test_wrong_parameters(options, message, ledger):
    with pytest.raises(InvalidParameterError, match=message):
        StreamingPCA(**{"n_components": 1, **STRONG, "ledger": ledger, **options}).fit(table(300))
    assert ledger.entries == ()


def test_persons_with_several_rows_are_refused(tmp_path):
    frame = pd.DataFrame(table(300), columns=list("abcde")).assign(id=np.arange(300) // 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UnsupportedNotionError, match="rows of one person"):
        StreamingPCA(1, **STRONG).partial_fit(open_rows(tmp_path / "t.csv", unit="id"))


def test_files_and_frames(tmp_path):
    frame = pd.DataFrame(table(400), columns=list("abcde"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    pca = StreamingPCA(1, **STRONG, random_state=0).partial_fit(tmp_path / "t.csv")
    assert list(pca.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="same order"):
        pca.partial_fit(frame[list("edcba")])
    pca.partial_fit(IterableSource([table(100, seed=3)])).finish()
    assert pca.release_.settings["feature_names"] == list("abcde")
    assert pca.n_samples_ == 500
    with pytest.raises(InvalidDataError, match="cannot be fitted and transformed"):
        StreamingPCA(1, **STRONG).fit_transform(iter([table(400)]))


# The state.


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
    assert np.array_equal(last.partial_fit(rows[:0]).components_, pca.components_)
    last.finish()
    assert last.n_samples_ == 1500
    assert captured_variance(last.components_, np.cov(rows.T)) > 0.99
    again = StreamingPCA(1, **STRONG, ledger=ledger, state=state).finish()
    assert np.array_equal(again.components_, last.components_)
    assert again.privacy_.sentence() == last.privacy_.sentence()
    assert len(charges(ledger)) == 1


def test_the_state_is_for_its_owner(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300))
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
        StreamingPCA(1, **STRONG, state=folder / "state").partial_fit(table(3))


def test_a_saved_release_holds_no_row_and_no_digest(tmp_path):
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
    name = Stream.load(state).name
    for secret in (digest(rows), "secret label", name):
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
            pca.partial_fit(table(10, seed=seed))
    assert [pca.partial_fit(table(1, seed=9)).n_buffered_ for pca in streams] == [31] * 6
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
        pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300))
        other = pca if state is None else StreamingPCA(1, **STRONG, state=state)
        with pytest.raises(StateError, match=f"began with another {name}: ") as caught:
            other.set_params(**{name: value}).partial_fit(table(10))
        assert str(value) not in str(caught.value)


def test_a_configured_mechanism_goes_on_from_its_state(tmp_path):
    options = {**BUDGET, "centring": "none", "random_state": 0}
    whole = StreamingPCA(1, **options, batch_size=100).partial_fit(table(300, 4))
    for part in np.array_split(table(300, 4), 3):
        configured = Oja(batch_size=100)
        pca = StreamingPCA(1, **options, mechanism=configured, state=tmp_path / "state")
        pca.partial_fit(part)
    assert (pca.n_samples_, whole.n_samples_) == (300, 300)
    assert pca.privacy_.cost == whole.privacy_.cost
    with pytest.raises(StateError, match="another mechanism"):
        StreamingPCA(1, **options, state=tmp_path / "state").partial_fit(table(10, 4))


def test_a_state_of_another_version_is_refused(tmp_path, monkeypatch):
    """Settings that this version does not know would be passed over, or missed."""
    with monkeypatch.context() as patched:
        patched.setattr(stream_state, "_FORMAT", "eigenveil-stream/3")
        StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(table(300))
    with pytest.raises(StateError, match="another version"):
        StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(table(10))


def test_another_ledger_is_refused(tmp_path, ledger):
    state = tmp_path / "state"
    StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(300))
    other = Ledger.create(tmp_path / "other", rho=1000.0)
    for wrong in (None, other):
        with pytest.raises(LedgerError, match="another ledger, or from none"):
            StreamingPCA(1, **STRONG, ledger=wrong, state=state).partial_fit(table(10))
    assert other.entries == ()


def test_a_ledger_without_the_charge_is_refused(tmp_path):
    """An old copy of the ledger, from before the stream began."""
    ledger, state = Ledger.create(tmp_path / "l", rho=1000.0), tmp_path / "state"
    old = ledger.path.read_bytes()
    StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(300))
    ledger.path.write_bytes(old)
    with pytest.raises(LedgerError, match="does not hold the charge"):
        StreamingPCA(1, **STRONG, ledger=ledger, state=state).partial_fit(table(10))
    assert ledger.entries == ()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other", "swap", "rows", "no rows"])
def test_a_damaged_state_is_refused(damage, tmp_path):
    state = tmp_path / "state"
    StreamingPCA(1, **STRONG, state=state).partial_fit(table(300))
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
        StreamingPCA(1, **STRONG, state=state).partial_fit(table(10))
    assert "\n" not in str(caught.value)


def test_one_writer_at_a_time(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(10))
    with locked(state), pytest.raises(StateError, match="in use by another process"):
        pca.partial_fit(table(10, seed=1))
    code = (
        "import sys; from pathlib import Path; from eigenveil.storage.durable import locked\n"
        f"with locked(Path({str(state)!r})): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StateError, match="wait until it is done"):
        pca.partial_fit(table(10, seed=1))
    holder.kill()  # a lock does not outlive its process
    holder.communicate()
    assert pca.partial_fit(table(10, seed=1)).n_buffered_ == 20
    with pytest.raises(StateError, match="is its folder there"):
        StreamingPCA(1, **STRONG, state=tmp_path / "no" / "state").partial_fit(table(3))


def test_a_stream_is_not_begun_again_by_mistake(tmp_path):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, state=state).partial_fit(table(300))
    with pytest.raises(StateError, match="fit starts afresh"):
        pca.fit(table(300))
    state.unlink()
    with pytest.raises(StateError, match="the stream is not here"):
        pca.partial_fit(table(10))
    original = StreamingPCA(1, **STRONG).partial_fit(table(300))
    for twin in (copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert np.array_equal(twin.components_, original.components_)
        with pytest.raises(StateError, match="the stream is not here"):
            twin.partial_fit(table(10))
    assert b"waiting" not in pickle.dumps(original)
    assert not hasattr(clone(original).partial_fit(table(3)), "components_")
    assert original.fit(table(300, seed=1)).n_samples_ == 300


def test_an_error_in_a_step_loses_that_batch_only(tmp_path, ledger, monkeypatch):
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    inner, failing = OjaPCA.step, [True]

    def step(self, *arguments):
        if failing and failing.pop():
            raise NothingFoundError("nothing was found, and the budget is spent")
        return inner(self, *arguments)

    monkeypatch.setattr(OjaPCA, "step", step)
    with pytest.raises(NothingFoundError):
        pca.partial_fit(table(150), batch="one")
    assert (pca.n_samples_, pca.n_buffered_) == (32, 86)  # the first batch after the centre is lost
    with pytest.raises(DuplicateBatchError):
        pca.partial_fit(table(150), batch="one")
    pca.partial_fit(table(150, seed=1), batch="two")
    left = Stream.load(state)
    assert (left.spent, left.used, left.buffered) == (288, 256, 12)
    assert pca.n_lost_ == 32
    assert len(charges(ledger)) == 1


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


# Among scikit-learn's.


@parametrize_with_checks(
    [StreamingPCA(1, rho=1e6, centring="none", batch_size=5, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_dtype_object": "wants numpy's own message, which may quote an entry",
        "check_estimators_empty_data_messages": "wants words of its own for what is too short",
        "check_fit_score_takes_y": "calls partial_fit after fit, which has finished the stream",
    },
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_no_message_shows_a_value(tmp_path):
    rows = np.full((300, 3), 98765.4321)
    rows[:, 0] += np.arange(300)
    pca = StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(rows)
    for again in (
        lambda: pca.partial_fit(rows),
        lambda: pca.partial_fit(np.where(rows > 98765.5, np.inf, rows)),
    ):
        with pytest.raises((InvalidDataError, StateError)) as caught:
            again()
        assert "9876" not in "".join(traceback.format_exception_only(caught.value))
    assert "9876" not in repr(pca)


def test_the_release_is_an_ordinary_one(tmp_path):
    """The same fields as that of PrivatePCA, so that every reader of releases reads it."""
    rows = table(400)
    streamed = StreamingPCA(1, **STRONG).fit(rows).release_
    ordinary = PrivatePCA(1, **STRONG, mechanism="spherical").fit(rows).release_
    assert streamed.kind == ordinary.kind == "pca"
    assert streamed.arrays.keys() == ordinary.arrays.keys()
    page = (streamed.save(tmp_path / "r") / "report.html").read_text("utf-8")
    assert "all releases of this stream together cost the budget once" in page
    assert streamed.settings["centring"] == "located"
    clear = streamed.arrays["distinguishable"] > 0
    assert np.array_equal(streamed.arrays["eigenvalues"] > streamed.settings["noise_floor"], clear)


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
        patched.setattr(stream_plan.StreamPlan, "step", dies)
        with pytest.raises(OSError, match="cut off"):
            pca.partial_fit(rows)
    again = StreamingPCA(1, state=tmp_path / "s", **options).restore()
    assert again.n_lost_ == 100
    stream = Stream.load(tmp_path / "s")
    plan = again._plan(4)
    gate = again._gate(stream, plan)
    with pytest.raises(EigenveilError):
        plan.step(stream, Batch(rows[:100], 0), gate)


def test_what_was_released_is_read_from_the_state(tmp_path):
    options = {**BUDGET, "centring": "none", "batch_size": 100, "state": tmp_path / "s"}
    first = StreamingPCA(1, **options).partial_fit(table(250, 4))
    second = StreamingPCA(1, **options)
    with pytest.raises(NotFittedError, match="no components yet, 0 records wait"):
        second.transform(table(5, 4))
    assert np.array_equal(second.restore().components_, first.components_)
    assert second.n_buffered_ == 50


# One state, whatever it is called, and only the newest of it.

SMALL = {**BUDGET, "centring": "none", "batch_size": 40}


@pytest.fixture
def draws(monkeypatch):
    """The records of every draw."""
    seen, inner = [], Gate.draw

    def draw(gate, step, query):
        seen.append((query.records.start, query.records.stop))
        return inner(gate, step, query)

    monkeypatch.setattr(Gate, "draw", draw)
    return seen


def begun(path, **options):
    """A state with 39 records, one fewer than a batch."""
    StreamingPCA(1, **SMALL, state=path, **options).partial_fit(table(39))
    return lambda: StreamingPCA(1, **SMALL, state=path, **options)


def meanwhile(happens, seed):
    """One more record, which comes after something else has happened."""
    happens()
    yield table(1, seed=seed)


def test_a_lock_that_is_removed_lets_no_record_into_two_batches(tmp_path, draws):
    stream = begun(tmp_path / "state")

    def other():
        (tmp_path / "state.lock").unlink()
        thread = threading.Thread(target=stream().partial_fit, args=[table(1, seed=1)])
        thread.start()
        thread.join()

    with pytest.raises(StateError, match="was moved, removed or replaced while in use"):
        stream().partial_fit(meanwhile(other, seed=2))
    assert draws == [(0, 40)]
    assert stream().restore().n_samples_ == 40


def test_who_lost_the_lock_stops_though_the_state_is_as_it_was(tmp_path, draws):
    """The other one has read the state and not yet written."""
    stream = begun(tmp_path / "state")
    inside, onwards, failures = threading.Event(), threading.Event(), []

    def first():
        def happens():
            inside.set()
            onwards.wait()

        try:
            stream().partial_fit(meanwhile(happens, seed=1))
        except StateError as error:
            failures.append(str(error))

    thread = threading.Thread(target=first, daemon=True)
    thread.start()
    inside.wait()
    (tmp_path / "state.lock").unlink()

    def happens():
        onwards.set()
        thread.join()

    stream().partial_fit(meanwhile(happens, seed=2))
    (failure,) = failures
    assert failure.startswith("state.lock was moved or removed while in use")
    assert draws == [(0, 40)]
    assert len(list(tmp_path.iterdir())) == 2  # and it wrote nothing


@pytest.mark.parametrize("event", ["moved", "removed", "older", "folder", "linked"])
def test_a_state_that_changes_during_a_call_is_left_alone(tmp_path, draws, ledger, event):
    folder = tmp_path / "folder"
    folder.mkdir()
    state = folder / "state"
    stream = begun(state, ledger=ledger)
    before = state.read_bytes()
    stream().partial_fit(table(1, seed=5)).partial_fit(table(39, seed=6))
    del draws[:]

    def happens():
        if event == "moved":
            state.rename(tmp_path / "elsewhere")
        elif event == "removed":
            state.unlink()
        elif event == "older":
            state.write_bytes(before)
        elif event == "folder":
            folder.rename(tmp_path / "renamed")
        else:
            state.rename(tmp_path / "elsewhere")
            state.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StateError):
        stream().partial_fit(meanwhile(happens, seed=2))
    assert draws == []


def test_a_state_stays_where_the_call_found_it(tmp_path, monkeypatch, draws):
    """Neither another present folder nor another goal of a link takes a call elsewhere."""
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir(), other.mkdir()
    monkeypatch.chdir(real)
    stream = begun("state")
    stream().partial_fit(meanwhile(lambda: os.chdir(other), seed=1))
    assert list(other.iterdir()) == []
    assert Stream.load(real / "state").spent == 40
    link = tmp_path / "link"
    link.symlink_to(real / "state")

    def happens():
        link.unlink()
        link.symlink_to(other / "state")

    StreamingPCA(1, **SMALL, state=link).partial_fit(meanwhile(happens, seed=2))
    assert list(other.iterdir()) == []
    assert Stream.load(real / "state").buffered == 1


def test_a_state_that_cannot_be_replaced_draws_nothing(tmp_path, ledger, monkeypatch):
    """As where it is mounted alone, from a folder elsewhere."""
    stream = begun(tmp_path / "state", ledger=ledger)

    def busy(*arguments):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    with pytest.raises(StateError, match="cannot write"):
        stream().partial_fit(table(1, seed=1))
    assert ledger.entries == ()
    assert not list(tmp_path.glob("*.new"))


def test_rows_of_a_save_that_is_going_on_are_not_removed(tmp_path):
    """Of a process whose lock was removed: its state would name rows that are gone."""
    stream, rows = begun(tmp_path / "state"), tmp_path / "state.0123abcd.rows"
    rows.touch()
    with unchanged(tmp_path / "state", Stream.load(tmp_path / "state").found):
        with pytest.raises(StateError, match="while in use"):
            stream().restore()
        assert rows.exists()
    assert stream().restore().n_buffered_ == 39
    assert not rows.exists()


def test_a_state_under_a_new_name_takes_its_rows_along(tmp_path):
    begun(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    pca = StreamingPCA(1, **SMALL, state=tmp_path / "new").partial_fit(table(40, seed=1))
    assert (pca.n_samples_, pca.n_buffered_) == (40, 39)
    names = {path.name.split(".")[0] for path in tmp_path.glob("*.rows")}
    assert names == {"new"}


def test_a_forked_process_draws_nothing_from_the_stream_of_its_parent(monkeypatch):
    pca = StreamingPCA(1, **SMALL).partial_fit(table(39))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetExceededError, match="forked process"):
        pca.partial_fit(table(1, seed=1))
    assert not hasattr(pca, "components_")


# An older copy of a state.


def copy_of(state, folder):
    folder.mkdir()
    for path in state.parent.glob(f"{state.name}*"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("again", ["partial_fit", "finish", "restore"])
def test_an_older_copy_of_a_state_is_noticed_by_the_ledger(tmp_path, ledger, draws, again):
    state = tmp_path / "state"
    stream = begun(state, ledger=ledger)
    old = copy_of(state, tmp_path / "old")
    stream().partial_fit(table(3, seed=1))
    newest = state.read_bytes()
    for path in old.iterdir():
        shutil.copy(path, tmp_path)
    arguments = [table(1, seed=2)] if again == "partial_fit" else []
    with pytest.raises(StateError, match="is an older copy") as caught:
        getattr(stream(), again)(*arguments)
    assert "\n" not in str(caught.value)
    assert draws == [(0, 40)]
    state.write_bytes(newest)  # its rows are still there
    assert stream().partial_fit(table(38, seed=2)).n_samples_ == 80


def test_of_two_copies_of_a_state_one_draws(tmp_path, ledger, draws):
    """Under two names at the same time: both have opened before either has noted anything."""
    begun(tmp_path / "state", ledger=ledger)
    folder = copy_of(tmp_path / "state", tmp_path / "copy")
    one, other = (
        StreamingPCA(1, **SMALL, ledger=ledger, state=place / "state")
        for place in (tmp_path, folder)
    )
    with pytest.raises(StateError, match="is an older copy"):
        one.partial_fit(meanwhile(lambda: other.partial_fit(table(1, seed=1)), seed=2))
    assert draws == [(0, 40)]


def test_the_ledger_refuses_a_position_that_it_has(ledger):
    for stream in "ab":
        ledger.advance(stream, 0, 1024)
    for start, stop in ((0, 1024), (0, 2048), (1023, 2048)):
        with pytest.raises(StateError, match="is an older copy"):
            ledger.advance("a", start, stop)
    with pytest.raises(StateError, match="is an older copy"):
        ledger.require_unspent("a", 1023)
    for stream, start in (("a", 1024), ("b", 1024), ("c", 0)):
        ledger.require_unspent(stream, start)
    ledger.advance("a", 1024, 1_234_567)
    with pytest.raises(StateError, match="is an older copy"):
        ledger.advance("a", 1_234_566, 2_000_000)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_that_ends_about_its_note_locks_nobody_out(tmp_path, ledger, monkeypatch, moment):
    stream = begun(tmp_path / "state", ledger=ledger)

    note = Ledger.advance

    def dies(*arguments):
        if moment == "after":
            note(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "advance", dies)
        with pytest.raises(KeyboardInterrupt):
            stream().partial_fit(table(1, seed=1))
    pca = stream().partial_fit(table(40, seed=2))
    assert (pca.n_samples_, pca.n_lost_) == (40, 40)
    notes = [entry.label for entry in ledger.entries if entry.is_note]
    assert notes[-1].endswith(" spent to 80 records")


def test_notes_cost_nothing_and_are_for_states_only(tmp_path, ledger):
    StreamingPCA(1, **SMALL, ledger=ledger).partial_fit(table(100))
    assert len(ledger.entries) == 1
    state = tmp_path / "state"
    pca = StreamingPCA(1, **SMALL, ledger=ledger, state=state).partial_fit(table(100, seed=1))
    name = Stream.load(state).name
    labels = [entry.label for entry in ledger.entries]
    assert labels[1:] == [
        f"stream {name} spent to 40 records",
        f"oja stream {name}",
        f"stream {name} spent to 80 records",
    ]
    assert ledger.spent.mu == pytest.approx(math.sqrt(2) * pca.privacy_.cost.mu)
    assert pca.privacy_.ledger.startswith("entry 3 of")


def test_a_fit_that_was_cut_off_takes_no_further_records(tmp_path, ledger, draws, monkeypatch):
    """Its rows came in a random order, so nobody knows which of them were used."""
    stream = StreamingPCA(1, **SMALL, state=tmp_path / "state", ledger=ledger)
    step = StreamRun.step

    def cut_off(run, size):
        step(run, size)
        if len(draws) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StreamRun, "step", cut_off)
        with pytest.raises(KeyboardInterrupt):
            stream.fit(table(400))
    again = StreamingPCA(1, **SMALL, state=tmp_path / "state", ledger=ledger)
    with pytest.raises(StateError, match="begun by fit, which was cut off"):
        again.partial_fit(table(100, seed=1))
    assert not again.finish().privacy_.arrival
    assert len(charges(ledger)) == 1


@pytest.mark.parametrize("state", ["loop", "loop/x", "nul\0", "."])
def test_odd_paths_of_a_state_are_one_line(tmp_path, monkeypatch, state):
    monkeypatch.chdir(tmp_path)
    os.symlink("other", "loop")
    os.symlink("loop", "other")
    with pytest.raises(StateError):
        StreamingPCA(1, **SMALL, state=state).partial_fit(table(10))
