"""Numbers of a spiked model: what is released, charged and refused."""

import numpy as np
import pytest

from eigenveil import Ledger, PrivatePCA
from eigenveil.exceptions import (
    BoundsRequiredError,
    BudgetExceededError,
    InvalidParameterError,
    NothingFoundError,
)
from eigenveil.papers.spiked import PrivateSpikedModel, Spiked, draw_rows

NORM = 30.0  # beyond nearly all rows of the model


def rows(n=20_000, d=20, k=3, spike=10.0):
    return draw_rows(n, d, k, spike, np.random.default_rng(0))[0]


def fitted(table, **options):
    asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0} | options
    return PrivateSpikedModel(NORM, **asked).fit(table)


def test_rank_spikes_and_noise_variance():
    """Noise has a deviation of 0.3 on eigenvalues of 11, and 0.04 on the variance."""
    found = fitted(rows())
    assert found.rank_ == 3
    assert found.spike_ == pytest.approx(10, rel=0.1)
    assert found.noise_variance_ == pytest.approx(1, abs=0.2)
    assert found.spikes_.shape == (3,)
    assert found.privacy_.simulated
    model = found.model()
    assert (model.rank, model.noise_variance) == (3, found.noise_variance_)
    released = PrivatePCA(
        epsilon=1.0, delta=1e-6, mechanism=Spiked(model=model), centring="none", random_state=1
    ).fit(rows())
    assert released.components_.shape == (3, 20)


def test_it_pays_before_it_draws(tmp_path):
    ledger = Ledger.create(tmp_path / "x.ledger", epsilon=1.0, delta=1e-6)
    found = fitted(rows(2000), ledger=ledger, random_state=None)
    assert not found.privacy_.simulated
    assert [entry.label for entry in ledger.entries] == ["spiked model"]
    with pytest.raises(BudgetExceededError):
        fitted(rows(2000), ledger=ledger, random_state=None)
    assert len(ledger.entries) == 1
    with pytest.raises(InvalidParameterError, match="simulation"):
        fitted(rows(2000), ledger=ledger, random_state=3)


def test_nothing_stands_out_of_noise():
    found = fitted(np.random.default_rng(0).standard_normal((2000, 10)))
    assert (found.rank_, found.spike_, len(found.spikes_)) == (0, 0.0, 0)
    with pytest.raises(NothingFoundError, match="no spike stands out"):
        found.model()


def test_a_bound_is_required():
    with pytest.raises(BoundsRequiredError, match="row_norm"):
        PrivateSpikedModel(epsilon=1.0, delta=1e-6).fit(rows(100))
