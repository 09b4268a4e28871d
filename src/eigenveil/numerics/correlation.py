r"""Correlations of a noisy covariance: where they can be told from noise, and how well.

.. math:: r_{jk} = \frac{\tilde S_{jk}}{\sqrt{\tilde S_{jj} \tilde S_{kk}}}, \qquad
          \sigma^2(r_{jk}) \approx \frac{\sigma_{jk}^2}{\tilde S_{jj} \tilde S_{kk}}
          + \frac{r_{jk}^2}{4} \Bigl(\frac{\sigma_{jj}^2}{\tilde S_{jj}^2}
          + \frac{\sigma_{kk}^2}{\tilde S_{kk}^2}\Bigr)

for independent noise of standard deviation :math:`\sigma_{jk}` on the entries. A variance that
noise alone could have gives correlations of any size, so there are none beside it.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["clear_variances", "correlation_noise", "entry_noise"]

_CLEAR = 2.0  # standard deviations of the noise that a variance has to exceed


def entry_noise(of_variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise of all entries from that of the variances.

    Noise that is the same in every direction has half the variance off the diagonal.
    """
    noise: NDArray[np.float64] = np.sqrt(np.outer(of_variances, of_variances) / 2)
    np.fill_diagonal(noise, of_variances)
    return noise


def clear_variances(
    variances: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which variances can be told from noise of the given standard deviations."""
    return np.asarray((variances > 0) & (variances > _CLEAR * noise))


def correlation_noise(
    covariance: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on every correlation, to first order.

    ``noise`` is that of every entry. Zero on the diagonal, NaN beside a variance that cannot be
    told from noise.
    """
    variances = covariance.diagonal()
    clear = clear_variances(variances, noise.diagonal())
    with np.errstate(all="ignore"):
        deviations = np.sqrt(np.where(clear, variances, np.nan))
        share = np.square(noise.diagonal() / deviations**2)
        r = np.clip(covariance / deviations / deviations[:, None], -1.0, 1.0)
        of_entry = np.square(noise / deviations / deviations[:, None])
        level: NDArray[np.float64] = np.sqrt(of_entry + r**2 / 4 * (share + share[:, None]))
    np.fill_diagonal(level, np.where(clear, 0.0, np.nan))
    return level
