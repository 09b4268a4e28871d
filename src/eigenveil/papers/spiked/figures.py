"""Figures of Cai, Xia, Zha 2024 [Spiked]: components and covariances of a spiked model.

Rows follow N(0, lambda UU' + I) with a random U; all methods of a run see the same rows.
Algorithm 1 is printed with half of (epsilon, delta) for directions. A comparison of directions
alone may also be read with the whole of it, which is shown as well.
"""

import math

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.mechanisms.analyze_gauss import Spherical
from eigenveil.mechanisms.cleaned import AdaptiveCleaned
from eigenveil.mechanisms.tangent import Tangent
from eigenveil.numerics.metrics import subspace_distance
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.papers.claims import SIMILAR, Claim, above, at_most, below, falls, near, steady
from eigenveil.papers.figure import Compared, Figure, Method, Panel, Settings
from eigenveil.papers.runner import Stored
from eigenveil.papers.simulation import gaussian_strength, simulate
from eigenveil.papers.spiked.mechanism import Spiked
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.papers.spiked.printed import (
    algorithm_1,
    algorithm_1_covariance,
    classic,
    delta_1,
    delta_2,
    dp_gauss,
    dp_gauss_star_not_private,
    dp_oja_not_private,
)
from eigenveil.privacy.cost import Gaussian

Matrix = NDArray[np.float64]
_PAPER = "Cai, Xia, Zha 2024"
_NOISE = 1.0  # sigma^2
_AS_THEY_ARE = Clip(row_norm=1.0)  # the model has its own norm

_PRINTED = Method("Algorithm 1", "printed", "half of (epsilon, delta) for directions, C_2 = 4")
_WHOLE = Method("Algorithm 1, whole budget", "printed", "all of (epsilon, delta) for directions")
_GAUSS = Method("DP-Gauss", "published", "rows within (k + 4 ln n) lambda + d sigma^2")
_STAR = Method("DP-Gauss*", "not private", "scaled by the largest norm of the table")
_OJA = Method("DP-Oja", "not private", "one component; constant 0.2 as in the paper, unproven")
_SAMPLE = Method("sample PCA", "not private")
_SPIKED = Method("spiked", "ours", "the same Delta_1; isotropic noise, exact curve, half of mu^2")
_SPHERICAL = Method("spherical", "ours", "worst-case, no bound, the whole budget")
_TANGENT = Method("tangent", "ours", "worst-case, no bound, the whole budget")
_COMPONENTS = (_PRINTED, _WHOLE, _GAUSS, _STAR, _OJA, _SAMPLE, _SPIKED, _SPHERICAL, _TANGENT)

_COMPARED = (
    Compared("spiked", ("Algorithm 1",), "model-based"),
    Compared("spherical", ("DP-Gauss",), "worst-case"),
)

_DIRECTIONS = {
    "as printed": "Algorithm 1",
    "whole budget": "Algorithm 1, whole budget",
    "ours": "spherical",
}

_GRID = "the values on the axes are ours: the text does not give them"


def draw_rows(
    n: int, d: int, k: int, spike: float, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Return rows of the model, and their components."""
    basis = np.linalg.svd(rng.standard_normal((d, k)), full_matrices=False)[0]
    rows = math.sqrt(spike) * rng.standard_normal((n, k)) @ basis.T
    return rows + math.sqrt(_NOISE) * rng.standard_normal((n, d)), basis.T


def _model(k: int, spike: float, noise: float) -> SpikedModel:
    return SpikedModel(
        rank=k, smallest_spike=spike, largest_spike=spike, noise_variance=noise, form="printed"
    )


def _components(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Projector errors of one run."""
    rng = np.random.default_rng(seed)
    n, d, k, spike = at["n"], at["d"], at["k"], at["lambda"]
    epsilon, delta = at["epsilon"], at["delta"]
    rows, truth = draw_rows(n, d, k, spike, rng)
    moment = rows.T @ rows / n
    sensitivity = delta_1(n, d, k, spike, _NOISE)
    scaling = (k + 4 * math.log(n)) * spike + d * _NOISE
    mu = gaussian_strength(epsilon, delta)
    half = classic(epsilon / 2, delta / 2)
    ours = Spiked(strength=Gaussian(mu), model=_model(k, spike, _NOISE))
    found = {
        "Algorithm 1": algorithm_1(moment, k, sensitivity, half, rng),
        "Algorithm 1, whole budget": algorithm_1(
            moment, k, sensitivity, classic(epsilon, delta), rng
        ),
        "DP-Gauss": _top(dp_gauss(moment, scaling, n, epsilon, delta, rng), k),
        "DP-Gauss*": _top(dp_gauss_star_not_private(rows, epsilon, delta, rng), k),
        "sample PCA": _top(moment, k),
        "spiked": simulate(ours, rows, seed, _AS_THEY_ARE).components,
        "spherical": simulate(
            Spherical(strength=Gaussian(mu), n_components=k), rows, seed
        ).components,
        "tangent": simulate(Tangent(strength=Gaussian(mu), n_components=k), rows, seed).components,
    }
    if k == 1 and at["oja"]:
        found["DP-Oja"] = dp_oja_not_private(rows, spike + _NOISE, epsilon, delta, rng)
    return {name: subspace_distance(one, truth) for name, one in found.items()}


def _top(matrix: Matrix, k: int) -> Matrix:
    return top_eigenpairs(matrix, k)[1]


def _covariances(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Relative Frobenius errors of covariances in one run."""
    rng = np.random.default_rng(seed)
    n, d, k, spike = at["n"], at["d"], at["k"], at["lambda"]
    epsilon, delta = at["epsilon"], at["delta"]
    rows, basis = draw_rows(n, d, k, spike, rng)
    truth = spike * basis.T @ basis + _NOISE * np.eye(d)
    moment = rows.T @ rows / n
    scaling = (k + 4 * math.log(n)) * spike + d * _NOISE
    mu = gaussian_strength(epsilon, delta)
    half = classic(epsilon / 2, delta / 2)
    components = algorithm_1(moment, k, delta_1(n, d, k, spike, _NOISE), half, rng)
    spread = delta_2(n, d, k, spike, _NOISE)
    ours = Spiked(strength=Gaussian(mu), model=_model(k, spike, _NOISE))
    clip = Clip(row_norm=math.sqrt(scaling))
    found = {
        "Algorithm 1": algorithm_1_covariance(moment, components, spread, half, _NOISE, rng),
        "DP-Gauss": dp_gauss(moment, scaling, n, epsilon, delta, rng),
        "DP-Gauss*": dp_gauss_star_not_private(rows, epsilon, delta, rng),
        "sample covariance": moment,
        "spiked": ours.covariance(simulate(ours, rows, seed, _AS_THEY_ARE)),
        "adaptive-cleaned": simulate(
            AdaptiveCleaned(strength=Gaussian(mu)), rows, seed, clip
        ).matrix,
    }
    size = float(np.linalg.norm(truth))
    return {name: float(np.linalg.norm(one - truth)) / size for name, one in found.items()}


def _digits(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return the variance explained by components of MNIST images, about the sample's mean."""
    rng = np.random.default_rng(seed)
    images, labels = data.mnist()
    k, epsilon, delta = at["k"], at["epsilon"], at["delta"]
    chosen = np.concatenate(
        [np.flatnonzero(labels == digit)[: at["n"] // 3] for digit in (1, 4, 9)]
    )
    side = images.shape[1] // 2
    small = images[chosen].reshape(-1, side, 2, side, 2).mean(axis=(2, 4)) / 255
    small = small.reshape(len(small), -1)
    rows = small - small.mean(axis=0)
    n, d = rows.shape
    moment = rows.T @ rows / n
    values = np.linalg.eigvalsh(moment)[::-1]
    spike, noise = float(values[:k].mean()), float(values[49:140].mean())
    sensitivity = delta_1(n, d, k, spike, noise)
    scaling = (k + 4 * math.log(n)) * spike + d * noise
    mu = gaussian_strength(epsilon, delta)
    found = {
        "Algorithm 1": algorithm_1(moment, k, sensitivity, classic(epsilon / 2, delta / 2), rng),
        "Algorithm 1, whole budget": algorithm_1(
            moment, k, sensitivity, classic(epsilon, delta), rng
        ),
        "DP-Gauss*": _top(dp_gauss_star_not_private(rows, epsilon, delta, rng), k),
        "DP-Gauss": _top(dp_gauss(moment, scaling, n, epsilon, delta, rng), k),
        "sample PCA": _top(moment, k),
        "spherical": simulate(
            Spherical(strength=Gaussian(mu), n_components=k), rows, seed
        ).components,
        "tangent": simulate(Tangent(strength=Gaussian(mu), n_components=k), rows, seed).components,
    }
    total = float(np.trace(moment))
    return {name: float(np.trace(v @ moment @ v.T)) / total for name, v in found.items()}


_FIRST = {"n": 10_000, "d": 50, "k": 1, "lambda": 10.0, "epsilon": 1.0, "delta": 0.1, "oja": True}
_N = (2_000, 5_000, 10_000, 20_000, 40_000)
_SMALL_N = (2_000, 5_000, 10_000, 20_000)

FIGURES = (
    Figure(
        name="spiked:fig1",
        source=f"{_PAPER}, Figure 1, section 6.1",
        measure="|UU' - VV'|_F",
        methods=_COMPONENTS,
        panels=(
            Panel("one component", "n", _N, _FIRST, _SMALL_N, log_x=True),
            Panel("n = 10,000", "k", (1, 2, 3, 4, 5), _FIRST | {"oja": False}),
        ),
        work=_components,
        claims=(
            Claim(
                "DP-Oja significantly underperforms compared to other methods",
                above("DP-Gauss", "DP-Gauss*", "Algorithm 1", panel="one component"),
                {"as printed": "DP-Oja"},
            ),
            Claim(
                "our method slightly outperforms DP-Gauss",
                below("DP-Gauss", panel="one component"),
                _DIRECTIONS,
            ),
            Claim(
                "our method and DP-Gauss* achieve similar performance",
                near("DP-Gauss*", SIMILAR, panel="one component"),
                {"as printed": "Algorithm 1", "whole budget": "Algorithm 1, whole budget"},
            ),
            Claim(
                "our method consistently outperforms DP-Gauss for different ranks",
                below("DP-Gauss", panel="n = 10,000"),
                _DIRECTIONS,
            ),
            Claim(
                "as the rank increases, our method becomes better than DP-Gauss*",
                below("DP-Gauss*", panel="n = 10,000", where=lambda at: at["k"] >= 3),
                _DIRECTIONS,
            ),
        ),
        repeats={"small": 10, "paper": 40},
        compared=_COMPARED,
        notes=(_GRID, "DP-Gauss has the sensitivity of a removed row, in its favour"),
    ),
    Figure(
        name="spiked:fig2",
        source=f"{_PAPER}, Figure 2, section 6.1",
        measure="|UU' - VV'|_F",
        methods=_COMPONENTS,
        panels=(
            Panel("lambda = 10", "epsilon", (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0), _FIRST),
            Panel("epsilon = 1", "lambda", (2.0, 5.0, 10.0, 20.0, 50.0, 100.0), _FIRST, log_x=True),
        ),
        work=_components,
        claims=(
            *(
                Claim(
                    f"the error of {name} increases rapidly as epsilon decreases",
                    falls("lambda = 10", least=2.0),
                    {"as printed": name},
                )
                for name in ("Algorithm 1", "DP-Gauss", "DP-Gauss*")
            ),
            Claim(
                "when the signal strength is small, DP-Gauss* performs the best",
                below(
                    "Algorithm 1",
                    "DP-Gauss",
                    panel="epsilon = 1",
                    where=lambda at: at["lambda"] < 5,
                ),
                {"as printed": "DP-Gauss*"},
            ),
            Claim(
                "as the signal strength increases, our method outperforms the others",
                below(
                    "DP-Gauss",
                    "DP-Gauss*",
                    panel="epsilon = 1",
                    where=lambda at: at["lambda"] >= 50,
                ),
                _DIRECTIONS,
            ),
        ),
        repeats={"small": 10, "paper": 40},
        compared=_COMPARED,
        notes=(_GRID, "n = 10,000 and k = 1 are ours: the text does not give them"),
    ),
    Figure(
        name="spiked:fig3",
        source=f"{_PAPER}, Figure 3, section 6.1",
        measure="|UU' - VV'|_F",
        methods=tuple(one for one in _COMPONENTS if one is not _OJA),
        panels=(
            Panel(
                "n = 30, d = 50, k = 3",
                "lambda",
                (1e2, 1e3, 1e4, 1e5, 1e6),
                _FIRST | {"n": 30, "k": 3, "oja": False},
                log_x=True,
            ),
        ),
        work=_components,
        claims=(
            Claim(
                "our method significantly outperforms DP-Gauss and DP-Gauss* (strong signals)",
                below("DP-Gauss", "DP-Gauss*", where=lambda at: at["lambda"] >= 1e5, factor=0.8),
                _DIRECTIONS | {"ours": "spiked"},
            ),
            *(
                Claim(
                    f"the error of {name} hardly improves as the signal strength increases",
                    steady(1.25),
                    {"as printed": name},
                )
                for name in ("DP-Gauss", "DP-Gauss*")
            ),
        ),
        repeats={"small": 20, "paper": 40},
        compared=_COMPARED,
        notes=(_GRID, "epsilon = 1: the text does not give it"),
    ),
    Figure(
        name="spiked:fig4",
        source=f"{_PAPER}, Figure 4, section 6.2",
        measure="share of the total variance that 3 components explain",
        methods=(
            Method("Algorithm 1", "not private", "lambda and sigma^2 read off the sample"),
            Method("Algorithm 1, whole budget", "not private", "likewise, all for directions"),
            _STAR,
            Method("DP-Gauss", "not private", "scaled by lambda and sigma^2 of the sample"),
            _SAMPLE,
            _SPHERICAL,
            _TANGENT,
        ),
        panels=(
            Panel("MNIST 1, 4, 9 at 14 x 14", "n", (1500,), {"k": 3, "epsilon": 2.0, "delta": 0.1}),
        ),
        work=_digits,
        claims=(
            Claim(
                "DP-Gauss* performs poorly: its components explain only 2 % of the variance",
                at_most(0.04),
                {"as printed": "DP-Gauss*"},
            ),
            Claim(
                "our method explains more of the variance than DP-Gauss*",
                above("DP-Gauss*"),
                _DIRECTIONS,
            ),
        ),
        repeats={"small": 10, "paper": 40},
        data=("mnist.npz",),
        more_is_better=True,
        notes=(
            "the first 500 images of each digit, about their mean, which nobody pays for",
            "variances as bars; the paper shows scores of one run as well",
        ),
    ),
    *(
        Figure(
            name=f"spiked:fig{number}",
            source=f"{_PAPER}, Figure {number}, Appendix A.1",
            measure="|estimate - Sigma|_F over |Sigma|_F",
            methods=(
                Method("Algorithm 1", "printed", "C_2 = C_3 = 4"),
                _GAUSS,
                _STAR,
                Method("sample covariance", "not private"),
                Method("spiked", "ours", "the same sensitivities; isotropic noise, exact curve"),
                Method("adaptive-cleaned", "ours", "worst-case, the bound of DP-Gauss"),
            ),
            panels=tuple(
                Panel(
                    f"d = {d}",
                    along,
                    values,
                    _FIRST | {"k": 3, "d": d, "oja": False},
                    small,
                    {},
                    True,
                )
                for d in (50, 100)
            ),
            work=_covariances,
            claims=(
                Claim(
                    "DP-Gauss* performs similarly as our method when d = 50",
                    near("DP-Gauss*", SIMILAR, panel="d = 50"),
                    {"as printed": "Algorithm 1"},
                ),
                Claim(
                    "DP-Gauss* is less efficient than our method when d = 100",
                    below("DP-Gauss*", panel="d = 100"),
                    {"as printed": "Algorithm 1", "ours": "adaptive-cleaned"},
                ),
                Claim(
                    "our method outperforms DP-Gauss",
                    below("DP-Gauss"),
                    {"as printed": "Algorithm 1", "ours": "adaptive-cleaned"},
                ),
            ),
            repeats={"small": 8, "paper": 40},
            compared=(
                Compared("spiked", ("Algorithm 1",), "model-based"),
                Compared("adaptive-cleaned", ("DP-Gauss",), "worst-case"),
            ),
            notes=(_GRID, "C_3 is not stated: 4, as C_2"),
        )
        for number, along, values, small in (
            (5, "n", _N, _SMALL_N),
            (6, "lambda", (2.0, 5.0, 10.0, 20.0, 50.0, 100.0), (2.0, 10.0, 50.0)),
        )
    ),
)
