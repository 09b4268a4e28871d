import math
from fractions import Fraction

import numpy as np
import pytest

from eigenveil.exact import GaussianLaw, add_symmetric_gaussian
from eigenveil.exact.symmetric import _over_sqrt_two
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics import (
    FixedPoint,
    SimulationSource,
    captured_variance,
    relative_error,
    subspace_distance,
    top_eigenpairs,
)
from tests.statistics import variance_p_value


def noise(d, scale, seed):
    zero = FixedPoint(np.zeros((d, d), dtype=np.int64), -36)
    return add_symmetric_gaussian(zero, scale, SimulationSource(seed)).to_float()


def test_diagonal_and_off_diagonal_scales():
    """False alarm 1e-6; 79,800 entries off the diagonal put 3 % at 12 standard errors."""
    z = noise(400, 3.0, 1)
    off = z[np.triu_indices(400, 1)]
    assert np.array_equal(z, z.T)
    assert variance_p_value(off, 3.0 / math.sqrt(2)) > 1e-6
    assert variance_p_value(off, 1.03 * 3.0 / math.sqrt(2)) < 1e-6
    diagonal = np.concatenate([np.diag(noise(400, 3.0, seed)) for seed in range(2, 52)])
    assert variance_p_value(diagonal, 3.0) > 1e-6
    assert variance_p_value(diagonal, 1.05 * 3.0) < 1e-6


def test_noise_is_invariant_under_rotation():
    """Along any symmetric direction of unit Frobenius norm the scale is the same."""
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    rotated = np.array([(q @ noise(6, 1.0, seed) @ q.T) for seed in range(4000)])
    for i in range(6):
        assert variance_p_value(rotated[:, i, i], 1.0) > 1e-6
        assert variance_p_value(rotated[:, i, i], 1.1) < 1e-6
    assert variance_p_value(rotated[:, 0, 1], math.sqrt(0.5)) > 1e-6
    assert variance_p_value(rotated[:, 0, 1], 1.1 * math.sqrt(0.5)) < 1e-6


def test_one_by_one():
    assert noise(1, 2.0, 3).shape == (1, 1)


def test_only_square_matrices():
    with pytest.raises(InvalidParameterError):
        add_symmetric_gaussian(
            FixedPoint(np.zeros((2, 3), np.int64), -36), 1.0, SimulationSource(0)
        )


def test_the_off_diagonal_scale_is_rounded_up():
    for scale in np.random.default_rng(0).uniform(1e-3, 1e3, 200).tolist():
        assert 2 * Fraction(_over_sqrt_two(scale)) ** 2 >= Fraction(scale) ** 2
        assert _over_sqrt_two(scale) == pytest.approx(scale / math.sqrt(2), rel=1e-15)


@pytest.mark.parametrize("d", [2, 20, 64])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.8, 1.0, 1.5, 6.0])
def test_noise_alone_rarely_exceeds_its_floor(d, ratio):
    """About 1 %, also where the error of the centre is near the radius of the noise.

    400 draws at 1 % exceed it more than 14 times with probability 1e-5.
    """
    rng = np.random.default_rng(d)
    centre_error = ratio * math.sqrt(d / 2)
    tops = []
    for seed in range(400):
        error = rng.standard_normal(d) * math.sqrt(centre_error / d)
        tops.append(np.linalg.eigvalsh(noise(d, 1.0, seed) + np.outer(error, error))[-1])
    floor = GaussianLaw(d, 1.0).floor(centre_error)
    assert np.sum(np.array(tops) > floor) <= 14
    assert floor < 1.3 * np.max(tops)  # and it is not set needlessly high


def test_top_eigenpairs_match_a_full_decomposition():
    rng = np.random.default_rng(4)
    a = rng.standard_normal((7, 7))
    a = a + a.T
    values, rows = top_eigenpairs(a, 3)
    assert values == pytest.approx(np.sort(np.linalg.eigvalsh(a))[::-1][:3])
    assert rows @ rows.T == pytest.approx(np.eye(3))
    assert a @ rows.T == pytest.approx(rows.T * values)
    assert all(row[np.argmax(np.abs(row))] > 0 for row in rows)
    assert top_eigenpairs(a, 7)[1].shape == (7, 7)


def test_metrics_on_known_answers():
    covariance = np.diag([4.0, 2.0, 1.0])
    assert captured_variance(np.eye(3)[:1], covariance) == pytest.approx(1.0)
    assert captured_variance(np.eye(3)[2:] * 5, covariance) == pytest.approx(0.25)
    assert relative_error(np.zeros((3, 3)), covariance) == pytest.approx(1.0)
    assert subspace_distance(np.eye(3)[:1], np.eye(3)[:1]) == pytest.approx(0.0, abs=1e-12)
    assert subspace_distance(np.eye(3)[:1], np.eye(3)[1:2]) == pytest.approx(math.sqrt(2))
