from dataclasses import replace

import pytest

from eigenveil.exceptions import InvalidParameterError
from eigenveil.planning import Situation, reference, spiked
from eigenveil.privacy import Budget

PCA = Situation(
    task="pca", n=10_000, d=100, k=4, budget=Budget(epsilon=0.5, delta=1e-6), spectrum=spiked(4, 25)
)
MATRIX = replace(PCA, task="covariance", k=None, row_norm=1.0)


def test_rates_of_components():
    spikes, stochastic, tangent = reference(PCA)
    psi = 1 / 25 + 1 / 5
    assert spikes.sampling == pytest.approx(psi * (4 * 100 / 10_000) ** 0.5)
    assert spikes.privacy == pytest.approx(psi * 100 * 4 / (10_000 * 0.5))
    assert spikes.value == spikes.sampling + spikes.privacy
    assert spikes.optimal
    # l_1/(l_k - l_{k+1}) = 26/25; with the tangent step sqrt(26)/25.
    assert stochastic.privacy == pytest.approx(26 / 25 * 100 * 4 / 5000)
    assert tangent.value / stochastic.value == pytest.approx(26**-0.5)


def test_slopes():
    """Privacy falls with n, sampling with its root; only privacy minds epsilon."""
    before, after = reference(PCA)[0], reference(replace(PCA, n=40_000))[0]
    assert before.privacy / after.privacy == pytest.approx(4)
    assert before.sampling / after.sampling == pytest.approx(2)
    richer = reference(replace(PCA, budget=Budget(epsilon=1.0, delta=1e-6)))[0]
    assert before.privacy / richer.privacy == pytest.approx(2)
    assert before.sampling == richer.sampling


def test_rates_of_matrices():
    spikes, general = reference(MATRIX)
    assert spikes.optimal
    assert general.sampling == 0
    # Large tables are in the branch d/n, small ones in that of the trace, which falls slower.
    large, small = (
        reference(replace(MATRIX, n=n))[1].value / reference(replace(MATRIX, n=10 * n))[1].value
        for n in (10**7, 10**3)
    )
    assert large == pytest.approx(10)
    assert 10**0.5 < small < 5


def test_only_what_speaks_about_a_situation_is_drawn():
    assert reference(replace(PCA, spectrum="flat")) == ()  # no gap, no spikes
    assert len(reference(replace(PCA, spectrum="decaying"))) == 2
    assert len(reference(replace(MATRIX, spectrum="flat", budget=Budget(rho=0.1)))) == 1
    with pytest.raises(InvalidParameterError, match="rows"):
        reference(replace(PCA, n=None))
