r"""Ridge regression on a noisy Gram matrix, in stages, its penalty found by empirical Bayes.

Released are a Gram matrix :math:`\hat G = G + E`, as far as its noise could be taken off, and in
every stage a sum about the coefficients :math:`b` that are known by then,

.. math:: g = G(\beta - b) + e, \qquad \operatorname{var} e = s^2 I.

beta is the least-squares solution of the rows, its prior :math:`N(0, \omega I)`. Along eigenvectors
of :math:`\hat G`, of eigenvalues l, the first g has variance
:math:`(l^2 + c^2)\,\omega + \sigma^2 l + s^2`, where :math:`c^2 = (d + 1) s_E^2/2` is what noise of
scale :math:`s_E` on the matrix adds and :math:`\sigma^2 l` is sampling noise. The likelihood gives
omega: zero where nothing stands out. Then every stage is a step of Kalman's filter, coordinate by
coordinate,

.. math:: R = s^2 + c^2 \bar P + (\kappa l)^2 P, \qquad b \leftarrow b + \frac{l P}{l^2 P + R}\, g,
          \qquad P \leftarrow \frac{P R}{l^2 P + R},

with P the variance of what is left of beta - b, at first omega. Of residuals that are clipped g
has nothing: where their share is q, l is (1 - q) times the eigenvalue. That is exact for normal
rows; the last term of R allows for others.

Coefficients are drawn to zero, the more the larger they are; an interval about them would miss the
largest. So a second filter on the same sums has a wide prior, and intervals are about its
estimate w: with V the variance of beta - w, it sees :math:`g - l(w - b)` and expects
:math:`V + (w - b)^2` where R has P.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

_CLIPPED = 0.1  # kappa
_DOUBT = 3.0  # prior variance of intervals, over omega and the variance of the first stage
_TINY = 1e-6  # share of the largest eigenvalue that c is at least
_SMALLEST = 1e-200  # of a denominator
_BEYOND, _STEPS = 7.0, 61  # of the search for omega: beyond its range, in powers of e

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RidgeState:
    """Coefficients along eigenvectors of a Gram matrix, and what is left to doubt about them.

    Attributes
    ----------
    values, vectors : arrays
        Eigenpairs of the matrix.
    blur : float
        What noise on the matrix adds, c^2.
    along : array
        Coefficients.
    variance : array, optional
        P; None before the first stage.
    wide : array
        The estimate under a wide prior that intervals are about, w.
    doubt : array, optional
        Its variance, V; None before the first stage.

    """

    values: Vector
    vectors: Vector
    blur: float
    along: Vector
    wide: Vector
    variance: Vector | None = None
    doubt: Vector | None = None

    @classmethod
    def start(cls, gram: NDArray[np.float64], noise_scale: float) -> "RidgeState":
        """Return zero coefficients for a released matrix, a sum or a mean over rows."""
        values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, 0.0)
        least = (_TINY * values.max(initial=0.0)) ** 2 + _SMALLEST
        blur = max((values.size + 1) / 2 * noise_scale**2, float(least))
        return cls(values, vectors, blur, np.zeros(values.size), np.zeros(values.size))

    def updated(
        self,
        cross: NDArray[np.float64],
        *,
        noise_variance: float,
        sampling_variance: float,
        clipped: float = 0.0,
        shrinks: bool = True,
    ) -> "RidgeState":
        """Return what a stage makes of the coefficients.

        ``cross`` is g, ``noise_variance`` s^2, ``sampling_variance`` sigma^2 and ``clipped`` q
        above. Without ``shrinks`` the prior is wide: least squares.
        """
        whole, noise_variance = 1 - clipped, noise_variance / (1 - clipped) ** 2
        values, g = self.values, self.vectors.T @ cross / whole
        variance, doubt = self.variance, self.doubt
        if variance is None or doubt is None:
            noise = noise_variance + sampling_variance * values
            prior = _prior_variance(self._squares, g, noise)
            doubt = _DOUBT * (prior + noise_variance / self._squares)
            variance = np.full(values.size, prior)
            if not shrinks:
                variance = doubt + _BEYOND * g**2 / self._squares
        gain = self._gain(variance, variance, noise_variance)
        apart = self.wide - self.along
        wide_gain = self._gain(doubt, doubt + apart**2, noise_variance)
        return replace(
            self,
            along=self.along + gain * g,
            wide=self.wide + wide_gain * (g - values * apart),
            variance=(1 - gain * values) * variance,
            doubt=(1 - wide_gain * values) * doubt,
        )

    @property
    def _squares(self) -> Vector:
        return np.asarray(self.values**2 + self.blur)

    def _gain(self, variance: Vector, squares: Vector, noise_variance: float) -> Vector:
        """Return the weight of a sum, for coefficients that are off by these expected squares."""
        clipped = (_CLIPPED * self.values) ** 2 * squares
        left = noise_variance + self.blur * squares.mean() + clipped + _SMALLEST  # R
        return np.asarray(self.values * variance / (self.values**2 * variance + left))

    def coefficients(self, alpha: float = 0.0) -> Vector:
        """Return the coefficients; a penalty ``alpha`` is that of ridge regression."""
        shrink = self.values / (self.values + alpha + _SMALLEST)
        return np.asarray(self.vectors @ (shrink * self.along))

    def middle(self) -> Vector:
        """Return the coefficients that intervals are about."""
        return np.asarray(self.vectors @ self.wide)

    def noise(self) -> NDArray[np.float64]:
        """Return the covariance of what noise leaves of them."""
        doubt = np.zeros(self.values.size) if self.doubt is None else self.doubt
        return np.asarray((self.vectors * doubt) @ self.vectors.T)

    def sampling(self, variance: float) -> NDArray[np.float64]:
        """Return the covariance of what sampling leaves, for residuals of this variance."""
        inverse = self.values / self._squares
        return np.asarray((self.vectors * (variance * inverse)) @ self.vectors.T)


def _prior_variance(squares: Vector, along: Vector, noise: Vector) -> float:
    """Return the omega of the largest likelihood; zero where none is larger than without."""

    def loss(log_prior: float) -> float:
        total = squares * np.exp(log_prior) + noise
        return float(np.sum(np.log(total) + along**2 / total))

    if not (noise > 0).all():
        return float(np.mean(along**2 / squares))
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
