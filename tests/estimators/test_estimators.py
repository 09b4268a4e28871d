"""The scikit-learn faces."""

import copy
import traceback

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, open_rows
from eigenveil.exact import gram
from eigenveil.exceptions import (
    BoundsRequiredError,
    BudgetExceededError,
    EigenveilError,
    InvalidBudgetError,
    InvalidDataError,
    InvalidParameterError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import Cleaned
from eigenveil.numerics import captured_variance
from eigenveil.privacy import delta_of, rho_of
from tests.estimators.faces import ADJACENCIES, BOTH, BUDGET, SECRET


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture
def rows():
    """Enough of them for a centre at the budgets used here."""
    return np.random.default_rng(0).standard_normal((1000, 5)) + 3.0


def test_digits_components_capture_the_variance(digits):
    """The issue's figure: at least 0.85 of the optimum, mean of 20; measured 0.93."""
    truth = np.cov(digits.T, bias=True)
    shares = [
        captured_variance(
            PrivatePCA(5, **BUDGET, bounds=(0, 16), random_state=seed).fit(digits).components_,
            truth,
        )
        for seed in range(20)
    ]
    assert np.mean(shares) >= 0.85


@ADJACENCIES
@pytest.mark.parametrize("centring", [None, "none"])
def test_a_generous_budget_recovers_the_truth(adjacency, centring):
    """With next to no noise, PCA and covariance are those of the data."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 4)) * [3.0, 2.0, 1.0, 0.5]
    x += 0.0 if centring == "none" else [5.0, -4.0, 3.0, 0.0]
    options = {
        "rho": 1e6,
        "row_norm": 40.0,
        "centring": centring,
        "adjacency": adjacency,
    }
    truth = np.cov(x.T, bias=True)
    covariance = PrivateCovariance(**options).fit(x)
    assert covariance.covariance_ == pytest.approx(truth, abs=0.02)
    assert covariance.location_ == pytest.approx(
        np.zeros(4) if centring == "none" else x.mean(axis=0), abs=0.01
    )
    pca = PrivatePCA(2, **options).fit(x)
    assert captured_variance(pca.components_, truth) == pytest.approx(1.0, abs=1e-3)
    values = np.sort(np.linalg.eigvalsh(truth))[::-1]
    assert pca.explained_variance_ == pytest.approx(values[:2], rel=0.02)
    assert pca.explained_variance_ratio_ == pytest.approx(values[:2] / values.sum(), rel=0.02)
    assert pca.singular_values_ == pytest.approx(np.sqrt(values[:2] * 4000), rel=0.02)


def test_the_released_noise_scale_is_that_of_the_matrix(digits):
    errors, scale = [], None
    for seed in range(10):
        fit = PrivateCovariance(rho=0.5, bounds=(0, 16), row_norm=64.0, centring="none")
        fit.set_params(mechanism="gauss")
        fit.set_params(random_state=seed).fit(digits)
        scale = fit.noise_scale_
        errors.append(fit.covariance_ - digits.T @ digits / len(digits) * 1.0)
    # Rows longer than 64 are clipped, so compare fluctuations between runs.
    off = np.array(errors)[:, 0, 1:]
    assert np.std(off - off.mean(axis=0)) == pytest.approx(scale / 2**0.5 * 0.9**0.5, rel=0.15)


@BOTH
def test_fit_never_changes_constructor_arguments(estimator, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=1e-5)
    bounds = (np.zeros(5), np.full(5, 6.0))
    fitted = estimator(**BUDGET, bounds=bounds, ledger=ledger)
    before = fitted.get_params()
    kept = copy.deepcopy(bounds)
    assert fitted.fit(rows) is fitted
    after = fitted.get_params()
    assert all(after[name] is before[name] for name in before)
    assert all(np.array_equal(a, b) for a, b in zip(bounds, kept, strict=True))


@BOTH
def test_clones_share_the_ledger_and_never_the_noise(estimator, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.6, delta=1e-6)  # two fits at epsilon = 1
    original = estimator(**BUDGET, row_norm=5.0, ledger=ledger)
    first, second = clone(original).fit(rows), copy.deepcopy(original).fit(rows)
    assert len(ledger.entries) == 2
    name = "components" if estimator is PrivatePCA else "noisy_eigenvalues"
    assert not np.array_equal(first.release_.arrays[name], second.release_.arrays[name])
    with pytest.raises(BudgetExceededError):
        clone(first).fit(rows)
    assert "Recorded in: entry 1 of ledger l (hash" in first.privacy_.sentence()


@BOTH
@ADJACENCIES
@pytest.mark.parametrize("centring", [None, "none"])
def test_every_road_charges_the_ledger_once(estimator, adjacency, centring, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET, adjacency=adjacency)
    options = {"row_norm": 5.0, "adjacency": adjacency, "centring": centring}
    fitted = estimator(**BUDGET, **options, ledger=ledger).fit(rows)
    (entry,) = ledger.entries
    assert entry.cost == fitted.privacy_.cost
    assert entry.label == fitted.release_.mechanism
    with pytest.raises(BudgetExceededError):
        estimator(**BUDGET, **options, ledger=ledger).fit(rows)


@pytest.mark.parametrize("centring", [None, "none"])
def test_the_count_is_noisy_under_add_remove(centring, rows):
    """The exact count must not be readable off the noise scale, which is divided by it."""
    options = {"adjacency": "add-remove", "row_norm": 5.0, "centring": centring}
    scales = {PrivateCovariance(rho=0.5, **options).fit(rows).noise_scale_ for _ in range(5)}
    assert len(scales) == 5


@ADJACENCIES
def test_an_empty_table_is_refused_only_where_its_size_is_public(adjacency):
    empty = np.empty((0, 3))
    fitted = PrivateCovariance(
        rho=1.0, row_norm=1.0, adjacency=adjacency, mechanism="cleaned", centring="none"
    )
    if adjacency == "replace-one":
        with pytest.raises(InvalidDataError, match="no rows"):
            fitted.fit(empty)
    else:
        assert np.isfinite(fitted.fit(empty).covariance_).all()


@BOTH
def test_a_ledger_may_be_a_path(estimator, rows, tmp_path):
    Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    estimator(**BUDGET, row_norm=5.0, ledger=tmp_path / "l").fit(rows)
    assert len(Ledger(tmp_path / "l").entries) == 1


@BOTH
@ADJACENCIES
@pytest.mark.parametrize("budget", [{"epsilon": 0.7, "delta": 1e-5}, {"rho": 0.05}])
def test_what_is_spent_is_within_the_budget_and_close_to_it(estimator, adjacency, budget, rows):
    fitted = estimator(**budget, row_norm=5.0, adjacency=adjacency).fit(rows)
    cost = fitted.privacy_.cost
    if "rho" in budget:
        assert 0.999999 * 0.05 < rho_of(cost) <= 0.05
    else:
        assert 0.9999 * 1e-5 < delta_of(cost, 0.7) <= 1e-5


@BOTH
def test_a_seed_makes_a_simulation_and_says_so(estimator, rows, tmp_path):
    first, second = (estimator(**BUDGET, row_norm=5.0, random_state=1).fit(rows) for _ in range(2))
    assert first.release_.as_dict()["guarantee"]["simulated"]
    assert first.privacy_.sentence().startswith("Simulation, not private")
    for name, array in first.release_.arrays.items():
        assert np.array_equal(array, second.release_.arrays[name])
    real = estimator(**BUDGET, row_norm=5.0).fit(rows)
    assert not real.privacy_.simulated
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-5)
    with pytest.raises(InvalidParameterError, match="drop random_state"):
        estimator(**BUDGET, row_norm=5.0, random_state=1, ledger=ledger).fit(rows)
    assert ledger.entries == ()


@BOTH
def test_the_number_of_rows_is_published_only_where_public(estimator, rows):
    public = estimator(**BUDGET, row_norm=5.0).fit(rows)
    private = estimator(**BUDGET, row_norm=5.0, adjacency="add-remove").fit(rows)
    assert public.n_samples_ == public.release_.settings["n_rows"] == 1000
    assert private.n_samples_ is None
    assert private.release_.settings["n_rows"] is None


@BOTH
def test_every_kind_of_table_gives_the_same_release(estimator, rows, tmp_path):
    np.save(tmp_path / "t.npy", rows)
    frame = pd.DataFrame(rows, columns=list("abcde"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    # A stated bound is not tightened where rows can be read once only: mechanisms that never do.
    options = {**BUDGET, "centring": "none", "random_state": 3}
    pca = {"mechanism": "spherical"}
    options |= pca if estimator is PrivatePCA else {"mechanism": "gauss", "row_norm": 5.0}
    expected = estimator(**options).fit(rows).release_.arrays
    tables = [
        rows.tolist(),
        frame,
        tmp_path / "t.npy",
        str(tmp_path / "t.csv"),
        iter([rows[:9], rows[9:]]),
    ]
    for data in tables:
        fitted = estimator(**options).fit(data)
        for name, array in expected.items():
            assert np.array_equal(fitted.release_.arrays[name], array)
        assert fitted.n_features_in_ == 5
    assert list(estimator(**options).fit(frame).feature_names_in_) == list("abcde")
    by_file = estimator(**options).fit(tmp_path / "t.csv")
    assert list(by_file.feature_names_in_) == list("abcde")
    assert by_file.release_.settings["feature_names"] == list("abcde")
    by_file.fit(tmp_path / "t.npy")
    assert not hasattr(by_file, "feature_names_in_")


@BOTH
def test_the_release_does_not_change_with_the_attributes(estimator, rows):
    fitted = estimator(**BUDGET, row_norm=5.0).fit(rows)
    name = "components" if estimator is PrivatePCA else "covariance"
    before = fitted.release_.arrays[name].copy()
    getattr(fitted, name + "_")[:] = 0.0
    assert np.array_equal(fitted.release_.arrays[name], before)
    with pytest.raises(ValueError, match="read-only"):
        fitted.release_.arrays[name][:] = 0.0


def test_transform_and_back(rows):
    pca = PrivatePCA(**BUDGET, row_norm=5.0).fit(rows)
    assert pca.n_components_ == 5
    scores = pca.transform(rows)
    assert pca.inverse_transform(scores) == pytest.approx(rows)
    assert list(pca.get_feature_names_out()) == [f"privatepca{i}" for i in range(5)]
    with pytest.raises(InvalidDataError, match="5 columns"):
        pca.inverse_transform(scores[:, :2])
    with pytest.raises(NotFittedError):
        PrivatePCA(2).transform(rows)


def test_transform_reads_what_fit_reads(rows, tmp_path):
    np.save(tmp_path / "t.npy", rows)
    pca = PrivatePCA(2, **BUDGET, row_norm=5.0)
    scores = pca.fit_transform(tmp_path / "t.npy")
    assert np.array_equal(scores, pca.transform(rows))
    assert np.array_equal(scores, pca.transform(iter([rows[:7], rows[7:]])))
    with pytest.raises(ValueError, match="features"):
        pca.transform(rows[:, :3])
    with pytest.raises(InvalidDataError, match="rows have 3 columns"):
        pca.transform(iter([rows[:, :3]]))
    assert pca.transform(iter([rows[:0]])).shape == (0, 2)
    for table in (rows.astype(np.longdouble), rows.astype(np.float32)):
        assert pca.transform(table).dtype == np.float64


def test_transform_of_a_file_checks_the_columns(rows, tmp_path):
    frame = pd.DataFrame(rows, columns=list("abcde"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame[list("edcba")].to_csv(tmp_path / "permuted.csv", index=False)
    pca = PrivatePCA(2, **BUDGET, row_norm=5.0).fit(tmp_path / "t.csv")
    assert pca.transform(tmp_path / "t.csv") == pytest.approx(pca.transform(frame))
    with pytest.raises(InvalidDataError, match="not those of the fit"):
        pca.transform(tmp_path / "permuted.csv")


def test_fit_transform_never_fails_after_the_charge(rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    options = {**BUDGET, "row_norm": 5.0, "ledger": ledger, "centring": "none"}
    with pytest.raises(InvalidDataError, match="read once"):
        PrivatePCA(2, **options).fit_transform(iter([rows]))
    with pytest.raises(InvalidDataError, match="read once"):
        PrivatePCA(2, **options).fit_transform(open_rows(iter([rows])))
    rows[0, 0] = np.nan
    with pytest.raises(InvalidDataError, match="on_invalid='zero'"):
        PrivatePCA(2, **options).fit_transform(rows)
    assert ledger.entries == ()
    scores = PrivatePCA(2, **options, on_invalid="zero").fit_transform(rows)
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1:]).all()


@BOTH
@pytest.mark.parametrize(
    ("changes", "error", "advice"),
    [
        ({"epsilon": None, "delta": None}, InvalidBudgetError, "give a budget"),
        ({"epsilon": 0.0}, InvalidBudgetError, "positive"),
        ({"epsilon": -1.0}, InvalidBudgetError, "positive"),
        ({"delta": 1.0}, InvalidBudgetError, "between 0 and 1"),
        ({"rho": 0.1}, InvalidBudgetError, "not both"),
        ({"row_norm": 0.0}, InvalidParameterError, "row_norm must be a positive number"),
        ({"row_norm": "wide"}, InvalidParameterError, "row_norm"),
        ({"row_norm": -1.0}, InvalidParameterError, "row_norm must be a positive number"),
        ({"delta": 0.0}, InvalidBudgetError, "leave it out for a pure guarantee"),
        ({"epsilon": None, "delta": None, "rho": 0.0}, InvalidBudgetError, "rho must be positive"),
        ({"epsilon": None, "delta": None, "rho": -1.0}, InvalidBudgetError, "rho must be positive"),
        ({"bounds": (0, np.inf)}, InvalidParameterError, "finite"),
        ({"bounds": (1, 0)}, InvalidParameterError, "low not above high"),
        ({"bounds": (1, 1)}, InvalidParameterError, "no room"),
        ({"bounds": (0, 1e-160)}, InvalidParameterError, "no room"),
        ({"bounds": (0, 1e200)}, InvalidParameterError, "within 1e\\+50"),
        ({"epsilon": 1e-50, "delta": 1e-50}, InvalidBudgetError, "too small"),
        ({"epsilon": 1e-200, "delta": 1e-200}, InvalidBudgetError, "must lie between"),
        ({"epsilon": None, "delta": None, "rho": 1e308}, InvalidBudgetError, "must lie between"),
        ({"bounds": 3}, InvalidParameterError, r"\(low, high\)"),
        ({"bounds": ([0, 0], [1, 1])}, InvalidParameterError, "one number per column"),
        ({"mechanism": "magic"}, InvalidParameterError, "mechanism must be one of"),
        ({"mechanism": ["gauss"]}, InvalidParameterError, "mechanism must be one of"),
        ({"adjacency": "nearby"}, InvalidParameterError, "adjacency must be"),
        ({"on_invalid": "drop"}, InvalidParameterError, "on_invalid must be"),
        ({"random_state": -1}, InvalidParameterError, "seed"),
        ({"ledger": 3}, InvalidParameterError, "ledger must be"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_mistakes_get_one_line_of_advice_and_cost_nothing(
    estimator, changes, error, advice, rows, tmp_path
):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    options = {**BUDGET, "row_norm": 5.0}
    if "random_state" not in changes:
        options["ledger"] = ledger
    with pytest.raises(error, match=advice) as caught:
        estimator(**(options | changes)).fit(rows)
    assert "\n" not in str(caught.value)
    assert ledger.entries == ()


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_a_covariance_needs_no_bound_but_clipping_does(rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    with pytest.raises(BoundsRequiredError, match=r"give bounds=.* or row_norm=R"):
        PrivateCovariance(**BUDGET, mechanism="cleaned", ledger=ledger).fit(rows)
    with pytest.raises(TooFewRowsError, match="too few rows for a covariance without bounds"):
        PrivateCovariance(**BUDGET, ledger=ledger).fit(rows[:60])
    assert ledger.entries == ()
    fitted = PrivateCovariance(**BUDGET, ledger=ledger).fit(rows)
    assert fitted.mechanism_ == "elliptical"
    assert "none needed" in fitted.privacy_.sentence()
    assert len(ledger.entries) == 1


def test_a_pure_budget_needs_a_pure_mechanism(rows):
    with pytest.raises(UnsupportedNotionError, match="choose mechanism='wishart'"):
        PrivatePCA(2, epsilon=1.0, mechanism="analyze-gauss", row_norm=5.0).fit(rows)
    with pytest.raises(UnsupportedNotionError, match="choose mechanism='wishart'"):
        PrivateCovariance(epsilon=1.0, mechanism="cleaned", row_norm=5.0).fit(rows)


@pytest.mark.parametrize(
    ("trace_bound", "advice"), [(0.0, "positive"), (25.1, "at most 25"), ("much", "number")]
)
def test_an_impossible_trace_costs_nothing(trace_bound, advice, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    with pytest.raises(InvalidParameterError, match=advice):
        PrivateCovariance(
            **BUDGET, row_norm=5.0, mechanism=Cleaned(trace_bound=trace_bound), ledger=ledger
        ).fit(rows)
    assert ledger.entries == ()


@pytest.mark.parametrize("k", [0, 6, -1, 2.5, "2", True])
def test_impossible_numbers_of_components(k, rows):
    with pytest.raises(InvalidParameterError, match="n_components"):
        PrivatePCA(k, **BUDGET, row_norm=5.0).fit(rows)


def poisoned_tables(rows):
    """Tables that cannot be used, each holding a value that no message may show."""
    text = rows.astype(object)
    text[3, 2] = f"secret{SECRET}"
    missing = rows.copy()
    missing[3] = [SECRET, np.nan, SECRET, SECRET, SECRET]
    ragged = [[SECRET, 1.0], [SECRET]]
    frame = pd.DataFrame(rows).astype({0: str})
    frame.loc[0, 0] = f"secret{SECRET}"
    masked_text = [[f"secret{SECRET} took sample(s), contains NaN, Complex data", 1.0], [2.0, 1.0]]
    return [
        ("text", text),
        ("phrase", masked_text),
        ("dates", np.array([["2026-01-01"]], dtype="datetime64[D]")),
        ("mapping", {"secret": SECRET}),
        ("missing", missing),
        ("ragged", ragged),
        ("frame", frame),
        ("flat", np.full(7, SECRET)),
        ("complex", rows * 1j * SECRET),
        ("iterator", iter([missing])),
        ("nothing", iter([])),
        ("object", object()),
    ]


@BOTH
def test_messages_and_tracebacks_carry_no_data(estimator, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    for name, table in poisoned_tables(rows):
        fitted = estimator(**BUDGET, row_norm=5.0, centring="none", ledger=ledger)
        with pytest.raises((EigenveilError, ValueError, TypeError)) as caught:
            fitted.fit(table)
        shown = "".join(traceback.format_exception(caught.value))
        assert str(SECRET) not in shown, name
        assert "secret" not in str(caught.value), name
    assert ledger.entries == ()


def test_scores_that_are_not_numbers_are_not_quoted(rows):
    pca = PrivatePCA(2, **BUDGET, row_norm=5.0).fit(rows)
    text, complex_numbers = [[f"secret{SECRET}", 1.0]], np.array([[1j * SECRET, 1.0]])
    for call, table in (
        (pca.transform, [[*text[0], 1.0, 1.0, 1.0]]),
        (pca.transform, np.array(text)),
        (pca.inverse_transform, np.array(text)),
        (pca.transform, complex_numbers),
        (pca.inverse_transform, complex_numbers),
    ):
        with pytest.raises(InvalidDataError) as caught:
            call(table)
        assert str(SECRET) not in "".join(traceback.format_exception(caught.value))
    assert np.isnan(pca.inverse_transform(text)).all()  # as of the scores of an invalid row


def test_masked_entries_are_missing(rows):
    masked = np.ma.masked_array(rows, mask=np.zeros_like(rows, dtype=bool))
    masked[3, 3] = np.ma.masked
    with pytest.raises(InvalidDataError, match="missing"):
        PrivatePCA(2, **BUDGET, row_norm=5.0).fit(masked)


@BOTH
def test_no_warning_depends_on_the_records(estimator, rows):
    """Overflow, underflow and invalid rows are silent (warnings are errors in this suite)."""
    rows[0], rows[1], rows[2] = 1e308, np.nan, 1e-308
    fitted = estimator(**BUDGET, row_norm=5.0, on_invalid="zero").fit(rows)
    assert all(np.isfinite(array).all() for array in fitted.release_.arrays.values())


@BOTH
def test_rows_that_can_be_read_once_cannot_be_centred(estimator, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    with pytest.raises(InvalidDataError, match="centring='none'"):
        estimator(**BUDGET, row_norm=5.0, ledger=ledger).fit(iter([rows]))
    assert ledger.entries == ()


@BOTH
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
def test_bounds_and_their_origin_are_stated(estimator, rows):
    clipping = {"mechanism": "analyze-gauss" if estimator is PrivatePCA else "cleaned"}
    derived = estimator(**BUDGET, **clipping, bounds=(0, 6)).fit(rows).privacy_.sentence()
    assert "entries clamped to [0, 6] (stated by the caller)" in derived
    assert f"rows farther than {3 * 5**0.5:.6g} from the centre pulled in" in derived
    assert "(a public rule from the stated range)" in derived
    assert "rows then pulled in to" in derived  # within it, as far as they reach
    assert "(chosen privately)" in derived
    stated = estimator(**BUDGET, row_norm=2.5).fit(rows)
    assert "rows farther than 2.5 from the centre" in stated.privacy_.sentence()
    assert stated.release_.settings["bounds"] is None
    columns = estimator(**BUDGET, **clipping, bounds=(np.zeros(5), np.arange(1, 6))).fit(rows)
    assert "[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]" in columns.privacy_.sentence()
    assert columns.release_.settings["bounds"]["high"] == [1, 2, 3, 4, 5]
    range_of_20 = (np.zeros(20), np.arange(1, 21))
    wide = estimator(**BUDGET, **clipping, bounds=range_of_20).fit(np.ones((4, 20)))
    assert "20 intervals listed in release.json" in wide.privacy_.sentence()


def test_covariances_inside_the_box_are_not_shrunk():
    """Every row of a fair 0/1 table lies half a diagonal from the centre."""
    rows = np.random.default_rng(0).integers(0, 2, size=(200_000, 20))
    fitted = PrivateCovariance(**BUDGET, bounds=(0, 1), random_state=0).fit(rows)
    assert np.diag(fitted.covariance_) == pytest.approx(np.full(20, 0.25), rel=0.02)


def test_entries_outside_the_box_are_clamped_one_by_one():
    """A wild entry becomes the bound of its column and leaves the rest of its row alone."""
    rows = np.random.default_rng(0).uniform(0, 1, size=(5000, 3))
    wild = rows.copy()
    wild[::2, 0] = 1e6
    rows[::2, 0] = 1.0
    options = {"rho": 1e6, "bounds": (0, 1)}
    clamped = PrivateCovariance(**options).fit(wild).covariance_
    assert clamped == pytest.approx(PrivateCovariance(**options).fit(rows).covariance_, abs=1e-3)


@BOTH
@pytest.mark.parametrize("size", [1e-45, 1e45])
def test_extreme_units_work(estimator, size):
    rows = np.random.default_rng(0).uniform(0, size, (50, 3))
    for options in ({"bounds": (0, size)}, {"row_norm": size}):
        fitted = estimator(epsilon=0.01, delta=1e-9, **options).fit(rows)
        assert np.isfinite(fitted.noise_floor_)
        for name, array in fitted.release_.arrays.items():
            pairs = name in ("mean", "location") and np.isnan(array).all()  # which have no centre
            assert pairs or np.isfinite(array).all()


def test_the_public_rule_about_the_origin():
    """A known centre with a box: the rule measures from the origin, not the middle."""
    options = {"rho": 1.0, "bounds": (0, 3), "centring": "none"}
    for estimator, mechanism, norm in (
        (PrivateCovariance, "cleaned", 6.0),
        (PrivatePCA, "analyze-gauss", 6.0),
    ):
        fitted = estimator(**options, mechanism=mechanism).fit(np.ones((5, 4)))
        assert fitted.release_.settings["row_norm"] == pytest.approx(norm)


@ADJACENCIES
def test_the_noise_floor_covers_what_pure_noise_reaches(adjacency):
    """Rows that are all equal have no variance: everything above zero is noise."""
    rows = np.full((400, 30), 0.8)
    options = {
        **BUDGET,
        "bounds": (0, 1),
        "adjacency": adjacency,
        "mechanism": "analyze-gauss",
    }
    shares = []
    for seed in range(40):
        fitted = PrivatePCA(3, **options, random_state=seed).fit(rows)
        shares.append(fitted.explained_variance_[0] / fitted.noise_floor_)
    assert sum(share > 1 for share in shares) <= 5  # 0.4 expected
    assert max(shares) > 0.6  # and it is not set needlessly high
    options = {**BUDGET, "row_norm": 1.0, "mechanism": "laplace", "adjacency": adjacency}
    many = np.tile(rows, (10, 1))
    located = PrivatePCA(3, **options, random_state=0).fit(many)
    known = PrivatePCA(3, **options, centring="none", random_state=0).fit(many * 0)
    assert known.noise_floor_ < located.noise_floor_


def test_a_broken_blas_is_declared(rows, monkeypatch):
    def broken(block, sums):
        return sums + (block.astype(np.float32).T @ block.astype(np.float32)).astype(np.float64)

    monkeypatch.setattr(gram, "_accumulate", broken)
    fitted = PrivateCovariance(**BUDGET, row_norm=5.0).fit(rows)
    assert "idealised" in fitted.privacy_.sentence()
