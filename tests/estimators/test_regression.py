"""PrivateRegression: what it finds, what it promises, and what it refuses."""

import inspect
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenveil import Ledger, PrivateRegression, Release, open_rows
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    InvalidDataError,
    InvalidParameterError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.privacy import Composed, Pure
from eigenveil.rows import IterableSource

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5000, 4)) * [1.0, 10.0, 0.1, 3.0] + [5.0, 100.0, 0.0, 2.0]
SLOPES = np.array([1.0, 0.1, 5.0, 0.0])
Y = X @ SLOPES + 3.0 + RNG.standard_normal(5000)
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
SPREAD = X.std(axis=0)


def test_a_line_is_found_without_any_bound():
    model = PrivateRegression(**BUDGET).fit(X, Y)
    assert model.coef_ * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.1)
    assert model.predict(X).mean() == pytest.approx(Y.mean(), abs=0.1)
    assert model.score(X, Y) > 0.67  # 0.69 is what least squares has
    assert not model.means_alone_
    assert model.n_samples_ == 5000
    assert sum(model.shares_.values()) == pytest.approx(1.0)
    low, high = model.coef_interval_.T
    assert (low < model.coef_).all()
    assert (model.coef_ < high).all()
    assert ((model.noise_share_ > 0) & (model.noise_share_ < 1)).all()
    assert "none needed for the target" in model.privacy_.sentence()


@pytest.mark.parametrize(
    "budget", [{"rho": 0.1}, {"epsilon": 8.0}, {"epsilon": 2.0, "delta": 1e-6}]
)
def test_every_kind_of_budget(budget):
    model = PrivateRegression(**budget, random_state=1).fit(X, Y)
    assert model.coef_ * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.3)


def test_add_remove_neighbours_take_stated_scales():
    model = PrivateRegression(**BUDGET, adjacency="add-remove", scale=SPREAD).fit(X, Y)
    assert model.coef_ * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.15)
    assert model.n_samples_ is None
    with pytest.raises(UnsupportedNotionError, match="public number of rows"):
        PrivateRegression(**BUDGET, adjacency="add-remove", scale="private").fit(X, Y)


def test_features_that_are_levels_alone_need_no_scales(tmp_path):
    rng = np.random.default_rng(0)
    ward = rng.choice(["a", "b", "c"], 4000)
    frame = pd.DataFrame({"ward": ward, "y": (ward == "a") * 2.0 + rng.standard_normal(4000)})
    table = open_rows(frame, encode={"ward": ["a", "b"]})
    for scale in (None, "private"):
        model = PrivateRegression(epsilon=2.0, delta=1e-6, scale=scale, random_state=0)
        model.fit(table, "y")
        assert model.coef_[0] == pytest.approx(2.0, abs=0.5)


def test_a_common_unit_of_features_is_refused_before_anything_is_charged(tmp_path):
    budget = {"epsilon": 2.0, "delta": 1e-6}
    ledger = Ledger.create(tmp_path / "l", **budget)
    model = PrivateRegression(**budget, scale="same", ledger=ledger)
    with pytest.raises(InvalidParameterError, match="is for covariances"):
        model.fit(np.ones((2000, 2)), np.ones(2000))
    assert ledger.entries == ()


def test_a_feature_without_a_scale_is_named_and_one_of_levels_needs_none():
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    with pytest.warns(ColumnsLeftOutWarning, match="no scale was found for x4, which was left out"):
        model = PrivateRegression(**BUDGET).fit(wide, Y)
    assert model.coef_[4] == 0
    assert "left out, as no scale was found for them: x4" in model.privacy_.sentence()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        ward=np.where(np.arange(5000) % 50 == 0, "icu", "other"), y=Y
    )
    table = open_rows(frame, encode={"ward": ["icu"]})
    model = PrivateRegression(**BUDGET).fit(table, "y")  # one in fifty would not stand out
    assert np.isfinite(model.scale_).all()
    ranged = PrivateRegression(**BUDGET, target_bounds=(0.0, 40.0)).fit(table, "y")
    assert ranged.scale_[-1] == 1


def test_stated_ranges_need_no_search():
    box = ([0.0, 50.0, -0.5, -10.0], [10.0, 150.0, 0.5, 14.0])
    model = PrivateRegression(**BUDGET, bounds=box, target_bounds=(0.0, 40.0)).fit(X, Y)
    assert model.coef_ * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.15)
    assert set(model.shares_) == {"offset", "length", "gram", "stages", "variance"}
    assert model.scale_ == pytest.approx([5.0, 50.0, 0.5, 12.0])
    assert model.release_.settings["bounds"]["high"] == box[1]


def test_a_stated_length_is_kept():
    model = PrivateRegression(**BUDGET, row_norm=2.0).fit(X, Y)
    assert model.release_.settings["row_norm"] == pytest.approx(math.hypot(1.0, 2.0))
    assert "length" not in model.shares_


def test_a_penalty_shrinks():
    plain = PrivateRegression(**BUDGET, alpha=0.0).fit(X, Y)
    heavy = PrivateRegression(**BUDGET, alpha=10.0).fit(X, Y)
    assert np.linalg.norm(heavy.coef_ * SPREAD) < 0.5 * np.linalg.norm(plain.coef_ * SPREAD)
    with pytest.raises(InvalidParameterError, match="alpha"):
        PrivateRegression(**BUDGET, alpha=-1.0).fit(X, Y)


def test_small_tables_have_a_mean_or_need_a_range():
    accepted = BUDGET | {"means_alone": True}
    small = PrivateRegression(**(accepted | {"epsilon": 0.3})).fit(X[:1500], Y[:1500])
    assert small.means_alone_
    assert not small.coef_.any()
    assert small.predict(X[:3]) == pytest.approx(Y.mean(), abs=0.5)
    assert small.intercept_interval_.tolist() == [-math.inf, math.inf]  # nothing tells its error
    with pytest.raises(TooFewRowsError, match="target_bounds"):
        PrivateRegression(**(BUDGET | {"epsilon": 0.01})).fit(X, Y)
    stated = PrivateRegression(**(accepted | {"epsilon": 0.01}), target_bounds=(0.0, 40.0))
    assert stated.fit(X, Y).intercept_ == pytest.approx(Y.mean(), abs=6.0)
    assert stated.intercept_interval_.tolist() == [0.0, 40.0]


def test_few_rows_have_a_mean_within_the_stated_range():
    """n epsilon = 30: Laplace noise of scale 200/30 on the mean, a third of the Gaussian noise of
    the same budget; 60 is exceeded with probability e^-9.
    """
    accepted = BUDGET | {"epsilon": 0.1, "means_alone": True}
    few = PrivateRegression(**accepted, target_bounds=(-100.0, 100.0))
    few.fit(X[:300], Y[:300])
    assert "only means" in few.privacy_.sentence()
    assert few.privacy_.cost == Pure(0.1)  # delta allows a little more, which would confuse
    assert few.intercept_ == pytest.approx(Y.mean(), abs=60.0)
    low, high = few.intercept_interval_
    assert high - low == pytest.approx(2 * 1.645 * math.sqrt(2) * 200 / 30, rel=0.01)


def test_several_means_share_the_budget():
    both = np.column_stack([Y, 1000 + Y])[:1500]
    model = PrivateRegression(epsilon=0.4, means_alone=True, random_state=0).fit(X[:1500], both)
    assert model.means_alone_
    assert model.intercept_ == pytest.approx(both.mean(axis=0), abs=1.0)
    assert model.privacy_.cost == Composed((Pure(0.2), Pure(0.2)))


def test_a_median_is_as_good_as_a_mean_however_wide_the_range():
    """1,200 rows at epsilon = 0.1, the range 40 times the deviation: no prediction is worse than
    that of the mean by more than 2 % on average; noise of a mean would cost 23 %.
    """
    rng = np.random.default_rng(11)
    target = 125 + 7 * rng.standard_normal(1200)
    worse = []
    for seed in range(20):
        budget = {"epsilon": 0.1, "delta": 1e-6, "means_alone": True, "random_state": seed}
        model = PrivateRegression(**budget, target_bounds=(-141.0, 141.0)).fit(X[:1200], target)
        worse.append((model.intercept_ - target.mean()) ** 2 / target.var())
    assert np.mean(worse) < 0.02


@pytest.mark.parametrize(
    ("epsilon", "stated", "advice"),
    [
        (0.3, {}, "; or state scale or bounds"),
        (0.01, {"target_bounds": (0.0, 40.0)}, ""),
    ],
)
def test_means_alone_are_refused_before_the_charge(epsilon, stated, advice, tmp_path):
    """What is advised allows coefficients, as public numbers tell."""
    ledger = Ledger.create(tmp_path / "l", epsilon=1, delta=1e-6)
    budget = {"epsilon": epsilon, "delta": 1e-6}
    model = PrivateRegression(**budget, ledger=ledger, **stated)
    with pytest.raises(TooFewRowsError, match="no coefficients, only the mean") as refused:
        model.fit(X[:1500], Y[:1500])
    assert f" for these{advice}; means_alone=True releases the mean alone" in str(refused.value)
    assert ledger.entries == ()
    larger = float(re.search(r"rows would do, or epsilon = ([\d.]+) for", str(refused.value))[1])
    enough = PrivateRegression(epsilon=larger, delta=1e-6, random_state=0, **stated)
    assert not enough.fit(X[:1500], Y[:1500]).means_alone_
    if "bounds" in advice:
        box = (X.min(axis=0) - 1, X.max(axis=0) + 1)
        followed = PrivateRegression(**budget, bounds=box, random_state=0)
        assert not followed.fit(X[:1500], Y[:1500]).means_alone_


def test_what_was_not_measured_has_no_bounded_interval(tmp_path):
    """A column that is left out, and coefficients where a mean is all that was released."""
    wide = np.column_stack([X, np.ones(5000)])
    with pytest.warns(ColumnsLeftOutWarning, match="x4"):
        model = PrivateRegression(**BUDGET).fit(wide, Y)
    assert np.isinf(model.scale_[4])
    assert np.isinf(model.coef_interval_[4]).all()
    assert np.isfinite(model.coef_interval_[:4]).all()
    assert np.isfinite(model.intercept_interval_).all()
    model.release_.save(tmp_path / "released")
    assert Release.load(tmp_path / "released").arrays["interval"][0, 4, 1] == np.inf
    accepted = BUDGET | {"epsilon": 0.3, "means_alone": True}
    small = PrivateRegression(**accepted).fit(X[:1500], Y[:1500])
    assert np.isinf(small.coef_interval_).all()
    assert (small.noise_share_ == 1).all()


def test_several_targets_share_one_gram_matrix():
    both = np.column_stack([Y, 2 * X[:, 1] + RNG.standard_normal(5000)])
    model = PrivateRegression(**BUDGET).fit(X, both)
    assert model.coef_.shape == (2, 4)
    assert model.coef_interval_.shape == (2, 4, 2)
    assert model.intercept_.shape == (2,)
    assert model.coef_[0] * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.2)
    assert model.coef_[1, 1] == pytest.approx(2.0, abs=0.1)
    assert model.predict(X[:7]).shape == (7, 2)


def test_all_rows_of_a_person_weigh_as_one():
    model = PrivateRegression(**BUDGET).fit(X, Y, groups=np.arange(5000) // 2)
    assert model.n_samples_ == 2500
    assert model.coef_ * SPREAD == pytest.approx(SLOPES * SPREAD, abs=0.3)
    assert "all rows of one group" in model.privacy_.sentence()


def test_missing_cells_and_invalid_rows():
    holes, target = X.copy(), Y.copy()
    holes[::50, 0] = np.nan
    with pytest.raises(InvalidDataError, match="missing"):
        PrivateRegression(**BUDGET).fit(holes, Y)
    filled = PrivateRegression(**BUDGET, on_missing="centre").fit(holes, Y)
    assert filled.coef_[0] == pytest.approx(1.0, abs=0.15)
    assert np.isfinite(filled.predict(holes)).all()
    target[::70] = np.nan
    with pytest.raises(InvalidDataError, match=r"no target, or .* add on_invalid='zero'"):
        PrivateRegression(**BUDGET, on_missing="centre").fit(X, target)
    left = PrivateRegression(**BUDGET, on_invalid="zero").fit(holes, target)
    assert left.coef_[0] == pytest.approx(1.0, abs=0.15)


def test_files_and_frames(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = PrivateRegression(**BUDGET).fit(frame, Y)
    assert list(model.feature_names_in_) == list("abcd")
    frame.insert(1, "y", Y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    file = PrivateRegression(**BUDGET).fit(tmp_path / "t.csv", "y")
    assert file.coef_ == pytest.approx(model.coef_)
    assert list(file.feature_names_in_) == list("abcd")
    assert file.release_.settings["target_names"] == ["y"]
    with pytest.raises(InvalidDataError, match="not there"):
        PrivateRegression(**BUDGET).fit(tmp_path / "t.csv", "z")
    with pytest.raises(InvalidParameterError, match="y='name'"):
        PrivateRegression(**BUDGET).fit(tmp_path / "t.csv", Y)


def test_what_cannot_be_fitted_is_refused():
    for wrong in (
        {"row_norm": -1.0},
        {"row_norm": "private"},
        {"centring": "mean"},
        {"scale": "wide"},
        {"target_bounds": (1.0, 1.0)},
        {"alpha": "small"},
        {"alpha": 10**400},
        {"row_norm": 10**400},
    ):
        with pytest.raises(InvalidParameterError):
            PrivateRegression(**BUDGET, **wrong).fit(X, Y)
    with pytest.raises(InvalidDataError, match="one value for each row"):
        PrivateRegression(**BUDGET).fit(X, Y[:10])
    with pytest.raises(InvalidParameterError, match="y is None"):
        PrivateRegression(**BUDGET).fit(X, None)
    once = IterableSource(iter([np.column_stack([X, Y])]))
    with pytest.raises(InvalidParameterError, match="with names"):
        PrivateRegression(**BUDGET).fit(once, "y")


def test_the_ledger_is_charged_once_before_the_draw(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    model = PrivateRegression(epsilon=1.0, delta=1e-6, ledger=ledger).fit(X, Y)
    (entry,) = ledger.entries
    assert entry.label == "joined"
    assert model.privacy_.ledger is not None
    assert "ledger" in model.release_.settings


def test_a_release_comes_back_as_it_was(tmp_path):
    release = PrivateRegression(**BUDGET).fit(X, Y).release_
    again = Release.load(release.save(tmp_path / "r"))
    for name, array in release.arrays.items():
        assert (again.arrays[name] == array).all()
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "Private regression" in page
    assert "coefficients told from zero" in page


def test_a_release_of_a_mean_comes_back_too(tmp_path):
    budget = BUDGET | {"epsilon": 0.3}
    model = PrivateRegression(**budget, means_alone=True).fit(X[:1500], Y[:1500])
    Release.load(model.release_.save(tmp_path / "r"))
    assert "only medians of means of 4.5 rows each" in model.privacy_.sentence()
    assert model.privacy_.cost == Pure(0.3)


def test_fits_can_be_repeated_cloned_and_used_in_pipelines():
    model = PrivateRegression(**BUDGET)
    assert (model.fit(X, Y).coef_ == clone(model).fit(X, Y).coef_).all()
    piped = make_pipeline(FunctionTransformer(), clone(model)).fit(X, Y)
    assert piped.score(X, Y) > 0.6
    assert cross_val_score(clone(model), X, Y, cv=2).min() > 0.6
    assert "NOT private" in inspect.getdoc(model.predict)


@parametrize_with_checks(
    [
        PrivateRegression(
            epsilon=50.0,
            delta=1e-3,
            target_bounds=(-200.0, 200.0),
            means_alone=True,
            random_state=0,
        )
    ],
    expected_failed_checks=lambda _: {
        "check_dtype_object": "wants numpy's own message, which may quote an entry",
        "check_estimators_empty_data_messages": "wants the number of rows, which may be private",
    },
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_a_table_without_signal_predicts_its_mean():
    """No worse than the mean by more than 1 %: 5,000 rows at epsilon = 1."""
    rng = np.random.default_rng(7)
    noise = rng.standard_normal(5000) + 3
    model = PrivateRegression(**(BUDGET | {"epsilon": 1.0})).fit(X, noise)
    assert model.score(X, noise) > -0.01


def test_a_target_without_any_stage_beside_one_with_some_has_its_page(tmp_path):
    """As where no residual of one of two targets stands out."""
    release = PrivateRegression(**BUDGET).fit(X, np.column_stack([Y, Y])).release_
    interval = release.arrays["interval"].copy()
    interval[0, :-1] = [-np.inf, np.inf]
    release = replace(release, arrays={**release.arrays, "interval": interval})
    Release.load(release.save(tmp_path / "r"))
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert page.count("No coefficient was measured.") == 1
