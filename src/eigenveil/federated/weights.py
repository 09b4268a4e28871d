r"""How much each owner counts: inverse squared errors, from the numbers that it declares.

The server minimises the error of :math:`\sum_j w_j U_j U_j'`, whose terms are independent, by
weights proportional to :math:`\psi_j^{-2}`, psi_j the error of owner j alone. All of them come from
declared numbers (records, budget, mechanism) and assumptions; none from records.

Source: Li, Cai, Xia, Zhang 2024 [Fed], Theorems 1 and 2.

.. math:: \psi_j = \sqrt{d/n_j} + \frac{d}{n_j \epsilon_j} \sqrt{(k + \ln n_j) \ln(2.5/\delta_j)}

`predicted` is for mechanisms that add noise to a second moment. To first order, noise E on the
second moment of rows with eigenvalues l_i (of sum 1, in units of the squared length of a typical
row) loses the variance

.. math:: \psi^2 = \sum_{i \le k < j} \frac{v_{ij}}{l_i - l_j}, \qquad
          v_{ij} = \frac{l_i l_j}{n} + \frac{1}{(n \mu)^2 t^2}

v the variance of an entry beside the diagonal: that of a sample of normal rows, and half of the
s^2 = 2/(n mu)^2 of GaussCov, on rows whose mean square is t of the squared bound they obey. The
eigenvalues are assumed to decay as 1/j, as the planner assumes where nothing is known. What an
owner spends on a centre is left out: it is the same share for all, but for owners of so few records
that differences of pairs are taken instead, who count up to four times too much.

Differences from the source
---------------------------
1. The formula printed after Theorem 1 lacks the inverse square, which the theorem has: with it an
   owner would count the more, the less it knows.
2. `predicted` and `predicted_values` are not in the source.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.registry import ComponentMechanism, entries
from eigenveil.planning.request import Situation
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian

_ROUNDING = 1e-9

_FAR, _LEAST = 10.0, 1e-200  # times the median noise; of a weight

# The t of each. Where rows have a few directions above a flat rest, 'tangent' does better than
# this; where eigenvalues decay it is 'spherical'.
MECHANISMS = {
    one.name: one.typical_length
    for one in entries("components")
    if isinstance(one, ComponentMechanism) and one.typical_length is not None
}
_BALL = MECHANISMS["analyze-gauss"]


def equal(m: int) -> NDArray[np.float64]:
    """Return the same weight for every owner."""
    if m < 1:
        raise InvalidParameterError("weights need at least one owner")
    return np.full(m, 1 / m)


def printed(
    n: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, d: int, k: int
) -> NDArray[np.float64]:
    """Return weights of bases, [Fed] Theorem 1: any signal and noise variance give the same.

    Parameters
    ----------
    n, epsilon, delta : array-like of shape (m,)
        Records and whole budget of each owner.
    d, k : int
        Columns and components.

    """
    n, epsilon, delta = _owners(n, epsilon, delta)
    privacy = np.sqrt((k + np.log(n)) * np.log(2.5 / delta))
    return _shares((np.sqrt(d / n) + d / (n * epsilon) * privacy) ** -2)


def printed_values(
    n: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    d: int,
    k: int,
    *,
    spike: float,
    noise_variance: float,
) -> NDArray[np.float64]:
    """Return weights of k x k matrices, [Fed] Theorem 2; ``spike`` is its lambda."""
    n, epsilon, delta = _owners(n, epsilon, delta)
    size = (spike * (k + np.log(n))) ** 2 + (noise_variance * d) ** 2
    noise = 8 * np.log(2.5 / delta) * size / (epsilon * n) ** 2
    return _shares(1 / ((spike**2 + noise_variance**2) / n + noise))


def predicted(
    n: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    d: int,
    k: int,
    mechanism: str | Sequence[str] = "spherical",
    *,
    share: ArrayLike = 0.5,
) -> NDArray[np.float64]:
    """Return weights of bases, from the error that each owner's worst-case mechanism should have.

    Parameters
    ----------
    n, epsilon, delta, d, k
        As in `printed`.
    mechanism : str or sequence of str
        That of all owners, or of each: a key of `MECHANISMS`.
    share : float or array-like of shape (m,)
        Of mu^2, which buys the bases.

    """
    n, epsilon, delta = _owners(n, epsilon, delta)
    names = [mechanism] * n.size if isinstance(mechanism, str) else list(mechanism)
    if len(names) != n.size or not set(names) <= MECHANISMS.keys():
        known = ", ".join(map(repr, MECHANISMS))
        raise InvalidParameterError(f"the mechanism of each owner must be one of: {known}")
    sampling, noise = _lost(d, k)
    length = np.array([MECHANISMS[name] for name in names])
    return _shares(1 / (sampling / n + noise / (n * length * _mu(epsilon, delta, share)) ** 2))


def predicted_values(
    n: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    k: int,
    *,
    share: ArrayLike = 0.5,
    unit_rows: bool = False,
) -> NDArray[np.float64]:
    """Return weights of k x k matrices from GaussCov on projected rows, from its squared Frobenius
    error.

    ``share`` of mu^2 buys the matrices. Eigenvalues are assumed to decay as 1/j, and rows to have
    the length that the planner assumes where a bound is stated.
    """
    n, epsilon, delta = _owners(n, epsilon, delta)
    values = _decaying(k)
    length = 1.0 if unit_rows else _BALL
    sampling = length**2 * (1 + float(values @ values))  # normal rows: tr(L)^2 + tr(L^2)
    noise = k * (k + 1)  # s^2 = 2/(n mu)^2 on the diagonal, half of it on k (k - 1) others
    return _shares(1 / (sampling / n + noise / (n * _mu(epsilon, delta, share)) ** 2))


def sound(noise_scale: ArrayLike) -> NDArray[np.float64]:
    """Return what is left of a weight where an answer has far more noise than others have.

    A private search for the length of rows may miss it by any factor, about once in a thousand
    times, and the noise with it. The median of what is stated decides what is far; nobody gains by
    stating less.
    """
    scale = np.asarray(noise_scale, dtype=np.float64)
    most = _FAR * np.sort(scale)[(scale.size - 1) // 2]
    with np.errstate(all="ignore"):
        return np.where(scale > most, np.maximum((most / scale) ** 2, _LEAST), 1.0)


def capped(weights: ArrayLike, most: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return weights of sum 1 of which none exceeds ``most``, of all or of each, and which ones
    were cut.

    What is cut goes to the others in proportion, as far as the caps allow. Where there are too few
    owners for that, all who count count the same.
    """
    shares = _shares(np.array(weights, dtype=np.float64))
    most = np.broadcast_to(np.asarray(most, dtype=np.float64), shares.shape)
    if not ((most > 0) & (most <= 1)).all():
        raise InvalidParameterError("the largest weight must lie between 0 and 1")
    counting = np.count_nonzero(shares)
    if most[shares > 0].sum() <= 1 + _ROUNDING:
        return np.where(shares > 0, 1 / counting, 0.0), shares > 1 / counting
    cut = shares > most
    full = cut.copy()
    while full.any():
        shares[full] = most[full]
        shares[~full] *= (1 - most[full].sum()) / shares[~full].sum()
        over = shares > most  # lifted above it by what others lost
        if not (over & ~full).any():
            break
        full |= over
    return shares, cut


def _owners(
    n: ArrayLike, epsilon: ArrayLike, delta: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return one number of each kind for every owner."""
    arrays = [np.atleast_1d(np.asarray(array, dtype=np.float64)) for array in (n, epsilon, delta)]
    records, budgets, failures = np.broadcast_arrays(*arrays)
    if records.ndim != 1 or not records.size:
        raise InvalidParameterError("give records, epsilon and delta of at least one owner")
    if not (np.isfinite(records).all() and (records >= 1).all()):
        raise InvalidParameterError("every owner must have at least one record")
    if not (np.isfinite(budgets).all() and (budgets > 0).all()):
        raise InvalidParameterError("every owner's epsilon must be positive and finite")
    if not ((failures > 0) & (failures < 1)).all():
        raise InvalidParameterError("every owner's delta must lie between 0 and 1")
    return records, budgets, failures


def _shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    if weights.ndim != 1 or not weights.size:
        raise InvalidParameterError("weights need at least one owner")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidParameterError("weights must be finite, none negative, and some positive")
    return np.asarray(weights / weights.sum())


def _mu(
    epsilon: NDArray[np.float64], delta: NDArray[np.float64], share: ArrayLike
) -> NDArray[np.float64]:
    """Return what a share of each owner's budget buys."""
    shares = np.broadcast_to(np.asarray(share, dtype=np.float64), epsilon.shape)
    if not ((shares > 0) & (shares <= 1)).all():
        raise InvalidParameterError("every owner's share must lie above 0 and be at most 1")
    whole = [_strength(e, p) for e, p in zip(epsilon.tolist(), delta.tolist(), strict=True)]
    return np.sqrt(shares) * whole


@lru_cache(maxsize=4096)
def _strength(epsilon: float, delta: float) -> float:
    return strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "gauss")


def _decaying(d: int) -> NDArray[np.float64]:
    """Return the spectrum that the planner assumes, of sum 1."""
    return Situation(task="covariance", n=None, d=d, budget=Budget(rho=1.0)).eigenvalues


@lru_cache(maxsize=64)
def _lost(d: int, k: int) -> tuple[float, float]:
    """Lost variance for each row's sampling, and for noise of variance 1 on each entry."""
    if not 1 <= k <= d:
        raise InvalidParameterError("k must lie between 1 and the number of columns")
    if k == d:
        return 1.0, 0.0  # nothing can be lost: records count
    values = _decaying(d)
    sampling = noise = 0.0
    for leading in values[:k]:
        gaps = leading - values[k:]
        sampling += float(np.sum(leading * values[k:] / gaps))
        noise += float(np.sum(1 / gaps))
    return sampling, noise
