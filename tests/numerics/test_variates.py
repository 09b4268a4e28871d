import numpy as np
from scipy import stats

from eigenveil.numerics import SimulationSource, normals, uniforms
from tests.statistics import variance_p_value


class Extreme:
    """Words at both ends of their range."""

    def words(self, count):
        return np.array([0, 2**64 - 1], dtype=np.uint64)


def test_uniforms_never_touch_the_ends():
    low, high = uniforms(Extreme(), 2)
    assert 0 < low < 2**-51
    assert 1 - 2**-51 < high < 1
    assert np.isfinite(normals(Extreme(), (2,))).all()


def test_the_laws():
    """False alarm 1e-6 each; a scale 2 % off lies 9 standard errors out at 200,000 draws."""
    u = uniforms(SimulationSource(1), 200_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert stats.kstest(u**1.02, "uniform").pvalue < 1e-6
    z = normals(SimulationSource(2), (400, 500))
    assert z.shape == (400, 500)
    assert variance_p_value(z, 1.0) > 1e-6
    assert variance_p_value(z, 1.02) < 1e-6
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
