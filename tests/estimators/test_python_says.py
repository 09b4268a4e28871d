"""Python says as much as the shell: warnings of weak promises, scales by name, releases shown."""

import warnings

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRegression, open_rows
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, WeakPromiseWarning
from eigenveil.privacy import Budget

ROWS = np.random.default_rng(0).normal(0, [1, 10, 100], (500, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"epsilon": 1.0, "delta": 0.01}, "delta = 0.01: with that probability"),
        ({"epsilon": 11.0, "delta": 1e-6}, "epsilon = 11: one person may make"),
    ],
)
def test_a_budget_that_hardly_promises_anything_is_warned_of(budget, words):
    for fit in (
        lambda: PrivatePCA(1, **budget, random_state=0).fit(ROWS),
        lambda: PrivateCovariance(**budget, random_state=0).fit(ROWS),
        lambda: PrivateRegression(**budget, random_state=0).fit(ROWS[:, :2], ROWS[:, 2]),
    ):
        with pytest.warns(WeakPromiseWarning, match=words):
            fit()


def test_an_ordinary_budget_is_not():
    assert Budget(epsilon=1.0, delta=1e-3).weaknesses(999) == []
    assert len(Budget(epsilon=1.0, delta=1e-3).weaknesses(1001)) == 1
    assert Budget(epsilon=10.0, delta=1e-3).weaknesses() == []
    assert Budget(rho=100.0).weaknesses(10) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivatePCA(1, epsilon=1.0, delta=1e-6, random_state=0).fit(ROWS)


def test_scales_by_name():
    stated = {"c": 100.0, "a": 1.0, "b": 10.0}
    asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    by_name = PrivatePCA(2, **asked, scale=stated).fit(FRAME)
    in_order = PrivatePCA(2, **asked, scale=[1.0, 10.0, 100.0]).fit(FRAME)
    np.testing.assert_array_equal(by_name.components_, in_order.components_)
    np.testing.assert_array_equal(by_name.scale_, [1.0, 10.0, 100.0])
    with pytest.raises(InvalidParameterError, match="scale leaves out b, c"):
        PrivatePCA(2, **asked, scale={"a": 1.0}).fit(FRAME)
    with pytest.raises(InvalidDataError, match="scale names 'd': choose from a, b, c"):
        PrivatePCA(2, **asked, scale=stated | {"d": 1.0}).fit(FRAME)
    with pytest.raises(InvalidParameterError, match="have no names"):
        PrivatePCA(2, **asked, scale=stated).fit(ROWS)
    with pytest.raises(InvalidParameterError, match="or by name"):
        PrivatePCA(2, **asked, scale=stated | {"a": 0.0}).fit(FRAME)


def test_a_category_has_one_scale():
    frame = FRAME.assign(ward=["x", "y"] * 250)
    rows = open_rows(frame, encode={"ward": "private"})
    stated = {"a": 1.0, "b": 10.0, "c": 100.0}
    asked = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0}
    assert PrivatePCA(2, **asked, scale=stated).fit(rows).scale_.tolist() == [1, 10, 100, 1, 1]
    pca = PrivatePCA(2, **asked, scale=stated | {"ward": 0.5}).fit(rows)
    assert pca.scale_.tolist() == [1, 10, 100, 0.5, 0.5]


def test_a_release_shows_itself():
    frame = FRAME.rename(columns={"a": "<b>&a"})
    pca = PrivatePCA(2, epsilon=1.0, delta=1e-6, random_state=0).fit(frame)
    shown = repr(pca.release_)
    assert shown.startswith("<Release: 2 principal components of 3 columns, by ")
    assert shown.endswith("; epsilon = 1, delta = 1e-06>")
    card = pca.release_._repr_html_()
    assert "2 principal components of 3 columns" in card
    assert "<b>" not in card
    assert "What is promised" in card
    covariance = PrivateCovariance(epsilon=1.0, delta=1e-6, scale="same", random_state=0)
    matrix = covariance.fit(frame).release_
    assert repr(matrix).startswith("<Release: covariance matrix of 3 columns, by ")
    assert "<details>" in matrix._repr_html_()
    line = PrivateRegression(epsilon=5.0, delta=1e-6, random_state=0).fit(ROWS[:, :2], ROWS[:, 2])
    assert "regression of 1 target on 2 columns" in repr(line.release_)


def test_the_fewest_components_that_hold_a_share_of_variance():
    rows = np.random.default_rng(1).normal(0, [10.0, 5.0, 1.0, 0.5], (4000, 4))
    asked = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
    whole = PrivatePCA(1 - 1e-9, **asked).fit(rows)
    together = np.cumsum(whole.explained_variance_ratio_)
    for share in (0.5, 0.95, 0.999):
        pca = PrivatePCA(share, **asked).fit(rows)
        k = int(np.argmax(together >= share)) + 1
        assert pca.n_components_ == k == len(pca.release_.arrays["components"])
        np.testing.assert_array_equal(pca.components_, whole.components_[:k])
        assert pca.explained_variance_ratio_.sum() >= share - 1e-9
        assert pca.privacy_.cost == whole.privacy_.cost
    assert PrivatePCA(0.95, **asked).fit(rows).n_components_ == 2
    with_variances = PrivatePCA(0.95, **asked, variances=True, mechanism="spherical").fit(rows)
    assert with_variances.transform(rows).shape == (4000, with_variances.n_components_)


@pytest.mark.parametrize("wrong", [0.0, 1.0, 1.5, -0.5, float("nan"), True, "all"])
def test_what_is_no_share_of_variance(wrong):
    with pytest.raises(InvalidParameterError, match="n_components must be"):
        PrivatePCA(wrong, epsilon=1.0, delta=1e-6, random_state=0).fit(ROWS)


def test_a_share_of_variance_needs_a_matrix():
    for mechanism in ("gap-projector", "exponential"):
        with pytest.raises(InvalidParameterError, match="depends on the number of components"):
            PrivatePCA(0.9, epsilon=1.0, delta=1e-6, mechanism=mechanism).fit(ROWS)
