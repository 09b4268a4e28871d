"""Stages of a release: decided from public numbers."""

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import EigenveilError
from eigenveil.numerics import captured_variance
from eigenveil.planning import Situation, free_centring, recommend
from eigenveil.privacy import Budget


@pytest.mark.parametrize(("d", "k"), [(2, 1), (5, 2)])
def test_a_pure_centre_is_not_sought_too_early(d, k):
    """At the threshold a located centre loses no more than pairs do; at half of it pairs are used.

    Means over 20 seeds of losses that differ by a factor of 1.2 to 10.
    """
    threshold = 1000 + 100 * d

    def lost(n, centring):
        losses = []
        for seed in range(20):
            rows = np.random.default_rng(seed).standard_normal((n, d)) / np.arange(1, d + 1) + 1
            fitted = PrivatePCA(
                k, epsilon=1.0, mechanism="wishart", centring=centring, random_state=seed
            ).fit(rows)
            losses.append(1 - captured_variance(fitted.components_, np.cov(rows.T)))
        return np.mean(losses)

    for n, better in ((threshold, "located"), (threshold // 2, "paired")):
        chosen = free_centring(Budget(epsilon=1.0), pure=True, n_rows=n, n_columns=d)
        assert chosen == better
        other = {"located": "paired", "paired": "located"}[better]
        assert lost(n, better) < 1.1 * lost(n, other)


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=1.0)])
def test_one_row_is_refused_by_planning_as_by_fitting(budget):
    """There is nothing to pair it with, which public numbers tell."""
    with pytest.raises(EigenveilError, match="two rows at least"):
        recommend(Situation(task="pca", n=1, d=3, k=1, budget=budget))
    with pytest.raises(EigenveilError, match="two rows at least"):
        PrivatePCA(1, **budget.as_dict()).fit(np.ones((1, 3)))
