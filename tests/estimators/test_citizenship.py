"""The estimators among scikit-learn's: checks, frames, composition, cross-validation, scores."""

import ast
import inspect
import pickle
import traceback
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import eigenveil
from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.exceptions import (
    BudgetExceededError,
    ColumnsLeftOutWarning,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.papers.spiked import Spiked, SpikedModel
from eigenveil.rows import ArraySource

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
EXACT = {
    "rho": 1e6,
    "row_norm": 60.0,
    "random_state": 0,
}  # next to no noise, and nothing is clipped
FOLD = {"rho": 1e4, "row_norm": 20.0}  # so that folds of a small table have a density
BOTH = pytest.mark.parametrize("estimator", [PrivatePCA, PrivateCovariance])
NAMES = list("abcde")
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "narwhals": lambda columns: nw.from_native(pl.DataFrame(columns)),
}
EVERY_FRAME = pytest.mark.parametrize("kind", FRAMES.values(), ids=FRAMES.keys())


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((600, 5)) * [4, 3, 2, 1, 1] + 3.0


def named(rows, names=NAMES):
    return {name: rows[:, NAMES.index(name)] for name in names}


def one_line(caught):
    """The message of ours, which scikit-learn keeps as the cause."""
    line = str(caught.value.__cause__)
    assert "\n" not in line
    return line


# scikit-learn's own checks.


# Its tables are so small that pairs of rows are used, which have no centre.
@pytest.mark.filterwarnings("ignore:the release has no centre")
@parametrize_with_checks(
    [
        PrivatePCA(1, **BUDGET, random_state=0),
        PrivatePCA(1, **BUDGET, row_norm=1.0, random_state=0),  # which has scores
        PrivateCovariance(**BUDGET, row_norm=1.0, random_state=0),
        PrivateCovariance(rho=1e6, mechanism="gauss", row_norm=60.0, random_state=0),  # likewise
    ],
    expected_failed_checks=lambda _: {
        "check_dtype_object": "wants numpy's own message, which may quote an entry",
        "check_estimators_empty_data_messages": "wants the number of rows, which may be private",
    },
)
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def test_no_private_name_of_scikit_learn_is_used():
    def private(name):
        return any(part.startswith("_") for part in name.split("."))

    used = []
    for path in Path(eigenveil.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                used += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                used += [a.name for a in node.names if a.name.startswith("sklearn")]
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("sklearn."):
                used.append(ast.unparse(node))
    assert "sklearn.base.BaseEstimator" in used
    assert not [name for name in used if private(name)]


# Frames.


@BOTH
@EVERY_FRAME
def test_every_frame_gives_the_release_of_its_array(estimator, kind, rows):
    options = {**BUDGET, "row_norm": 9.0, "random_state": 0}
    expected = estimator(**options).fit(rows)
    fitted = estimator(**options).fit(kind(named(rows)))
    assert list(fitted.feature_names_in_) == fitted.release_.settings["feature_names"] == NAMES
    assert fitted.n_features_in_ == 5
    for name, array in expected.release_.arrays.items():
        assert np.array_equal(fitted.release_.arrays[name], array)


@BOTH
@EVERY_FRAME
def test_a_text_column_is_refused_by_name_before_the_charge(estimator, kind, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    table = kind({**named(rows), "workclass": ["secret98765"] * 600})
    with pytest.raises(InvalidDataError, match=r"^column 'workclass' holds no") as caught:
        estimator(**BUDGET, row_norm=9.0, ledger=ledger).fit(table)
    assert "secret98765" not in "".join(traceback.format_exception(caught.value))
    assert ledger.entries == ()


@BOTH
def test_an_exhausted_ledger_is_noticed_before_a_row_is_read(estimator, rows, tmp_path):
    class Unread(ArraySource):
        def chunks(self):
            raise AssertionError("a row was read")

    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    private = estimator(**BUDGET, row_norm=9.0, ledger=ledger).fit(rows)
    with pytest.raises(BudgetExceededError, match="ask for less"):
        private.fit(Unread(rows))
    assert len(ledger.entries) == 1


def test_census_frames():
    path = Path(__file__).parents[3] / "shared" / "data" / "adult_train.parquet"
    if not path.is_file():
        pytest.skip("adult_train.parquet is not beside this checkout")
    pca = PrivatePCA(2, **BUDGET, scale="private", random_state=0)
    chosen = ["age", "education_num", "hours_per_week"]
    releases = []
    for census in (pd.read_parquet(path), pl.read_parquet(path)):
        with pytest.raises(InvalidDataError, match=r"^columns workclass, .* hold no numbers"):
            pca.fit(census)
        columns = ColumnTransformer([("pca", pca, chosen)]).fit(census)
        releases.append(columns.named_transformers_["pca"].release_)
        assert releases[-1].settings["feature_names"] == chosen
    one, other = (release.arrays["components"] for release in releases)
    assert np.array_equal(one, other)


@EVERY_FRAME
def test_transform_checks_names_and_their_order(kind, rows):
    pca = PrivatePCA(2, **BUDGET, row_norm=9.0).fit(kind(named(rows)))
    scores = pca.transform(kind(named(rows)))
    for other in FRAMES.values():  # of whatever kind
        assert np.array_equal(pca.transform(other(named(rows))), scores)
    with pytest.raises(ValueError, match="same order"):
        pca.transform(kind(named(rows, NAMES[::-1])))
    with pytest.raises(ValueError, match="missing"):
        pca.transform(kind(named(rows, NAMES[:3])))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(pca.transform(rows), scores)
    with pytest.raises(InvalidDataError, match=r"^column 'e' holds no numbers"):
        pca.transform(kind({**named(rows), "e": ["x"] * 600}))


@EVERY_FRAME
def test_inverse_transform_takes_frames(kind, rows):
    pca = PrivatePCA(5, **BUDGET, row_norm=9.0).fit(rows)
    scores = kind(dict(zip(NAMES, pca.transform(rows).T, strict=True)))
    assert pca.inverse_transform(scores) == pytest.approx(rows)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("output", "expected"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_set_output(kind, output, expected, rows):
    pca = PrivatePCA(2, **BUDGET, row_norm=9.0).set_output(transform=output)
    for scores in (pca.fit_transform(kind(named(rows))), pca.transform(kind(named(rows)))):
        assert isinstance(scores, expected)
        assert list(scores.columns) == list(pca.get_feature_names_out())
    assert list(pca.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    with pytest.raises(ValueError, match="input_features"):
        pca.get_feature_names_out(NAMES[::-1])


def test_set_output_keeps_the_index_of_pandas(rows):
    frame = pd.DataFrame(named(rows), index=np.arange(600) + 7)
    scores = PrivatePCA(2, **BUDGET).set_output(transform="pandas").fit_transform(frame)
    assert scores.index.equals(frame.index)


# What a table may look like, and what a fit leaves behind.


@BOTH
def test_layout_and_precision_do_not_matter(estimator, rows, tmp_path):
    rows = rows.astype(np.float32)
    options = {**BUDGET, "row_norm": 9.0, "random_state": 0}
    expected = estimator(**options).fit(rows.astype(np.float64)).release_.arrays
    stored = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=rows.shape)
    stored[:] = rows
    frozen = rows.copy()
    frozen.flags.writeable = False
    wide = np.repeat(rows, 2, axis=1)[:, ::2]
    for table in (rows, np.asfortranarray(rows), stored, rows.tolist(), frozen, wide):
        fitted = estimator(**options).fit(table)
        for name, array in expected.items():
            assert np.array_equal(fitted.release_.arrays[name], array)
            assert fitted.release_.arrays[name].dtype == np.float64


@BOTH
def test_a_refit_forgets_the_fit_before(estimator, rows):
    fitted = estimator(**BUDGET, row_norm=9.0).fit(pd.DataFrame(named(rows)))
    fitted.left_over_ = 1
    fitted.fit(rows[:, :3])
    assert fitted.n_features_in_ == 3
    assert not hasattr(fitted, "feature_names_in_")
    assert not hasattr(fitted, "left_over_")


def test_attributes_of_another_mechanism_go(rows):
    fitted = PrivateCovariance(rho=1.0, mechanism="adaptive-cleaned", row_norm=9.0).fit(rows)
    assert {"row_norm_", "noisy_eigenvalues_"} <= set(vars(fitted))
    fitted.set_params(mechanism="gauss").fit(rows)
    assert not {"row_norm_", "noisy_eigenvalues_"} & set(vars(fitted))


@BOTH
def test_a_refused_fit_leaves_the_fit_before(estimator, rows, tmp_path):
    """What was paid for is not lost, and nothing of the refused table is mixed into it."""
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    fitted = estimator(**BUDGET, row_norm=9.0, ledger=ledger).fit(pd.DataFrame(named(rows)))
    before = dict(vars(fitted))
    with pytest.raises(BudgetExceededError):
        fitted.fit(rows[:, :3])
    assert vars(fitted) == before
    fresh = clone(fitted)
    with pytest.raises(BudgetExceededError):
        fresh.fit(rows)
    with pytest.raises(NotFittedError):
        fresh.score(rows)


@BOTH
def test_only_a_number_seeds_a_simulation(estimator, rows):
    """A generator would change with every fit, and one passed around would couple estimators."""
    one, same = (estimator(**BUDGET, row_norm=9.0, random_state=seed) for seed in (3, np.int64(3)))
    name = "components" if estimator is PrivatePCA else "noisy_eigenvalues"
    arrays = [fit.fit(rows).release_.arrays[name] for fit in (one, one, same)]
    assert np.array_equal(arrays[0], arrays[1])
    assert np.array_equal(arrays[0], arrays[2])
    for state in (np.random.RandomState(0), np.random.default_rng(0), "0"):
        with pytest.raises(InvalidParameterError, match="seed"):
            estimator(**BUDGET, row_norm=9.0, random_state=state).fit(rows)


@BOTH
def test_pickles_work_and_hold_no_record(estimator, rows, tmp_path):
    rows[0, 0] = secret = 4.123456789012345
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-5)
    fitted = estimator(**BUDGET, row_norm=9.0, ledger=ledger).fit(pd.DataFrame(named(rows)))
    stored = pickle.dumps(fitted)
    assert np.float64(secret).tobytes() not in stored
    again = pickle.loads(stored)
    assert again.ledger == ledger
    assert again.privacy_.sentence() == fitted.privacy_.sentence()
    for name, array in fitted.release_.arrays.items():
        assert np.array_equal(again.release_.arrays[name], array)
    again.fit(rows)
    assert len(ledger.entries) == 2


@BOTH
@pytest.mark.parametrize("display", ["diagram", "text"])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
def test_estimators_show_themselves(estimator, display, rows, tmp_path):
    """Warnings are errors here: the page reads the docstring by scikit-learn's rules."""
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    shown = estimator(**BUDGET, bounds=(np.zeros(5), np.full(5, 9.0)), ledger=ledger)
    with config_context(display=display):
        for _ in range(2):
            assert f"{estimator.__name__}(" in repr(shown)
            bundle = shown._repr_mimebundle_()
            if display == "diagram":
                assert estimator.__name__ in bundle["text/html"]
                assert "n_features_in_" in bundle["text/html"] or not hasattr(shown, "release_")
            shown.fit(rows)
            shown.set_params(ledger=None)


# Composition.


def test_in_a_pipeline_with_named_output(rows):
    pipeline = make_pipeline(StandardScaler(), PrivatePCA(2, **BUDGET, row_norm=3.0))
    scores = pipeline.set_output(transform="pandas").fit_transform(pd.DataFrame(named(rows)))
    assert list(scores.columns) == ["privatepca0", "privatepca1"]


def test_a_pipeline_scores_with_its_last_step(rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1e4)
    pca = PrivatePCA(2, **FOLD, centring="none", ledger=ledger)
    pipeline = make_pipeline(FunctionTransformer(lambda x: x - 3.0), pca).fit(rows)
    assert pipeline.score(rows) == pytest.approx(pca.score(rows - 3.0))
    assert np.array_equal(pipeline.score_samples(rows), pca.score_samples(rows - 3.0))
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_some_columns_of_a_mixed_frame(kind, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **BUDGET)
    table = kind({**named(rows), "workclass": ["x"] * 600})
    pca = PrivatePCA(2, **BUDGET, ledger=ledger)
    columns = ColumnTransformer([("pca", pca, ["d", "b", "a"])], remainder="drop")
    scores = columns.fit_transform(table)
    assert scores.shape == (600, 2)
    fitted = columns.named_transformers_["pca"]
    assert list(fitted.feature_names_in_) == ["d", "b", "a"]
    assert list(columns.get_feature_names_out()) == ["pca__privatepca0", "pca__privatepca1"]
    assert len(ledger.entries) == 1


def test_a_union_charges_each_of_its_parts(rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-5)
    parts = [(name, PrivatePCA(2, **BUDGET, ledger=ledger)) for name in ("one", "two")]
    union = FeatureUnion(parts)
    assert union.fit_transform(rows).shape == (600, 4)
    assert list(union.get_feature_names_out())[2:] == ["two__privatepca0", "two__privatepca1"]
    assert len(ledger.entries) == 2


# Cross-validation: every fit is a release.


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.audit)])
def test_every_fold_is_charged_once(n_jobs, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1e6)
    pca = PrivatePCA(2, **FOLD, ledger=ledger)
    found = cross_validate(pca, rows, cv=4, n_jobs=n_jobs, return_estimator=True)
    assert np.isfinite(found["test_score"]).all()
    receipts = {fold.privacy_.ledger for fold in found["estimator"]}
    assert len(receipts) == len(ledger.entries) == 4
    assert [entry.number for entry in ledger.entries] == [1, 2, 3, 4]
    assert not hasattr(pca, "components_")


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.audit)])
def test_a_search_is_charged_for_every_candidate_fold_and_the_refit(n_jobs, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1e6)
    pca = PrivatePCA(**FOLD, ledger=ledger)
    search = GridSearchCV(pca, {"n_components": [1, 2]}, cv=3, n_jobs=n_jobs).fit(rows)
    assert len(ledger.entries) == 2 * 3 + 1
    assert "entry 7 of ledger l" in search.best_estimator_.privacy_.sentence()


def three_fits(path):
    """A ledger that covers three fits of a fold, and not four."""
    return Ledger.create(path, rho=3.5e4)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.audit)])
def test_a_ledger_that_runs_out_is_seen(n_jobs, rows, tmp_path):
    """NaN for the folds that were refused, and a warning that quotes the refusal."""
    ledger = three_fits(tmp_path / "l")
    pca = PrivatePCA(2, **FOLD, ledger=ledger)
    with pytest.warns(FitFailedWarning, match="stop releasing from this table") as warned:
        scores = cross_val_score(pca, rows, cv=5, n_jobs=n_jobs)
    assert "2 fits failed out of a total of 5" in str(warned[0].message)
    assert "BudgetExceededError" in str(warned[0].message)
    assert np.isnan(scores).sum() == 2
    assert len(ledger.entries) == 3
    with pytest.raises(ValueError, match=r"(?s)All the 5 fits failed.*stop releasing"):
        cross_val_score(pca, rows, cv=5, n_jobs=n_jobs)
    assert len(ledger.entries) == 3


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.audit)])
def test_a_refusal_can_be_raised(n_jobs, rows, tmp_path):
    pca = PrivatePCA(2, **FOLD, ledger=three_fits(tmp_path / "l"))
    with pytest.raises(BudgetExceededError, match=r"^the ledger has spent rho = 30000 of 35000"):
        cross_val_score(pca, rows, cv=5, n_jobs=n_jobs, error_score="raise")


def test_a_search_whose_refit_is_refused_fails(rows, tmp_path):
    """The refit is never turned into a NaN."""
    pca = PrivatePCA(**FOLD, ledger=three_fits(tmp_path / "l"))
    search = GridSearchCV(pca, {"n_components": [2]}, cv=3)
    with pytest.raises(BudgetExceededError):
        search.fit(rows)
    with pytest.raises(NotFittedError):
        search.best_estimator_.transform(rows)


@BOTH
def test_without_a_ledger_every_fold_says_that_nothing_counts_it(estimator, rows):
    model = estimator(**FOLD)
    found = cross_validate(model, rows, cv=3, return_estimator=True, error_score="raise")
    for fold in found["estimator"]:
        assert "no ledger: keep count of releases from this table yourself" in (
            fold.privacy_.sentence()
        )


@pytest.mark.parametrize("options", [{}, {"variances": True, "centring": "paired"}])
def test_folds_that_could_not_be_scored_are_not_paid_for(options, rows, tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1e6)
    with pytest.raises(TypeError, match="'score' method"):
        cross_val_score(PrivatePCA(2, **BUDGET, **options, ledger=ledger), rows)
    assert ledger.entries == ()


def test_a_fold_without_a_density_says_so(rows):
    """It was released and is paid for; its score is NaN, and a warning gives the reason."""
    noisy = PrivatePCA(4, rho=1e-3, row_norm=20.0, centring="none", random_state=0)
    with pytest.warns(UserWarning, match="released covariance is singular"):
        assert np.isnan(cross_val_score(noisy, rows, cv=3)).all()


# Scores of rows.


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(1)
    return rng.standard_normal((4000, 4)) * [3.0, 2.0, 1.0, 0.5] + [5.0, -4.0, 3.0, 0.0]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_likelihoods_are_those_of_scikit_learn(k, many):
    """With next to no noise; variances divide by n and not by n - 1."""
    ours, theirs = PrivatePCA(k, **EXACT).fit(many), PCA(k).fit(many)
    assert ours.score_samples(many) == pytest.approx(theirs.score_samples(many), abs=0.05)
    assert ours.score(many) == pytest.approx(theirs.score(many), abs=1e-4)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=0.01)
    assert np.mean(ours.score_samples(many)) == ours.score(many)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"variances": True, "mechanism": "tangent"}, 0.25),  # these are approximate
        ({"variances": True}, 1e-3),  # clipped rows have them by themselves
        ({"bounds": (-30, 30), "mechanism": "analyze-gauss"}, 1e-3),
        ({"row_norm": 60.0, "adjacency": "add-remove"}, 1e-3),
    ],
)
def test_likelihoods_wherever_variances_have_units(options, tolerance, many):
    ours = PrivatePCA(2, rho=1e5, **options, random_state=0).fit(many)
    assert ours.score(many) == pytest.approx(PCA(2).fit(many).score(many), abs=tolerance)


def test_likelihoods_are_densities_in_the_units_of_the_data(many):
    """Dividing columns is a change of variables, not of the law."""
    scale = np.array([2.0, 4.0, 0.5, 1.0])
    ours = PrivatePCA(2, rho=1e6, row_norm=100.0, scale=scale, random_state=0).fit(many)
    theirs = PCA(2).fit(many / scale).score(many / scale) - np.log(scale).sum()
    assert ours.score(many) == pytest.approx(theirs, abs=1e-3)
    full = PrivatePCA(4, rho=1e6, row_norm=100.0, scale=scale, random_state=0).fit(many)
    assert full.score(many) == pytest.approx(PCA().fit(many).score(many), abs=1e-3)


SPIKED = SpikedModel(rank=2, smallest_spike=3, largest_spike=10, noise_variance=0.7)


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 2, "row_norm": 20.0},
        {"mechanism": Spiked(model=SPIKED), "centring": "none"},
        {"n_components": 1, "row_norm": 20.0, "scale": "private"},  # leaves a column out
    ],
    ids=["clipped", "model", "column left out"],
)
def test_likelihoods_agree_with_the_released_covariance(options, many):
    """At an ordinary budget, whatever the noise has done."""
    many = np.column_stack([many, np.zeros(len(many))])
    pca = PrivatePCA(**BUDGET, **options, random_state=0)
    if "scale" in options:
        with pytest.warns(ColumnsLeftOutWarning, match="no scale was found for x4, which was"):
            pca.fit(many)
    else:
        pca.fit(many)
    kept = np.isfinite(pca.scale_)
    assert kept.all() == ("scale" not in options)
    law, scale = EmpiricalCovariance(), pca.scale_[kept]
    law.covariance_ = pca.get_covariance()[np.ix_(kept, kept)] * np.outer(scale, scale)
    law.precision_, law.location_ = np.linalg.inv(law.covariance_), pca.mean_[kept]
    assert pca.score(many) == pytest.approx(law.score(many[:, kept]))


def test_where_there_is_no_density_one_line_says_what_to_do(many):
    for options, advice in (
        ({"mechanism": "tangent"}, "shares of variance make no density: state row_norm, or pass"),
        ({"bounds": (-30, 30), "mechanism": "tangent"}, "state row_norm, or pass variances=True"),
        ({"variances": True, "centring": "paired"}, "no centre to measure from: pass centring="),
        ({"row_norm": 1e3, "mechanism": "laplace"}, "ask for fewer components"),
    ):
        pca = PrivatePCA(4, **BUDGET, **options, random_state=0).fit(many)
        assert not hasattr(pca, "score_samples")
        for method in ("score", "score_samples"):
            with pytest.raises(AttributeError) as caught:
                getattr(pca, method)
            assert advice in one_line(caught)


@BOTH
def test_rows_without_a_score(estimator, many):
    """As in `transform`: refused, or NaN where invalid rows count for nothing."""
    gaps = many[:50].copy()
    gaps[3, 1] = np.nan
    strict = estimator(**EXACT).fit(many)
    with pytest.raises(InvalidDataError, match="fill it or drop the row"):
        strict.score(gaps)
    with pytest.raises(InvalidDataError, match="no row can be scored"):
        strict.score(gaps[:0])
    lenient = estimator(**EXACT, on_invalid="zero").fit(many)
    each = lenient.score_samples if estimator is PrivatePCA else lenient.mahalanobis
    assert np.flatnonzero(np.isnan(each(gaps))).tolist() == [3]
    assert lenient.score(gaps) == pytest.approx(lenient.score(np.delete(gaps, 3, axis=0)))


@BOTH
def test_scores_of_files_and_frames(estimator, rows, tmp_path):
    np.save(tmp_path / "t.npy", rows)
    fitted = estimator(**EXACT).fit(rows)
    expected = fitted.score(rows)
    assert fitted.score(tmp_path / "t.npy") == expected
    assert fitted.score(iter([rows[:7], rows[7:]])) == pytest.approx(expected)
    with pytest.raises(ValueError, match="features"):
        fitted.score(rows[:, :3])
    by_name = estimator(**EXACT).fit(pl.DataFrame(named(rows)))
    with pytest.raises(ValueError, match="same order"):
        by_name.score(pl.DataFrame(named(rows, NAMES[::-1])))


@pytest.mark.parametrize("method", ["transform", "score_samples", "score"])
def test_pca_says_that_scores_are_not_private(method):
    assert "NOT private" in inspect.getdoc(getattr(PrivatePCA, method))


@pytest.mark.parametrize("method", ["mahalanobis", "score", "error_norm"])
def test_covariance_says_that_scores_are_not_private(method):
    assert "NOT private" in inspect.getdoc(getattr(PrivateCovariance, method))


def test_scores_are_exact_functions_of_their_rows(many):
    """No noise protects them: of two tables that differ in one row, one score differs."""
    pca = PrivatePCA(2, **BUDGET, row_norm=20.0, random_state=0).fit(many)
    other = many.copy()
    other[5] += 1.0
    assert np.flatnonzero(pca.score_samples(many) != pca.score_samples(other)).tolist() == [5]


def test_distances_and_errors_are_those_of_scikit_learn(many):
    ours, theirs = PrivateCovariance(**EXACT).fit(many), EmpiricalCovariance().fit(many)
    assert ours.mahalanobis(many) == pytest.approx(theirs.mahalanobis(many), abs=0.1)
    assert ours.score(many) == pytest.approx(theirs.score(many), abs=1e-3)
    theirs.covariance_ = ours.covariance_
    other = pd.DataFrame(np.eye(4))
    for norm in ("frobenius", "spectral"):
        for scaling in (True, False):
            for squared in (True, False):
                expected = theirs.error_norm(other.to_numpy(), norm, scaling, squared)
                assert ours.error_norm(other, norm, scaling, squared) == pytest.approx(expected)
    with pytest.raises(InvalidParameterError, match="'frobenius' or 'spectral'"):
        ours.error_norm(other, "nuclear")


def test_distances_need_a_precision(rows):
    singular = PrivateCovariance(**BUDGET, mechanism="zero", row_norm=5.0).fit(rows)
    for method in ("score", "mahalanobis"):
        with pytest.raises(AttributeError) as caught:
            getattr(singular, method)
        assert "singular or indefinite" in one_line(caught)
    assert singular.error_norm(np.eye(5)) == pytest.approx(1.0)
    with pytest.raises(NotFittedError):
        PrivateCovariance(**EXACT).mahalanobis(rows)


def test_groups_of_a_splitter_do_not_protect_persons(many):
    """scikit-learn hands ``groups`` to the splitter; ``params`` hands them to the fit."""
    ids = np.arange(len(many)) // 2
    pca = PrivatePCA(1, rho=1.0, row_norm=20.0, random_state=0)
    options = {"cv": GroupKFold(2), "return_estimator": True, "error_score": "raise"}
    alone = cross_validate(pca, many, groups=ids, **options)["estimator"]
    assert {fitted.privacy_.unit for fitted in alone} == {"one row"}
    both = cross_validate(pca, many, groups=ids, params={"groups": ids}, **options)["estimator"]
    assert {fitted.privacy_.unit for fitted in both} == {"all rows of one group"}
