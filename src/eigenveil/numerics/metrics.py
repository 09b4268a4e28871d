"""How far an estimate is from the truth. These read the truth: for public data and tests."""

import numpy as np
from numpy.typing import NDArray


def captured_variance(components: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
    """Return the variance in the span of ``components`` (rows) as a share of the best."""
    basis, _ = np.linalg.qr(components.T)
    best = np.sort(np.linalg.eigvalsh(covariance))[-components.shape[0] :].sum()
    return float(np.trace(basis.T @ covariance @ basis) / best)


def relative_error(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the Frobenius distance over the norm of the truth; the zero matrix scores 1."""
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def subspace_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the Frobenius distance between the projectors on two row spaces."""
    a, _ = np.linalg.qr(first.T)
    b, _ = np.linalg.qr(second.T)
    return float(np.linalg.norm(a @ a.T - b @ b.T))
