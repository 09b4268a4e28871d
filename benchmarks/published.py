"""Mechanisms as published: Dong, Liang, Yi 2022 for rows in the unit ball, Cai, Xia, Zha 2024, and
the baselines of Düngler, Sanyal [kPCA], Appendix F.

The noise is that of the papers: every entry on and above the diagonal has the same variance, and
released eigenvalues stay as they are. The text of the first is read with its misprints corrected:
sqrt(rho) n, bounds that are sums, and an l1 sensitivity of sqrt(2) d/n in Lemma 12.
"""

import math

import numpy as np

from eigenveil.numerics.tails import GAUSSIAN_TAILS

BETA = 0.1  # the paper does not say; accuracy bounds only
_HALVINGS = 199  # down to 1e-60; by then nothing is left to balance


def _symmetric(upper):
    return np.triu(upper) + np.triu(upper, 1).T


def published_gauss(truth, n, rho, rng):
    return truth + _symmetric(rng.standard_normal(truth.shape)) / (n * math.sqrt(rho))


def published_laplace(truth, n, epsilon, rng):
    scale = math.sqrt(2) * len(truth) / (n * epsilon)
    return truth + _symmetric(rng.laplace(size=truth.shape)) * scale


def published_separate(truth, n, rho, rng):
    """Algorithm 1: half of rho for the eigenvalues, half for the eigenvectors."""
    _, basis = np.linalg.eigh(published_gauss(truth, n, rho / 2, rng))
    values = np.linalg.eigvalsh(truth)
    values = values + rng.standard_normal(values.size) * math.sqrt(2 / rho) / n
    return (basis * values) @ basis.T


def published_separate_pure(truth, n, epsilon, rng):
    """Appendix I: half of epsilon each."""
    _, basis = np.linalg.eigh(published_laplace(truth, n, epsilon / 2, rng))
    values = np.linalg.eigvalsh(truth)
    values = values + rng.laplace(size=values.size) * 4 / (n * epsilon)
    return (basis * values) @ basis.T


def published_adaptive(norms, moment, rho, rng, *, tuned=False):
    """Algorithm 2 without its private radius, which the paper's experiments leave out too (r = 1).

    Shares of rho: 1/8 trace, 1/4 search, 1/2 matrix as printed; the 1/8 that the radius would have
    taken goes to the matrix, in favour of the published side. ``moment`` maps a threshold tau to
    the second moment of rows clipped at tau, in units of tau^2.

    The authors' program differs from their text. ``tuned`` has its changes: 1/8 search, 3/4 matrix,
    the bound on SeparateCov's eigenvectors divided by 6, released eigenvalues clipped to what is
    possible. Its errors are at or below those of the program.
    """
    search, final = (rho / 8, rho * 3 / 4) if tuned else (rho / 4, rho * 5 / 8)
    n, d = norms.size, len(moment(1.0))
    scale = 2 / (math.sqrt(rho) * n)
    trace = float(np.mean(norms**2)) + scale * rng.standard_normal()
    trace = min(1.0, max(0.0, trace + scale * math.sqrt(2 * math.log(8 / BETA))))

    def noise(tau):
        """GaussNoise and SeparateNoise of section 5.2 at half of beta."""
        unit = 1 / (math.sqrt(final) * n)
        gauss = tau**2 * unit * GAUSSIAN_TAILS.frobenius(d, BETA / 2)
        vectors = 2**1.25 * tau * np.sqrt(trace * unit * GAUSSIAN_TAILS.operator(d, BETA / 4))
        vectors = vectors / 6 if tuned else vectors
        values = math.sqrt(2) * tau**2 * unit * GAUSSIAN_TAILS.vector(d, BETA / 4)
        return gauss, vectors + values

    taus = 2.0 ** -np.arange(_HALVINGS)
    # Norms rounded up to powers of two; a norm that is one up to rounding stays.
    exponents, counts = np.unique(np.ceil(np.log2(norms[norms > 0]) - 1e-9), return_counts=True)
    sizes = np.exp2(np.minimum(0, exponents))
    bias = np.maximum(sizes**2 - taus[:, None] ** 2, 0) @ counts
    balance = bias - n * np.minimum(*noise(taus))
    epsilon = math.sqrt(2 * search)  # Algorithm 3
    above = balance + rng.laplace(scale=4 / epsilon, size=taus.size)
    first = np.flatnonzero(above >= rng.laplace(scale=2 / epsilon))
    tau = float(taus[max(0, (first[0] if first.size else taus.size) - 1)])
    gauss, separate = noise(tau)
    branch = published_gauss if separate >= gauss else published_separate
    released = branch(moment(tau), n, final, rng)
    if tuned:
        values, basis = np.linalg.eigh(released)
        released = (basis * values.clip(0, 1)) @ basis.T
    return released * tau**2


def classic(epsilon, delta):
    """Noise for a sensitivity of 1, as the papers calibrate it; valid for epsilon < 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def published_dp_gauss(truth, squared_norm, n, epsilon, delta, rng, *, replace=True):
    """DP-Gauss: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1, on rows within a norm.

    ``squared_norm`` is (k + 4 ln n) lambda + d sigma^2 in Cai, Xia, Zha 2024, section 6.1, who
    replace a row; without ``replace`` the sensitivity is that of Dwork et al., who remove one.
    """
    sensitivity = squared_norm * (math.sqrt(2) if replace else 1.0) / n
    return truth + _symmetric(rng.standard_normal(truth.shape)) * sensitivity * classic(
        epsilon, delta
    )


def published_dp_gauss_not_private(rows, epsilon, delta, rng):
    """DP-Gauss*: scaled by the largest norm of the table, which nothing hides."""
    largest = float(np.einsum("ij,ij->i", rows, rows).max())
    n = len(rows)
    return published_dp_gauss(rows.T @ rows / n, largest, n, epsilon, delta, rng)


def published_spiked(truth, k, sensitivity, epsilon, delta, rng):
    """Cai, Xia, Zha 2024, Algorithm 1, first release: (epsilon/2, delta/2). Rows of a basis."""
    basis = np.linalg.eigh(truth)[1][:, -k:]
    scale = sensitivity * classic(epsilon / 2, delta / 2)
    noisy = basis @ basis.T + _symmetric(rng.standard_normal(truth.shape)) * scale
    return np.linalg.eigh(noisy)[1][:, -k:].T


def published_dp_gauss_1(total, k, squared_norm, mu, rng):
    """[kPCA] App. F on the sum of matrices of trace up to ``squared_norm``; columns of a basis.

    Calibrated exactly, 1/mu for sqrt(2 ln(1.25/delta))/epsilon, but with the printed sensitivity,
    which is that of a record removed: sqrt(2) too small for one replaced.
    """
    noise = _symmetric(rng.standard_normal(total.shape)) * squared_norm / mu
    return np.linalg.eigh(total + noise)[1][:, -k:]


def published_dp_gauss_2_not_private(total, k, squared_norm, epsilon, delta, rng):
    """[kPCA] App. F as printed: a gap that is not positive is drawn again, which nothing hides.

    The noise on the gap does not know ``squared_norm`` either.
    """
    values, vectors = np.linalg.eigh(total)
    gap = 0.0
    while gap <= 0:
        gap = values[-k] - values[-k - 1] + rng.laplace(scale=2 / epsilon)
    margin = abs(gap - 2 * (1 + math.log(1 / delta) / epsilon))
    scale = squared_norm * (1 + math.sqrt(2 * math.log(1 / delta) / epsilon)) / margin
    basis = vectors[:, -k:]
    noisy = basis @ basis.T + _symmetric(rng.standard_normal(total.shape)) * scale
    return np.linalg.eigh(noisy)[1][:, -k:]


def published_power(total, k, bound, steps, mu, rng):
    """[kPCA] App. F with the noise of Nicolas et al. 2024: (beta alpha) times the longest row of X.

    ``bound`` is beta alpha: a record aa' within |a|_2 <= beta and |a|_1 <= alpha moves the product
    with X by no more than that times the longest row of X. Composed exactly over the ``steps``.
    """
    basis = np.linalg.qr(rng.standard_normal((len(total), k)))[0]
    for _ in range(steps):
        longest = np.sqrt(np.einsum("ij,ij->i", basis, basis).max())
        scale = bound * longest * math.sqrt(steps) / mu
        basis = np.linalg.qr(total @ basis + scale * rng.standard_normal(basis.shape))[0]
    return basis
