r"""Exact rounding of an ideal Gaussian or Laplace law to a public power-of-two grid.

For a query q with exact binary entries the result is

.. math:: m = \operatorname{round}\bigl((q + \sigma Z) / g\bigr), \qquad g = 2^e,

with Z the ideal real-valued law: post-processing of the textbook mechanism, so the grid costs
no privacy and no low-order bit of a float can leak q (Mironov 2012). The grid depends on
sigma and on the public exponent of q only.

Sampling inverts the distribution function at a 64-bit uniform in floating point. A draw is
kept when the result is further from a rounding boundary than the error could reach; the rest,
about one in 100,000, and the far tails are decided with more random bits against the
distribution function in integer arithmetic. The error bound on the vectorised quantile
functions is tested against 40 digits (tests/numerics/test_lattice.py), not proven; its
margin is more than 2**8. Argument: docs/proofs/lattice.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.numerics.integers import FixedPoint, fitted, widened
from eigenveil.numerics.random import NoiseSource

_GRID_BITS = 20  # the grid is sigma * 2**-20 to sigma * 2**-19
_LARGEST_ON_UNIT_GRID = 2.0**23  # beyond it too many draws would be doubtful
_BLOCK = 1 << 15  # draws at a time: the work arrays stay in cache
_TAIL = 1 << 44  # words below this (u < 2**-20) are decided in high precision

# Error of a vectorised quantile for u in [2**-20, 1/2): finite u plus the function's own.
QUANTILE_ERROR = 2.0**-37


@dataclass(frozen=True, slots=True)
class Law:
    """A symmetric law on the line with unit scale."""

    quantile: Callable[[NDArray[np.float64]], NDArray[np.float64]]  # of u in (0, 1/2)
    cdf: Callable[[Fraction, int], int]  # times 2**bits, within 2 units


def grid_exponent(sigma: float, finest: int) -> int:
    """Exponent of the grid for noise of scale ``sigma`` on a query of exponent ``finest``."""
    if not (math.isfinite(sigma) and sigma > 0):
        raise InvalidParameterError("the noise scale must be positive and finite")
    return max(math.frexp(sigma)[1] - _GRID_BITS, finest)


def unit_grid(sigma: float, finest: int) -> int:
    """Exponent of a grid that divides 1, for arguments that shift an integer query by 1."""
    if sigma > _LARGEST_ON_UNIT_GRID:
        raise InvalidBudgetError("the budget is too small: its noise leaves the range of a search")
    return min(0, grid_exponent(sigma, finest))


def add_noise(
    query: FixedPoint, sigma: float, source: NoiseSource, *, law: Law, grid: int
) -> FixedPoint:
    """Add independent noise of scale ``sigma`` to every entry, rounded to ``2**grid``."""
    shift = grid - query.exponent
    if not 0 <= shift < 62:
        raise InvalidParameterError("the noise is too large or too small for exact numerics")
    units = widened(query.units.ravel(), 1)  # with room for the noise
    out = np.empty_like(units)
    ratio = math.ldexp(sigma, -grid)
    tolerance = 0.5 - ratio * QUANTILE_ERROR - 2.0**-28
    for start in range(0, units.size, _BLOCK):
        block = units[start : start + _BLOCK]
        words = source.words(block.size)
        magnitude = words >> np.uint64(1)
        u = (magnitude.astype(np.float64) + 0.5) * 2.0**-64
        z = law.quantile(u)
        np.copysign(z, (words & np.uint64(1)).astype(np.float64) - 0.5, out=z)
        z *= ratio
        whole = block >> shift
        z += (block - (whole << shift)).astype(np.float64) * 2.0**-shift
        rounded = np.rint(z)
        doubtful = (np.abs(z - rounded) > tolerance) | (magnitude < _TAIL)
        out[start : start + block.size] = whole + rounded.astype(np.int64)
        for i in np.flatnonzero(doubtful):
            fraction = Fraction(int(block[i] - (whole[i] << shift)), 1 << shift)
            decided = _decide(int(words[i]), fraction, Fraction(ratio), law, source)
            out[start + i] = int(whole[i]) + decided
    return FixedPoint(fitted(out.reshape(query.units.shape)), grid)


def _decide(word: int, fraction: Fraction, ratio: Fraction, law: Law, source: NoiseSource) -> int:
    """Round ``fraction + ratio * Z`` with Z given by ``word`` and as many more bits as needed."""
    positive, lower = word & 1, word >> 1  # the uniform u = lower * 2**-64 in (0, 1/2)
    bits = 64
    while True:
        extra = source.words(3)
        for piece in extra.tolist():
            lower = lower << 64 | piece
        bits += 192
        # Z lies below Phi^-1(v) for every v above [level, level + 1] * 2**-bits.
        level = (1 << bits) - 1 - lower if positive else lower
        try:
            return _round(level, bits, fraction, ratio, law)
        except _TooCloseError:
            continue  # probability about 2**-180


class _TooCloseError(Exception):
    pass


def _round(level: int, bits: int, fraction: Fraction, ratio: Fraction, law: Law) -> int:
    """Return the smallest integer m with Z < (m + 1/2 - fraction) / ratio."""

    def below(m: int) -> bool:
        boundary = law.cdf((m + Fraction(1, 2) - fraction) / ratio, bits)
        if level + 1 < boundary - 2:
            return True
        if level > boundary + 2:
            return False
        raise _TooCloseError

    reach = 1
    low, high = -1, 0
    while below(low):
        low, reach = low - reach, 2 * reach
    reach = 1
    while not below(high):
        high, reach = high + reach, 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


@lru_cache(maxsize=8)
def _inverse_sqrt_two_pi(bits: int) -> int:
    """2**bits / sqrt(2 pi), by Machin's formula."""
    scale = bits + 16

    def arctan_inverse(n: int) -> int:
        total, term, odd, sign = 0, (1 << scale) // n, 1, 1
        while term:
            total += sign * (term // odd)
            term //= n * n
            odd, sign = odd + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    # bits / sqrt(2 pi) = sqrt(2**(2 bits) / (2 pi))
    return math.isqrt((1 << (2 * bits + scale)) // (2 * pi))


def _normal_cdf(t: Fraction, bits: int) -> int:
    r"""Taylor series of Phi at zero: 1/2 + (2 pi)^{-1/2} sum (-1)^j t^{2j+1}/(2^j j! (2j+1))."""
    size = abs(t)
    if size * size > 4 * bits:  # the tail is below 2**-bits
        return 0 if t < 0 else 1 << bits
    # The largest term is about exp(t^2/2); guard bits pay for it and for the roundings.
    scale = bits + 48 + int(0.75 * float(size) ** 2)
    x = (size.numerator << scale) // size.denominator
    square = (x * x) >> scale
    term, total, j = x, 0, 0
    while term:
        total += (term if j % 2 == 0 else -term) // (2 * j + 1)
        j += 1
        term = ((term * square) >> scale) // (2 * j)
    mass = (total * _inverse_sqrt_two_pi(scale)) >> (2 * scale - bits)
    half = 1 << (bits - 1)
    return half - mass if t < 0 else half + mass


def _laplace_cdf(t: Fraction, bits: int) -> int:
    """exp(-|t|)/2 on the left, its mirror image on the right."""
    context = Context(prec=int(bits * 0.31) + 12, Emin=-(10**9), Emax=10**9)
    size = abs(t)
    exponent = context.divide(Decimal(-size.numerator), Decimal(size.denominator))
    tail = context.multiply(context.exp(exponent), Decimal(1 << (bits - 1)))
    mass = int(tail)
    return mass if t < 0 else (1 << bits) - mass


def _laplace_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(2 * u)


def _normal_quantile(u: NDArray[np.float64]) -> NDArray[Any]:
    return ndtri(u)  # type: ignore[no-any-return]


GAUSSIAN = Law(_normal_quantile, _normal_cdf)
LAPLACE = Law(_laplace_quantile, _laplace_cdf)
