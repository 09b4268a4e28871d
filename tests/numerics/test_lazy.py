"""One symmetric matrix, drawn as it is asked for."""

import math

import numpy as np
import pytest

from eigenveil.exact import LazyGaussian
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics import SimulationSource, normals
from tests.statistics import variance_p_value

D, SCALE = 6, 3.0


class Forgetful(LazyGaussian):
    """Planted fault: drops V(W'Q), what earlier answers say about this one."""

    def times(self, block):
        seen = self._seen[:, : self._asked]
        images = self._images[:, : self._asked].copy()
        answer = super().times(block)
        answer -= seen @ (images.T @ block)
        return answer


class Loud(LazyGaussian):
    """Planted fault: scale^2 instead of scale^2/2 off the blocks asked about."""

    def times(self, block):
        before = self._asked
        answer = super().times(block)
        seen = np.hstack([self._seen[:, :before], block])
        answer += (answer - seen @ (seen.T @ answer)) * (math.sqrt(2) - 1)
        self._images[:, before : self._asked] = answer
        return answer


class Lopsided(LazyGaussian):
    """Planted fault: N is not made symmetric."""

    def times(self, block):
        answer = super().times(block)
        square = normals(self._source, (block.shape[1],) * 2) * self._scale / 2
        return answer + block @ (square - square.T)


def whole(kind, seed):
    """The matrix behind the answers, asked about in blocks that follow from the answers."""
    lazy = kind(D, SCALE, SimulationSource(seed), columns=D)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((D, 2)))[0]
    images = lazy.times(basis)
    while basis.shape[1] < D:
        block = images[:, -2:]
        for _ in range(2):
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
        images = np.hstack([images, lazy.times(block)])
        basis = np.hstack([basis, block])
    return images @ basis.T


def law_p_value(kind):
    """The least over the diagonal and what lies above it, symmetric parts and asymmetry alike."""
    drawn = np.array([whole(kind, seed) for seed in range(1000)])
    above = np.triu_indices(D, 1)
    off = drawn[:, *above]
    asymmetry = np.abs(drawn - drawn.transpose(0, 2, 1)).max()
    levels = [
        variance_p_value(np.diagonal(drawn, axis1=1, axis2=2).ravel(), SCALE),
        variance_p_value(off.ravel(), SCALE / math.sqrt(2)),
        *(variance_p_value(drawn[:, i, i], SCALE) for i in range(D)),
        *(
            variance_p_value(drawn[:, i, j], SCALE / math.sqrt(2))
            for i, j in zip(*above, strict=True)
        ),
    ]
    return min(levels) if asymmetry < 1e-10 else 0.0


def test_answers_are_products_with_one_isotropic_matrix():
    """False alarm 23 x 1e-6."""
    assert law_p_value(LazyGaussian) > 1e-6


@pytest.mark.parametrize("fault", [Forgetful, Loud, Lopsided])
def test_wrong_conditional_laws_are_rejected(fault):
    assert law_p_value(fault) < 1e-6


def test_diagonal_entries_are_independent_of_those_off_it():
    """Entries of one matrix: 210 correlations of 1000 draws, each within 5 standard errors."""
    drawn = np.array([whole(LazyGaussian, seed)[np.triu_indices(D)] for seed in range(1000)])
    correlations = np.corrcoef(drawn.T)[np.triu_indices(D * (D + 1) // 2, 1)]
    assert np.abs(correlations).max() < 5 / math.sqrt(1000)


def test_the_trace_is_that_of_the_matrix():
    """False alarm 3 x 1e-6; leaving out the rest, or adding all d entries anew, is rejected."""
    traces, rests = [], []
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((D, 4)))[0]
    for seed in range(2000):
        lazy = LazyGaussian(D, SCALE, SimulationSource(seed), columns=4)
        known = np.trace(basis.T @ np.hstack([lazy.times(basis[:, :3]), lazy.times(basis[:, 3:])]))
        traces.append(lazy.trace())
        rests.append(traces[-1] - known)
        assert lazy.trace() == traces[-1]
    assert variance_p_value(np.array(traces), SCALE * math.sqrt(D)) > 1e-6
    assert variance_p_value(np.array(rests), SCALE * math.sqrt(D - 4)) > 1e-6
    assert variance_p_value(np.array(rests), SCALE * math.sqrt(D)) < 1e-6
    assert abs(np.corrcoef(np.array(traces) - np.array(rests), rests)[0, 1]) < 5 / math.sqrt(2000)


def test_a_trace_after_all_directions_is_known():
    lazy = LazyGaussian(3, 1.0, SimulationSource(0), columns=3)
    images = lazy.times(np.eye(3))
    assert lazy.trace() == pytest.approx(np.trace(images))


def test_what_cannot_be_asked():
    lazy = LazyGaussian(4, 1.0, SimulationSource(0), columns=2)
    lazy.times(np.eye(4)[:, :1])
    with pytest.raises(InvalidParameterError, match="no more columns"):
        lazy.times(np.eye(4)[:, 1:3])
    with pytest.raises(InvalidParameterError, match="no more columns"):
        lazy.times(np.eye(5)[:, 1:2])
    lazy.trace()
    with pytest.raises(InvalidParameterError, match="after the last product"):
        lazy.times(np.eye(4)[:, 1:2])
