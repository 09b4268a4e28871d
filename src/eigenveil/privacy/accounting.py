r"""Compose costs, convert between notions, split a budget.

Gaussian steps compose exactly: :math:`\mu^2 = \sum \mu_i^2`. A pure step is dominated by
randomised response, whose privacy loss is :math:`\pm\epsilon_0` with probabilities
:math:`p, 1-p`, :math:`p = e^{\epsilon_0}/(1 + e^{\epsilon_0})`, so Gaussian and pure steps
together have

.. math:: \delta(\epsilon) = \sum_\ell P(\ell)\, \delta_\mu(\epsilon - \ell)

over the summed losses :math:`\ell` of the pure steps: exact, not a bound. Approximate steps
add their delta. Costs known only as zCDP compose in rho and convert by Canonne, Kamath,
Steinke (2020). Proofs: docs/proofs/accounting.md.

Every public number is rounded towards privacy: a delta or an epsilon up, a mu to spend down.

The composition holds for steps chosen one after the other as long as the *costs* of later
steps do not depend on earlier outputs. Gaussian steps may, as long as squares of mu add up to no
more than a number fixed beforehand. A ledger, whose charges may depend on them, counts by
`filters`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp
from scipy.stats import binom

from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy.budget import Budget, stated
from eigenveil.privacy.cost import ZCDP, Allotment, Approx, Composed, Cost, Gaussian, Pure

# Relative error allowed for the floating-point Gaussian curve. Measured against 60 digits it
# stays below 1e-12; every delta this module reports is inflated by the larger figure.
CURVE_ERROR = 1e-11
# Distinct sums of pure losses enumerated exactly before they are rounded up to a grid.
_MAX_LOSSES = 1 << 14
_LOSS_ERROR = 1e-13  # relative, of a sum of losses and of its difference from an epsilon
_DOMINATION_ERROR = 1e-11  # relative, of the mu that covers a pure step
_ZERO = Fraction(0)
_LEAST = 5e-324  # a delta whose logarithm is a number
_FAR = 1e-11  # relative distance from a crossing beyond which the curve is sure
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""Return the curve :math:`\Phi(-\epsilon/\mu + \mu/2) - e^\epsilon \Phi(-\epsilon/\mu -
    \mu/2)`.

    Written with Mills' ratio M, since :math:`e^\epsilon\varphi(x_2) = \varphi(x_1)` for
    :math:`x_{1,2} = \epsilon/\mu \mp \mu/2`: the curve is
    :math:`\varphi(x_1)(M(x_1) - M(x_2))`, and for small mu, where that difference cancels,
    :math:`\varphi(x_1) \int_{x_1}^{x_2} (1 - x M(x))\,dx`.
    """
    if epsilon < 0:  # delta(-e) = 1 - exp(-e) (1 - delta(e)) for a symmetric pair
        return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu, -epsilon)
    if mu == 0:
        return 0.0
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-low * low / 2) / math.sqrt(2 * math.pi)
    if density == 0.0 and low > 0:
        return 0.0
    if mu < 0.5:
        x = (low + high) / 2 + mu / 2 * _NODES
        integrand = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return density * mu / 2 * float(_WEIGHTS @ integrand)
    if low > 0:
        return density * (_mills(low) - _mills(high))
    return float(ndtr(-low)) - density * _mills(high)


def gaussian_mu(epsilon: float) -> float:
    r"""Return the smallest mu whose Gaussian cost covers a pure step:
    :math:`2\Phi^{-1}(1/(1+e^{-\epsilon}))`.

    Where a total has Gaussian parts only, a pure step can be paid from them.
    """
    if epsilon < 1:  # the same number, without losing the digits of a small one
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * (1 + _DOMINATION_ERROR)


def gaussian_epsilon(mu: float) -> float:
    """Epsilon of a pure step that ``mu`` covers, the largest to ten digits."""
    if mu < 1:
        epsilon = 2 * math.atanh(math.erf(mu / (2 * math.sqrt(2))))
    else:
        epsilon = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return epsilon * (1 - 4 * _DOMINATION_ERROR)


class Parts(NamedTuple):
    """A composed cost in normal form; sums are exact rationals."""

    mu_squared: Fraction
    pure: tuple[float, ...]
    rho: Fraction
    delta: Fraction

    @property
    def mu(self) -> float:
        """Return that of the Gaussian steps together, rounded up."""
        return sqrt_up(self.mu_squared)

    @property
    def covered(self) -> Fraction:
        """Return mu^2 of Gaussian steps and of those that cover the pure ones."""
        return self.mu_squared + _sum(Fraction(gaussian_mu(e)) ** 2 for e in self.pure)

    @property
    def concentrated(self) -> Fraction:
        """Return rho of all steps: mu^2/2 of Gaussian ones, epsilon^2/2 of pure ones."""
        return self.rho + (self.mu_squared + _sum(Fraction(e) ** 2 for e in self.pure)) / 2


@lru_cache(maxsize=1024)  # a fit asks for the same few again and again
def parts_of(cost: Cost) -> Parts:
    """Return a cost in normal form."""
    match cost:
        case Gaussian(mu):
            return Parts(Fraction(mu) ** 2, (), _ZERO, _ZERO)
        case Pure(epsilon):
            return Parts(_ZERO, (epsilon,), _ZERO, _ZERO)
        case ZCDP(rho):
            return Parts(_ZERO, (), Fraction(rho), _ZERO)
        case Approx(epsilon, delta):
            return Parts(_ZERO, (epsilon,), _ZERO, Fraction(delta))
        case Composed(parts):
            each = [parts_of(part) for part in parts]
            return Parts(
                _sum(p.mu_squared for p in each),
                tuple(sorted(e for p in each for e in p.pure if e > 0)),
                _sum(p.rho for p in each),
                _sum(p.delta for p in each),
            )
    raise InvalidParameterError("not a privacy cost this accountant knows")


def _sum(values: Iterable[Fraction]) -> Fraction:
    """Return the exact sum; most terms are zero, and rationals are slow to add."""
    return sum((value for value in values if value is not _ZERO), _ZERO)


def round_up(value: Fraction) -> float:
    """Return the smallest float that is not below an exact number."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sqrt_up(square: Fraction) -> float:
    """Return the root of an exact number, rounded up."""
    lift = 600 if square < Fraction(1, 1 << 900) else 0  # keeps the float away from underflow
    root = math.ldexp(math.sqrt(float(square * (1 << 2 * lift))), -lift)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def compose(*costs: Cost) -> Cost:
    """Return the cost of several steps on the same records; of Gaussians, one Gaussian."""
    leaves = [leaf for cost in costs for leaf in _leaves(cost)]
    gaussian = [leaf for leaf in leaves if isinstance(leaf, Gaussian)]
    rest: list[Cost] = [leaf for leaf in leaves if not isinstance(leaf, Gaussian)]
    if len(gaussian) == 1:
        rest.insert(0, gaussian[0])
    elif gaussian:
        rest.insert(0, Gaussian(parts_of(Composed(tuple(gaussian))).mu))
    return rest[0] if len(rest) == 1 else Composed(tuple(rest))


def for_group(cost: Cost, records: int) -> Cost:
    """Return what a cost is where neighbours differ in so many records (docs/proofs/accounting.md).

    A mu and a pure epsilon grow in proportion, a rho with the square.
    """
    match cost:
        case Gaussian(mu):
            return Gaussian(round_up(records * Fraction(mu)))
        case Pure(epsilon):
            return Pure(round_up(records * Fraction(epsilon)))
        case ZCDP(rho):
            return ZCDP(round_up(records**2 * Fraction(rho)))
        case Composed(parts):
            return Composed(tuple(for_group(part, records) for part in parts))
    raise UnsupportedNotionError("an approximate cost is not known for several records at once")


def _leaves(cost: Cost) -> list[Cost]:
    if isinstance(cost, Composed):
        return [leaf for part in cost.parts for leaf in _leaves(part)]
    return [cost]


def _pure_losses(pure: Sequence[float]) -> dict[float, float]:
    """Law of the summed losses of the randomised responses that dominate the pure steps."""
    counts: Counter[float] = Counter(pure)
    step = 1.0
    if math.prod(count + 1 for count in counts.values()) > _MAX_LOSSES:
        # Rounding every epsilon up to a grid keeps domination and makes sums coincide.
        step = math.fsum(pure) / _MAX_LOSSES
        counts = Counter(float(math.ceil(epsilon / step)) for epsilon in pure)
    law = {0.0: 1.0}
    for units, count in counts.items():
        likely = 1 / (1 + math.exp(-units * step))
        chances = _binomial(count, likely)
        following: defaultdict[float, float] = defaultdict(float)
        for loss, probability in law.items():
            for positive, chance in enumerate(chances):
                following[loss + (2 * positive - count) * units] += probability * chance
        law = following
    return {loss * step: probability for loss, probability in law.items()}


@lru_cache(maxsize=64)  # searches change other parts and ask for the same
def _binomial(count: int, likely: float) -> tuple[float, ...]:
    return tuple(binom.pmf(np.arange(count + 1), count, likely).tolist())


def _zcdp_delta(rho: float, epsilon: float) -> float:
    """Canonne, Kamath, Steinke 2020, Proposition 7; any order alpha gives a valid bound."""
    if epsilon <= rho:
        return 1.0

    def log_delta(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1 + excess
        return excess * (alpha * rho - epsilon) - log_excess + alpha * math.log1p(-1 / alpha)

    start = math.log(max((epsilon - rho) / (2 * rho), 1e-6))
    best = minimize_scalar(log_delta, bounds=(start - 8, start + 8), method="bounded")
    return min(1.0, math.exp(min(0.0, float(best.fun))))


def delta_of(cost: Cost, epsilon: float) -> float:
    """Return the smallest delta this accountant can vouch for at ``epsilon``; never too small."""
    return _curve(cost)(epsilon)


def _curve(cost: Cost) -> Callable[[float], float]:
    """Return `delta_of` as a function of epsilon; what epsilon does not change is computed once."""
    parts = parts_of(cost)
    mu = parts.mu
    pure_sum = sum(map(Fraction, parts.pure), _ZERO)
    beside_pure = parts.rho + parts.mu_squared / 2

    def found(epsilon: float) -> float:
        if parts.rho:
            return min(
                _zcdp_delta(round_up(parts.concentrated), epsilon),
                _zcdp_delta(round_up(beside_pure), epsilon - math.fsum(parts.pure)),
            )
        if not parts.pure:
            return gaussian_delta(mu, epsilon)
        if mu == 0 and pure_sum <= Fraction(epsilon):
            return 0.0
        # Losses are sums of floats: a lower epsilon pays for their rounding.
        lower = epsilon - _LOSS_ERROR * (epsilon + math.fsum(parts.pure))
        return math.fsum(
            probability * gaussian_delta(mu, lower - loss)
            for loss, probability in _pure_losses(parts.pure).items()
            if mu > 0 or loss > lower
        )

    def curve(epsilon: float) -> float:
        delta = found(epsilon)
        if delta:
            delta *= 1 + CURVE_ERROR
        return min(1.0, round_up(Fraction(delta) + parts.delta) if parts.delta else delta)

    return curve


def epsilon_of(cost: Cost, delta: float) -> float:
    """Return the smallest epsilon this accountant can vouch for at ``delta``, or infinity."""
    curve = _curve(cost)
    if curve(0.0) <= delta:
        return 0.0
    parts = parts_of(cost)
    if delta == 0 or parts.delta >= delta:
        pure_only = not (parts.mu_squared or parts.rho or parts.delta > delta)
        return round_up(sum(map(Fraction, parts.pure), Fraction(0))) if pure_only else math.inf
    enough = 1.0
    while curve(enough) > delta:
        enough *= 2
    short = 0.0 if enough == 1.0 else enough / 2
    crossing = _crossing(curve, delta, short, enough)
    found = _bisected(curve, delta, short, enough, crossing)
    return found if curve(found) <= delta else _bisected(curve, delta, short, enough, None)


def _crossing(
    curve: Callable[[float], float], delta: float, short: float, enough: float
) -> float | None:
    """Return about where a curve falls below ``delta``; None where that is not plain."""

    def excess(epsilon: float) -> float:
        return math.log(max(curve(epsilon), _LEAST)) - math.log(delta)

    if not excess(short) > 0 > excess(enough):
        return None
    return float(brentq(excess, short, enough, xtol=1e-300, rtol=1e-14))


def _bisected(
    curve: Callable[[float], float],
    delta: float,
    short: float,
    enough: float,
    crossing: float | None,
) -> float:
    """Return the end of a bisection; far from the crossing the curve need not be asked."""
    while True:
        middle = (short + enough) / 2
        if not short < middle < enough or enough - short <= 1e-15 * enough:
            return enough
        if crossing is not None and abs(middle - crossing) > _FAR * crossing:
            holds = middle > crossing
        else:
            holds = curve(middle) <= delta
        if holds:
            enough = middle
        else:
            short = middle


def rho_of(cost: Cost) -> float:
    """Return the cost in zCDP: mu^2/2 for Gaussian steps, epsilon^2/2 for pure ones."""
    parts = parts_of(cost)
    if parts.delta:
        raise UnsupportedNotionError(
            "an approximate (epsilon, delta) cost has no rho: account for it with epsilon and delta"
        )
    return round_up(parts.concentrated)


def fits(cost: Cost, budget: Budget) -> bool:
    """Return whether ``cost`` is within ``budget``."""
    spent, allowed = against(cost, budget)
    return spent <= allowed


def against(cost: Cost, budget: Budget) -> tuple[float, float]:
    """Return what a cost comes to and what a budget allows, both in delta, in epsilon or in rho."""
    if budget.rho is not None:
        return rho_of(cost), budget.rho
    assert budget.epsilon is not None  # a Budget has rho or epsilon
    if budget.delta is None:
        return epsilon_of(cost, 0.0), budget.epsilon
    return delta_of(cost, budget.epsilon), budget.delta


def covers(total: Cost, spent: Cost) -> bool:
    """Return whether ``spent`` is part by part within ``total``: what an allotment may still pay
    for.
    """
    whole, used = parts_of(total), parts_of(spent)
    slots = sorted(whole.pure, reverse=True)
    wanted = sorted((epsilon for epsilon in used.pure if epsilon > 0), reverse=True)
    return (
        used.mu_squared <= whole.mu_squared
        and used.rho <= whole.rho
        and used.delta <= whole.delta
        and len(wanted) <= len(slots)
        and all(epsilon <= slot for epsilon, slot in zip(wanted, slots, strict=False))
    )


def native(cost: Cost) -> str:
    """Return the exact parameter behind an (epsilon, delta) figure, for people."""
    if isinstance(cost, Composed):
        counts = Counter(native(part) for part in cost.parts)
        words = (text if n == 1 else f"{n} times {text}" for text, n in counts.items())
        return " with ".join(words) or "nothing"
    match cost:
        case Gaussian(mu):
            return f"mu = {stated(mu)} (Gaussian differential privacy)"
        case Pure(epsilon):
            return f"epsilon = {stated(epsilon)} (pure)"
        case ZCDP(rho):
            return f"rho = {stated(rho)} (zero-concentrated)"
        case Approx(epsilon, delta):
            return f"epsilon = {stated(epsilon)}, delta = {stated(delta)} (approximate)"


def part(whole: Allotment, share: float) -> Allotment:
    """Return what a step may spend; steps whose shares add to at most 1 compose to no more."""
    down = 1 - 2**-40 if share < 1 else 1.0
    if isinstance(whole, Pure):
        return Pure(whole.epsilon * share * down)
    return Gaussian(whole.mu * math.sqrt(share) * down)


def split(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Give each step its share of mu^2, so that the steps compose to at most ``mu``."""
    if not shares or any(not 0 < share <= 1 for share in shares) or math.fsum(shares) > 1 + 1e-12:
        raise InvalidParameterError("shares of a budget must be positive and add to at most 1")
    steps = tuple(mu * math.sqrt(share) * (1 - 2**-40) for share in shares)
    if sum(Fraction(step) ** 2 for step in steps) > Fraction(mu) ** 2:
        raise InvalidParameterError("shares of a budget must add to at most 1")
    return steps
