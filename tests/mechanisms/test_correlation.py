"""Components of standardised columns: right on columns in any units, told where they are not."""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exact import Clip, GaussianLaw
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EmptyCellsWarning,
    InvalidParameterError,
    NothingFoundError,
    TooFewRowsError,
    UnsupportedNotionError,
    WholeTurnsWarning,
)
from eigenveil.mechanisms import (
    CORRELATION,
    CentredResult,
    Correlation,
    Gate,
    GaussCov,
    NoisyMatrix,
    standardised,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Ledger
from eigenveil.release import Release, check_consistency
from tests.conformance import case
from tests.mechanisms.test_front import FEW_ROWS, FRONT, MANY_ROWS, SEARCHED, UNITS, front

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def table(n=8000, seed=0):
    """Six columns in very different units; two pairs of them go together."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 6))
    rows[:, 1] = 0.9 * rows[:, 0] + 0.4 * rows[:, 1]
    rows[:, 3] = -0.7 * rows[:, 2] + 0.7 * rows[:, 3]
    return rows * [1e-4, 3.0, 700.0, 1.0, 1e6, 0.2] + [1.0, 40.0, -3000.0, 0.0, 5e6, 0.1]


def kept(components, rows):
    """Share of the variance of standardised columns, relative to that of the best directions."""
    truth = np.corrcoef(rows.T)
    best = np.sort(np.linalg.eigvalsh(truth))[::-1][: len(components)].sum()
    return float(np.sum((components @ truth) * components)) / best


def fitted(rows, k=2, **options):
    return PrivatePCA(k, **BUDGET | {"scale": "private", "random_state": 1} | options).fit(rows)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"adjacency": "add-remove"},
        {"epsilon": 6.0, "delta": None},
        {"show_scores": True},
        {"row_norm": 5.0},
        {"scale": [1e-4, 3.0, 700.0, 1.0, 1e6, 0.2], "mechanism": "correlation"},
        {"scale": None, "mechanism": "correlation"},
    ],
    ids=str,
)
def test_components_are_those_of_standardised_columns(options, tmp_path):
    rows = table()
    found = fitted(rows, **options)
    assert found.mechanism_ == "correlation"
    assert kept(found.components_, rows) > 0.98
    assert found.scale_ == pytest.approx(rows.std(axis=0), rel=0.15)
    assert found.hidden_ == []
    scores = found.transform(rows)
    assert scores.var(axis=0) == pytest.approx(found.explained_variance_, rel=0.15)
    found.release_.save(tmp_path / "r.eigenveil")
    check_consistency(Release.load(tmp_path / "r.eigenveil"))
    assert "divided by released standard deviations" in found.privacy_.sentence()


def test_a_person_counts_as_one_row():
    rows = np.repeat(table(3000), 3, axis=0)
    ids = np.repeat(np.arange(3000), 3)
    found = PrivatePCA(2, **BUDGET, scale="private", random_state=0).fit(rows, groups=ids)
    assert found.n_samples_ == 3000
    assert kept(found.components_, rows) > 0.95


def test_missing_values_are_allowed_for():
    rows = table(20_000)
    rng = np.random.default_rng(3)
    holes = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyCellsWarning)
        found = fitted(holes, on_missing="centre")
    assert kept(found.components_, rows) > 0.99
    assert found.scale_ == pytest.approx(rows.std(axis=0), rel=0.1)


def test_as_many_components_as_stand_out():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((8000, 5)) + rng.standard_normal((8000, 1))
    found = fitted(rows * [1e3, 1.0, 1e-2, 5.0, 0.1], k="private")
    assert found.n_components_ == 1
    assert "rank" not in found.shares_
    with pytest.raises(NothingFoundError, match="no component stands out"):
        fitted(np.random.default_rng(0).standard_normal((4000, 5)), k="private")
    assert fitted(table(), k=0.6).n_components_ in (2, 3)


def test_a_column_of_which_nothing_shows_is_named():
    rows = np.column_stack([table(4000), np.full(4000, 7.0)])
    with pytest.warns(ColumnsLeftOutWarning, match="noise hides the variance of x6: loadings"):
        found = fitted(rows)
    assert found.hidden_ == [6]
    assert found.release_.settings["hidden_columns"] == [6]
    assert "noise hides those of x6, taken as large as noise" in found.privacy_.sentence()
    assert np.abs(found.components_[:, 6]).max() < 0.3
    assert kept(found.components_[:, :6], table(4000)) > 0.9


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_what_noise_would_drown_is_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-4)
    rows = np.random.default_rng(0).standard_normal((2000, 173))
    said = "about 5,170 rows would do, or epsilon = 2.82 for these"
    with pytest.raises(TooFewRowsError, match=said):
        PrivatePCA(2, epsilon=1.0, delta=1e-6, scale="private", ledger=ledger).fit(rows)
    with pytest.raises(TooFewRowsError, match="or rho ="):
        PrivatePCA(2, rho=0.02, scale="private").fit(rows)
    with pytest.raises(UnsupportedNotionError, match="need a public number of groups"):
        PrivatePCA(2, **BUDGET, scale="private", adjacency="add-remove").fit(
            table(), groups=np.arange(8000)
        )
    with pytest.raises(InvalidParameterError, match="standardised columns: leave variances out"):
        fitted(table(), variances=True)
    assert ledger.entries == ()
    PrivatePCA(2, epsilon=2.82, delta=1e-6, scale="private", random_state=0).fit(rows)


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
@pytest.mark.parametrize(("n", "d", "epsilon"), [(1500, 5, 0.05), (700, 2, 0.1), (60, 1, 1.0)])
def test_rows_and_budgets_that_a_refusal_names_are_accepted(n, d, epsilon):
    """Noise that drowns and searches that find nothing are refused by one number."""
    rng = np.random.default_rng(0)

    def fit(rows, epsilon):
        warnings.simplefilter("ignore", ColumnsLeftOutWarning)
        pca = PrivatePCA(1, epsilon=epsilon, delta=1e-6, scale="private", random_state=0)
        return pca.fit(rng.standard_normal((rows, d)) + 3)

    with pytest.raises(TooFewRowsError) as refused:
        fit(n, epsilon)
    rows, larger = re.search(
        r"about ([\d,]+) rows would do, or epsilon = ([\d.]+)", str(refused.value)
    ).groups()
    rows = int(rows.replace(",", ""))
    fit(rows, epsilon)
    fit(n, float(larger))
    for fewer, smaller in ((round(0.98 * rows), epsilon), (n, 0.98 * float(larger))):
        with pytest.raises(TooFewRowsError):
            fit(fewer, smaller)


def test_shares_of_variance_are_those_of_rows_within_the_stated_range():
    """Rows far outside the range would make one column most of the variance."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 5)) @ (np.eye(5) + 0.5)
    rows[rng.random(20_000) < 0.05, 0] = 1000.0
    found = fitted(rows, bounds=(-4, 4), scale=None, mechanism="correlation", epsilon=4.0)
    seen = (np.clip(rows, -4, 4) - found.mean_) / found.scale_
    moment = seen.T @ seen
    share = np.trace(found.components_ @ moment @ found.components_.T) / np.trace(moment)
    assert found.captured_.share == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_shares_of_variance_are_stated_for_either_kind_of_neighbours(adjacency):
    found = fitted(table(), adjacency=adjacency, epsilon=4.0)
    assert found.captured_.of_best == pytest.approx(kept(found.components_, table()), abs=0.05)


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_table_is_lost_after_the_charge(tmp_path, adjacency):
    n = 3000
    for name, rows in {
        "equal": np.full((n, 4), 7.0),
        "zeros": np.zeros((n, 4)),
        "huge": np.full((n, 4), 1.7e308),
        "one row": np.repeat(np.eye(4), [n, 0, 0, 0], axis=0),
        "flags": (np.random.default_rng(0).random((n, 4)) < 0.01).astype(float),
    }.items():
        ledger = Ledger.create(tmp_path / name, epsilon=9.0, delta=1e-4, adjacency=adjacency)
        found = PrivatePCA(2, **BUDGET, scale="private", adjacency=adjacency, ledger=ledger)
        found.fit(rows)
        assert np.isfinite(found.components_).all()
        assert np.isfinite(found.transform(rows[:3])).all()
        assert [entry.failed for entry in ledger.entries] == [None]


def test_a_count_that_is_too_small_is_said():
    with pytest.raises(NothingFoundError, match="a noisy count of the rows is too small"):
        fitted(table(30), adjacency="add-remove")


def test_few_rows_leave_means_unknown_up_to_turns():
    with pytest.warns(WholeTurnsWarning):
        found = PrivatePCA(1, epsilon=1.0, delta=1e-6, scale="private", random_state=0).fit(
            table(900)
        )
    assert np.isinf(found.mean_noise_).all()
    assert found.turn_.shape == (6,)


def test_it_is_no_worse_than_the_correlations_of_a_covariance():
    """Mean of eight seeded releases of skewed columns at a small budget."""
    rng = np.random.default_rng(5)
    common = rng.standard_normal((3000, 1))
    rows = np.exp(common + rng.standard_normal((3000, 6))) * rng.uniform(1, 100, 6)
    own, other = [], []
    for seed in range(8):
        options = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed}
        own.append(kept(fitted(rows, **options).components_, rows))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOutWarning)
            found = PrivateCovariance(**options).fit(rows)
        correlation = np.nan_to_num(found.correlation_)
        other.append(kept(np.linalg.eigh(correlation)[1][:, ::-1][:, :2].T, rows))
    assert np.mean(own) > np.mean(other) - 0.01


def test_correlations_of_a_noisy_matrix():
    matrix = np.array([[4.0, 3.0, 0.1], [3.0, 9.0, 0.0], [0.1, 0.0, 0.04]])
    noisy = NoisyMatrix(matrix, 0.1, GaussianLaw(3, 0.1))
    found = standardised(noisy, np.array([2.0, 3.0, np.inf]))
    assert found.matrix == pytest.approx(np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert found.law.d == 2
    units = np.outer([2.0, 3.0], [2.0, 3.0]) ** -2.0
    assert found.noise_scale == pytest.approx(0.1 * math.sqrt(units.mean(axis=0).max()))


class _Covariance:
    """Stands for a procedure that releases one noisy matrix about the origin."""

    name = "covariance"

    def __init__(self, mu):
        self.step = GaussCov(mu=mu)

    def cost(self):
        return self.step.cost()

    def run(self, source, start, gate):
        clip = replace(start, row_norm=1.0)
        noisy = self.step.run(source, clip, gate)
        return CentredResult(np.zeros(source.n_columns), 0.0, None, noisy)


def test_dividing_by_released_deviations_reads_no_rows():
    """The components of a table follow from the released matrix alone, whatever the rows were."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 3)) * [0.5, 0.1, 0.3]
    released = []

    class Keeping(Gate):
        def draw(self, step, query):
            found = super().draw(step, query)
            released.append(found)
            return found

    mechanism = Correlation(inner=_Covariance(2.0), n_components=3)
    gate = Keeping(
        mechanism.cost(),
        label="test",
        adjacency=case.REPLACE,
        ledger=None,
        noise=SimulationSource(0),
    )
    found = mechanism.run(case.open_rows(rows), Clip(row_norm=1.0), gate)
    (noisy,) = released
    units = np.sqrt(noisy.matrix.diagonal())
    values, vectors = np.linalg.eigh(noisy.matrix / np.outer(units, units))
    inside = np.abs(found.inner.components.components @ vectors[:, ::-1])
    assert found.inner.components.eigenvalues == pytest.approx(values[::-1], abs=1e-9)
    assert inside == pytest.approx(np.eye(3), abs=1e-6)


def _read(found):
    """Return what is released: components, their values, and what columns were divided by."""
    staged = found.inner
    values = [staged.components.components.ravel(), staged.components.eigenvalues]
    return np.concatenate([found.scale, staged.deviations, *values, [staged.row_norm]])


def _in_company(mechanism, rows, adjacency, gate):
    beside = case.with_scales(rows, UNITS[np.arange(rows.shape[1]) % 4])
    return mechanism.run(case.open_rows(beside), case.ANYWHERE, gate)


def _built(q):
    def build(mu, d, k):
        return Correlation(inner=front(q, mu, d, aim=CORRELATION), n_components=min(k, d))

    return build


CASES = [
    case.Case(name, _built(q), run=_in_company, **FRONT | {"read": _read})
    for name, q in (
        ("correlation", MANY_ROWS),
        ("correlation of fewer rows", SEARCHED),
        ("correlation of few rows", FEW_ROWS),
    )
]
