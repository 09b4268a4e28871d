"""What a fit states of single components: true, complete, and the same from its release alone."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivatePCA, Release, StreamingPCA
from eigenveil.estimators import component_result
from eigenveil.exact import GaussianLaw, MomentProducts
from eigenveil.exceptions import ColumnsLeftOutWarning
from eigenveil.mechanisms import AnalyzeGauss, GaussCov, NoisyMatrix, WishartCov, leading
from eigenveil.numerics import ComponentStatement, dense_statement
from eigenveil.papers.covrev import LapCov

BUDGET = {"epsilon": 0.4, "delta": 1e-6}
WEAK = BUDGET | {"epsilon": 0.12}
FITS = 40


def table(n=3000, d=12, seed=0):
    """Rows with two clear directions, two of nearly the same variance, and skewed lengths."""
    rng = np.random.default_rng(seed)
    spread = np.append([6.0, 4.0, 2.6, 2.5], np.full(d - 4, 1.0))
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    lengths = np.exp(rng.standard_normal((n, 1)) / 2)
    return rng.standard_normal((n, d)) * spread * lengths @ basis.T + 5


ROWS = table()


@pytest.fixture
def recorded(monkeypatch):
    """The second moments that mechanisms add noise to, in turn."""
    moments = []

    def recording(kind):
        perturb = kind.perturb

        def recorded(mechanism, query, noise):
            if isinstance(query, MomentProducts):
                moments.append(query.times(np.eye(query.value.units.size)))
            else:
                moments.append(query.value.to_float())
            return perturb(mechanism, query, noise)

        monkeypatch.setattr(kind, "perturb", recorded)

    for kind in (GaussCov, LapCov, WishartCov, AnalyzeGauss):
        recording(kind)
    return moments


def compared(recorded, rows, options, fits=FITS):
    """Stated and actual squared cosines by rank, of so many fits."""
    stated, actual, right = [], [], []
    for seed in range(1, fits + 1):
        recorded.clear()
        pca = PrivatePCA(4, random_state=seed, **options).fit(rows)
        truth = np.linalg.eigh(recorded[0])[1][:, ::-1].T[:4]
        cosines = np.einsum("ij,ij->i", pca.components_, truth)
        stated.append(pca.reproducibility_)
        actual.append(cosines**2)
        certain = np.abs(pca.components_) > 3 * pca.loading_errors_
        right.append((np.sign(cosines)[:, None] * truth * pca.components_ > 0)[certain])
    return np.array(stated), np.array(actual), np.concatenate(right)


@pytest.mark.parametrize(
    "options",
    [
        {**BUDGET, "row_norm": "private"},
        {**BUDGET, "mechanism": "spherical"},
        {**BUDGET, "mechanism": "tangent"},
        {**BUDGET, "centring": "paired"},
        {**BUDGET, "adjacency": "add-remove", "mechanism": "spherical"},
        {"epsilon": 8.0, "mechanism": "wishart"},
        {"epsilon": 20.0, "mechanism": "laplace", "row_norm": 20.0},
    ],
    ids=lambda options: ", ".join(map(str, list(options.values())[-2:])),
)
def test_what_is_stated_of_single_components_is_true(recorded, options):
    """About the very matrix that noise was added to. Means of 40 fits, within .05 and 2.5 of their
    standard errors: a true statement fails with a probability below 3 %, and seeds are fixed.
    """
    stated, actual, right = compared(recorded, ROWS, options)
    beyond = stated.mean(axis=0) - actual.mean(axis=0) - 0.05
    assert (beyond <= 2.5 * actual.std(axis=0) / np.sqrt(FITS)).all()
    clear = actual.mean(axis=0) > 0.97
    assert clear[0]
    assert (np.median(stated, axis=0)[clear] > 0.95).all()
    assert right.size > FITS
    assert right.mean() > 0.99


def test_a_law_with_half_the_noise_is_noticed(recorded, monkeypatch):
    def halved(values, vectors, noise, released):
        return dense_statement(values, vectors, noise / 2, released)

    monkeypatch.setattr("eigenveil.mechanisms.components.dense_statement", halved)
    options = {"mechanism": "spherical", "centring": "none", **WEAK}
    stated, actual, _ = compared(recorded, ROWS - 5, options)
    assert (stated.mean(axis=0) > actual.mean(axis=0) + 0.1).any()


def test_directions_of_one_variance_are_a_group():
    options = {"epsilon": 0.3, "delta": 1e-6, "mechanism": "spherical", "centring": "none"}
    pca = PrivatePCA(4, **options, random_state=1).fit(ROWS - 5)
    assert [(group.first, group.last) for group in pca.component_groups_] == [
        (1, 1),
        (2, 2),
        (3, 4),
    ]
    assert pca.reliability_.min() > 0.9  # of the span, whatever mixes in it
    assert pca.reproducibility_[2:].max() < 0.9
    assert pca.component_groups_[2].share > 0.9


def test_wide_tables_with_noise_that_is_never_formed(recorded):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 1400)) * 0.1
    rows[:, :3] += rng.standard_normal((2000, 3)) * [4.0, 3.0, 2.0]
    options = {"epsilon": 4.0, "delta": 1e-6, "mechanism": "spherical", "centring": "none"}
    pca = PrivatePCA(3, random_state=1, **options).fit(rows)
    truth = np.linalg.eigh(recorded[-1])[1][:, ::-1].T[:3]
    actual = np.einsum("ij,ij->i", pca.components_, truth) ** 2
    assert (pca.reproducibility_ <= actual + 0.05).all()
    assert (pca.reproducibility_ > actual - 0.05)[0]


def test_cells_that_are_missing_count_as_noise():
    rng = np.random.default_rng(2)
    holes = np.where(rng.random(ROWS.shape) < 0.3, np.nan, ROWS)
    stated = [
        PrivatePCA(4, random_state=1, on_missing="centre", mechanism="spherical", **BUDGET)
        .fit(rows)
        .reproducibility_
        for rows in (ROWS, holes)
    ]
    assert np.isfinite(stated[1]).all()
    assert stated[1][:2].sum() < stated[0][:2].sum()


@pytest.mark.parametrize("mechanism", ["exponential", "gap-projector"])
def test_nothing_is_said_where_the_law_is_not_known(mechanism, tmp_path):
    budget = {"epsilon": 5.0} | ({} if mechanism == "exponential" else {"delta": 1e-6})
    pca = PrivatePCA(1, mechanism=mechanism, row_norm=30.0, random_state=1, **budget).fit(ROWS)
    assert np.isnan(pca.reproducibility_).all()
    assert np.isnan(pca.loading_errors_).all()
    assert pca.loading_errors_.shape == pca.components_.shape
    assert pca.component_groups_ == ()
    assert "component_mixing" not in pca.release_.arrays
    assert Release.load(pca.release_.save(tmp_path / "release")).kind == "pca"


def test_a_stream_says_nothing_of_single_components():
    stream = StreamingPCA(2, epsilon=4.0, delta=1e-6, random_state=1)
    stream.partial_fit(ROWS[:2000])
    assert np.isnan(stream.reproducibility_).all()
    assert stream.component_groups_ == ()


def test_a_release_alone_says_the_same(tmp_path):
    pca = PrivatePCA(3, mechanism="spherical", random_state=1, **BUDGET).fit(ROWS)
    loaded = Release.load(pca.release_.save(tmp_path / "release"))
    found = ComponentStatement(loaded.arrays["component_mixing"], loaded.arrays["loading_errors"])
    np.testing.assert_array_equal(found.reproducibility, pca.reproducibility_)
    np.testing.assert_array_equal(found.loading_errors, pca.loading_errors_)
    assert found.groups == pca.component_groups_


def test_a_share_of_variance_keeps_what_is_said_of_fewer():
    whole = PrivatePCA(12, mechanism="spherical", random_state=1, **BUDGET).fit(ROWS)
    part = PrivatePCA(0.6, mechanism="spherical", random_state=1, **BUDGET).fit(ROWS)
    k = part.n_components_
    assert 1 < k < 12
    np.testing.assert_allclose(part.reproducibility_, whole.reproducibility_[:k], atol=0.02)
    assert part.loading_errors_.shape == (k, 12)
    assert part.component_groups_[-1].last == k


def test_what_may_be_the_error_of_the_centre_is_not_called_reproducible():
    law = GaussianLaw(5, 1e-4)
    noisy = leading(NoisyMatrix(np.diag([0.5, 0.3, 0.1, 0.01, 0.0]), 1e-4, law), 3)
    said = [
        component_result(
            noisy, centre=np.zeros(5), centre_error=error, scale=np.ones(5), shares=True
        ).single
        for error in (0.0, 0.1 / 0.91)
    ]
    assert said[0].reproducibility.min() > 0.99
    assert said[1].reproducibility[2] < 0.5 < said[1].reproducibility[0]


def test_columns_without_a_scale_have_no_loading_and_no_error():
    rows = np.column_stack([ROWS, np.full(len(ROWS), 3.0)])
    named = {"mechanism": "tangent", "scale": "private", "random_state": 1}
    with pytest.warns(ColumnsLeftOutWarning):
        pca = PrivatePCA(2, epsilon=3.0, delta=1e-6, **named).fit(rows)
    assert np.isinf(pca.scale_[-1])
    assert not pca.loading_errors_[:, -1].any()
    assert (pca.loading_errors_[:, :-1] > 0).all()


def test_a_fit_of_all_directions():
    options = {"centring": "none", "mechanism": "spherical", "random_state": 1}
    pca = PrivatePCA(12, **options, **BUDGET).fit(ROWS - 5)
    mixing = pca.release_.arrays["component_mixing"]
    np.testing.assert_allclose(mixing.sum(axis=1), 1.0)
    assert PrivatePCA(1, random_state=1, **BUDGET).fit(ROWS[:, :1]).reproducibility_ > 0.9


def test_a_basis_that_follows_its_images_is_stated_too():
    """`power` forms no matrix. Means of 40 fits, as above."""
    rows = ROWS - 5
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    truth = np.linalg.eigh(unit.T @ unit)[1][:, ::-1].T[:4]
    stated, actual = [], []
    for seed in range(FITS):
        options = {"mechanism": "power", "centring": "none", "random_state": seed}
        pca = PrivatePCA(4, **options, **BUDGET).fit(rows)
        stated.append(pca.reproducibility_)
        actual.append(np.einsum("ij,ij->i", pca.components_, truth) ** 2)
    beyond = np.mean(stated, axis=0) - np.mean(actual, axis=0) - 0.05
    assert (beyond <= 2.5 * np.std(actual, axis=0) / np.sqrt(FITS)).all()
    assert np.median(stated, axis=0)[0] > 0.95


@pytest.mark.parametrize("scale", [None, "private"])
def test_a_dominant_component_is_not_taken_for_the_error_of_the_centre(scale):
    """Noise cuts the second eigenvalue of a table of rank one to zero in half of all releases."""
    rows = np.random.default_rng(0).standard_normal((5000, 1)) * [3.0, 2.0]
    for seed in range(8):
        asked = {"epsilon": 1.0, "delta": 1e-6, "scale": scale, "random_state": seed}
        found = PrivatePCA(2, **asked).fit(rows)
        assert found.reproducibility_[0] > 0.95
        assert found.distinguishable_[0]


def test_errors_of_an_unstated_component_beside_a_column_left_out_are_unknown_throughout():
    """Errors of loadings are finite in a whole row or in none of it: others cannot be saved."""
    law = GaussianLaw(5, 1e-4)
    noisy = leading(NoisyMatrix(np.diag([0.5, 0.3, 0.1, 0.01, 0.0]), 1e-4, law), 3)
    unstated = replace(noisy, single=noisy.single.reduced(np.array([1.0, np.nan, 1.0])))
    scale = np.array([1.0, np.inf, 1.0, 1.0, 1.0, 1.0])
    found = component_result(
        unstated, centre=np.zeros(5), centre_error=0.0, scale=scale, shares=True
    )
    assert np.isnan(found.single.loading_errors[1]).all()
    assert np.isfinite(found.single.loading_errors[[0, 2]]).all()


def test_clear_components_are_those_in_the_span_without_noise():
    """A component near the next one in size is clear where it is expected to be inside."""
    rows = table(20_000)
    for k in (2, 3, 4):
        asked = {"epsilon": 4.0, "delta": 1e-6, "random_state": 3, "row_norm": "private"}
        found = PrivatePCA(k, **asked).fit(rows)
        inside = np.array(
            [g.share for g in found.component_groups_ for _ in range(g.first, g.last + 1)]
        )
        assert found.distinguishable_.tolist() == (inside > 0.7).tolist()
