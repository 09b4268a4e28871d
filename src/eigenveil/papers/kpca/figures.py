"""Figures of Düngler, Sanyal [kPCA]: one-pass methods and their rivals on spiked records.

epsilon = 1, delta = 0.01; the error is |UU' - VV'|_F. For k > 1 records are the matrices
V L V' + zz' of Appendix F.1 with L from 1 down to the gap, for k = 1 rows +-v + z. All that needs a
bound has the paper's, beta = 1 + sigma sqrt(d ln(n/zeta)) with zeta = 0.01, from public numbers.

AdaDPO as printed finds the middle of its box by one histogram for each of d k coordinates, at
epsilon/(2 d k) each: it refuses tables whose batches are too small for any bin to show. Where it
runs, it has the best of its learning rates, run by run, in its favour.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.datasets.generators import SpikedGaussian, SpikedMatrices, SpikedSigns
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms.oja import Oja
from eigenveil.mechanisms.one_pass import OnePass, Schedule
from eigenveil.numerics.metrics import subspace_distance
from eigenveil.papers.claims import Claim, below, rises
from eigenveil.papers.dppca.dp_pca import DPPCA
from eigenveil.papers.dppca.shuffled_oja import ShuffledOja
from eigenveil.papers.figure import Compared, Figure, Method, Panel, Scale, Settings
from eigenveil.papers.kpca.adaptive_oja import AdaptiveOja, TangentOja
from eigenveil.papers.kpca.boxed_oja import BoxedOja
from eigenveil.papers.kpca.deflation import Deflation
from eigenveil.papers.kpca.printed import (
    BoxedTangentOja,
    SpikedRate,
    StepDecay,
    dp_gauss_1,
    dp_gauss_2_not_private,
    dp_power,
)
from eigenveil.papers.runner import Stored
from eigenveil.papers.simulation import gaussian_strength, simulate
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.rows.base import RowSource
from eigenveil.rows.matrices import MatrixSource
from eigenveil.rows.open import open_rows

Matrix = NDArray[np.float64]
_PAPER = "Düngler, Sanyal, Optimal Rates for Adaptive Private k-PCA"
_EPSILON, _DELTA, _ZETA = 1.0, 0.01, 0.01
_BUDGET = Budget(epsilon=_EPSILON, delta=_DELTA)
_OJAS_UP_TO = 200_000  # records: one after the other, more take minutes
_POWER_STEPS = (2, 3, 5, 8)


class _Records:
    """Records of one run, and what is publicly known of them."""

    def __init__(self, at: Settings, seed: int) -> None:
        self.n, self.d, self.k = at["n"], at["d"], at["k"]
        self.noise, self.seed = at["sigma"], seed
        gap = at["gap"]
        self.spikes = tuple(np.linspace(1.0, gap, self.k).tolist()) if self.k > 1 else (1.0,)
        self.gaussian = at["records"] == "normal"
        kind: Any = SpikedGaussian if self.gaussian else SpikedMatrices
        if self.k == 1 and not self.gaussian:
            kind = SpikedSigns
        stream = kind(self.n, self.d, self.spikes, self.noise, seed=seed)
        self.truth: Matrix = stream.basis.T
        self.chunks = list(stream)
        self.are_rows = kind is not SpikedMatrices

    @property
    def _reach(self) -> float:
        return float(self.noise * math.sqrt(self.d * math.log(self.n / _ZETA)))

    @property
    def beta(self) -> float:
        """Return the bound on the square root of a trace."""
        signal = math.sqrt(self.k + 2 * math.log(self.n / _ZETA)) if self.gaussian else 1.0
        return signal + self._reach

    @property
    def alpha(self) -> float:
        """Return the bound on the trace of the square root of a diagonal."""
        return float(self.noise * self.d + math.sqrt(self.d) + self._reach)

    @cached_property
    def source(self) -> RowSource:
        """Return the records as the library reads them."""
        if self.are_rows:
            return open_rows(np.concatenate(self.chunks))
        return MatrixSource(self.chunks, self.d)

    def total(self, beta: float = math.inf, alpha: float = math.inf) -> Matrix:
        """Return the sum of matrices scaled to tr A <= beta^2 and tr sqrt(diag A) <= alpha."""
        total = np.zeros((self.d, self.d))
        for chunk in self.chunks:
            diagonals = chunk**2 if self.are_rows else chunk.diagonals()
            shares = np.minimum(1.0, beta**2 / diagonals.sum(axis=1))
            shares = np.minimum(shares, (alpha / np.sqrt(diagonals).sum(axis=1)) ** 2)
            total += (chunk.T * shares) @ chunk if self.are_rows else chunk.total(shares)
        return total

    def error(self, components: Matrix) -> float:
        """Return the Frobenius distance of projectors."""
        return subspace_distance(components, self.truth)

    def run(self, mechanism: Any) -> float:
        """Return the error of a mechanism; not a number where it refuses."""
        clip = Clip(row_norm=self.beta, on_invalid="raise")
        try:
            return self.error(simulate(mechanism, self.source, self.seed, clip).components)
        except EigenveilError:
            return math.nan

    def schedules(self) -> Iterator[tuple[int, Schedule]]:
        """Yield the batch sizes and learning rates of Appendix F.2."""
        leading = self.spikes[0] + self.noise**2
        gap = self.spikes[0] - (self.spikes[1] if self.k > 1 else 0.0)
        fewest = _newton(self.k).fewest(self.d)
        for rule in (self.n / math.log(self.n), math.sqrt(self.n)):
            size = 2 * math.ceil(max(rule, fewest) / 2)  # "increased if necessary"
            steps = self.n // size
            for factor in (1.0, float(self.d)):
                rate = SpikedRate(
                    n=self.n, noise=self.noise, leading=leading, gap=gap, factor=factor
                )
                yield size, rate
            yield size, StepDecay(steps=steps, cutoff=1 / 2, power=1 / 2)
            yield size, StepDecay(steps=steps, cutoff=1 / 3, power=2.0)


def _calibrated(one: type[OnePass], k: int) -> OnePass:
    """Return the mechanism that the whole budget buys."""

    def build(mu: float) -> OnePass:
        return one(strength=Gaussian(mu), n_components=k)

    return build(strength(_BUDGET, lambda mu: build(mu).cost(), "calibrated"))


def _least(errors: Iterator[float]) -> float:
    """Return the smallest of the errors that are numbers."""
    return min((one for one in errors if not math.isnan(one)), default=math.nan)


def _ada(records: _Records, candidates: int) -> float:
    """Return the error of AdaDPO as printed, by the best of its learning rates."""
    return _least(
        records.run(
            BoxedOja(
                strength=Pure(_EPSILON),
                delta=_DELTA,
                n_components=records.k,
                centre="histograms",
                batch_size=size,
                schedule=schedule,
            )
        )
        for size, schedule in islice(records.schedules(), candidates)
    )


def _newton(k: int) -> BoxedOja:
    """Return AdaDPO with the learning rate of this library, which needs no spectrum."""
    return BoxedOja(strength=Pure(_EPSILON), delta=_DELTA, n_components=k, centre="histograms")


def _tangent(records: _Records, candidates: int) -> float:
    """Return that of TAdaDPO as printed after half of the batches."""
    return _least(
        records.run(
            BoxedTangentOja(
                strength=Pure(_EPSILON),
                delta=_DELTA,
                n_components=records.k,
                batch_size=size,
                schedule=schedule,
                warm_batches=records.n // size // 2,
            )
        )
        for size, schedule in islice(records.schedules(), candidates)
    )


def _deflated(records: _Records, inner: Any) -> float:
    """Return the error of components one after the other."""
    one = inner if records.k == 1 else Deflation(inner=inner, n_components=records.k)
    return records.run(one)


def _compared(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Run every method on the same records."""
    rng = np.random.default_rng(seed)
    records = _Records(at, seed)
    k, square = records.k, records.beta**2
    mu = gaussian_strength(_EPSILON, _DELTA)
    clipped = records.total(records.beta)
    both = records.total(records.beta, records.alpha)
    bound = records.beta * records.alpha
    gauss_2 = dp_gauss_2_not_private(clipped, k, square, _EPSILON, _DELTA, rng)
    shuffled = ShuffledOja(
        strength=Pure(_EPSILON), delta=_DELTA, n_records=records.n // k, rate="harmonic"
    )
    slow = at["ojas"] and records.n <= _OJAS_UP_TO
    return {
        "AdaDPO": _ada(records, at["rates"]),
        "AdaDPO, Newton steps": records.run(_newton(k)),
        "k-DP-PCA": _deflated(records, DPPCA(strength=Pure(_EPSILON), delta=_DELTA)),
        "k-DP-Ojas": _deflated(records, shuffled) if slow else math.nan,
        "DP-Gauss-1": records.error(dp_gauss_1(clipped, k, square, mu, rng).T),
        "DP-Gauss-2": records.error(gauss_2.T),
        "DP-Power-Method": _least(
            records.error(dp_power(both, k, bound, steps, mu, rng).T) for steps in _POWER_STEPS
        ),
        "sample PCA": records.error(np.linalg.eigh(records.total())[1][:, -k:].T),
        "oja": records.run(_calibrated(Oja, k)),
        "adaptive-oja": records.run(_calibrated(AdaptiveOja, k)),
    }


def _refined(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Tangent refinement, as printed and ours."""
    records = _Records(at, seed)
    k = records.k
    return {
        "AdaDPO": _ada(records, at["rates"]),
        "AdaDPO, Newton steps": records.run(_newton(k)),
        "AdaDPO, then TAdaDPO": _tangent(records, at["rates"]),
        "sample PCA": records.error(np.linalg.eigh(records.total())[1][:, -k:].T),
        "adaptive-oja": records.run(_calibrated(AdaptiveOja, k)),
        "tangent-oja": records.run(_calibrated(TangentOja, k)),
    }


_METHODS = (
    Method("AdaDPO", "printed", "Algorithm 2; the best of its learning rates, run by run"),
    Method("AdaDPO, Newton steps", "printed", "Algorithm 2 with this library's learning rate"),
    Method("k-DP-PCA", "published", "deflation of [DPPCA] Algorithm 3"),
    Method("k-DP-Ojas", "published", "deflation of [DPPCA] Algorithm 2, rate 1/(1 + j)"),
    Method("DP-Gauss-1", "published", "exact noise, sensitivity of a removed record"),
    Method("DP-Gauss-2", "not private", "noise on the gap drawn again until it is positive"),
    Method("DP-Power-Method", "published", "the best of 2, 3, 5 and 8 iterations, run by run"),
    Method("sample PCA", "not private"),
    Method("oja", "ours", "Algorithm 1 by Newton steps"),
    Method("adaptive-oja", "ours", "Algorithm 2 about the released image"),
)

_SUBJECTS = {
    "as printed": "AdaDPO",
    "Newton steps": "AdaDPO, Newton steps",
    "ours": "adaptive-oja",
}

_COMPARED = (
    Compared(
        "adaptive-oja",
        (
            "AdaDPO",
            "AdaDPO, Newton steps",
            "k-DP-PCA",
            "k-DP-Ojas",
            "DP-Gauss-1",
            "DP-Power-Method",
        ),
        "worst-case",
    ),
)

_LOWER = tuple(
    Claim(f"AdaDPO attains lower subspace error than {rival}", below(rival), _SUBJECTS)
    for rival in ("k-DP-PCA", "k-DP-Ojas", "DP-Gauss-1", "DP-Gauss-2", "DP-Power-Method")
)

_BASE = {
    "n": 50_000,
    "d": 100,
    "k": 5,
    "gap": 0.5,
    "sigma": 0.1,
    "records": "",  # or "normal" rows
    "ojas": True,  # whether k-DP-Ojas, which is slow, runs
    "rates": 8,  # learning rates that AdaDPO has the best of
}

_LARGE = _BASE | {"n": 400_000, "d": 20, "k": 2}
_FEW = {"n": 20_000, "d": 50, "ojas": False, "rates": 2}
_LESS = {"n": 150_000, "d": 10, "ojas": False, "rates": 2}
_UNKNOWN = "n, d and the values on the axes are ours: the text does not give them"
_REPEATS: dict[Scale, int] = {"small": 5, "paper": 10}

FIGURES = (
    Figure(
        name="kpca:fig1",
        source=f"{_PAPER}, Figure 1, section 3.1",
        measure="|UU' - VV'|_F",
        methods=_METHODS,
        panels=(
            Panel("k = 5, d", "d", (50, 100, 200), _BASE, (25, 50), _FEW, True),
            Panel("k = 5, gap", "gap", (0.1, 0.2, 0.5, 0.8), _BASE, (0.2, 0.8), _FEW),
            Panel(
                "k = 5, sigma", "sigma", (0.01, 0.03, 0.1, 0.3), _BASE, (0.01, 0.1, 0.3), _FEW, True
            ),
            Panel("k = 5, n", "n", (20_000, 50_000, 100_000), _BASE, (20_000, 60_000), _FEW, True),
            Panel(
                "k = 2, n",
                "n",
                (400_000, 800_000),
                _LARGE,
                (130_000, 300_000),
                {"d": 10, "rates": 2},
                True,
            ),
            Panel("k = 2, sigma", "sigma", (0.01, 0.03, 0.1), _LARGE, (0.01, 0.1), _LESS, True),
        ),
        work=_compared,
        claims=(
            *_LOWER,
            Claim(
                "the privacy error of AdaDPO vanishes as sigma does (Theorem 2)",
                rises("k = 2, sigma", least=3.0),
                _SUBJECTS,
            ),
        ),
        repeats=_REPEATS,
        compared=_COMPARED,
        notes=(
            _UNKNOWN,
            "AdaDPO and k-DP-PCA as printed need batches that grow with d k: they refuse the "
            "panels with k = 5, so there are two with k = 2 and many records",
        ),
    ),
    Figure(
        name="kpca:fig2",
        source=f"{_PAPER}, Figure 2, section 4",
        measure="|UU' - VV'|_F",
        methods=(
            *_METHODS[:2],
            Method("AdaDPO, then TAdaDPO", "printed", "Algorithm 3 after half of the batches"),
            Method("sample PCA", "not private"),
            _METHODS[-1],
            Method("tangent-oja", "ours", "Algorithm 3 after adaptive-oja"),
        ),
        panels=tuple(
            Panel(
                f"k = {k}, sigma = {sigma}",
                "n",
                (300_000, 600_000),
                _LARGE | {"d": 20, "k": k, "sigma": sigma, "records": "normal", "ojas": False},
                (130_000, 200_000),
                {"d": 10, "rates": 2},
                True,
            )
            for k, sigma in ((1, 0.1), (2, 0.1), (2, 0.3))
        ),
        work=_refined,
        claims=(
            Claim(
                "once the warm start is accurate enough, the tangent phase achieves lower error "
                "than continuing with AdaDPO alone",
                below("AdaDPO"),
                {"as printed": "AdaDPO, then TAdaDPO"},
            ),
            Claim(
                "the same, about the released image",
                below("adaptive-oja"),
                {"ours": "tangent-oja"},
            ),
        ),
        repeats=_REPEATS,
        compared=(Compared("tangent-oja", ("AdaDPO", "AdaDPO, then TAdaDPO"), "worst-case"),),
        notes=(_UNKNOWN,),
    ),
    Figure(
        name="kpca:fig3",
        source=f"{_PAPER}, Figure 3, Appendix F",
        measure="|UU' - VV'|_F",
        methods=_METHODS,
        panels=(
            *(
                Panel(
                    f"d = {d}",
                    "k",
                    (1, 2, 5, 10),
                    _BASE | {"d": d},
                    (1, 2, 5),
                    {"n": 20_000, "ojas": False, "rates": 2},
                )
                for d in (50, 200)
            ),
            Panel("d = 10, many records", "k", (1, 2, 3), _LARGE | {"d": 10}, (1, 2), _LESS),
        ),
        work=_compared,
        claims=_LOWER,
        repeats=_REPEATS,
        compared=_COMPARED,
        notes=(_UNKNOWN,),
    ),
)
