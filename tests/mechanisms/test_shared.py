"""One owner's share of a noisy sum. Seeded; error probabilities below 1e-6 each."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chi2

from eigenveil.exact import LARGEST_NORM, Bounded, Clip, norm_counts, second_moment, total
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.secure import NoiseShare, packed, unpacked
from eigenveil.numerics import FixedPoint, SimulationSource
from eigenveil.privacy import Adjacency, SharedNoise
from eigenveil.rows import ArraySource
from tests.conformance import case

ONE = Adjacency.REPLACE_ONE
ROWS = ArraySource(np.random.default_rng(0).normal(size=(40, 30)))


def _share(mu, sensitivity, columns, symmetric, honest=4):
    return NoiseShare(
        noise=SharedNoise.calibrated(
            mu, sensitivity=sensitivity, columns=columns, symmetric=symmetric, honest=honest
        )
    )


def _in_law(noise: np.ndarray, scale: float) -> bool:
    """Whether the variance is that of so many independent normals."""
    statistic = float(np.sum((noise / scale) ** 2))
    return chi2.ppf(5e-7, noise.size) < statistic < chi2.isf(5e-7, noise.size)


def test_members_of_a_sum_have_the_stated_variance_and_no_other():
    share = _share(0.5, math.sqrt(2), 30, symmetric=True)
    query = second_moment(ROWS, Clip(row_norm=5.0), ONE)
    source = SimulationSource(1)
    members = 6
    drawn = sum(share.perturb(query, source.bound_to(query.value.units)) for _ in range(members))
    grid = 2.0**share.noise.grid
    noise = unpacked(drawn, 30) * grid - members * query.value.to_float()
    deviation = share.noise.deviation(members)
    assert deviation == pytest.approx(math.sqrt(2) / 0.5 * math.sqrt(members / 4), rel=1e-6)
    upper = np.triu_indices(30, 1)
    scaled = np.concatenate([noise.diagonal(), math.sqrt(2) * noise[upper]])
    assert _in_law(scaled, deviation)
    # Shares of s instead of s/sqrt(t), the reverse, and off-diagonal ones that are too small.
    assert not _in_law(scaled, deviation * math.sqrt(4))
    assert not _in_law(scaled, deviation / math.sqrt(4))
    assert not _in_law(noise[upper], deviation)


def test_counts_are_shifted_to_the_grid():
    share = _share(2.0, math.sqrt(2), 2045, symmetric=False, honest=70)
    assert share.noise.scale < 0.1  # on the grid of whole counts, the proof would not hold
    query = norm_counts(ROWS, Clip(row_norm=LARGEST_NORM), ONE)
    units = share.perturb(query, SimulationSource(2))
    noise = units * 2.0**share.noise.grid - query.value.to_float()
    assert _in_law(noise, share.noise.scale)
    assert np.unique(units % (1 << 10)).size > 800  # whole counts would leave one remainder


def test_query_and_noise_are_rounded_together():
    # Where the query has finer digits than the grid, rounding it first would move the mean.
    share = NoiseShare(
        noise=SharedNoise(
            sensitivity=2.0, columns=30, symmetric=False, honest=1, scale=2.0**-2, grid=0
        )
    )
    query = total(ROWS, Clip(row_norm=5.0), ONE)
    value = replace(query.value, units=np.full(30, 1 << 17))  # one half
    query = replace(query, value=value)
    source = SimulationSource(3)
    drawn = np.concatenate(
        [share.perturb(query, source.bound_to(query.value.units)) for _ in range(40)]
    )
    assert set(np.unique(drawn)) <= {-1, 0, 1, 2}
    # Together half of 1200 become zero, within 5 deviations (5.7e-7); the query first, 95 %.
    assert abs(np.mean(drawn == 0) - 0.5) < 5 * 0.5 / math.sqrt(1200)


def _audited(share: NoiseShare, honest: int, change: float, seed: int) -> float:
    """The mu that a threshold on the sum of so many shares shows, of 100,000 runs on either side.

    Within .035 of the truth: five deviations of the two rates, 6e-7.
    """
    n = 100_000
    many = replace(share, noise=replace(share.noise, columns=n))
    source = SimulationSource(seed)
    exponent = share.noise.grid - 8

    def total(moved: float) -> np.ndarray:
        drawn = np.zeros(n)
        for owner in range(honest):
            units = np.full(n, round(moved * 2.0**-exponent) if owner == 0 else 0)
            query = Bounded(
                value=FixedPoint(units, exponent),
                sensitivities={"l2": share.noise.sensitivity},
                adjacency=ONE,
                unit=1.0,
                count=1,
                exact=True,
            )
            drawn += many.perturb(query, source.bound_to(units)) * 2.0**share.noise.grid
        return drawn

    threshold = change / 2
    power, alarm = np.mean(total(change) > threshold), np.mean(total(0.0) > threshold)
    return float(ndtri(power) - ndtri(alarm))


@pytest.mark.parametrize("honest", [1, 4])
def test_an_audit_of_the_honest_sum_shows_what_is_promised(honest):
    share = _share(0.8, 2.0, 1, symmetric=False, honest=4)
    found = _audited(share, honest, 2.0, seed=honest)
    assert abs(found - share.noise.mu(honest)) < 0.035
    wrong = NoiseShare(noise=replace(share.noise, scale=share.noise.scale / 2))  # s/t
    assert _audited(wrong, honest, 2.0, seed=honest) > share.noise.mu(honest) + 0.035


@pytest.mark.parametrize("change", [1.0, 1.5])
def test_an_audit_of_small_shares_stays_within_the_bound(change):
    noise = SharedNoise(sensitivity=change, columns=1, symmetric=False, honest=3, scale=0.5, grid=0)
    found = _audited(NoiseShare(noise=noise), 3, change, seed=7)
    assert found < noise.mu() + 0.035


def test_what_a_share_costs_with_others_and_alone():
    share = _share(0.3, 2.0, 30, symmetric=False, honest=9)
    assert share.cost().mu <= 0.3
    assert share.alone().mu == pytest.approx(0.9, rel=1e-6)


def test_a_query_of_another_size_or_sensitivity_is_refused():
    query = total(ROWS, Clip(row_norm=5.0), ONE)
    for share in (_share(1.0, 1.9, 30, symmetric=False), _share(1.0, 2.0, 31, symmetric=False)):
        with pytest.raises(InvalidParameterError, match="another query"):
            share.perturb(query, SimulationSource(4))


def test_a_triangle_is_packed_and_unpacked():
    matrix = np.arange(16).reshape(4, 4)
    matrix = matrix + matrix.T
    assert np.array_equal(unpacked(packed(matrix), 4), matrix)


def _alone(mechanism, rows, adjacency, gate):
    """What an owner sends who counts on nobody else."""
    share = gate.draw(mechanism, case.moment(rows, adjacency))
    return unpacked(share, rows.shape[1]) * 2.0**mechanism.noise.grid


CASES = [
    case.Case(
        "noise-share",
        lambda mu, d, k: _share(mu, math.sqrt(2), d, symmetric=True, honest=1),
        run=_alone,
        read=case.upper,
        adjacencies=(case.REPLACE,),
        proof="shared_noise",
    )
]
