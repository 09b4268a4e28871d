"""Figures of Li, Cai, Xia, Zhang 2024 [Fed]: one basis from several clients.

Rows follow N(0, lambda UU' + I) with a random U; the error is |UU' - VV'|_F. Every client has half
of its budget for directions, as Algorithm 1 has it, and the other half for eigenvalues.

The model-based clients know lambda and sigma^2. Delta_1 of the paper has a constant without a
proof, and tables of the model exceed it (docs/proofs/federated.md): its promise is the paper's, not
ours. Worst-case clients (`spherical`) know nothing.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import EigenveilError
from eigenveil.federated import weights
from eigenveil.federated.aggregate import leading_basis
from eigenveil.mechanisms.analyze_gauss import Spherical
from eigenveil.mechanisms.oja import Oja
from eigenveil.numerics.metrics import captured_variance, subspace_distance
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.papers.claims import SIMILAR, Claim, above, below, falls, near, rises
from eigenveil.papers.fed.printed import Client, declared, fed_dp_oja, noisy_projector
from eigenveil.papers.figure import Compared, Figure, Method, Panel, Role, Scale, Settings
from eigenveil.papers.runner import Stored
from eigenveil.papers.simulation import UNIT_ROWS, gaussian_strength, simulate
from eigenveil.papers.spiked.figures import draw_rows
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.privacy.cost import Gaussian

Matrix = NDArray[np.float64]
_PAPER = "Li, Cai, Xia, Zhang 2024"
_APART = 1000  # seeds of a client
_BATCHES = 3  # of clients with too few rows for oja's own


def _model(k: int, spike: float, noise: float) -> SpikedModel:
    return SpikedModel(
        rank=k, smallest_spike=spike, largest_spike=spike, noise_variance=noise, form="federated"
    )


def _half(client: Client) -> float:
    """Return the mu of worst-case directions: half of mu^2."""
    return gaussian_strength(client.epsilon, client.delta) / math.sqrt(2)


def _sent(client: Client, seed: int, *, shuffled: bool) -> dict[str, Matrix]:
    """Return what a client sends with each method: a basis, or a d x d matrix."""
    k, n = client.model.rank, len(client.rows)
    noisy = noisy_projector(client, seed)
    exact = noisy_projector(client, seed + 1, "exact")
    spherical = Spherical(strength=Gaussian(_half(client)), n_components=k)
    found = {
        "noisy projector": noisy,
        "printed": top_eigenpairs(noisy, k)[1].T,
        "exact": top_eigenpairs(exact, k)[1].T,
        "spherical": simulate(spherical, client.rows, seed + 2).components.T,
    }
    if shuffled:
        found["Fed-DP-Oja"] = fed_dp_oja(client, seed + 3, UNIT_ROWS)
    else:
        size = -(-n // _BATCHES)
        oja = Oja(strength=Gaussian(_half(client)), n_components=k, batch_size=size)
        found["Fed-DP-Oja"] = simulate(oja, client.rows, seed + 3).components.T
    return found


def _received(clients: Sequence[Client], seed: int, *, shuffled: bool = True) -> dict[str, Matrix]:
    """Return what the server makes of all messages: components, as rows."""
    k, d = clients[0].model.rank, clients[0].rows.shape[1]
    try:
        sent = [_sent(one, seed + _APART * j, shuffled=shuffled) for j, one in enumerate(clients)]
    except EigenveilError:  # too few rows for what is known of shuffling
        sent = [_sent(one, seed + _APART * j, shuffled=False) for j, one in enumerate(clients)]
    n, epsilon, delta = declared(clients)
    psi, same = weights.printed(n, epsilon, delta, d, k), weights.equal(len(clients))
    predicted = weights.predicted(n, epsilon, delta, d, k)

    def basis(name: str, w: Matrix) -> Matrix:
        return leading_basis([one[name] for one in sent], w, k).T

    average = np.mean([one["noisy projector"] for one in sent], axis=0)
    pooled = np.concatenate([one.rows for one in clients])
    weakest = min(map(_half, clients))
    local = Spherical(strength=Gaussian(weakest / math.sqrt(len(pooled))), n_components=k)
    one_noise = Spherical(strength=Gaussian(weakest), n_components=k)
    return {
        "Fed-DP-PCA": basis("printed", psi),
        "equal weights": basis("printed", same),
        "noisy projectors": top_eigenpairs(average, k)[1],
        "Fed-DP-Oja": basis("Fed-DP-Oja", same),
        "exact": basis("exact", psi),
        "spherical": basis("spherical", predicted),
        "spherical, equal weights": basis("spherical", same),
        "spherical, local model": simulate(local, pooled, seed + 5).components,
        "spherical, pooled": simulate(one_noise, pooled, seed + 6).components,
        "sample PCA": top_eigenpairs(pooled.T @ pooled, k)[1],
    }


def _simulated(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return errors of one run."""
    rng = np.random.default_rng(seed)
    k, spike = at["k"], at["lambda"]
    law = _model(k, spike, 1.0)
    rows, truth = draw_rows(sum(_sizes(at)), at["d"], k, spike, rng)
    clients = []
    for part in np.split(rows, np.cumsum(_sizes(at))[:-1]):
        mixed = "N_sample" in at
        epsilon = float(rng.uniform(0.1, 0.3)) if mixed else at["epsilon"]
        delta = float(rng.uniform(0.1, 0.2)) if mixed else at["delta"]
        clients.append(Client(part, epsilon, delta, law))
    found = _received(clients, seed)
    return {name: subspace_distance(one, truth) for name, one in found.items()}


def _sizes(at: Settings) -> list[int]:
    """Return the number of rows of every client."""
    if "N_sample" in at:
        return [2 * at["N_sample"]] * 5 + [20 * at["N_sample"]] * 5
    return [at["total"] // at["m"] if "total" in at else at["n"]] * at["m"]


def _lung(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return the variance explained on lung cancer, as a share of what 5 components can explain.

    About the mean of all patients, which nobody pays for.
    """
    table = data.lung()
    rows = table - table.mean(axis=0)
    if at["columns"] == "standardised":
        rows = rows / table.std(axis=0)
    covariance = rows.T @ rows / len(rows)
    whole = float(np.linalg.eigvalsh(covariance)[::-1][50:].mean())
    order = np.random.default_rng(seed).permutation(len(rows))
    clients = []
    for part in np.split(order, [at["first"]]):
        own = rows[part]
        values = np.linalg.eigvalsh(own.T @ own / len(own))[::-1]
        # The smaller client has no 51st eigenvalue: its sigma^2 is a rounding error of zero.
        noise = whole if at["sigma^2"] == "of all" else max(float(values[50:].mean()), 1e-12)
        law = _model(at["k"], float(values[:3].mean()), noise)
        clients.append(Client(own, at["epsilon"], at["delta"], law))
    found = _received(clients, seed, shuffled=False)
    return {name: captured_variance(one, covariance) for name, one in found.items()}


def _methods(knows_sample: bool) -> tuple[Method, ...]:
    """Return the methods; what reads lambda and sigma^2 off the sample is not private."""
    role: Role = "not private" if knows_sample else "printed"
    exact: Role = "not private" if knows_sample else "ours"
    oja = "batches of [kPCA] Algorithm 1" if knows_sample else "shuffled, [DPPCA] Algorithm 2"
    return (
        Method("Fed-DP-PCA", role, "Algorithm 1, weights psi^-2"),
        Method("equal weights", role, "its clients, equal weights"),
        Method("noisy projectors", role, "its clients send UU' + Z; equal weights"),
        Method("Fed-DP-Oja", "published", f"{oja}; equal weights"),
        Method("exact", exact, "Algorithm 1, isotropic noise by the exact curve"),
        Method("spherical", "ours", "worst-case clients, weights from their predicted error"),
        Method("spherical, equal weights", "ours"),
        Method("spherical, local model", "ours", "every row is a client of its own"),
        Method("spherical, pooled", "reference", "one noise on all rows, as a secure sum has it"),
        Method("sample PCA", "not private"),
    )


_SUBJECTS = {"as printed": "Fed-DP-PCA", "ours": "spherical"}
_BASE = {"d": 50, "k": 1, "lambda": 10.0}
_EQUAL = _BASE | {"m": 10, "n": 10_000, "epsilon": 0.5, "delta": 0.1}
_REPEATS: dict[Scale, int] = {"small": 4, "paper": 50}
_LUNG = {"first": 130, "k": 5, "delta": 0.1}

FIGURES = (
    Figure(
        name="fed:fig1",
        source=f"{_PAPER}, Figure 1, section 4.1",
        measure="|UU' - VV'|_F",
        methods=_methods(False),
        panels=(
            Panel(
                "(a)",
                "epsilon",
                tuple(round(0.1 * i, 1) for i in range(1, 11)),
                _EQUAL,
                (0.1, 0.3, 1.0),
            ),
            Panel("(b)", "m", tuple(range(10, 101, 10)), _EQUAL | {"n": 1000}, (10, 30, 100)),
            Panel(
                "(c)",
                "m",
                (10, 20, 25, 50),
                _BASE | {"total": 100_000, "epsilon": 0.5, "delta": 0.1},
                (10, 50),
            ),
            Panel("(d)", "N_sample", tuple(range(100, 1001, 100)), _BASE, (100, 400, 1000)),
        ),
        work=_simulated,
        claims=(
            Claim(
                "(a) Fed-DP-Oja significantly underperforms our method",
                below("Fed-DP-Oja", panel="(a)"),
                _SUBJECTS,
            ),
            Claim(
                "(a) Fed-DP-Oja significantly underperforms the reference, noisy projectors",
                below("Fed-DP-Oja", panel="(a)"),
                {"as printed": "noisy projectors"},
            ),
            Claim(
                "(a) our method is nearly identical to the reference",
                near("noisy projectors", SIMILAR, panel="(a)"),
                {"as printed": "Fed-DP-PCA"},
            ),
            Claim("(a) larger epsilon, more accurate estimates", falls("(a)"), _SUBJECTS),
            Claim(
                "(b) our method is comparable to the reference",
                near("noisy projectors", SIMILAR, panel="(b)"),
                {"as printed": "Fed-DP-PCA"},
            ),
            Claim(
                "(b) our method significantly outperforms Fed-DP-Oja",
                below("Fed-DP-Oja", panel="(b)"),
                _SUBJECTS,
            ),
            Claim("(b) accuracy improves with the number of clients", falls("(b)"), _SUBJECTS),
            Claim(
                "(c) with all rows fixed, fewer clients are more accurate", rises("(c)"), _SUBJECTS
            ),
            Claim(
                "(d) our method outperforms equal weights",
                below("equal weights", panel="(d)"),
                {"as printed": "Fed-DP-PCA"},
            ),
            Claim(
                "(d) the same of worst-case clients",
                below("spherical, equal weights", panel="(d)"),
                {"ours": "spherical"},
            ),
            Claim(
                "(d) our method outperforms even the reference",
                below("noisy projectors", panel="(d)"),
                _SUBJECTS,
            ),
        ),
        repeats=_REPEATS,
        compared=(
            Compared("exact", ("Fed-DP-PCA",), "model-based, as the paper claims it"),
            Compared("spherical", ("Fed-DP-PCA", "Fed-DP-Oja"), "ours worst-case"),
        ),
        notes=(
            "weights are psi^-2: the formula printed after Theorem 1 omits the inverse square",
            "Fed-DP-Oja shuffles with proven constants; with fewer than 82 rows it takes batches",
        ),
    ),
    Figure(
        name="fed:fig2",
        source=f"{_PAPER}, Figure 2, section 4.2",
        measure="share of what the best 5 components explain",
        methods=_methods(True),
        panels=tuple(
            Panel(
                f"{columns}, sigma^2 {whose}",
                "epsilon",
                (0.4,),
                _LUNG | {"columns": columns, "sigma^2": whose},
            )
            for columns in ("as they are", "standardised")
            for whose in ("of each client", "of all")
        ),
        work=_lung,
        claims=(
            Claim(
                "our method outperforms Fed-DP-Oja",
                above("Fed-DP-Oja", panel="as they are, sigma^2 of each client"),
                _SUBJECTS,
            ),
            Claim(
                "our method explains more than equal weights",
                above("equal weights", panel="as they are, sigma^2 of each client"),
                {"as printed": "Fed-DP-PCA"},
            ),
            Claim(
                "the same with one sigma^2 for both clients",
                above("equal weights", panel="as they are, sigma^2 of all"),
                {"as printed": "Fed-DP-PCA"},
            ),
            Claim(
                "the same of worst-case clients",
                above("spherical, equal weights", panel="as they are, sigma^2 of all"),
                {"ours": "spherical"},
            ),
        ),
        repeats={"small": 5, "paper": 50},
        data=("lung_gordon2002_251.npz",),
        more_is_better=True,
        notes=(
            "251 genes by a re-implementation of the selection of Jin, Wang 2016, whose identity "
            "with theirs is not confirmed",
            "the client of 51 patients has no 51st eigenvalue, so that the paper's recipe gives it "
            "a sigma^2 of zero and hardly any noise; sigma^2 of all patients is shown as well",
            "too few patients for shuffling: clients of Fed-DP-Oja take three batches",
        ),
    ),
)
