"""Principal components: without bounds, at any width, with error bars."""

import math
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil import Ledger, PrivatePCA, Release, SpikedModel, open_rows
from eigenveil.exceptions import (
    BoundsRequiredError,
    ColumnsLeftOutWarning,
    GapTooSmallError,
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import AnalyzeGauss, Cleaned, Spherical, Tangent
from eigenveil.numerics import captured_variance
from eigenveil.papers.spiked import Spiked
from eigenveil.privacy import Budget, Kind, Numerics, fits

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
PURE = {"epsilon": 1.0}
RHO = {"rho": 0.05}
EVERY = [
    ("tangent", BUDGET),
    ("tangent", RHO),
    ("spherical", BUDGET),
    ("analyze-gauss", BUDGET),
    ("gap-projector", BUDGET),
    ("wishart", PURE),
    ("wishart", BUDGET),
    ("exponential", PURE),
    ("exponential", RHO),
    ("laplace", PURE),
]
ADJACENCIES = pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])


def spikes(n=3000, d=12, k=2, size=10.0, shift=0.0, seed=0):
    """The first k columns have `size` times the standard deviation of the others."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    rows[:, :k] *= size
    return rows + shift


def inside(fitted, k):
    """Share of the released directions that lies in the first k coordinates."""
    return float(np.sum(fitted.components_[:, :k] ** 2)) / k


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def shifted_cancer():
    table = load_breast_cancer().data
    return (table - table.mean(axis=0)) / table.std(axis=0) + 3.0


def captured(table, k, seeds, **options):
    truth = np.cov(table.T)
    return np.mean(
        [
            captured_variance(
                PrivatePCA(k, **options, random_state=seed).fit(table).components_, truth
            )
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("epsilon", "free", "bounded"), [(0.5, 0.65, 0.75), (1.0, 0.90, 0.93), (2.0, 0.97, 0.98)]
)
def test_digits(digits, epsilon, free, bounded):
    """The figures to reach; means of 10 whose standard errors are below .01 (seeded)."""
    budget = {"epsilon": epsilon, "delta": 1e-6}
    assert captured(digits, 5, 10, **budget) >= free
    assert captured(digits, 5, 10, **budget, bounds=(0, 16)) >= bounded


@pytest.mark.parametrize(("epsilon", "wanted"), [(0.5, 0.60), (1.0, 0.80), (2.0, 0.91)])
def test_data_away_from_the_origin(shifted_cancer, epsilon, wanted):
    assert captured(shifted_cancer, 3, 20, epsilon=epsilon, delta=1e-6) >= wanted


@ADJACENCIES
@pytest.mark.parametrize("centring", [None, "none"])
@pytest.mark.parametrize(("mechanism", "budget"), EVERY, ids=str)
def test_every_mechanism_without_bounds(mechanism, budget, centring, adjacency, tmp_path):
    """10 to 1 in 2 of 12 columns: everything finds them, at a cost within the budget."""
    ledger = Ledger.create(tmp_path / "l", **budget, adjacency=adjacency)
    options = {"mechanism": mechanism, "adjacency": adjacency, "centring": centring}
    rows = spikes(20_000, shift=0.0 if centring == "none" else 40.0)
    fitted = PrivatePCA(2, **budget, **options, ledger=ledger).fit(rows)
    (entry,) = ledger.entries
    assert entry.cost == fitted.privacy_.cost
    assert fits(entry.cost, Budget(**budget))
    assert inside(fitted, 2) > 0.9
    assert fitted.components_ @ fitted.components_.T == pytest.approx(np.eye(2), abs=1e-9)
    assert fitted.distinguishable_.all()
    assert (fitted.reliability_ > 0.5).all()
    assert 0.8 < fitted.explained_variance_ratio_.sum() <= 1 + 1e-9
    assert fitted.privacy_.kind is Kind.WORST_CASE
    scaled = "every row scaled to unit length"
    if centring is None:
        scaled = (
            f"rows farther than {fitted.unit_distance_:.6g} from the centre scaled to unit length"
        )
    assert f"none needed: {scaled}" in fitted.privacy_.sentence()
    assert math.isclose(sum(fitted.shares_.values()), 1)
    loaded = Release.load(fitted.release_.save(tmp_path / "release"))
    assert np.array_equal(loaded.arrays["components"], fitted.components_)
    assert loaded.guarantee == fitted.privacy_


def test_the_default_depends_on_public_numbers_only():
    """Budget, bounds, adjacency and sizes; never the rows."""
    few, many = spikes(100, 4, 1), spikes(5000, 4, 1)

    def centring(table, **options):
        fitted = PrivatePCA(1, **options).fit(table)
        return fitted.release_.mechanism, fitted.release_.settings["centring"]

    scarce = {"epsilon": 0.1, "delta": 1e-6}
    assert centring(few, **BUDGET) == ("tangent", "paired")
    assert centring(many, **scarce) == ("tangent", "located")
    assert centring(many, **BUDGET) == ("analyze-gauss", "located")  # which is generous
    assert centring(many, **scarce, bounds=(0, 1)) == ("tangent", "located")
    assert centring(few, **BUDGET, bounds=(0, 1)) == ("tangent", "paired")
    assert centring(many, **BUDGET, centring="paired") == ("analyze-gauss", "paired")
    assert centring(many, **scarce, row_norm=1.0) == ("analyze-gauss", "located")
    assert centring(few, **BUDGET, bounds=(0, 1), row_norm=1.0) == ("analyze-gauss", "mean")
    assert centring(many, **BUDGET, centring="none") == ("analyze-gauss", "none")
    assert centring(few, epsilon=1.0) == ("wishart", "paired")
    assert centring(many, epsilon=1.0) == ("wishart", "located")


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e12])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_neither_place_nor_unit_matter_to_pairs(shift, size):
    rows = spikes(400, 5, 1, shift=shift) * size
    fitted = PrivatePCA(1, epsilon=2.0, delta=1e-6, centring="paired", random_state=0).fit(rows)
    assert inside(fitted, 1) > (0.9 if shift < 1e12 else 0.8)


@pytest.mark.parametrize("mechanism", ["oja", "adaptive-oja", "deflation"])
def test_too_few_rows_for_batches_are_counted_as_rows(tmp_path, mechanism):
    """Two rows make a difference: the number that is asked for is enough, one less is not."""
    ledger = Ledger.create(tmp_path / "l", epsilon=100.0, delta=0.1)
    pca = PrivatePCA(
        1, epsilon=20.0, delta=0.01, mechanism=mechanism, centring="paired", ledger=ledger
    )
    with pytest.raises(InvalidDataError, match="records at least for 5 columns") as refused:
        pca.fit(spikes(40, 5, 1))
    needed = int(re.search(r"needs (\d+) records", str(refused.value)).group(1))
    with pytest.raises(InvalidDataError, match=f"needs {needed} records"):
        pca.fit(spikes(needed - 1, 5, 1))
    assert ledger.entries == ()
    pca.set_params(ledger=None, random_state=0)
    assert pca.fit(spikes(needed, 5, 1)).n_samples_ == needed


def test_data_too_far_away_are_not_taken_for_a_component():
    """1e9 spreads away: what is left of the mean is the only direction, and is not trusted."""
    for shift in (1e4, 1e9):
        for seed in range(5):
            fitted = PrivatePCA(3, **BUDGET, random_state=seed).fit(spikes(shift=shift))
            assert fitted.release_.settings["centring"] == "located"
            assert not fitted.distinguishable_[0]
            assert fitted.noise_floor_ <= 1


@pytest.mark.parametrize("n", [2, 60, 3000])
@pytest.mark.parametrize("value", [0.0, 7.0, 1e200])
def test_rows_that_are_all_equal_have_no_component(n, value):
    """Without a distance there is no radius either: unit rows need none."""
    for seed in range(5):
        fitted = PrivatePCA(2, **BUDGET, mechanism="tangent", random_state=seed)
        fitted.fit(np.full((n, 6), value))
        assert not fitted.distinguishable_.any()
        assert np.isfinite(fitted.components_).all()


def test_constant_columns_have_no_loading():
    rows = spikes(5000, 6, 2)
    rows[:, 4] = 1e6
    fitted = PrivatePCA(2, **BUDGET, centring="paired", random_state=0).fit(rows)
    assert np.abs(fitted.components_[:, 4]).max() < 0.05
    assert inside(fitted, 2) > 0.99


def test_reliability_says_how_much_of_a_component_is_left():
    """Mean of 20 squared cosines with the noiseless directions of the same rows: within .05."""
    rows = spikes(800, 40, 3, size=3.0)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    truth = np.linalg.eigh(unit.T @ unit)[1][:, -3:]
    seen, said = [], []
    for seed in range(20):
        fitted = PrivatePCA(
            3, **BUDGET, mechanism="spherical", centring="none", random_state=seed
        ).fit(rows)
        seen.append(np.sum((fitted.components_ @ truth) ** 2) / 3)
        said.append(fitted.reliability_.mean())
    assert 0.3 < np.mean(seen) < 0.97  # neither trivial
    assert np.mean(said) == pytest.approx(np.mean(seen), abs=0.05)


def test_noise_is_not_reliable():
    """Nothing stands out of 300 rows of white noise at a small budget; floors hold in 99 %."""
    found = 0
    for seed in range(20):
        rows = np.random.default_rng(seed).standard_normal((300, 30))
        fitted = PrivatePCA(3, epsilon=0.2, delta=1e-6, random_state=seed).fit(rows)
        found += fitted.distinguishable_.any()
    assert found <= 2  # three with probability 1e-3


def test_a_private_number_of_components():
    """Three spikes of 10, found in 10 of 10 seeded fits."""
    rows = spikes(5000, 20, 3, shift=5.0)
    for seed in range(10):
        fitted = PrivatePCA("private", **BUDGET, random_state=seed).fit(rows)
        assert fitted.n_components_ == 3
    assert fitted.shares_["rank"] == 0.1
    assert inside(fitted, 3) > 0.99
    assert "rank" in fitted.release_.settings["shares"]


def test_a_rank_that_cannot_be_found_is_said_and_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    rows = np.random.default_rng(0).standard_normal((300, 10))
    with pytest.raises(NothingFoundError, match="state n_components") as caught:
        PrivatePCA("private", **BUDGET, ledger=ledger).fit(rows)
    assert "\n" not in str(caught.value)
    assert [entry.failed for entry in ledger.entries] == [None, 1]


def test_a_gap_that_is_too_small_is_said_and_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    rows = np.random.default_rng(0).standard_normal((300, 10))
    with pytest.raises(GapTooSmallError, match="budget is spent: try fewer components"):
        PrivatePCA(2, **BUDGET, mechanism="gap-projector", ledger=ledger).fit(rows)
    assert [entry.failed for entry in ledger.entries] == [None, 1]


@ADJACENCIES
def test_variances_in_the_units_of_the_data(adjacency):
    """Gaussian columns of variance 900 and 1: within a tenth at epsilon = 4."""
    rows = spikes(20_000, 8, 2, size=30.0, shift=100.0)
    fitted = PrivatePCA(
        2,
        epsilon=4.0,
        delta=1e-6,
        mechanism="tangent",
        variances=True,
        adjacency=adjacency,
        random_state=0,
    ).fit(rows)
    assert fitted.explained_variance_ == pytest.approx([900, 900], rel=0.2)
    assert fitted.explained_variance_ratio_.sum() == pytest.approx(0.99, abs=0.02)
    assert 0.055 <= fitted.shares_["variances"] <= 0.06  # with its search
    assert "for the variances (chosen privately)" in fitted.privacy_.sentence()


@pytest.mark.parametrize("mechanism", ["tangent", "auto"])  # bought, and those of clipped rows
@pytest.mark.parametrize("centring", ["located", "paired"])
def test_variances_do_not_depend_on_the_centring(centring, mechanism):
    """Half differences have half the covariance; a search of pairs counts pairs. 20 fits each."""
    rows = spikes(20_000, 8, 2, size=30.0)
    for seed in range(20):
        fitted = PrivatePCA(
            2,
            epsilon=4.0,
            delta=1e-6,
            mechanism=mechanism,
            variances=True,
            centring=centring,
            random_state=seed,
        ).fit(rows)
        assert fitted.explained_variance_ == pytest.approx([900, 900], rel=0.25)


def test_variances_that_cannot_be_found_are_said_and_charged(tmp_path):
    """All rows are at the centre: there is no distance, but once in a million times."""
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    options = {**BUDGET, "variances": True, "centring": "none", "mechanism": "tangent"}
    with pytest.raises(NothingFoundError, match="leave variances out"):
        PrivatePCA(1, **options, ledger=ledger).fit(np.zeros((9000, 3)))
    assert [entry.failed for entry in ledger.entries] == [None, 1]


def test_stretching_does_not_change_the_shares():
    """`tangent` says the same of the variance as `spherical`: within a tenth."""
    rows = spikes(20_000, 100, 1, size=5.0)
    shares = [
        PrivatePCA(1, **BUDGET, mechanism=name, centring="none", random_state=0)
        .fit(rows)
        .explained_variance_ratio_[0]
        for name in ("tangent", "spherical")
    ]
    assert shares[0] == pytest.approx(shares[1], rel=0.1)


@ADJACENCIES
@pytest.mark.parametrize("mechanism", ["analyze-gauss", "gap-projector", "exponential"])
def test_ratios_refer_to_the_trace_and_not_to_a_bound(mechanism, adjacency):
    rows = spikes(50_000, 4, 1, size=5.0)
    fitted = PrivatePCA(
        1,
        epsilon=8.0,
        delta=1e-6,
        mechanism=mechanism,
        row_norm=40.0,
        adjacency=adjacency,
        random_state=0,
    ).fit(rows)
    assert fitted.explained_variance_ratio_[0] == pytest.approx(25 / 28, abs=0.02)
    assert fitted.get_covariance().diagonal() == pytest.approx([25, 1, 1, 1], abs=0.5)


def test_all_components_of_white_noise_are_not_reliable():
    fitted = PrivatePCA(**BUDGET, centring="none", random_state=0).fit(
        np.random.default_rng(0).standard_normal((2000, 10))
    )
    assert fitted.n_components_ == 10
    assert np.median(fitted.reliability_) < 0.5


def test_no_more_components_than_rows_by_default():
    assert PrivatePCA(**BUDGET).fit(np.eye(20)[:7]).n_components_ == 7


def test_shares_of_normalised_rows_by_default():
    fitted = PrivatePCA(2, **BUDGET, random_state=0).fit(spikes() * 1e6)
    assert fitted.explained_variance_ == pytest.approx(fitted.explained_variance_ratio_)
    assert fitted.explained_variance_.sum() <= 1 + 1e-9


def test_columns_of_different_units():
    """Two correlated columns, in units a million times apart, among others that are not."""
    rng = np.random.default_rng(0)
    units = np.array([1e-3, 1e3, 1.0, 1e-6, 1e6])
    plain = rng.standard_normal((20_000, 5))
    plain[:, 1] += 3 * plain[:, 0]
    rows = plain * units + 50 * units
    alone = PrivatePCA(1, **BUDGET, random_state=0).fit(rows)
    assert abs(alone.components_[0, 4]) > 0.99  # the largest unit takes all
    for scale in ("private", units):
        fitted = PrivatePCA(1, **BUDGET, scale=scale, random_state=0).fit(rows)
        assert np.linalg.norm(fitted.components_[0, :2]) > 0.98
        assert (fitted.scale_ / units < 8).all()
        assert (fitted.scale_ / units > 1 / 4).all()
        scores = fitted.transform(rows)
        back = fitted.inverse_transform(scores)
        assert back.shape == rows.shape
        expected = (rows - fitted.mean_) / fitted.scale_ @ fitted.components_.T
        assert scores == pytest.approx(expected)
    assert fitted.privacy_.sentence().count("scales stated by the caller") == 1


def test_a_column_without_a_scale_is_left_out():
    """Of a mechanism that is named; by default components are those of standardised columns."""
    rows = spikes(5000, 4, 1)
    rows[:, 3] = 12.0
    named = {**BUDGET, "mechanism": "tangent", "scale": "private", "random_state": 0}
    with pytest.warns(
        ColumnsLeftOutWarning, match=r"no scale was found for x3, which was left out"
    ):
        fitted = PrivatePCA(1, **named).fit(rows)
    assert np.isinf(fitted.scale_[3])
    assert np.isnan(fitted.mean_noise_).tolist() == [False, False, False, True]
    assert np.isfinite(fitted.scale_[:3]).all()
    assert not fitted.components_[:, 3].any()
    assert fitted.get_covariance()[3, 3] == 0
    assert "left out, as no scale was found for them: x3" in fitted.privacy_.sentence()
    assert np.isfinite(fitted.transform(rows)).all()
    assert np.isfinite(fitted.inverse_transform(fitted.transform(rows))).all()
    with pytest.raises(NothingFoundError, match="give the scales"):
        PrivatePCA(1, **named).fit(np.ones((5000, 3)))
    with pytest.raises(TooFewRowsError, match="too few rows for private scales"):
        PrivatePCA(1, **named).fit(np.ones((50, 3)))


@pytest.mark.parametrize("options", [{"scale": "private"}, {"row_norm": 30.0}], ids=str)
def test_means_have_the_noise_that_is_stated(options):
    """The root mean square of 80 seeded errors, in stated ones, is 1 to within 4 deviations."""
    rng = np.random.default_rng(0)
    rows = rng.normal([10.0, 0.0, 1.0, 3.0], [1.0, 5.0, 0.2, 2.0], (4000, 4))
    errors = []
    for seed in range(20):
        found = PrivatePCA(1, **BUDGET, **options, centring="located", random_state=seed).fit(rows)
        errors += list((found.mean_ - rows.mean(axis=0)) / found.mean_noise_)
        units = found.release_.arrays.get("clipping_scale", found.scale_)
        stated = found.release_.settings["centre_noise"] * units
        np.testing.assert_array_equal(found.mean_noise_, stated)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=4 / np.sqrt(2 * 80))
    pairs = PrivatePCA(1, **BUDGET, centring="paired", random_state=0).fit(rows)
    assert np.isnan(pairs.mean_noise_).all()
    assert "centre_noise" not in pairs.release_.settings


def test_a_table_of_categories_alone_needs_no_scales():
    frame = pd.DataFrame({"ward": list("abca") * 100, "sex": list("fmmf") * 100})
    table = open_rows(frame, encode={"ward": ["a", "b", "c"], "sex": ["f", "m"]})
    fitted = PrivatePCA(1, **BUDGET, scale="private", random_state=0).fit(table)
    assert fitted.scale_.tolist() == [1.0] * 5
    assert "scale" not in fitted.shares_


def test_a_private_rank_of_the_columns_that_are_left():
    """Four columns with a scale and two without; one strong pair among the four."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40_000, 6))
    rows[:, 1] = rows[:, 0] + 0.1 * rows[:, 1]
    rows[:, 4:] = 7.0
    named = {**BUDGET, "mechanism": "tangent", "scale": "private", "random_state": 0}
    with pytest.warns(ColumnsLeftOutWarning, match="no scale was found for x4, x5, which were"):
        fitted = PrivatePCA("private", **named).fit(rows)
    assert fitted.n_components_ == 1
    assert np.linalg.norm(fitted.components_[0, :2]) > 0.98
    with pytest.warns(ColumnsLeftOutWarning):
        everything = PrivatePCA(**named).fit(rows)
    assert everything.components_.shape == (4, 6)


@pytest.mark.parametrize("options", [{"centring": "paired"}, {"scale": "private"}])
@pytest.mark.parametrize("n", [1000, 1001])
def test_a_row_that_stops_the_run_is_found_before_the_charge(options, n, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    rows = spikes(n, 4, 1)
    rows[7, 2] = np.nan
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        PrivatePCA(1, **BUDGET, **options, ledger=ledger).fit(rows)
    assert ledger.entries == ()


def test_wide_tables_never_become_square():
    """20,000 columns: a matrix of them would fill 3.2 GB; the noise is drawn as it is needed."""
    rows = spikes(300, 20_000, 1, size=1000.0).astype(np.float32)
    tracemalloc.start()
    fitted = PrivatePCA(1, epsilon=20.0, delta=1e-6, random_state=0).fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6
    assert fitted.privacy_.numerics is Numerics.IDEALISED
    assert inside(fitted, 1) > 0.5


@pytest.mark.parametrize("mechanism", [Tangent, Spherical, AnalyzeGauss])
def test_the_form_of_the_noise_can_be_forced(mechanism):
    rows = spikes(3000, 20, 2)
    for lazy, numerics in ((False, Numerics.EXACT), (True, Numerics.IDEALISED)):
        fitted = PrivatePCA(
            2, **BUDGET, mechanism=mechanism(lazy=lazy), centring="none", random_state=0
        ).fit(rows)
        assert fitted.privacy_.numerics is numerics
        assert inside(fitted, 2) > 0.99
    assert "real numbers" in fitted.privacy_.sentence()


def test_a_model_is_stated_and_nothing_else_is_promised(tmp_path):
    model = SpikedModel(rank=2, smallest_spike=90, largest_spike=110, noise_variance=1.0)
    fitted = PrivatePCA(
        **BUDGET, mechanism=Spiked(model=model), centring="none", random_state=0
    ).fit(spikes(20_000))
    assert fitted.privacy_.kind is Kind.MODEL_BASED
    assert "tables that follow the model stated first, and no others" in fitted.privacy_.sentence()
    assert model.assumption in fitted.privacy_.sentence()
    assert inside(fitted, 2) > 0.99
    assert fitted.get_covariance().diagonal() == pytest.approx([100] * 2 + [1] * 10, rel=0.1)
    loaded = Release.load(fitted.release_.save(tmp_path / "r"))
    assert loaded.guarantee.assumption == model.assumption


def test_the_covariance_of_a_release():
    """With row_norm the components and the rest stand for the covariance itself."""
    rows = spikes(20_000, 6, 2, size=3.0)
    fitted = PrivatePCA(2, rho=100.0, row_norm=30.0).fit(rows)
    assert fitted.get_covariance() == pytest.approx(np.diag([9, 9, 1, 1, 1, 1]), abs=0.3)


MODEL = SpikedModel(rank=1, smallest_spike=9, largest_spike=9, noise_variance=1.0)
SPIKED = {"mechanism": Spiked(model=MODEL), "centring": "none"}
MISTAKES = [
    ({"n_components": 0}, InvalidParameterError, "between 1 and the number of columns, 4"),
    ({"n_components": 5}, InvalidParameterError, "between 1 and the number of columns, 4"),
    ({"n_components": "all"}, InvalidParameterError, "between 0 and 1, or 'private'"),
    ({"n_components": 3, "rows": 2}, InvalidParameterError, "exceeds the number of rows"),
    ({"rows": 1}, InvalidDataError, "two rows at least"),
    ({"rows": 0}, InvalidDataError, "no rows"),
    ({"row_norm": 1.0, "mechanism": "tangent"}, InvalidParameterError, "leave row_norm out"),
    ({"centring": "mean"}, BoundsRequiredError, "for rows clipped at a stated bounds"),
    ({"centring": "median"}, InvalidParameterError, "'none', 'mean', 'located' or 'paired'"),
    ({"centring": True}, InvalidParameterError, "'none', 'mean', 'located' or 'paired'"),
    (
        {"centring": "paired", "adjacency": "add-remove"},
        UnsupportedNotionError,
        "public number of rows",
    ),
    ({"scale": "auto"}, InvalidParameterError, "one positive number per column"),
    ({"scale": [1.0, 0.0, 1.0, 1.0]}, InvalidParameterError, "one positive number per column"),
    ({"scale": [1.0, 2.0]}, InvalidParameterError, "one positive number per column"),
    ({"scale": "private", "bounds": (0, 1)}, InvalidParameterError, "leave one of them out"),
    (
        {"scale": "private", "adjacency": "add-remove", "mechanism": "tangent"},
        UnsupportedNotionError,
        "number of rows",
    ),
    ({"variances": True, "row_norm": 1.0}, InvalidParameterError, "leave variances out"),
    (
        {"n_components": "private", "mechanism": Tangent(lazy=True)},
        InvalidParameterError,
        "state n_components, or pass mechanism=Tangent",
    ),
    (
        {"n_components": "private", "adjacency": "add-remove"},
        UnsupportedNotionError,
        "state n_components",
    ),
    (
        {"n_components": "private", "mechanism": "exponential"},
        InvalidParameterError,
        "depends on the number of components",
    ),
    ({"mechanism": "spiked"}, InvalidParameterError, "pass mechanism=Spiked.model=SpikedModel"),
    ({"mechanism": "spike"}, InvalidParameterError, "must be one of: 'auto'"),
    ({"mechanism": Spiked}, InvalidParameterError, "must be one of: 'auto'"),
    ({"mechanism": Cleaned()}, InvalidParameterError, "must be one of: 'auto'"),
    ({**SPIKED, "centring": None}, InvalidParameterError, "pass centring='none'"),
    (
        {"mechanism": "gap-projector", "epsilon": None, "delta": None, "rho": 0.1},
        UnsupportedNotionError,
        "give epsilon and delta",
    ),
    ({"mechanism": "gap-projector", "n_components": 4}, InvalidParameterError, "fewer components"),
    ({"mechanism": "gap-projector", "n_components": None}, InvalidParameterError, "fewer comp"),
    ({"mechanism": "gap-projector", "scale": "private"}, InvalidParameterError, "give the scales"),
    ({"variances": True, "rows": 100}, InvalidParameterError, "too few rows for variances"),
    ({**SPIKED, "row_norm": 1.0}, InvalidParameterError, "leave row_norm, bounds and scale"),
    ({**SPIKED, "scale": "private"}, InvalidParameterError, "leave row_norm, bounds and scale"),
    ({**SPIKED, "adjacency": "add-remove"}, UnsupportedNotionError, "replace-one"),
    ({**SPIKED, "n_components": 2}, InvalidParameterError, "leave n_components out"),
]


@pytest.mark.parametrize(
    ("changes", "error", "advice"), MISTAKES, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_mistakes_get_one_line_of_advice_and_cost_nothing(changes, error, advice, tmp_path):
    ledger = Ledger.create(
        tmp_path / "l", epsilon=9.0, delta=1e-5, adjacency=changes.get("adjacency", "replace-one")
    )
    options = {"n_components": 1, **BUDGET, "ledger": ledger, **changes}
    rows = np.random.default_rng(0).standard_normal((options.pop("rows", 500), 4))
    with pytest.raises(error, match=advice) as caught:
        PrivatePCA(**options).fit(rows)
    assert "\n" not in str(caught.value)
    assert ledger.entries == ()


@pytest.mark.parametrize("mechanism", ["spherical", "analyze-gauss"])
def test_centred_rows_may_be_read_once(mechanism):
    rows = spikes(500, 4, 1)
    options = {"mechanism": mechanism, "centring": "none", "random_state": 0}
    once = PrivatePCA(1, **BUDGET, **options).fit(iter([rows[:200], rows[200:]]))
    whole = PrivatePCA(1, **BUDGET, **options).fit(rows)
    assert np.array_equal(once.components_, whole.components_)


def test_data_outside_the_stated_bounds_are_clamped():
    """A wild row does no more than the box allows."""
    rows = spikes(2000, 4, 1, shift=50.0)
    wild = np.vstack([rows, np.full((1, 4), 1e300)])
    fitted = PrivatePCA(1, **BUDGET, bounds=(0, 100), random_state=0).fit(wild)
    assert inside(fitted, 1) > 0.98
    assert (fitted.mean_ <= 100).all()


def test_one_row_or_one_group_is_too_few_for_variances():
    rows = spikes(60, 3, 1)
    options = {**BUDGET, "variances": True, "random_state": 0}
    for table, groups in ((rows[:1], None), (rows, np.zeros(60, dtype=int))):
        with pytest.raises(InvalidDataError, match="need two"):
            PrivatePCA(1, **options).fit(table, groups=groups)


def test_one_row_or_one_group_is_refused_before_a_centre_is_paid_for(tmp_path):
    rows = spikes(60, 3, 1)
    for unit, table, groups in (("row", rows[:1], None), ("person", rows, np.zeros(60, dtype=int))):
        ledger = Ledger.create(tmp_path / unit, **BUDGET, unit=unit)
        with pytest.raises(InvalidDataError, match="two"):
            PrivatePCA(1, **BUDGET, centring="located", ledger=ledger).fit(table, groups=groups)
        assert ledger.entries == ()


def test_searches_that_would_take_the_whole_budget_are_refused(tmp_path):
    """450 rows of 3 columns: scales, a centre, a rank and variances need more than there is."""
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    everything = {"scale": "private", "on_missing": "centre", "variances": True}
    everything["mechanism"] = "spherical"
    with pytest.raises(TooFewRowsError, match="too few rows for all that is searched for"):
        PrivatePCA(
            "private", epsilon=1.0, delta=1e-6, centring="located", ledger=ledger, **everything
        ).fit(spikes(450, 3, 1))
    assert ledger.entries == ()


def test_rows_nearer_than_any_length_have_no_centre_but_directions():
    rows = spikes(3000, 4, 1, size=5.0) * 1e-60
    fitted = PrivatePCA(1, **BUDGET, mechanism="spherical", random_state=0).fit(rows)
    assert inside(fitted, 1) > 0.9


@pytest.mark.parametrize("options", [{"centring": "paired"}, {"scale": "private"}, {}], ids=str)
def test_a_row_that_becomes_infinite_as_it_is_read_stops_before_the_charge(options, tmp_path):
    if np.finfo(np.longdouble).maxexp <= 1024:
        pytest.skip("long doubles are doubles here")
    rows = spikes(100_000, 2, 1).astype(np.longdouble)
    rows[70_001, 1] = np.longdouble("1e400")
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    with pytest.raises(InvalidDataError, match="infinite"):
        PrivatePCA(1, **BUDGET, **options, ledger=ledger).fit(rows)
    assert ledger.entries == ()
