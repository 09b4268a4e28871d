"""Li, Cai, Xia, Zhang 2024 [Fed], Algorithm 1, both rounds, and Fed-DP-Oja, in a simulation.

The clients' steps are `SpikedClient`, the server's `leading_basis` and `assembled`; weights are
those of Theorems 1 and 2, w_j for bases and v_j for k x k matrices. The formula printed after
Theorem 1 omits the inverse square, which the theorem has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.federated import weights
from eigenveil.federated.aggregate import Assembled, assembled, leading_basis
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.papers.dppca.shuffled_oja import ShuffledOja
from eigenveil.papers.fed.client import SpikedClient
from eigenveil.papers.kpca.deflation import Deflation
from eigenveil.papers.simulation import gate, simulate
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.privacy.cost import Pure
from eigenveil.rows.open import open_rows

Matrix = NDArray[np.float64]
Weights = Literal["printed", "equal"]
_AS_THEY_ARE = Clip(row_norm=1.0)  # the model has its own norm


@dataclass(frozen=True)
class Client:
    """An owner's rows, budget and assumed law."""

    rows: Matrix
    epsilon: float
    delta: float
    model: SpikedModel

    def steps(self, calibration: Literal["exact", "printed"] = "printed") -> SpikedClient:
        """Return its two steps."""
        return SpikedClient(
            epsilon=self.epsilon, delta=self.delta, model=self.model, calibration=calibration
        )


def declared(clients: Sequence[Client]) -> tuple[list[int], list[float], list[float]]:
    """Return what weights are made of: numbers of rows, and budgets."""
    return (
        [len(one.rows) for one in clients],
        [one.epsilon for one in clients],
        [one.delta for one in clients],
    )


def noisy_projector(
    client: Client, seed: int, calibration: Literal["exact", "printed"] = "printed"
) -> Matrix:
    """Return what a client of the first round would send before it takes eigenvectors."""
    return simulate(client.steps(calibration).projector(), client.rows, seed, _AS_THEY_ARE).matrix


def algorithm_1(
    clients: Sequence[Client],
    seed: int,
    *,
    calibration: Literal["exact", "printed"] = "printed",
    weighted: Weights = "printed",
) -> Assembled:
    """Return basis and covariance after both rounds; not private for ``form="federated"``."""
    k, d = clients[0].model.rank, clients[0].rows.shape[1]
    n, epsilon, delta = declared(clients)
    bases = [
        top_eigenpairs(noisy_projector(one, seed + j, calibration), k)[1].T
        for j, one in enumerate(clients)
    ]
    same = weights.equal(len(clients))
    w = weights.printed(n, epsilon, delta, d, k) if weighted == "printed" else same
    basis = leading_basis(bases, w, k)
    matrices = []
    for j, one in enumerate(clients):
        steps = one.steps(calibration)
        step = steps.second(basis)
        matrices.append(
            steps.values(open_rows(one.rows), _AS_THEY_ARE, gate(step, seed + 10_000 + j), basis)
        )
    noise = float(np.mean([one.model.noise_variance for one in clients]))
    spike = float(np.mean([one.model.largest_spike for one in clients]))
    v = same
    if weighted == "printed":
        v = weights.printed_values(n, epsilon, delta, d, k, spike=spike, noise_variance=noise)
    return assembled(basis, matrices, v, noise)


def fed_dp_oja(client: Client, seed: int, clip: Clip) -> Matrix:
    """Return a client's basis by [DPPCA] Algorithm 2 with half of its budget, as columns.

    The amplification by shuffling has the constants of Feldman, McMillan, Talwar 2021. Several
    components are deflated. Too few rows are refused.
    """
    k, n = client.model.rank, len(client.rows)
    inner = ShuffledOja(strength=Pure(client.epsilon / 2), delta=client.delta / 2, n_records=n // k)
    method = inner if k == 1 else Deflation(inner=inner, n_components=k)
    return np.asarray(simulate(method, client.rows, seed, clip).components.T)
