r"""Rivals of Düngler, Sanyal [kPCA], Appendix F, as they run them.

Noise is calibrated exactly, 1/mu for sqrt(2 ln(1.25/delta))/epsilon, as in the paper's experiments.
Sensitivities are the printed ones, of a record removed: sqrt(2) or 2 too small for one replaced, in
the rivals' favour.

The learning rates of [kPCA], Appendix F.2. They need a spectrum, or luck; the default does not.

.. math:: \eta_t = \frac{1}{t + c} \Bigl(\frac{\tau + c}{t + c}\Bigr)^{p\,[t > \tau]}, \quad
          \tau = \lceil \rho T \rceil, \qquad\text{or}\qquad
          \eta_t = \frac{1}{20\, \sigma \lambda_1 s + \Delta t / \ln n}

All of it must be public: a spectrum that was read off the records is not.

BoxedTangentOja: `boxed-oja` for a warm start, then tangent updates in a box.

Source: Düngler, Sanyal [kPCA], Algorithm 3 (TAdaDPO), warm-started by Algorithm 2 (AdaDPO) on
disjoint records.

.. math:: Y_i = (I - QQ') A_i Q, \qquad
          Q \leftarrow \mathrm{QR}\Bigl(Q + \eta\, (I - QQ')\bigl(\bar Y + Z\bigr)\Bigr)

PrivRange and TruncatedMean see Y instead of AQ: what lies along the released columns of Q is taken
off every record before anything of it is bounded, as deflation takes off earlier directions.

Unlike the other modules of this package it is private: it draws through a gate, at the cost of
`boxed-oja`, for which docs/proofs/boxed_oja.md has the argument. It stands here because it exists
to show the algorithm as printed: `tangent-oja` needs far fewer records.

Differences from the source: those of `boxed-oja`. After the warm start no trace is bought, and
eigenvalues stay those of the warm start.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePassState
from eigenveil.papers.covrev.printed import symmetric
from eigenveil.papers.kpca.boxed_oja import BoxedOja, Centre

Matrix = NDArray[np.float64]


def dp_gauss_1(
    total: Matrix, k: int, squared_norm: float, mu: float, rng: np.random.Generator
) -> Matrix:
    """DP-Gauss-1 on the sum of matrices of trace up to ``squared_norm``; columns of a basis."""
    noise = symmetric(rng.standard_normal(total.shape)) * squared_norm / mu
    return np.asarray(np.linalg.eigh(total + noise)[1][:, -k:])


def dp_gauss_2_not_private(
    total: Matrix,
    k: int,
    squared_norm: float,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Matrix:
    """DP-Gauss-2 as printed: a gap that is not positive is drawn again, which nothing hides.

    The noise on the gap does not know ``squared_norm`` either.
    """
    values, vectors = np.linalg.eigh(total)
    gap = 0.0
    while gap <= 0:
        gap = float(values[-k] - values[-k - 1]) + rng.laplace(scale=2 / epsilon)
    margin = abs(gap - 2 * (1 + math.log(1 / delta) / epsilon))
    scale = squared_norm * (1 + math.sqrt(2 * math.log(1 / delta) / epsilon)) / margin
    basis = vectors[:, -k:]
    noisy = basis @ basis.T + symmetric(rng.standard_normal(total.shape)) * scale
    return np.asarray(np.linalg.eigh(noisy)[1][:, -k:])


def dp_power(
    total: Matrix, k: int, bound: float, steps: int, mu: float, rng: np.random.Generator
) -> Matrix:
    """DP-Power-Method with the noise of Nicolas et al. 2024; columns of a basis.

    ``bound`` is beta alpha: a record aa' within |a|_2 <= beta and |a|_1 <= alpha moves the product
    with X by no more than that times the longest row of X. Composed exactly over the ``steps``.
    """
    basis = np.linalg.qr(rng.standard_normal((len(total), k)))[0]
    for _ in range(steps):
        longest = np.sqrt(np.einsum("ij,ij->i", basis, basis).max())
        scale = bound * longest * math.sqrt(steps) / mu
        basis = np.linalg.qr(total @ basis + scale * rng.standard_normal(basis.shape))[0]
    return np.asarray(basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecay:
    """1/(t + offset), falling faster after a share ``cutoff`` of the ``steps``."""

    steps: int
    cutoff: float
    power: float
    offset: float = 10.0

    def rate(self, step: int) -> float:
        """Return the rate of step 1, 2, ..."""
        last = math.ceil(self.cutoff * self.steps) + self.offset
        here = step + self.offset
        return float(min(1.0, last / here) ** self.power) / here


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikedRate:
    """The source's lambda1_spiked for ``n`` records; its other form has the ``factor`` d."""

    n: int
    noise: float
    leading: float
    gap: float
    factor: float = 1.0

    def rate(self, step: int) -> float:
        """Return the rate of step 1, 2, ..."""
        base = 20 * self.noise * self.leading * self.factor
        return 1 / (base + self.gap * step / math.log(self.n))


@dataclass(frozen=True, kw_only=True)
class BoxedTangentOja(BoxedOja):
    """TAdaDPO as it is printed.

    Attributes
    ----------
    warm_batches : int
        Batches of AdaDPO before the tangent updates.

    """

    name = "boxed-tangent-oja"
    about = "a paper's tangent means in a box; many rows"
    source = "Düngler, Sanyal, Algorithm 3 (TAdaDPO), as printed"
    otherwise = "tangent-oja"
    centre: Centre = "histograms"
    warm_batches: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.centre != "histograms":
            raise InvalidParameterError("'boxed-tangent-oja' has the centre 'histograms' only")

    def step(
        self,
        iterate: OnePassState,
        batch: Records,
        clip: Clip,
        gate: Gate,
        away: NDArray[np.float64] | None = None,
    ) -> OnePassState:
        """Correct the estimate by one batch: whole products first, tangent parts later."""
        if iterate.steps < self.warm_batches:
            return BoxedOja.step(self, iterate, batch, clip, gate, away)
        basis, k = iterate.basis, self.n_components
        noisy = self.estimate(batch, clip, BasisProduct(basis), gate, basis.T)
        values = iterate.values(k)
        if self.schedule is None:  # the image keeps what it has inside the basis
            outside = iterate.image - basis @ (basis.T @ iterate.image)
            return iterate.corrected(noisy.values - outside, noisy.deviation, batch)
        after = iterate.corrected(
            noisy.values - iterate.image, noisy.deviation, batch, self.schedule
        )
        return replace(after, image=after.basis * values)
