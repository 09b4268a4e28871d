r"""Ridge regression on a noisy Gram matrix, its penalty found by empirical Bayes.

Released are a Gram matrix :math:`\hat G = G + E`, as far as its noise could be taken off, and

.. math:: g = G\beta + e, \qquad \operatorname{var} e = \sigma^2 G + s^2 I,

sampling noise first, privacy noise second. Under the prior :math:`\beta \sim N(0, \omega I)` the
coordinates of g along eigenvectors of :math:`\hat G`, of eigenvalues l, have variance
:math:`(l^2 + c^2)\,\omega + \sigma^2 l + s^2`, where :math:`c^2 = (d + 1) s_E^2/2` is what noise of
scale :math:`s_E` on the matrix adds. The likelihood of all of them gives omega, and

.. math:: \hat\beta_i = \frac{l_i \omega}{(l_i^2 + c^2)\,\omega + \sigma^2 l_i + s^2}\, g_i

is the best linear guess of :math:`\beta`: zero where nothing stands out from the noise. No
direction is divided by less than 2c, about the largest eigenvalue of E, so that steps towards a
solution, each from the residuals of the last, come nearer to it. A stated penalty alpha gives
:math:`g_i/(l_i + \alpha + c^2/l_i)`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["RidgeFit", "ridge"]

_TINY = 1e-6  # share of the largest eigenvalue that c is at least
_SMALLEST = 1e-300  # of a denominator
_BEYOND, _STEPS = 7.0, 61  # of the search for omega: beyond its range, in powers of e


@dataclass(frozen=True, slots=True, eq=False)
class RidgeFit:
    """Coefficients and what is left to doubt about them.

    Attributes
    ----------
    coefficients : array of shape (d,)
        Shrunk by the penalty.
    sampling, noise : arrays of shape (d, d)
        Covariances of the estimate without a penalty: what the rows and what the noise leave.

    """

    coefficients: NDArray[np.float64]
    sampling: NDArray[np.float64]
    noise: NDArray[np.float64]


def ridge(
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    *,
    residual_variance: float,
    noise_variance: float,
    gram_noise: float,
    alpha: float | None = None,
) -> RidgeFit:
    """Return the coefficients for ``gram`` and ``cross``, both sums or both means.

    ``residual_variance`` is sigma^2, ``noise_variance`` s^2 and ``gram_noise`` the scale of noise
    on ``gram``. ``alpha`` is a stated penalty; by default it is found.
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    along = vectors.T @ cross
    noise = residual_variance * values + noise_variance
    blur = (values.size + 1) / 2 * gram_noise**2
    squares = values**2 + max(blur, (_TINY * values.max(initial=0.0)) ** 2)
    if alpha is None:
        prior = _prior_variance(squares, along, noise)
        shrink = values * prior / (squares * prior + noise)
    else:
        shrink = values / (squares + alpha * values + _SMALLEST)
    inverse = values / (squares + _SMALLEST)
    return RidgeFit(
        coefficients=vectors @ (shrink * along),
        sampling=(vectors * (residual_variance * values * inverse**2)) @ vectors.T,
        noise=(vectors * (noise_variance * inverse**2)) @ vectors.T,
    )


def _prior_variance(
    squares: NDArray[np.float64], along: NDArray[np.float64], noise: NDArray[np.float64]
) -> float:
    """Return the omega of the largest likelihood; zero where none is larger than without."""

    def loss(log_prior: float) -> float:
        total = squares * np.exp(log_prior) + noise
        return float(np.sum(np.log(total) + along**2 / total))

    if not (squares > 0).all() or not (noise > 0).all():
        return 0.0
    # From where every coordinate is noise to where none is.
    low = float(np.log(np.min(noise / squares))) - _BEYOND
    high = float(np.log(np.max((noise + along**2) / squares))) + _BEYOND
    grid = np.linspace(low, high, _STEPS)
    losses = [loss(x) for x in grid]
    best = int(np.argmin(losses))
    if best == 0:
        return 0.0
    bounds = (grid[best - 1], grid[min(best + 1, _STEPS - 1)])
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
