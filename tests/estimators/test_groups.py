"""fit(X, groups=ids) and files that say whose rows they hold."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release, SpikedModel, open_rows
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import Gate, Spherical, entries
from eigenveil.numerics import captured_variance
from eigenveil.papers.spiked import Spiked
from eigenveil.privacy import GROUP, Unit

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
BOTH = pytest.mark.parametrize("estimator", [PrivatePCA, PrivateCovariance])
ADJACENCIES = pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((600, 4)) * [5.0, 3.0, 1.0, 1.0] + 2.0


def arrays(fitted):
    return {**fitted.release_.arrays}


def same(one, other):
    first, second = arrays(one), arrays(other)
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=True) for name in first
    )


PCA = [
    {},
    {"centring": "paired"},
    {"centring": "located"},
    {"scale": "private", "epsilon": 30.0},
    {"scale": [2.0, 1.0, 1.0, 1.0]},
    {"bounds": (-20, 20)},
    {"row_norm": 12.0},
    {"centring": "none"},
    {"variances": True, "epsilon": 10.0},
    {"n_components": "private", "epsilon": 10.0},
    {"mechanism": Spherical(lazy=True)},
    {"delta": None},
    {"mechanism": "gap-projector", "row_norm": 12.0, "epsilon": 20.0},
    {"adjacency": "add-remove"},
    {"adjacency": "add-remove", "row_norm": 12.0},
]


@pytest.mark.parametrize("options", PCA, ids=str)
def test_persons_of_one_row_change_the_words_alone_components(options, rows, monkeypatch):
    """Who is paired with whom is drawn apart from whose rows meet: the draws are held still."""
    monkeypatch.setattr(Gate, "order", lambda self, n: np.random.default_rng(n).permutation(n))
    options = {"n_components": 2, **BUDGET, "random_state": 1} | options
    ids = np.random.default_rng(1).permutation(len(rows))
    plain, shared = (PrivatePCA(**options).fit(rows, groups=g) for g in (None, ids))
    assert same(plain, shared)
    assert plain.privacy_.numerics == shared.privacy_.numerics
    assert plain.n_samples_ == shared.n_samples_
    assert plain.privacy_.sentence() != shared.privacy_.sentence()


@ADJACENCIES
@pytest.mark.parametrize("entry", entries("covariance"), ids=lambda entry: entry.name)
def test_persons_of_one_row_change_the_words_alone_covariance(entry, adjacency, rows):
    options = {"mechanism": entry.name, "row_norm": 10.0, "adjacency": adjacency, "random_state": 2}
    options |= BUDGET if entry.has_gaussian else {"epsilon": 3.0}
    ids = np.random.default_rng(1).permutation(len(rows))
    assert same(*(PrivateCovariance(**options).fit(rows, groups=g) for g in (None, ids)))


def test_a_person_with_half_of_the_rows_moves_a_release_like_one_with_one_row():
    """Both move the mean matrix by (e1e1' - e2e2')/n: sqrt(2)/n, within rounding."""
    others = np.zeros((50, 3))
    axes, n = np.eye(3), 51

    def moved(m):
        ids = [*range(50), *[50] * m]
        sides = (np.vstack([others, np.repeat(axes[[j]], m, axis=0)]) for j in (0, 1))
        released = (
            PrivateCovariance(rho=1e9, row_norm=1.0, centring="none", mechanism="gauss").fit(
                side, groups=ids
            )
            for side in sides
        )
        one, other = (fitted.covariance_ for fitted in released)
        return float(np.linalg.norm(one - other))

    for m in (1, 50, 5000):
        assert moved(m) == pytest.approx(np.sqrt(2) / n, rel=2e-3)


def test_a_mean_of_persons_not_of_rows():
    """One person of a thousand rows among twenty of one row, far away."""
    rows = np.vstack([np.zeros((20, 2)), np.full((1000, 2), 21.0)])
    ids = [*range(20), *[20] * 1000]
    fitted = PrivateCovariance(rho=1e7, row_norm=100.0).fit(rows, groups=ids)
    assert fitted.n_samples_ == 21
    assert fitted.location_ == pytest.approx([1.0, 1.0], abs=0.02)
    assert fitted.covariance_ == pytest.approx(np.full((2, 2), 20.0), rel=0.02)
    add = PrivateCovariance(rho=1e7, mechanism="cleaned", row_norm=100.0, adjacency="add-remove")
    assert add.fit(rows, groups=ids).n_samples_ is None
    assert add.location_ == pytest.approx([1.0, 1.0], abs=0.02)
    assert add.covariance_ == pytest.approx(np.full((2, 2), 20.0), rel=0.02)


@pytest.mark.parametrize("centring", ["located", "paired"])
def test_directions_of_many_persons_with_many_rows(centring):
    """Two thousand persons with 1 to 40 rows; persons differ along the first axis."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 41, 2000)
    ids = np.repeat(np.arange(2000), sizes)
    own = rng.standard_normal((2000, 6)) * [6.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    rows = own[ids] + rng.standard_normal((len(ids), 6)) + 10.0
    fitted = PrivatePCA(1, epsilon=2.0, delta=1e-6, centring=centring, random_state=4)
    fitted.fit(rows, groups=ids)
    assert captured_variance(fitted.components_, np.diag([36.0, 1, 1, 1, 1, 1])) > 0.95
    assert fitted.n_samples_ == 2000


@ADJACENCIES
@pytest.mark.parametrize("mechanism", ["adaptive", "adaptive-cleaned", "coinpress", "cleaned"])
def test_every_adaptive_mechanism_takes_persons(mechanism, adjacency):
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 800, 6000)
    rows = rng.standard_normal((6000, 3)) * [2.0, 1.0, 0.5]
    options = {"mechanism": mechanism, "row_norm": 30.0, "adjacency": adjacency}
    fitted = PrivateCovariance(rho=2000.0, centring="none", random_state=6, **options)
    fitted.fit(rows, groups=ids)
    assert fitted.covariance_ == pytest.approx(np.diag([4.0, 1.0, 0.25]), abs=0.4)


@BOTH
def test_the_promise_names_its_unit(estimator, rows, tmp_path):
    ids = np.arange(len(rows)) // 3
    fitted = estimator(**BUDGET, row_norm=12.0).fit(rows, groups=ids)
    assert fitted.privacy_.protects == GROUP
    assert fitted.n_samples_ == 200
    sentence = fitted.privacy_.sentence()
    assert (
        "all rows of one group (rows that share an id, where 7, 007 and 7.0 are the same)"
        in sentence
    )
    assert "the number of groups is public" in sentence
    assert "all rows of one group together weigh as one row" in sentence
    assert "several rows of one person taken together" not in sentence
    folder = fitted.release_.save(tmp_path / "out")
    assert Release.verify(folder).guarantee == fitted.privacy_
    page = (folder / "report.html").read_text("utf-8")
    assert "from 200 groups" in page
    assert "all rows of one group" in page
    # An earlier fit leaves nothing behind.
    assert fitted.fit(rows).privacy_.unit == "one row"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_names_its_persons(suffix, rows, tmp_path):
    frame = pd.DataFrame(rows, columns=list("abcd"))
    ids = np.random.default_rng(2).integers(0, 250, len(rows))
    frame.insert(1, "patient", [f"p{i}" for i in ids])
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    options = {**BUDGET, "random_state": 3}
    source = open_rows(path, unit="patient")
    fitted = PrivatePCA(2, **options).fit(source)
    assert same(fitted, PrivatePCA(2, **options).fit(rows, groups=ids))
    assert fitted.privacy_.protects == Unit("person", "patient")
    assert "rows that share a value of 'patient'" in fitted.privacy_.sentence()
    assert fitted.feature_names_in_.tolist() == list("abcd")
    assert fitted.transform(source) == pytest.approx(fitted.transform(frame[list("abcd")]))
    again = PrivatePCA(2, **options)
    assert again.fit_transform(source) == pytest.approx(fitted.transform(source))
    assert Release.load(fitted.release_.save(tmp_path / "r")).guarantee == fitted.privacy_
    with pytest.raises(InvalidParameterError, match="leave one of groups and unit out"):
        PrivatePCA(2, **options).fit(source, groups=ids)


@BOTH
@pytest.mark.parametrize("ids", [np.arange(599), np.arange(601)])
def test_one_id_for_each_row(estimator, ids, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET, unit="person")
    with pytest.raises(InvalidDataError, match="one id for each row") as caught:
        estimator(**BUDGET, row_norm=1.0, ledger=ledger).fit(rows, groups=ids)
    assert "\n" not in str(caught.value)
    streamed = iter(np.array_split(rows, 7))
    with pytest.raises(InvalidDataError, match="one id for each row"):
        estimator(**BUDGET, row_norm=1.0, centring="none", ledger=ledger).fit(streamed, groups=ids)
    assert ledger.entries == ()


def test_rows_read_once_may_have_ids(rows):
    ids = np.arange(len(rows)) // 2
    options = {**BUDGET, "row_norm": 12.0, "centring": "none", "random_state": 7}
    options["mechanism"] = "gauss"  # which reads once, and tightens no bound
    streamed = PrivateCovariance(**options).fit(iter(np.array_split(rows, 7)), groups=ids)
    assert same(streamed, PrivateCovariance(**options).fit(rows, groups=ids))


@ADJACENCIES
def test_no_persons_at_all(adjacency):
    fitted = PrivateCovariance(
        rho=1.0, row_norm=1.0, adjacency=adjacency, mechanism="cleaned", centring="none"
    )
    if adjacency == "replace-one":
        with pytest.raises(InvalidDataError, match="no rows"):
            fitted.fit(np.empty((0, 3)), groups=[])
    else:
        assert np.isfinite(fitted.fit(np.empty((0, 3)), groups=[]).covariance_).all()


def test_one_person_may_have_more_components_than_there_are_persons():
    rows = np.random.default_rng(0).standard_normal((40, 3))
    fitted = PrivatePCA(row_norm=3.0, **BUDGET, centring="none").fit(rows, groups=np.zeros(40))
    assert (fitted.n_components_, fitted.n_samples_) == (3, 1)


def test_a_model_of_independent_rows_refuses_persons(rows):
    model = SpikedModel(rank=1, smallest_spike=10.0, largest_spike=20.0, noise_variance=1.0)
    spiked = PrivatePCA(**BUDGET, mechanism=Spiked(model=model), centring="none")
    with pytest.raises(UnsupportedNotionError, match="leave groups and unit out"):
        spiked.fit(rows, groups=np.arange(len(rows)))


@BOTH
def test_a_ledger_pays_for_one_kind_of_unit(estimator, rows, tmp_path):
    ids = np.arange(len(rows)) // 2
    of_rows = Ledger.create(tmp_path / "rows", epsilon=9.0, delta=1e-5)
    of_persons = Ledger.create(tmp_path / "persons", **BUDGET, unit="person")
    with pytest.raises(InvalidParameterError, match="unit='person'"):
        estimator(**BUDGET, row_norm=5.0, ledger=of_rows).fit(rows, groups=ids)
    with pytest.raises(InvalidParameterError, match="pass groups to fit"):
        estimator(**BUDGET, row_norm=5.0, ledger=of_persons).fit(rows)
    assert of_rows.entries == of_persons.entries == ()
    estimator(**BUDGET, row_norm=5.0, ledger=of_persons).fit(rows, groups=ids)
    (entry,) = of_persons.entries
    assert entry.unit == GROUP
    with pytest.raises(BudgetExceededError):
        estimator(**BUDGET, row_norm=5.0, ledger=of_persons).fit(rows, groups=ids)


def test_scikit_learn_passes_the_ids_on(rows):
    ids = np.arange(len(rows)) // 3
    pca = PrivatePCA(2, **BUDGET, random_state=8)
    expected = clone(pca).fit(rows, groups=ids)
    assert clone(pca).fit_transform(rows, groups=ids) == pytest.approx(expected.transform(rows))
    pipeline = make_pipeline(FunctionTransformer(), clone(pca))
    pipeline.fit(rows, privatepca__groups=ids)
    assert same(pipeline[-1], expected)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(FunctionTransformer(), clone(pca).set_fit_request(groups=True))
        assert same(routed.fit(rows, groups=ids)[-1], expected)
        assert clone(pca).get_metadata_routing().fit.requests == {"groups": None}
        covariance = PrivateCovariance(**BUDGET, row_norm=9.0).set_fit_request(groups=True)
        assert covariance.fit(rows, groups=ids).n_samples_ == 200


class Refilled:
    """The rows in chunks that fill the same memory again and again."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        memory = np.empty((100, self.rows.shape[1]))
        for start in range(0, len(self.rows), len(memory)):
            memory[:] = self.rows[start : start + len(memory)]
            yield memory


@pytest.mark.parametrize("options", [{}, {"centring": "paired"}, {"centring": "located"}])
def test_chunks_that_fill_the_same_memory_again_keep_their_owners(options, rows):
    """Rows of the last chunk in place of all others would be those of many persons at once."""
    ids = np.arange(len(rows)) // 3
    pca = PrivatePCA(2, **BUDGET, **options, random_state=8)
    expected = clone(pca).fit(rows, groups=ids)
    assert same(clone(pca).fit(Refilled(rows), groups=ids), expected)


@BOTH
def test_chunks_of_persons_do_not_show_whether_there_are_any(estimator, rows, tmp_path):
    """Without a stated number of columns, no chunks would be refused and one would not."""
    ledger = Ledger.create(tmp_path / "l", **BUDGET, unit="person", adjacency="add-remove")
    private = estimator(**BUDGET, row_norm=9.0, adjacency="add-remove", ledger=ledger)
    with pytest.raises(InvalidParameterError, match="n_columns=d"):
        private.fit(iter([rows]), groups=np.arange(len(rows)) // 3)
    assert ledger.entries == ()
