"""Records over days: buffered, used once, one budget for all of it."""

import math
import traceback
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenveil import Ledger, PrivatePCA, StreamingPCA
from eigenveil.audit import audit
from eigenveil.estimators import StreamProgress, planned
from eigenveil.exact import Clip, second_moment, total
from eigenveil.exceptions import (
    BudgetExceededError,
    DuplicateBatchError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    StateError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import (
    Gate,
    GaussCov,
    GaussianNoise,
    Oja,
    OnePassState,
    PrivateMean,
    entries,
)
from eigenveil.numerics import SimulationSource, SystemSource, captured_variance
from eigenveil.privacy import (
    Adjacency,
    Budget,
    Composed,
    Gaussian,
    Pure,
    covers,
    delta_of,
    fits,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rho_of,
)
from eigenveil.rows import Batch, IterableSource, open_rows
from tests.estimators.streams import BUDGET, STRONG, charges, label, table


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", rho=1000.0)


REPLACE = Adjacency.REPLACE_ONE


UNIT = Clip(row_norm=1.0, normalise=True)


METHODS = pytest.mark.parametrize(
    "mechanism", [one.name for one in entries("components") if one.streams]
)


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
    # Pulled in nearer than at the radius by the others.
    assert (29 if mechanism == "oja" else 11) < pca.explained_variance_[0] < 43
    assert 10 < pca.row_norm_ < 40


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

    monkeypatch.setattr(StreamProgress, "take", killed)
    with pytest.raises(KeyboardInterrupt):
        StreamingPCA(1, **STRONG, ledger=ledger, state=state).fit(table(300))
    monkeypatch.undo()
    assert len(ledger.entries) == 1
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    with pytest.raises(StateError, match="begun by fit, which was cut off"):
        pca.partial_fit(table(10, seed=1), batch=label())
    assert pca.finish().n_samples_ == 300
    assert len(charges(ledger)) == 1


@pytest.mark.parametrize("kept", [False, True])
def test_a_stream_may_begin_on_a_day_without_records(kept, tmp_path):
    pca = StreamingPCA(1, **BUDGET, state=tmp_path / "state" if kept else None)
    pca.partial_fit(table(0), batch="monday")
    assert pca.partial_fit(table(10), batch="tuesday").n_buffered_ == 10


def test_a_stream_that_ends_early_says_how_many_records_it_needs(ledger):
    pca = StreamingPCA(1, **STRONG, ledger=ledger)
    pca.partial_fit(table(20), batch=label())
    with pytest.raises(InvalidDataError, match=r"'oja' needs 256 records at least for 5 columns"):
        pca.finish()
    assert ledger.entries == ()
    pca.partial_fit(table(235, seed=1), batch=label())  # it was not closed
    with pytest.raises(InvalidDataError, match="needs 256 records"):
        pca.finish()
    pca.partial_fit(table(1, seed=2), batch=label()).finish()
    assert (pca.n_samples_, pca.n_buffered_) == (256, 0)
    with pytest.raises(InvalidParameterError, match="the stream is finished"):
        pca.partial_fit(table(1), batch=label())
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
            begun = {"n_features": d, "unit": {"name": "row", "column": None}}
            begun["read"] = {"encoding": {}, "remarks": []}
            plan = planned(StreamingPCA(1, **budget, mechanism=mechanism), begun)
            assert fits(plan.mechanism.cost(), Budget(**budget))
            for options in ({}, {"scale": "private"}, {"centring": "none", "row_norm": "private"}):
                asked = StreamingPCA(1, **budget, mechanism=mechanism, **options)
                prepares = planned(asked, begun).preparation
                assert covers(plan.mechanism.cost(), prepares.cost())
                assert math.sqrt(2 * rho_of(prepares.cost())) > 0.999999 * plan.mechanism.mu
            louder = plan.mechanism.__class__
            fields = {"strength": Gaussian(plan.mechanism.mu * (1 + 1e-9)), "n_components": 1}
            if mechanism != "oja":
                fields["search"] = plan.mechanism.search * (1 + 1e-9)
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
    pca.partial_fit(table(20), batch=label())
    assert ledger.entries == ()  # nothing was drawn: nothing is charged
    releases = []
    for seed in range(1, 20):
        pca.partial_fit(table(40, seed=seed), batch=label())
        releases.append(pca.release_.guarantee if hasattr(pca, "release_") else None)
    pca.finish()
    assert set(seen) == {1}
    (entry,) = ledger.entries
    assert (
        entry.cost == pca.privacy_.cost == Gaussian(Oja(strength=Gaussian(20.0), n_components=1).mu)
    )
    assert entry.label.startswith("oja stream ")
    assert pca.privacy_.ledger == f"entry 1 of {ledger} (hash {entry.hash[:16]})"
    promised = {(r.cost, r.budget, r.ledger) for r in releases if r}
    assert promised == {(pca.privacy_.cost, pca.privacy_.budget, pca.privacy_.ledger)}
    assert "all releases of this stream together cost the budget once" in pca.privacy_.sentence()


def test_an_exhausted_ledger_is_noticed_before_records_are_taken(tmp_path):
    ledger = Ledger.create(tmp_path / "small", rho=300.0)
    StreamingPCA(1, **STRONG, ledger=ledger).fit(table(300))
    late = StreamingPCA(1, **STRONG, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        late.partial_fit(table(10), batch=label())
    assert not hasattr(late, "n_samples_")
    with pytest.raises(UnsupportedNotionError, match="pure epsilon"):
        StreamingPCA(1, epsilon=1.0).partial_fit(table(10), batch=label())


def batches_of_one_record(batches):
    """What `oja` releases of five batches; ``batches`` have the record in question."""
    mu, source = 1.5, SimulationSource(0)
    method = Oja(strength=Gaussian(mu), n_components=1)
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
    take = StreamProgress.take

    def careless(self, size):
        batch = take(self, size)
        first = max(0, batch.records.start - 5)
        return Batch(batch.array, first)

    monkeypatch.setattr(StreamProgress, "take", careless)
    pca = StreamingPCA(1, **STRONG, ledger=ledger)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        pca.partial_fit(table(300), batch=label())
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
    for wrong in ("", 7):
        with pytest.raises(InvalidParameterError, match="batch must be a name"):
            pca.partial_fit(table(3), batch=wrong)
    assert DuplicateBatchError.exit_code == 3


def test_a_refused_table_leaves_no_trace(tmp_path, ledger):
    bad = table(400)
    bad[300, 2] = np.nan
    state = tmp_path / "state"
    pca = StreamingPCA(1, **STRONG, ledger=ledger, state=state)
    with pytest.raises(InvalidDataError):
        pca.partial_fit(bad, batch=label())
    assert not state.exists()
    assert not hasattr(pca, "n_features_in_")
    pca.partial_fit(table(400)[:, :3], batch=label())
    before = state.read_bytes()
    with pytest.raises(ValueError, match="3 features"):
        pca.partial_fit(bad, batch=label())
    with pytest.raises(InvalidDataError):
        pca.partial_fit(bad[:, :3], batch=label())
    assert state.read_bytes() == before
    lenient = StreamingPCA(1, **STRONG, on_invalid="zero", random_state=0).fit(bad)
    assert lenient.n_samples_ == 400
    filled = StreamingPCA(1, **STRONG, on_missing="centre", random_state=0).fit(bad)
    assert "empty cells taken as the centre's" in filled.privacy_.sentence()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_components": np.array(3.0)}, "n_components must be a positive integer"),
        ({"n_components": 9}, "between 1 and the number of columns, 5"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"mechanism": "spherical"}, "mechanism must be one of: 'oja', 'adaptive-oja'"),
        ({"row_norm": "public"}, "row_norm must be a positive number or 'private'"),
        ({"scale": "private", "centring": "none"}, "private scales come with a private centre"),
        ({"row_norm": -1.0}, "row_norm must be positive"),
        ({"on_invalid": "drop"}, "on_invalid must be"),
        ({"rho": None}, "give a budget"),
    ],
)
def test_wrong_parameters(options, message, ledger):
    with pytest.raises(InvalidParameterError, match=message):
        StreamingPCA(**{"n_components": 1, **STRONG, "ledger": ledger, **options}).fit(table(300))
    assert ledger.entries == ()


def test_persons_are_refused_where_nobody_says_how_often_they_come(tmp_path):
    frame = pd.DataFrame(table(300), columns=list("abcde")).assign(id=np.arange(300) // 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InvalidParameterError, match="rows of one person are used, max_arrivals=5"):
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
    pca = StreamingPCA(1, **STRONG, state=tmp_path / "state").partial_fit(rows, batch=label())
    with pytest.raises(InvalidDataError) as caught:
        pca.partial_fit(np.where(rows > 98765.5, np.inf, rows), batch=label())
    assert "9876" not in "".join(traceback.format_exception_only(caught.value))
    assert "9876" not in repr(pca)


def test_the_release_is_an_ordinary_one(tmp_path):
    """The same fields as that of PrivatePCA, so that every reader of releases reads it.

    Nothing is known of single components, which readers take from releases without it as well.
    """
    rows = table(400)
    streamed = StreamingPCA(1, **STRONG).fit(rows).release_
    ordinary = PrivatePCA(1, **STRONG, mechanism="spherical").fit(rows).release_
    assert streamed.kind == ordinary.kind == "pca"
    single = {"component_mixing", "loading_errors"}
    assert streamed.arrays.keys() == ordinary.arrays.keys() - single
    page = (streamed.save(tmp_path / "r") / "report.html").read_text("utf-8")
    assert "all releases of this stream together cost the budget once" in page
    assert streamed.settings["centring"] == "located"
    clear = streamed.arrays["distinguishable"] > 0
    assert np.array_equal(streamed.arrays["eigenvalues"] > streamed.settings["noise_floor"], clear)


def test_columns_in_different_units_are_divided_by_stated_scales():
    rows = np.random.default_rng(0).normal(0, [1.0, 100.0, 1.0], (3000, 3))
    rows[:, 0] += rows[:, 2]
    asked = {"rho": 10.0, "centring": "none", "random_state": 0}
    plain = StreamingPCA(1, **asked).fit(rows / [1.0, 100.0, 1.0])
    scaled = StreamingPCA(1, **asked, scale=[1.0, 100.0, 1.0]).fit(rows)
    np.testing.assert_array_equal(scaled.components_, plain.components_)
    np.testing.assert_array_equal(scaled.scale_, [1.0, 100.0, 1.0])
    np.testing.assert_allclose(scaled.transform(rows), plain.transform(rows / [1.0, 100.0, 1.0]))
    assert "columns divided by scales stated by the caller" in scaled.privacy_.sentence()
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    named = StreamingPCA(1, **asked, scale={"c": 1.0, "b": 100.0, "a": 1.0}).fit(frame)
    np.testing.assert_array_equal(named.components_, plain.components_)
    for wrong in ("public", {"a": 1.0}, [1.0, 0.0, 1.0]):
        with pytest.raises(InvalidParameterError, match="scale"):
            StreamingPCA(1, **asked, scale=wrong).fit(frame)


def test_a_private_radius_is_the_default_and_lowers_a_generous_one():
    rows = table(5000)
    asked = {**BUDGET, "random_state": 3}
    default = StreamingPCA(1, **asked).fit(rows)
    private = StreamingPCA(1, **asked, row_norm="private").fit(rows)
    generous = StreamingPCA(1, **asked, row_norm=1e9).fit(rows)
    for other in (private, generous):
        np.testing.assert_array_equal(other.components_, default.components_)
        assert other.row_norm_ == default.row_norm_
    words = default.privacy_.sentence()
    assert f"rows farther than {default.row_norm_:.6g} from the centre pulled in" in words
    assert "rows of earlier batches pulled in to a distance that suits fewer records" in words
    assert f"rows then pulled in to {default.row_norm_:.6g}" in generous.privacy_.sentence()
    near = StreamingPCA(1, **asked, row_norm=2.0).fit(rows)
    assert near.row_norm_ == 2.0
    about_zero = StreamingPCA(1, **asked, row_norm="private", centring="none").fit(rows - 4.0)
    assert "the origin is taken as the centre" in about_zero.privacy_.sentence()
    assert captured_variance(about_zero.components_, np.cov(rows.T)) > 0.95


def test_where_a_batch_is_clipped_does_not_follow_from_its_rows():
    """Distances of the first batch decide, and how many records have come."""
    rows = table(3000)
    asked = {**BUDGET, "random_state": 3}
    for options in ({}, {"scale": "private"}):
        first = StreamingPCA(1, **asked, **options).partial_fit(rows[:2500])
        bounds = first._state.progress.bounds
        moved = rows.copy()
        moved[2400:] *= 1000.0
        other = StreamingPCA(1, **asked, **options).partial_fit(moved[:2500])
        assert other.n_samples_ == first.n_samples_
        again = other.partial_fit(moved[2500:]).finish()
        same = first.partial_fit(rows[2500:]).finish()
        assert again._state.progress.bounds.distances is not None
        np.testing.assert_array_equal(
            again._state.progress.bounds.distances.counts, bounds.distances.counts
        )
        if not options:
            assert again.row_norm_ == same.row_norm_


def test_long_tails_cost_no_components():
    """Directions of skewed rows are not those of their covariance: unit rows held .76 of it.

    The mean of ten releases has a standard error below .01, so that .93 fails once in 10,000
    times; half of the noise or of the loss would show as well.
    """
    rows = np.random.default_rng(0).lognormal(size=(10_000, 8)) * np.linspace(2, 1, 8)
    truth = np.cov(rows.T)
    held = [
        captured_variance(StreamingPCA(1, **BUDGET, random_state=i).fit(rows).components_, truth)
        for i in range(10)
    ]
    assert 0.93 < np.mean(held) < 0.999


def test_private_scales_standardise_columns_of_any_units():
    """Correlated columns in units from 1 to 10^6, and a flag that few rows have."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((20_000, 6)) + 1.5 * random.standard_normal((20_000, 1))
    rows[:, 5] = random.random(20_000) < 0.05
    truth = np.corrcoef(rows.T)
    units = np.array([1.0, 10.0, 1e3, 1e6, 1.0, 1.0])
    for mechanism in ("oja", "adaptive-oja"):
        asked = {**BUDGET, "random_state": 1, "scale": "private", "mechanism": mechanism}
        pca = StreamingPCA(1, **asked).fit(rows * units + 1e3)
        assert captured_variance(pca.components_, truth) > 0.97
        share = pca.scale_ / (rows * units).std(axis=0)
        assert share[:5] == pytest.approx(np.ones(5), rel=0.5)
        assert 0.2 < share[5] < 2  # of a flag, whose rows are clipped
        assert (pca.mean_ - 1e3) / pca.scale_ == pytest.approx(np.zeros(6), abs=0.5)
        scores = pca.transform(rows * units + 1e3)
        standardised = (rows * units + 1e3 - pca.mean_) / pca.scale_
        assert scores == pytest.approx(standardised @ pca.components_.T)
        words = pca.privacy_.sentence()
        assert "columns divided by private scales, which every batch makes finer" in words
        assert "in each column entries beyond" in words
        assert pca.release_.proofs[:3] == ("streaming", "front", "distances")


def test_a_stream_with_scales_goes_on_from_its_state(tmp_path):
    rows = table(6000) * 10.0 ** np.arange(5)
    asked = {"rho": 20.0, "scale": "private"}
    for part in np.split(rows, 6):
        pca = StreamingPCA(2, **asked, state=tmp_path / "s").partial_fit(part, batch=label())
    again = StreamingPCA(2, **asked, state=tmp_path / "s").restore()
    np.testing.assert_array_equal(again.components_, pca.components_)
    np.testing.assert_array_equal(again.scale_, pca.scale_)
    assert again.row_norm_ == pca.row_norm_


def test_a_state_keeps_its_scale(tmp_path):
    rows = np.random.default_rng(0).normal(0, [1.0, 100.0], (600, 2))
    asked = {"rho": 10.0, "centring": "none", "random_state": 0, "state": tmp_path / "s"}
    StreamingPCA(1, **asked, scale=np.array([1.0, 100.0])).partial_fit(rows[:300], batch=label())
    again = StreamingPCA(1, **asked, scale=(1.0, 100.0)).partial_fit(rows[300:], batch=label())
    assert again.n_samples_ + again.n_buffered_ == 600
    with pytest.raises(StateError, match="another scale"):
        StreamingPCA(1, **asked, scale=[1.0, 10.0]).partial_fit(rows, batch=label())


def test_how_many_records_are_still_needed():
    rows = np.random.default_rng(0).standard_normal((4000, 3))
    pca = StreamingPCA(1, epsilon=1.0, delta=1e-6, random_state=0)
    pca.partial_fit(rows[:10])
    assert not hasattr(pca, "components_")
    needed = pca.n_needed_
    with pytest.raises(NotFittedError, match=f"10 records wait, {needed} more are needed"):
        pca.transform(rows)
    pca.partial_fit(rows[10 : 10 + needed - 1])
    assert (pca.n_needed_, hasattr(pca, "components_")) == (1, False)
    pca.partial_fit(rows[10 + needed - 1 : 10 + needed])
    assert hasattr(pca, "components_")
    assert pca.n_needed_ > 0
