r"""Correlations of a noisy covariance: where they can be told from noise, and how well.

.. math:: r_{ij} = \frac{\tilde S_{ij}}{\sqrt{\tilde S_{ii} \tilde S_{jj}}}, \qquad
          \sigma(r_{ij}) \approx \sqrt{\frac{\sigma_i \sigma_j}{2\, \tilde S_{ii} \tilde S_{jj}}}

for noise of standard deviation :math:`\sigma_i` on a variance: noise that is the same in every
direction has half that variance off the diagonal. A variance that noise alone could have gives
correlations of any size, so there are none beside it.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["clear_variances", "correlation_noise", "correlation_noise_by_entry"]

_CLEAR = 2.0  # standard deviations of the noise that a variance has to exceed


def clear_variances(
    variances: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which variances can be told from noise of the given standard deviations."""
    return np.asarray((variances > 0) & (variances > _CLEAR * noise))


def correlation_noise(
    variances: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on every correlation, to first order.

    Zero on the diagonal, NaN beside a variance that cannot be told from noise.
    """
    clear = clear_variances(variances, noise)
    share = np.full(variances.size, np.nan)
    share[clear] = np.sqrt(noise[clear] / variances[clear])
    level: NDArray[np.float64] = np.outer(share, share) / np.sqrt(2)
    np.fill_diagonal(level, np.where(clear, 0.0, np.nan))
    return level


def correlation_noise_by_entry(
    covariance: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the same for noise of other standard deviations on every entry of a covariance.

    The noise on both variances counts too: it moves a correlation in proportion to its size.
    """
    variances, own = covariance.diagonal(), noise.diagonal()
    clear = clear_variances(variances, own)
    deviations = np.sqrt(np.where(clear, variances, np.nan))
    relative = np.where(clear, own, np.nan) / deviations**2
    correlation = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    level: NDArray[np.float64] = np.hypot(
        noise / np.outer(deviations, deviations),
        correlation / 2 * np.hypot(relative, relative[:, None]),
    )
    np.fill_diagonal(level, np.where(clear, 0.0, np.nan))
    return level
