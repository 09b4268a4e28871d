r"""Where the eigenvalues of a sample covariance of pure noise lie.

For n rows of d independent entries of variance 1 and aspect :math:`\gamma = d/n`, the non-zero
eigenvalues of :math:`X'X/n` follow the law of Marchenko and Pastur 1967,

.. math:: f(x) = \frac{\sqrt{(x - \gamma_-)(\gamma_+ - x)}}{2\pi x \min(1, \gamma)}, \qquad
          \gamma_\pm = (1 \pm \sqrt\gamma)^2.

With :math:`x = 1 + \gamma + 2\sqrt\gamma\cos\varphi` the mass above x is, for a = 1 + gamma and
b = 2 sqrt(gamma), a multiple of

.. math:: \int_0^\varphi \frac{\sin^2 t\,dt}{a + b\cos t} = \frac{a\varphi}{b^2}
          - \frac{\sin\varphi}{b}
          - \frac{2|1-\gamma|}{b^2}\arctan\Bigl(\frac{|1-\sqrt\gamma|}{1+\sqrt\gamma}
          \tan\frac\varphi2\Bigr).

The largest eigenvalue lies about :math:`\gamma_+` with Tracy-Widom fluctuations (Johnstone 2001).
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["highest", "upper_quantiles"]

_HALVINGS = 60
_TRACY_WIDOM = 2.02  # exceeded once in a hundred times


def upper_quantiles(levels: NDArray[np.float64], aspect: float) -> NDArray[np.float64]:
    """Return the points above which lies the mass ``levels``, in [0, 1], of the non-zero
    eigenvalues.
    """
    low = np.zeros_like(levels)
    high = np.full_like(levels, math.pi)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = _mass_above(middle, aspect) < levels
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(1 + aspect + 2 * math.sqrt(aspect) * np.cos((low + high) / 2))


def highest(d: int, rows: float) -> float:
    """Return what the largest eigenvalue of pure noise exceeds about once in a hundred times."""
    root_n, root_d = math.sqrt(rows), math.sqrt(d)
    spread = (root_n + root_d) * math.cbrt(1 / root_n + 1 / root_d)
    return ((root_n + root_d) ** 2 + _TRACY_WIDOM * spread) / rows


def _mass_above(phi: NDArray[np.float64], aspect: float) -> NDArray[np.float64]:
    a, b = 1 + aspect, 2 * math.sqrt(aspect)
    slope = abs(1 - math.sqrt(aspect)) / (1 + math.sqrt(aspect))
    turn = np.arctan2(slope * np.sin(phi / 2), np.cos(phi / 2))
    integral = (a * phi - 2 * abs(1 - aspect) * turn) / b**2 - np.sin(phi) / b
    return np.asarray(2 / math.pi * max(1.0, aspect) * integral)
