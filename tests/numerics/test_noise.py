"""What a spike shows in noise of a known law, and how much of its direction is left."""

import math

import numpy as np
import pytest

from eigenveil.exact import GaussianLaw, WishartLaw, two_sided_wishart
from eigenveil.numerics import SimulationSource, normals

LAWS = pytest.mark.parametrize(
    "law", [GaussianLaw(150, 0.3), WishartLaw(150, 2.0)], ids=["gaussian", "wishart"]
)


def draw(law, source):
    if isinstance(law, WishartLaw):
        return two_sided_wishart(law.d, law.c, source)
    square = normals(source, (law.d, law.d)) * law.scale
    return (square + square.T) / 2


@pytest.mark.parametrize("times", [1.01, 1.5, 4.0, 1e6])
def test_a_semicircle_has_closed_forms(times):
    """r = sqrt(d/2) scale: a spike t > r shows at t + r^2/t with the overlap 1 - (r/t)^2."""
    law = GaussianLaw(50, 0.2)
    r = math.sqrt(50 / 2) * 0.2
    spike = times * r
    assert law.overlap(spike) == pytest.approx(1 - (r / spike) ** 2, abs=1e-12)
    found, overlap = law.signal(spike + r**2 / spike)
    assert found == pytest.approx(spike, rel=1e-6)
    assert overlap == pytest.approx(1 - (r / spike) ** 2, abs=1e-5)


@LAWS
@pytest.mark.parametrize("times", [1.001, 1.2, 3.0, 100.0])
def test_signal_inverts_what_a_spike_shows(law, times):
    spike = times / law.critical
    shift, slope, _ = law.r_transform(1 / spike)
    found, overlap = law.signal(spike + shift)
    assert found == pytest.approx(spike, rel=1e-6)
    assert overlap == pytest.approx(1 - slope / spike**2, abs=1e-4)
    assert 0 < overlap < 1


@LAWS
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_nothing_is_left_below_the_edge(law, size):
    """Not at the edge as it rounds either, on any scale."""
    law = law.scaled(size)
    for times in (-1.0, 0.0, 0.5, 1.0, math.inf, math.nan):
        assert law.signal(times * law.edge) == (0.0, 0.0)
    for times in (-1.0, 0.0, 0.5, 1.0, math.nan):
        assert law.overlap(times / law.critical) == 0.0
    for factor in np.linspace(0.5, 2.0, 200).tolist():
        near = law.scaled(factor)
        assert near.signal(math.nextafter(near.edge, math.inf))[1] < 1e-3
        assert near.signal(near.edge * (1 + 1e-9))[1] < 1e-3


@LAWS
@pytest.mark.parametrize("times", [1.5, 3.0])
def test_overlaps_are_those_of_drawn_noise(law, times):
    """Five standard errors and 0.02 for d = 150; without the g^2 R' of the law, or with twice
    as much of it, the mean would be further off.
    """
    spike, source = times / law.critical, SimulationSource(1)
    squares = []
    for _ in range(40):
        noisy = draw(law, source)
        noisy[0, 0] += spike
        squares.append(np.linalg.eigh(noisy)[1][0, -1] ** 2)
    mean, tolerance = np.mean(squares), 5 * np.std(squares) / math.sqrt(40) + 0.02
    assert abs(mean - law.overlap(spike)) < tolerance
    if times == 1.5:  # where it matters
        assert abs(mean - 1) > tolerance
        assert abs(mean - max(0.0, 2 * law.overlap(spike) - 1)) > tolerance
