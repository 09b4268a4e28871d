"""Two-sided tests of a law, with their error probability in the caller's hands."""

import numpy as np
from scipy import stats


def variance_p_value(sample, sigma):
    """Chi-square law of the sum of squares of centred normal draws.

    A Kolmogorov-Smirnov test is far weaker against a wrong scale.
    """
    level = stats.chi2(sample.size).cdf(np.sum((sample / sigma) ** 2))
    return 2 * min(level, 1 - level)


def scale_p_value(sample, scale):
    """The mean of |x| of Laplace draws is a Gamma variable."""
    level = stats.gamma(sample.size, scale=scale / sample.size).cdf(np.mean(np.abs(sample)))
    return 2 * min(level, 1 - level)
