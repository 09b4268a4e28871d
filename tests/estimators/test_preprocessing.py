"""Tables of mixed columns: levels found with the budget of a release, in Python."""

import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from eigenveil import (
    Ledger,
    PrivateCovariance,
    PrivatePCA,
    PrivatePreprocessor,
    PrivateRegression,
    Release,
    open_rows,
)
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
    UnsupportedNotionError,
)
from eigenveil.planning import LEVEL_SHARE
from eigenveil.privacy import compose, fits, parts_of
from eigenveil.rows import GroupedSource

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ENCODE = {"ward": "private", "sex": ["f", "m"], "seen": date(2024, 1, 1)}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 4000
    wards = rng.choice(["surgery", "medicine", "burns"], n, p=[0.6, 0.399, 0.001])
    older = wards == "medicine"
    return pd.DataFrame(
        {
            "patient_id": np.arange(n) // 2,
            "ward": wards,
            "sex": rng.choice(["f", "m"], n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "age": np.where(older, 70.0, 50.0) + rng.normal(0, 8, n),
            "weight": rng.normal(75, 12, n),
        }
    )


def source(frame, **more):
    return open_rows(frame, **{"encode": ENCODE, "unit": "patient_id"} | more)


def test_levels_are_found_and_paid_for_in_the_same_release(frame, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6, unit="person")
    pca = PrivatePCA(2, **BUDGET, scale="private", ledger=ledger).fit(source(frame))
    assert pca.levels_ == {"ward": ("medicine", "surgery")}
    names = ["ward=medicine", "ward=surgery", "sex=f", "sex=m", "seen", "age", "weight"]
    assert list(pca.feature_names_in_) == names
    assert pca.components_.shape == (2, 7)
    search, release = ledger.entries
    assert (search.label, release.label) == ("levels of ward", pca.mechanism_)
    assert search.groups == release.groups == 2000
    assert pca.privacy_.cost == compose(search.cost, release.cost)
    assert parts_of(search.cost).delta == parts_of(pca.privacy_.cost).delta > 0
    assert fits(pca.privacy_.cost, pca.privacy_.budget)
    assert re.fullmatch(r"entry 1 of .* and entry 2 of .*", pca.privacy_.ledger)
    assert pca.release_.settings["ledger"]["spent_before"] == 0.0
    assert pca.shares_["levels"] == LEVEL_SHARE
    assert sum(pca.shares_.values()) == pytest.approx(1.0)
    assert "'ward' is 0 or 1 for each of 2 levels found privately" in pca.privacy_.sentence()
    assert pca.release_.settings["ledger"]["spent"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("broken", [{"age": np.nan}, {"age": np.inf}, {"ward": None}, {"sex": ""}])
@pytest.mark.parametrize("releases", [PrivatePCA, PrivateCovariance])
def test_a_row_that_stops_the_run_stops_it_before_levels_are_paid_for(
    frame, tmp_path, broken, releases
):
    frame = frame.copy()
    for column, cell in broken.items():
        frame.loc[3210, column] = cell
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6, unit="person")
    with pytest.raises(InvalidDataError, match="a row holds a missing or infinite value"):
        releases(**BUDGET, ledger=ledger).fit(source(frame))
    assert ledger.entries == ()


def test_a_search_whose_release_is_refused_costs_its_own_share_alone(frame, tmp_path):
    """The refusal names what was found, which is released: its charge has not failed."""
    frame = frame.copy()
    frame["ward"] = [f"ward {i}" for i in range(len(frame))]
    rows = open_rows(frame[["ward", "age"]], encode={"ward": "private"})
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="n_components") as refused:
        PrivatePCA(2, **BUDGET, ledger=ledger).fit(rows)  # one column is left
    assert [entry.label for entry in ledger.entries] == ["levels of ward"]
    assert ledger.balance().spent < 0.3
    assert refused.value.__notes__ == [
        "the levels that were found and paid for are 'ward' = none: state them next time"
    ]
    whole = PrivatePCA(1, **BUDGET, ledger=ledger)
    with pytest.raises(BudgetExceededError, match="ask for less"):
        whole.fit(rows)  # nothing is lost where both would not fit
    assert len(ledger.entries) == 1


def test_a_release_reads_other_rows_alike(frame, tmp_path):
    pca = PrivatePCA(2, **BUDGET, scale="private", random_state=1).fit(source(frame))
    scores = pca.transform(source(frame.head(50)))
    assert scores.shape == (50, 2)
    pca.release_.save(tmp_path / "release")
    loaded = Release.load(tmp_path / "release")
    assert loaded.settings["encoding"]["ward"] == {"levels": ["medicine", "surgery"]}
    np.testing.assert_array_equal(loaded.transform(frame.head(50)), scores)
    np.testing.assert_array_equal(loaded.transform(source(frame.head(50))), scores)
    frame.head(50).to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_allclose(loaded.transform(tmp_path / "t.csv"), scores)


def test_in_a_pipeline(frame):
    step = PrivatePreprocessor(encode=ENCODE, unit="patient_id")
    pipeline = make_pipeline(step, PrivatePCA(2, **BUDGET, scale="private", random_state=1))
    scores = clone(pipeline).fit(frame).transform(frame)
    assert scores.shape == (len(frame), 2)
    direct = PrivatePCA(2, **BUDGET, scale="private", random_state=1).fit(source(frame))
    np.testing.assert_array_equal(scores, direct.transform(source(frame)))
    assert "levels=" not in repr(clone(step).set_params(drop=["age"]))


def test_covariances_of_categories(frame):
    found = PrivateCovariance(**BUDGET, scale="private", random_state=2).fit(source(frame))
    exact = np.corrcoef(frame["ward"] == "medicine", frame["age"])[0, 1]
    names = list(found.feature_names_in_)
    entry = names.index("ward=medicine"), names.index("age")
    assert abs(found.correlation_[entry] - exact) < 3 * found.correlation_noise_[entry] < 0.3
    assert found.release_.settings["encoding"]["seen"] == {"days_since": "2024-01-01"}


def test_groups_beside_a_frame(frame):
    rows = open_rows(frame, drop=["patient_id"], encode=ENCODE)
    by_groups = PrivatePCA(1, **BUDGET, random_state=3)
    by_groups.fit(rows, groups=frame["patient_id"])
    assert by_groups.levels_ == {"ward": ("medicine", "surgery")}
    assert by_groups.n_samples_ == 2000
    with pytest.raises(ValueError, match="one id for each row"):
        list(GroupedSource(rows, [1, 2]).levels_of("ward"))


def test_a_budget_without_a_delta_finds_no_levels(frame):
    for budget in ({"epsilon": 1.0}, {"rho": 0.1}):
        with pytest.raises(UnsupportedNotionError, match="state the levels"):
            PrivatePCA(2, **budget).fit(source(frame))


def test_what_costs_anything_else_is_refused_before_the_charge(frame, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-2)
    rows = open_rows(frame, encode=ENCODE, drop=["patient_id"])
    for mechanism in ("wishart", "gap-projector"):
        with pytest.raises(InvalidParameterError, match="state the levels"):
            PrivatePCA(2, epsilon=1.0, delta=1e-3, mechanism=mechanism, ledger=ledger).fit(rows)
    assert ledger.entries == ()


def test_a_ledger_that_cannot_cover_all_of_it_is_not_charged(frame, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=0.9, delta=1e-6, unit="person")
    with pytest.raises(Exception, match="epsilon"):
        PrivatePCA(2, **BUDGET, ledger=ledger).fit(source(frame))
    assert ledger.entries == ()


def test_nothing_to_find():
    table = pd.DataFrame({"ward": [f"ward {i}" for i in range(300)]})
    with pytest.raises(NothingFoundError, match="the share of the search is spent"):
        PrivatePCA(1, **BUDGET, random_state=0).fit(open_rows(table, encode={"ward": "private"}))
    table["age"] = np.random.default_rng(0).normal(50, 10, 300)
    rows = open_rows(table, encode={"ward": "private"})
    pca = PrivatePCA(1, **BUDGET, random_state=0).fit(rows)
    assert pca.levels_ == {"ward": ()}
    assert list(pca.feature_names_in_) == ["age"]


def test_a_regression_takes_stated_levels_alone(frame):
    rows = open_rows(frame, drop=["patient_id", "seen"], encode={"ward": "private", "sex": ["f"]})
    with pytest.raises(InvalidParameterError, match="state them"):
        PrivateRegression(**BUDGET).fit(rows, "age")
    encode = {"ward": ["medicine"], "sex": ["f"]}
    rows = open_rows(frame, drop=["patient_id", "seen"], encode=encode)
    found = PrivateRegression(epsilon=5.0, delta=1e-6, random_state=0).fit(rows, "age")
    effect = dict(zip(found.feature_names_in_, found.coef_, strict=True))["ward=medicine"]
    assert effect == pytest.approx(20.0, abs=3.0)  # seeded


def test_of_two_tables_that_differ_in_a_level_of_one_row_all_else_agrees():
    """A level that one row alone has is left out; everything that follows is the same."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"c": ["a", "b"] * 500, "x": rng.normal(0, 1, 1000)})
    other = table.copy()
    other.loc[0, "c"] = "only one"
    first, second = (
        PrivatePCA(1, **BUDGET, random_state=5).fit(open_rows(each, encode={"c": "private"}))
        for each in (table, other)
    )
    assert first.levels_ == second.levels_ == {"c": ("a", "b")}
