"""Tables with empty cells, among them real genotypes."""

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, intervals
from eigenveil.exact import Clip, second_moment, total
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EmptyCellsWarning,
    InvalidDataError,
    InvalidParameterError,
    MissingTogetherWarning,
)
from eigenveil.mechanisms import (
    Centred,
    Gate,
    GaussCov,
    GaussianNoise,
    LocatedCentre,
    PrivateMean,
    Spherical,
    Tangent,
    entries,
)
from eigenveil.numerics import SimulationSource, captured_variance
from eigenveil.papers.spiked import Spiked, SpikedModel
from eigenveil.privacy import Adjacency
from eigenveil.release import Release, standard_errors
from eigenveil.report import correlations
from eigenveil.rows import open_rows

REPLACE = Adjacency.REPLACE_ONE
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
FILLS = {"on_missing": "centre", "random_state": 0}
GENOTYPES = Path(__file__).parents[3] / "shared" / "data" / "hapmap_geno.npz"


def holes(n=600, d=4, seed=0, share=0.1):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * np.arange(1, d + 1) + 3.0
    rows[rng.random((n, d)) < share] = np.nan
    if share:
        rows[0] = np.nan
    return rows


@pytest.fixture(scope="module")
def genotypes():
    if not GENOTYPES.is_file():
        pytest.skip("hapmap_geno.npz is not beside this checkout")
    with np.load(GENOTYPES) as stored:
        table = stored["genotype"].astype(float)
    table[table == 3] = np.nan
    return table


def test_genotypes_have_components(genotypes):
    """279 persons, 21 of them complete: the first axis shows at a large budget only.

    Measured: 0.87 of its variance on normalised rows, 0.77 on rows clipped at a private radius.
    """
    filled = np.where(np.isnan(genotypes), np.nanmean(genotypes, axis=0), genotypes)
    truth = np.cov(filled.T, bias=True)
    assert np.isfinite(genotypes).all(axis=1).sum() == 21
    for options, least in (({}, 0.8), ({"bounds": (0, 2), "row_norm": "private"}, 0.65)):
        fitted = PrivatePCA(1, epsilon=20.0, delta=1e-6, **FILLS, **options).fit(genotypes)
        assert captured_variance(fitted.components_, truth) > least
        scores = fitted.transform(genotypes)
        assert np.isfinite(scores).all()
        assert "empty cells taken as the centre's" in fitted.privacy_.sentence()
    with pytest.raises(InvalidDataError, match="on_missing='centre'"):
        PrivatePCA(1, **BUDGET).fit(genotypes)


def test_genotypes_have_a_covariance(genotypes):
    """Relative error measured: 0.23, of which about half is clipping."""
    some = genotypes[:, :20]
    filled = np.where(np.isnan(some), np.nanmean(some, axis=0), some)
    truth = np.cov(filled.T, bias=True)
    for bounds in (None, (0, 2)):
        options = {"epsilon": 8.0, "delta": 1e-6, "bounds": bounds, "row_norm": "private"}
        fitted = PrivateCovariance(**options, **FILLS).fit(some)
        assert np.linalg.norm(fitted.covariance_ - truth) < 0.35 * np.linalg.norm(truth)
        assert fitted.location_ == pytest.approx(np.nanmean(some, axis=0), abs=0.4)
        assert fitted.n_samples_ == 279


# About a known centre: filling with it, and then allowing for what was filled.


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (PrivatePCA, {"n_components": 2, "mechanism": "tangent"}),
        (PrivatePCA, {"n_components": 2, "row_norm": 8.0, "mechanism": "exponential"}),
        (PrivatePCA, {"n_components": 2, "variances": True, "mechanism": "tangent"}),
        (PrivatePCA, {"n_components": 2, "mechanism": Spherical(lazy=True)}),
    ],
    ids=str,
)
def test_about_a_known_centre_it_is_filling_with_it(estimator, options):
    """Where moments are not formed there is nothing to correct; shares are paid for and stated."""
    rows = holes(share=0.3)
    options = {"rho": 1e6, "centring": "none", "random_state": 0} | options
    filled = estimator(**options).fit(np.where(np.isnan(rows), 0.0, rows))
    fitted = estimator(**options, on_missing="centre").fit(rows)
    assert fitted.shares_["present"] == 0.05
    same = np.abs(np.sum(fitted.components_ * filled.components_, axis=1))
    assert same == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("mechanism", ["gauss", "cleaned", "wishart", "laplace", "separate"])
def test_moments_are_corrected_for_what_is_missing(mechanism):
    """A third of the cells, missing at random: a factor of 0.7 and 0.49 is taken off again.

    2,000 rows: entries of about 10 vary by 0.5 or less; four deviations.
    """
    whole = holes(20_000, share=0.0) - 3.0
    rows = np.where(np.random.default_rng(1).random(whole.shape) < 0.3, np.nan, whole)
    budget = {"epsilon": 1e4} if mechanism in ("wishart", "laplace") else {"rho": 1e6}
    options = {"mechanism": mechanism, "row_norm": 30.0, "centring": "none", "random_state": 0}
    fitted = PrivateCovariance(**budget, **options, on_missing="centre").fit(rows)
    assert fitted.covariance_ == pytest.approx(np.cov(whole.T, bias=True), abs=0.6)


def test_a_mean_beside_the_matrix_is_corrected_too():
    """For epsilon alone and a stated bound, where one release otherwise holds both."""
    for mechanism in ("wishart", "laplace"):
        options = {"row_norm": 9.0, "centring": "mean", "mechanism": mechanism}
        fitted = PrivateCovariance(epsilon=10.0, **FILLS, **options).fit(together())
        assert "pairs" in fitted.shares_
        assert fitted.location_ == pytest.approx(np.full(4, 3.0), abs=0.3)
        assert fitted.correlation_[0, 1] == pytest.approx(0.8 / 1.8, abs=0.1)
        promised = PrivateCovariance(epsilon=10.0, **FILLS, **options).promise(together())
        assert promised.numerics is fitted.privacy_.numerics


def test_one_empty_cell_and_a_row_of_them():
    """Neighbours like any other: they are those of rows at the centre, but for shares."""
    rows = holes(share=0.0)
    for cells in (slice(2, 3), slice(None)):
        neighbour, centred = rows.copy(), rows.copy()
        neighbour[5, cells] = np.nan
        centred[5, cells] = 0.0
        options = {"rho": 1e6, "row_norm": 30.0, "centring": "none", "mechanism": "gauss"}
        fitted = PrivateCovariance(**options, on_missing="centre").fit(neighbour)
        plain = PrivateCovariance(**options).fit(centred).covariance_
        assert fitted.covariance_ == pytest.approx(plain, rel=0.02)


class Recording(Gate):
    """Keeps the queries it was asked."""

    def draw(self, step, query):
        self.__dict__.setdefault("asked", []).append(query.value.units.copy())
        return super().draw(step, query)


@pytest.mark.parametrize("located", [False, True], ids=["centred", "located"])
def test_about_a_released_centre_it_is_filling_with_that(located):
    """First the public start fills the cells, then what was released."""
    rows, mu = holes(), 3.0
    start = Clip(row_norm=20.0, centre=np.full(4, 1.0), on_missing="centre")
    if located:
        noises = [GaussianNoise(mu=0.3 * mu)] * 3
        mechanism = LocatedCentre.build(noises, GaussCov(mu=1.0))
    else:
        mean = PrivateMean(noise=GaussianNoise(mu=mu))
        mechanism = Centred(mean=mean, inner=GaussCov(mu=1.0), row_norm=20.0)
    gate = Recording(
        mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(0)
    )
    centre = mechanism.run(open_rows(rows), start, gate).centre

    def filled(point):
        return open_rows(np.where(np.isnan(rows), point, rows))

    about = Clip(row_norm=20.0, centre=centre)
    last = second_moment(filled(centre), about, REPLACE).value.units
    assert np.array_equal(gate.asked[-1], last)
    assert not np.array_equal(
        gate.asked[-1], second_moment(filled(start.centre), about, REPLACE).value.units
    )
    if not located:
        begun = Clip(row_norm=20.0, centre=start.centre)
        first = total(filled(start.centre), begun, REPLACE).value.units
        assert np.array_equal(gate.asked[0], first)


CORRECTED = {
    estimator: {one.name for one in entries(kind) if one.allows_for_missing}
    for estimator, kind in ((PrivateCovariance, "covariance"), (PrivatePCA, "components"))
}

# Every road reads such rows: a step that forgot to fill would stop the run.

ROADS = [
    *(
        (PrivateCovariance, {"mechanism": one.name, "row_norm": 12.0})
        for one in entries("covariance")
    ),
    *((PrivateCovariance, {"row_norm": "private", "scale": s}) for s in (None, 2.0, "private")),
    (PrivateCovariance, {"row_norm": "private", "adjacency": "add-remove"}),
    (PrivateCovariance, {"row_norm": 12.0, "adjacency": "add-remove"}),
    *(
        (PrivatePCA, {"mechanism": one.name})
        for one in entries("components")
        if one.name != "spiked"
    ),
    *(
        (PrivatePCA, {"mechanism": name, "row_norm": "private"})
        for name in ("analyze-gauss", "gap-projector", "wishart", "exponential", "laplace")
    ),
    *((PrivatePCA, {"centring": name, "variances": True}) for name in ("located", "paired")),
    (PrivatePCA, {"scale": "private"}),
    (PrivatePCA, {"scale": "private", "row_norm": "private"}),
    (PrivatePCA, {"scale": np.arange(1.0, 5), "bounds": (-30, 30)}),
    (PrivatePCA, {"n_components": "private"}),
    (PrivatePCA, {"mechanism": Spherical(lazy=True)}),
    (PrivatePCA, {"mechanism": Tangent(lazy=True)}),
    (PrivatePCA, {"bounds": (-30, 30), "centring": "located"}),
]


@pytest.mark.parametrize(("estimator", "options"), ROADS, ids=str)
def test_every_road_fills(estimator, options):
    pure = options.get("mechanism") in ("wishart", "laplace")
    budget = {"epsilon": 20.0} if pure else {"epsilon": 20.0, "delta": 1e-6}
    if estimator is PrivatePCA:
        options = {"n_components": 1} | options
    hungry = ("boxed-oja", "deflation", "dp-pca")  # what histograms need
    many = options.get("mechanism") in hungry
    fitted = estimator(**budget, **FILLS, **options).fit(holes(40_000 if many else 2000))
    assert fitted.release_.settings["on_missing"] == "centre"
    corrects = fitted.release_.mechanism in CORRECTED[estimator] and "lazy" not in str(options)
    said = ", and moments corrected for them by private shares, as if missing at random"
    if "pairs" in fitted.shares_:
        said = (
            ", and moments corrected for them by private shares of pairs of cells, as if missing "
            "for reasons unrelated to their values"
        )
    assert ("pairs" in fitted.shares_) <= corrects
    assert f"; empty cells taken as the centre's{said if corrects else ''}." in (
        fitted.privacy_.sentence()
    )


# Around the fit.


def test_scores_are_those_of_rows_filled_with_the_mean():
    rows = holes()
    fitted = PrivatePCA(2, **BUDGET, **FILLS).fit(rows)
    by_hand = np.where(np.isnan(rows), fitted.mean_, rows)
    assert np.array_equal(fitted.transform(rows), fitted.transform(by_hand))
    assert fitted.transform(rows[:1]) == pytest.approx(np.zeros((1, 2)))
    rows[3, 0] = math.inf
    with pytest.raises(InvalidDataError, match="NaN or inf"):
        fitted.transform(rows)


def test_the_release_says_it(tmp_path):
    fitted = PrivateCovariance(**BUDGET, row_norm=8.0, **FILLS).fit(holes())
    fitted.release_.save(tmp_path / "r")
    loaded = Release.load(tmp_path / "r")
    assert loaded.settings["on_missing"] == "centre"
    assert np.array_equal(loaded.arrays["covariance_noise"], fitted.covariance_noise_)
    shown = correlations(loaded.settings, loaded.arrays)
    np.testing.assert_allclose(shown.noise, fitted.correlation_noise_)
    plain = PrivateCovariance(**BUDGET, row_norm=8.0, random_state=0).fit(holes(share=0.0)[1:])
    assert plain.release_.settings["on_missing"] == "invalid"
    assert "empty cells" not in plain.privacy_.sentence()


def test_it_is_announced_to_scikit_learn():
    for estimator in (PrivatePCA, PrivateCovariance):
        assert estimator(on_missing="centre").__sklearn_tags__().input_tags.allow_nan
        assert not estimator().__sklearn_tags__().input_tags.allow_nan


def test_what_does_not_go_together():
    with pytest.raises(InvalidParameterError, match="on_missing must be"):
        PrivateCovariance(**BUDGET, row_norm=1.0, on_missing="mean").fit(holes())
    model = SpikedModel(rank=1, smallest_spike=1.0, largest_spike=2.0, noise_variance=1.0)
    with pytest.raises(InvalidParameterError, match="complete rows"):
        PrivatePCA(
            **BUDGET, mechanism=Spiked(model=model), centring="none", on_missing="centre"
        ).fit(holes())


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("entry", ["text", 1j, np.datetime64("2020"), None])
def test_a_cell_that_is_no_number_makes_its_row_invalid_and_no_other(entry, adjacency, tmp_path):
    """Refusing the table would tell that such a record exists."""
    rows = holes(share=0.0)
    rows[7, 2] = np.nan
    table = rows.astype(object)
    table[7, 2] = entry
    ledger = Ledger.create(tmp_path / "a.ledger", **BUDGET, adjacency=adjacency)
    options = {**BUDGET, "row_norm": 8.0, "adjacency": adjacency}
    with pytest.raises(InvalidDataError, match="a row holds a missing or infinite value, or text"):
        PrivateCovariance(**options, ledger=ledger).fit(table)
    assert ledger.entries == ()
    options |= {"on_invalid": "zero", "random_state": 0}
    expected = PrivateCovariance(**options).fit(rows).covariance_
    for same in (table, table.tolist()):
        assert np.array_equal(PrivateCovariance(**options).fit(same).covariance_, expected)


@pytest.mark.parametrize("estimator", [PrivatePCA(2), PrivateCovariance()])
def test_columns_with_many_empty_cells_are_named(estimator):
    """By released shares alone, beside a column without a scale too; their means are noisier."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 5)) * [16, 5, 1.5, 10, 3] + [131, 27, 5, 70, 30]
    few = np.where(rng.random((4000, 5)) < [0.6, 0.02, 0.02, 0.02, 0.0], np.nan, rows)
    few[:, 4] = rng.random(4000) < 0.001  # no scale is found for it
    asked = {"epsilon": 3.0, "delta": 1e-6, "on_missing": "centre", "random_state": 1}
    estimator.set_params(**asked, scale="private")
    leaves_out = isinstance(estimator, PrivatePCA)  # the covariance keeps it, without a variance
    left = pytest.warns(ColumnsLeftOutWarning, match="x4")
    named = pytest.warns(EmptyCellsWarning, match="many cells of x0 are empty")
    with left, named as caught:
        estimator.fit(few)
    assert sum(issubclass(one.category, EmptyCellsWarning) for one in caught) == 1
    noise = getattr(estimator, "mean_noise_", getattr(estimator, "location_noise_", None))
    if leaves_out:
        assert estimator.hidden_ == [4]
    else:
        assert estimator.covariance_[4, 4] == 0.0
    relative = noise[:4] / estimator.scale_[:4]
    assert 2 < relative[0] / relative[1] < 3  # 1/0.4
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyCellsWarning)
        estimator.set_params(scale=[16, 5, 1.5, 10, 3]).fit(rows)
    if leaves_out:  # intervals of components are simulated without missing cells
        with pytest.warns(EmptyCellsWarning, match="too narrow"):
            intervals(estimator.release_, draws=20, seed=0)
    else:
        assert np.isfinite(intervals(estimator.release_).variances).all()


def together(n=6000, seed=0):
    """Two questions that 40 % of the rows were not asked, and two answered by all."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.cholesky(np.eye(4) + 0.8)
    rows = rng.standard_normal((n, 4)) @ mixing.T + 3.0
    rows[rng.random(n) < 0.4, :2] = np.nan
    return rows


def test_products_of_cells_missing_together_are_right():
    """Correlation .44; as if missing independently it would be .74 (a factor of 1/0.6).

    Sampling and noise: .02 or less, so five deviations.
    """
    with pytest.warns(MissingTogetherWarning, match="cells of x0 and x1 are missing together"):
        fitted = PrivateCovariance(epsilon=3.0, delta=1e-6, **FILLS).fit(together())
    assert fitted.shares_["pairs"] == 0.05
    assert fitted.correlation_[0, 1] == pytest.approx(0.8 / 1.8, abs=0.1)
    pca = PrivatePCA(1, epsilon=3.0, delta=1e-6, mechanism="analyze-gauss", **FILLS)
    with pytest.warns(MissingTogetherWarning, match="x0 and x1"):
        pca.set_params(centring="none", row_norm=8.0).fit(together() - 3.0)
    assert np.abs(pca.components_[0]) == pytest.approx(np.full(4, 0.5), abs=0.1)


@pytest.mark.parametrize("known", [False, True], ids=["all", "beside a known scale"])
def test_private_scales_are_those_of_present_cells(known):
    """60 % of a column are missing: 84 % of its differences are zero, and its scale would be 0.4.

    Every column then has the same part in the first component, .45 of 5: off by .05 or less.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 5)) @ np.linalg.cholesky(np.eye(5) / 2 + 0.5).T
    rows[rng.random(20_000) < 0.6, 0] = np.nan
    table = rows * [1, 5, 10, 2, 3]
    if known:
        frame = pd.DataFrame(table[:, :4], columns=list("abcd"))
        frame["ward"] = np.where(rows[:, 4] > 0, "x", "y")
        table = open_rows(frame, encode={"ward": ["x", "y"]})
    asked = {"epsilon": 5.0, "delta": 1e-6, "scale": "private", **FILLS}
    for estimator in (PrivatePCA(1, **asked), PrivateCovariance(**asked)):
        estimator.fit(table)
        assert estimator.scale_[0] / np.nanstd(rows[:, 0]) == pytest.approx(1.0, abs=0.3)
        if isinstance(estimator, PrivatePCA) and not known:
            assert np.abs(estimator.components_[0]) == pytest.approx(np.full(5, 0.45), abs=0.1)


def test_pairs_of_rows_hold_cells_missing_together_too():
    """Shares of pairs are squared, as those of columns: 0.36, where independence has 0.13.

    The noise is .022: four and a half deviations.
    """
    budget = {"epsilon": 30.0, "delta": 1e-6}
    with pytest.warns(MissingTogetherWarning):
        fitted = PrivateCovariance(
            **budget, **FILLS, mechanism="gauss", row_norm=9.0, centring="paired"
        ).fit(together())
    assert fitted.correlation_[0, 1] == pytest.approx(0.8 / 1.8, abs=0.1)


def test_unmeasured_pairs_are_stated():
    """A private number of rows allows no pairs. Of two columns with 0.6 of their cells at least
    0.2 and at most 0.6 of the rows hold both, where independence has 0.36.
    """
    options = {"epsilon": 5.0, "delta": 1e-6, "adjacency": "add-remove", **FILLS}
    with pytest.warns(EmptyCellsWarning, match=r"products of x0 and x1 may be 0\.5\d* to 1\.[67]"):
        fitted = PrivateCovariance(**options, mechanism="gauss", row_norm=9.0).fit(together())
    assert "pairs" not in fitted.shares_
    with pytest.warns(EmptyCellsWarning, match="many cells") as caught:
        PrivatePCA(1, **options, mechanism="tangent").fit(together())
    assert not any("products" in str(one.message) for one in caught)  # it corrects none


def test_the_noise_of_every_entry_is_stated():
    """Errors of a release of cells missing together, in their stated deviations.

    About the moments of the rows themselves: 30 seeds of 10 entries. Of normal errors with
    deviations that are right or too large a share of .05 or less lies beyond 2 and .003 beyond 3;
    noise stated at a half would leave .3 and .13 there.
    """
    rows = together() - 3.0
    present = (~np.isnan(rows)).astype(float)
    filled_rows = np.nan_to_num(rows)
    truth = filled_rows.T @ filled_rows / (present.T @ present)
    upper = np.triu_indices(4)
    errors = []
    for seed in range(30):
        fitted = PrivateCovariance(
            epsilon=1.0,
            delta=1e-6,
            mechanism="gauss",
            row_norm=20.0,
            centring="none",
            on_missing="centre",
            random_state=seed,
        ).fit(rows)
        errors.append(((fitted.covariance_ - truth) / fitted.covariance_noise_)[upper])
    errors = np.abs(np.array(errors))
    assert (errors > 2).mean() < 0.1 < (errors > 1).mean() < 0.4
    assert (errors > 3).mean() < 0.03
    stated = standard_errors(fitted.release_)
    np.testing.assert_allclose(stated.correlations, fitted.correlation_noise_)
