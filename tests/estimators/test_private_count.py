"""A covariance in mixed units where the number of rows is private: rows are counted first."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivateCovariance, intervals, open_rows
from eigenveil.exceptions import (
    AlteredReleaseError,
    ColumnsLeftOutWarning,
    InvalidDataError,
    UnsupportedNotionError,
)
from eigenveil.planning import Situation, default_scale_share, recommend
from eigenveil.privacy import Budget, Ledger
from eigenveil.release import Release, check_consistency

UNITS = 10.0 ** np.arange(4)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ADD = {"adjacency": "add-remove"}


def table(n=6000, seed=0):
    mixed = np.linalg.cholesky(np.eye(4) + 0.4 * (1 - np.eye(4)))
    return np.random.default_rng(seed).standard_normal((n, 4)) @ mixed.T * UNITS + 5 * UNITS


def fitted(rows, **options):
    return PrivateCovariance(**BUDGET | ADD | options).fit(rows)


def error(found, rows):
    gap = (found.covariance_ - np.cov(rows.T)) / np.outer(UNITS, UNITS)
    return np.linalg.norm(gap)


@pytest.mark.parametrize(("n", "epsilon"), [(5000, 1.0), (20_000, 0.5), (5000, 4.0)])
def test_errors_are_near_those_of_a_public_count(n, epsilon):
    logs = []
    for adjacency in ("replace-one", "add-remove"):
        errors = []
        for seed in range(30):
            rows = table(n, seed)
            options = {"epsilon": epsilon, "adjacency": adjacency, "random_state": seed}
            errors.append(error(fitted(rows, **options), rows))
        logs.append(np.median(errors))
    assert logs[1] < 1.3 * logs[0]


def test_a_release_says_how_many_rows_it_used(tmp_path):
    found = fitted(table())
    assert 5500 < found.n_samples_ < 6000
    assert found.shares_["count"] == 0.02
    said = f"number of rows used, drawn at random: {found.n_samples_:,} "
    assert any(words.startswith(said) for words in found.privacy_.bounds)
    assert "the number of rows is private" in found.privacy_.sentence()
    settings = found.release_.settings
    assert settings["n_rows"] is None
    assert settings["drawn_rows"] == found.n_samples_
    assert found.release_.proofs == ("counted", "front", "elliptical")
    found.release_.save(tmp_path / "a.eigenveil")
    again = Release.load(tmp_path / "a.eigenveil")
    check_consistency(again)
    for wrong in ({"drawn_rows": 17}, {"n_rows": 6000}):
        altered = replace(again, settings=again.settings | wrong)
        with pytest.raises(AlteredReleaseError, match="the number of rows"):
            check_consistency(altered)


def test_intervals_use_the_number_of_drawn_rows():
    inside = []
    for seed in range(20):
        found = intervals(fitted(table(seed=seed)).release_, level=0.9)
        truth = UNITS**2
        inside.append((found.variances[:, 0] <= truth) & (truth <= found.variances[:, 1]))
    assert np.mean(inside) > 0.75


@pytest.mark.parametrize("on_missing", ["invalid", "centre"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 100, 700, 1500])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_nothing_is_lost_after_the_charge(tmp_path, n, on_missing):
    for name, rows in {
        "normal": table(n),
        "equal": np.full((n, 4), 7.0),
        "zeros": np.zeros((n, 4)),
        "huge": np.full((n, 4), 1.7e308),
        "one": np.repeat(np.eye(4), [n, 0, 0, 0], axis=0),
    }.items():
        ledger = Ledger.create(tmp_path / name, epsilon=9.0, delta=1e-4, **ADD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOutWarning)
            found = fitted(rows, ledger=ledger, on_missing=on_missing)
        assert np.isfinite(found.covariance_).all()
        assert [entry.failed for entry in ledger.entries] == [None]
        found.release_.save(tmp_path / f"{name}.eigenveil")
        check_consistency(Release.load(tmp_path / f"{name}.eigenveil"))


def test_a_count_that_is_too_small_is_said():
    with pytest.warns(ColumnsLeftOutWarning, match="noise hides the variance of x0, x1, x2, x3"):
        found = fitted(table(40))
    assert found.n_samples_ == 0
    assert not found.covariance_.any()
    assert np.isnan(found.location_).all()
    assert np.isnan(found.location_noise_).all()
    said = found.privacy_.sentence()
    assert "none, as a noisy count of the rows is too small" in said
    assert "the centre is private" not in said
    with pytest.raises(InvalidDataError, match="a noisy count of them was too small"):
        intervals(found.release_)


def test_a_page_says_how_many_rows_were_used():
    found = fitted(table())
    told = f"{found.n_samples_:,} rows drawn at random from a private number of rows"
    assert told in found.release_.page()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnsLeftOutWarning)
        page = fitted(table(40)).release_.page()
    assert "drawn at random from" not in page
    assert "The origin is the centre" not in page


def test_missing_cells_are_measured_on_drawn_rows():
    rows = table(8000)
    rows[np.random.default_rng(1).random(rows.shape) < 0.1] = np.nan
    found = fitted(rows, on_missing="centre", epsilon=2.0)
    assert found.release_.proofs == ("counted", "present", "front", "elliptical")
    assert found.shares_["pairs"] > 0
    assert found.covariance_.diagonal() == pytest.approx(UNITS**2, rel=0.2)


def test_columns_of_levels_come_with_numbers(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(table(), columns=list("abcd"))
    frame["level"] = rng.choice(["x", "y", "z"], len(frame))
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-4, **ADD)
    rows = open_rows(frame, encode={"level": "private"})
    found = fitted(rows, epsilon=3.0, ledger=ledger)
    assert found.n_samples_ > 5500
    assert found.covariance_.diagonal()[-1] == pytest.approx(2 / 9, rel=0.3)
    assert found.shares_["levels"] > 0


@pytest.mark.parametrize("rows", [np.full((900, 4), np.nan), np.insert(table(900), 3, np.inf, 0)])
def test_bad_rows_are_refused_before_the_charge(tmp_path, rows):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-4, **ADD)
    with pytest.raises(InvalidDataError):
        fitted(rows, ledger=ledger)
    assert ledger.entries == ()
    found = fitted(table(6000), ledger=ledger, on_invalid="zero")
    assert any("but are counted" in words for words in found.privacy_.bounds)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"centring": "none"}, "leave scale and centring out, or state scale='same'"),
        ({"delta": None}, "with epsilon alone, columns in mixed units"),
        ({"groups": True}, "need a public number of groups"),
    ],
    ids=str,
)
def test_what_is_not_counted_is_refused_before_the_charge(tmp_path, options, said):
    groups = np.arange(6000) // 2 if options.pop("groups", False) else None
    unit = {} if groups is None else {"unit": "person"}
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-4, **ADD, **unit)
    estimator = PrivateCovariance(**BUDGET | ADD | options, ledger=ledger)
    with pytest.raises(UnsupportedNotionError, match="need a public number of") as caught:
        estimator.fit(table(), groups=groups)
    assert said in str(caught.value)
    assert "adjacency='replace-one'" in str(caught.value)
    assert ledger.entries == ()


def test_a_promise_says_that_rows_are_counted():
    promised = PrivateCovariance(**BUDGET, **ADD).promise(table())
    assert "as many rows used, drawn at random, as a noisy count allows" in promised.bounds
    assert promised.cost == fitted(table()).privacy_.cost


def situation(n):
    budget = Budget(**BUDGET)
    return Situation(task="covariance", n=n, d=4, budget=budget, **ADD)


def test_a_plan_predicts_a_release_of_drawn_rows():
    planned = recommend(situation(6000))
    assert planned.mechanism == "elliptical"
    shares = dict(planned.prediction.shares)
    assert shares.keys() == fitted(table()).shares_.keys()
    assert default_scale_share(situation(6000), "elliptical") == pytest.approx(shares["scale"])
    assert 0 < planned.prediction.error < 0.1
    assert recommend(situation(100)).prediction.error > 0.9


def test_settings_are_json():
    assert json.dumps(fitted(table()).release_.settings)
