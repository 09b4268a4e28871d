"""Tables of few rows, whose means are known up to whole turns: what is said, and what is kept."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivateRegression, Release, intervals
from eigenveil.exceptions import InvalidDataError, WholeTurnsWarning
from eigenveil.release import mahalanobis

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "random_state": 0}


def table(n=340):
    rng = np.random.default_rng(1)
    mixing = np.linalg.cholesky(0.5 + 0.5 * np.eye(5))
    return rng.standard_normal((n, 5)) @ mixing.T + [0.0, 5.0, -3.0, 1.0, 2000.0]


def test_means_that_may_be_off_by_turns_have_no_error_and_no_interval(tmp_path):
    rows = table()
    with pytest.warns(WholeTurnsWarning, match="up to multiples of a number only"):
        fitted = PrivateCovariance(**BUDGET).fit(rows)
    assert np.isinf(fitted.location_noise_).all()
    turns = (fitted.location_ - rows.mean(axis=0)) / fitted.turn_
    assert np.abs(turns - np.round(turns)).max() < 0.02  # off by whole ones alone
    assert np.round(turns[4]) != 0
    ends = intervals(fitted.release_)
    assert np.isinf(ends.means).all()
    assert np.isfinite(ends.variances).all()
    # Distances do not depend on whole turns, and a released mean is refused.
    known = np.linalg.inv(np.cov(rows.T))
    centred = rows - rows.mean(axis=0)
    expected = np.einsum("ij,jk,ik->i", centred, known, centred)
    assert np.median(fitted.mahalanobis(rows) / expected) == pytest.approx(1.0, abs=0.4)
    with pytest.raises(InvalidDataError, match="up to multiples of its turns only"):
        mahalanobis(fitted.release_, rows)
    fitted.release_.save(tmp_path / "r")
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "a mean is known up to multiples of the number after" in page


def test_rows_that_were_moved_by_whole_turns_are_no_changed_ones():
    """The last column lies beyond the longest circle of so few rows: all of it is moved."""
    with pytest.warns(WholeTurnsWarning):
        fitted = PrivateCovariance(**BUDGET).fit(table())
    assert fitted.changed_share_ < 0.1 + 4 * fitted.changed_share_noise_
    assert any("which do not count as changes" in one for one in fitted.privacy_.bounds)


def test_a_regression_on_few_rows_is_saved(tmp_path):
    """Nothing bounds the intercept; slopes have intervals, and the release is read again."""
    rows = table(1000)
    model = PrivateRegression(epsilon=1.0, delta=1e-6, random_state=0).fit(rows[:, :4], rows[:, 4])
    assert np.isinf(model.intercept_interval_).all()
    assert np.isfinite(model.coef_interval_).all()
    folder = model.release_.save(tmp_path / "r")
    assert np.array_equal(
        Release.verify(folder).arrays["interval"], model.release_.arrays["interval"]
    )


def test_a_variance_that_noise_hides_within_wide_ranges_is_zero():
    rows = np.exp(2.5 * np.random.default_rng(2).standard_normal((1000, 6)))
    fitted = PrivateCovariance(
        epsilon=0.5, delta=1e-6, bounds=(np.zeros(6), rows.max(axis=0)), random_state=0
    )
    with pytest.warns(UserWarning, match="noise hides the variance of"):
        fitted.fit(rows)
    hidden = [f"x{j}" for j in np.flatnonzero(fitted.covariance_.diagonal() == 0)]
    assert any("hides are zero" in one and hidden[0] in one for one in fitted.privacy_.bounds)
    truth = np.cov(rows.T, bias=True)
    units = np.sqrt(np.outer(truth.diagonal(), truth.diagonal()))
    assert np.linalg.norm(fitted.covariance_ / units) < 1.5 * np.linalg.norm(truth / units)
