"""The sampler rounds the ideal law exactly: against a naive reference and by its law."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from eigenveil.exact import GAUSSIAN, LAPLACE, QUANTILE_ERROR, add_noise, grid_exponent, lattice
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics import FixedPoint, SimulationSource, SystemSource
from tests.statistics import scale_p_value, variance_p_value

LAWS = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])


def exact_quantile(law, u):
    """Of u in (0, 1/2), to 40 digits."""
    if law is GAUSSIAN:
        return mp.sqrt(2) * mp.erfinv(2 * u - 1)
    return mp.log(2 * u)


def exact_cdf(law, t):
    if law is GAUSSIAN:
        return mp.ncdf(t)
    return mp.exp(t) / 2 if t < 0 else 1 - mp.exp(-t) / 2


class Script:
    """Plays back given words, then fresh ones; remembers everything it handed out."""

    simulated = True

    def __init__(self, words):
        self.first = np.asarray(words, dtype=np.uint64)
        self.fresh = SimulationSource(77)
        self.extra = []

    def words(self, count):
        if self.first is not None:
            first, self.first = self.first, None
            assert first.size == count
            return first
        self.extra.append(self.fresh.words(count))
        return self.extra[-1]


def reference(law, word, extra, query, sigma, grid):
    """round((q + sigma Z) / g) in 90 digits, Z from all bits that were used."""
    bits, lower = 64, int(word) >> 1
    for piece in extra:
        lower, bits = lower << 64 | int(piece), bits + 64
    with mp.workdps(90):
        z = exact_quantile(law, (mp.mpf(lower) + mp.mpf("0.5")) / mp.mpf(2) ** bits)
        z = -z if int(word) & 1 else z
        return int(mp.nint((query + mp.mpf(sigma) * z) / mp.mpf(2) ** grid))


@LAWS
@pytest.mark.parametrize("sigma", [0.3, 6.9, 1000.0])
def test_draws_equal_the_naive_reference(law, sigma):
    words = SimulationSource(5).words(400)
    units = (SimulationSource(6).words(400) >> np.uint64(20)).astype(np.int64) - (1 << 43)
    query = FixedPoint(units, -36)
    grid = grid_exponent(sigma, -36)
    source = Script(words)
    got = add_noise(query, sigma, source, law=law, grid=grid).units
    assert not source.extra  # seed without a doubtful draw, so one word decides each
    for i in range(400):
        exact = mp.mpf(int(units[i])) / mp.mpf(2) ** 36
        assert got[i] == reference(law, words[i], [], exact, sigma, grid)


@LAWS
def test_doubtful_and_far_draws_are_refined(law):
    """Draws pushed next to a rounding boundary, and words at the ends of their range."""
    sigma, exponent = 1.7, -60
    grid = grid_exponent(sigma, exponent)
    shift = grid - exponent
    words = [int(w) for w in SimulationSource(8).words(40)] + [0, 1, 2, 3, 1 << 20, (1 << 44) + 1]
    for word in words:
        with mp.workdps(90):
            u = (mp.mpf(word >> 1) + mp.mpf("0.5")) / mp.mpf(2) ** 64
            z = exact_quantile(law, u) * (-1 if word & 1 else 1)
            # A query whose fraction puts q + sigma z within 2**-shift of a half-integer.
            y = mp.mpf(sigma) * z / mp.mpf(2) ** grid
            gap = mp.floor(y) + mp.mpf("0.5") - y
            units = int(mp.nint(gap * mp.mpf(2) ** shift)) % (1 << shift)
        source = Script([word])
        got = add_noise(
            FixedPoint(np.array([units]), exponent), sigma, source, law=law, grid=grid
        ).units[0]
        assert len(source.extra) == 1
        exact = mp.mpf(units) / mp.mpf(2) ** -exponent
        assert got == reference(law, word, source.extra[0], exact, sigma, grid)


@LAWS
def test_the_far_tail_is_always_refined(law):
    """There the resolution of a word is coarse, however far the result lies from a boundary."""
    for word in (0, 1, (1 << 30) + 1, (1 << 45) - 2):
        source = Script([word])
        add_noise(FixedPoint(np.array([0]), -36), 1.7, source, law=law, grid=-19)
        assert len(source.extra) == 1
    source = Script([1 << 50])
    add_noise(FixedPoint(np.array([0]), -36), 1.7, source, law=law, grid=-19)
    assert not source.extra


def test_undecided_draws_take_more_bits(monkeypatch):
    """When 256 bits cannot decide, more are drawn until they can."""
    calls = []
    original = lattice._round

    def stubborn(level, bits, *rest):
        calls.append(bits)
        if len(calls) < 3:
            raise lattice._TooCloseError
        return original(level, bits, *rest)

    monkeypatch.setattr(lattice, "_round", stubborn)
    lattice._decide(5, Fraction(1, 4), Fraction(3), GAUSSIAN, SimulationSource(0))
    assert calls == [256, 448, 640]


@LAWS
def test_vectorised_quantiles_keep_their_error_bound(law):
    """Tested at 800 points, not proven; the margin is 2**8."""
    with mp.workdps(40):
        exponents = np.linspace(-20, -1, 400)
        u = np.concatenate([2.0**exponents, 0.5 - 2.0 ** np.linspace(-50, -3, 400)])
        u = u[(u >= 2.0**-20) & (u < 0.5)]
        z = law.quantile(u)
        worst = max(
            abs(exact_quantile(law, mp.mpf(a)) - mp.mpf(b)) for a, b in zip(u, z, strict=True)
        )
    assert worst < QUANTILE_ERROR / 2**8


@LAWS
@pytest.mark.parametrize(
    "t", [Fraction(0), Fraction(-1, 3), Fraction(5), Fraction(-9), Fraction(31, 2)]
)
@pytest.mark.parametrize("bits", [256, 640])
def test_integer_distribution_functions(law, t, bits):
    with mp.workdps(250):
        exact = exact_cdf(law, mp.mpf(t.numerator) / t.denominator) * mp.mpf(2) ** bits
        assert abs(law.cdf(t, bits) - exact) <= 2


def test_the_far_normal_tail_is_zero_or_one():
    assert GAUSSIAN.cdf(Fraction(-100), 256) == 0
    assert GAUSSIAN.cdf(Fraction(100), 256) == 1 << 256


@pytest.mark.parametrize("units", [0, 123_456_789_012_345, -(1 << 57)])
def test_gaussian_law_accepts_the_right_scale_and_rejects_three_per_cent(units):
    """False alarm 1e-6 each way; at 100,000 draws a scale 3 % off is 13 standard errors out."""
    sigma, n = 2.3, 100_000
    query = FixedPoint(np.full(n, units), -36)
    noisy = add_noise(
        query, sigma, SimulationSource(11), law=GAUSSIAN, grid=grid_exponent(sigma, -36)
    )
    base = round(units * 2.0 ** (-36 - noisy.exponent))  # keeps the difference exact
    noise = (noisy.units - base) * 2.0**noisy.exponent
    assert variance_p_value(noise, sigma) > 1e-6
    assert variance_p_value(noise, 1.03 * sigma) < 1e-6
    assert variance_p_value(noise, 0.97 * sigma) < 1e-6
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6
    assert stats.kstest(noise / sigma + 0.03, "norm").pvalue < 1e-6


def test_laplace_law_accepts_the_right_scale_and_rejects_three_per_cent():
    sigma, n = 0.7, 100_000
    query = FixedPoint(np.zeros(n, dtype=np.int64), -36)
    grid = grid_exponent(sigma, -36)
    noise = add_noise(query, sigma, SimulationSource(12), law=LAPLACE, grid=grid).to_float()
    assert scale_p_value(noise, sigma) > 1e-6
    assert scale_p_value(noise, 1.03 * sigma) < 1e-6
    assert scale_p_value(noise, 0.97 * sigma) < 1e-6
    assert stats.kstest(noise / sigma, "laplace").pvalue > 1e-6


def test_float_noise_can_be_attacked_and_lattice_noise_cannot():
    """Low-order bits (Mironov 2012): near 0, fl(1 + x) is a multiple of 2**-53, fl(0 + x) is not.

    An output with finer bits proves that the query was 0 and not 1.
    """

    def proves_zero(outputs):
        return float(np.mean(np.ldexp(outputs, 53) % 1 != 0))

    sigma, n = 4.0, 200_000
    floats = np.random.default_rng(3).standard_normal(n) * sigma
    assert proves_zero(0.0 + floats) > 0.03
    assert proves_zero(1.0 + floats) == 0.0

    grid = grid_exponent(sigma, -36)
    for units in (0, 1 << 36):
        query = FixedPoint(np.full(n, units), -36)
        outputs = add_noise(query, sigma, SystemSource(), law=GAUSSIAN, grid=grid)
        assert outputs.exponent == grid  # the same public grid whatever the query
        assert proves_zero(outputs.to_float()) == 0.0


def test_the_grid_depends_on_public_numbers_only():
    assert grid_exponent(1.0, -36) == -19
    assert grid_exponent(6.9, -36) == -17
    assert grid_exponent(1e-9, -36) == -36  # never finer than the query
    assert math.ldexp(6.9, 17) > 2**19


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan])
def test_impossible_scales_are_refused(sigma):
    with pytest.raises(InvalidParameterError, match="noise scale"):
        grid_exponent(sigma, -36)


def test_noise_out_of_range_is_refused():
    query = FixedPoint(np.zeros(1, dtype=np.int64), -36)
    with pytest.raises(InvalidParameterError, match="too large or too small"):
        add_noise(query, 1e30, SystemSource(), law=GAUSSIAN, grid=grid_exponent(1e30, -36))
