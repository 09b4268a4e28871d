r"""Empirical lower bounds on epsilon: attack a mechanism on two neighbouring tables.

The mechanism runs many times on each. A quarter of the runs choose, for each statistic, the
thresholds that tell the tables apart best; the others measure how often each side falls
beyond them. A claimed cost bounds the first frequency p by a function f of the second, q
(for every event, p <= e^eps q + delta(eps) at every eps). Clopper-Pearson limits on p and q,
corrected for the number of tests, turn a violation into evidence: a correct mechanism is
accused with probability at most ``alpha``.

Statistics: the likelihood-ratio direction of Gaussian noise (how far the run lies along the
difference of the two tables' answers), the energy of the run (noise whose scale depends on
the data), and duplicates (noise that is reused). Silence proves nothing.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from eigenveil.exact.bounded import Bounded
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Step, release
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import delta_of, epsilon_of
from eigenveil.privacy.cost import Cost, Gaussian

_THRESHOLDS = 60
Run = Callable[[], NDArray[np.float64]]
Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_Pair: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One test: the sides' frequencies beyond the threshold, as confidence limits."""

    statistic: str
    power: float  # lower limit on p
    error: float  # upper limit on q
    allowed: float  # largest p the claimed cost admits at this q
    epsilon: float  # lower limit on epsilon at the delta of the report

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.power > self.allowed


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the attacker could show."""

    trials: int
    delta: float
    claimed_epsilon: float
    findings: tuple[Finding, ...]
    duplicates: bool

    @property
    def epsilon_lower_bound(self) -> float:
        """Largest epsilon the runs rule out falling short of, at ``delta``."""
        return math.inf if self.duplicates else max(f.epsilon for f in self.findings)

    @property
    def violated(self) -> bool:
        """Whether the mechanism is less private than it claims."""
        return self.duplicates or any(finding.violated for finding in self.findings)

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "no violation found"
        cause = " (noise was reused)" if self.duplicates else ""
        return (
            f"{verdict}{cause}: epsilon >= {self.epsilon_lower_bound:.3g} shown, "
            f"{self.claimed_epsilon:.3g} claimed at delta = {self.delta:g} "
            f"({self.trials} runs on each table)"
        )


def audit(
    left: Run,
    right: Run,
    *,
    cost: Cost,
    trials: int,
    direction: NDArray[np.float64] | None = None,
    alpha: float = 1e-2,
    delta: float = 1e-5,
    continuous: bool = True,
) -> AuditReport:
    """Run both sides ``trials`` times and test the claimed cost.

    Parameters
    ----------
    left, right : callables
        One run of the mechanism on each of two neighbouring tables, as a flat array.
    cost : Cost
        What the mechanism claims.
    trials : int
        Runs on each table.
    direction : array, optional
        The direction in which the answers differ, where the auditor knows it; otherwise it is
        learned from the first quarter of the runs.
    alpha : float
        Probability of accusing a correct mechanism.
    delta : float
        At which the report states its lower bound on epsilon.
    continuous : bool
        Whether two honest runs can never coincide. Pass False for a readout with few values.

    """
    if trials < 16:
        raise InvalidParameterError("an audit needs at least 16 trials")
    runs = [np.array([np.ravel(run()) for _ in range(trials)]) for run in (left, right)]
    cut = trials // 4
    train, test = [side[:cut] for side in runs], [side[cut:] for side in runs]
    contests = [
        _Contest(
            name,
            train=(sign * score(train[i]), sign * score(train[1 - i])),
            test=(sign * score(test[i]), sign * score(test[1 - i])),
        )
        for name, score in _statistics(train, direction).items()
        for sign in (1.0, -1.0)
        for i in (0, 1)
        # Along the direction from right to left, only left lies above and right below.
        if name != "direction" or (i == 0) == (sign > 0)
    ]
    level = alpha / (2 * len(contests))  # two thresholds each
    allowed = _allowed_power(cost)
    findings = tuple(f for contest in contests for f in contest.findings(allowed, level, delta))
    duplicates = continuous and _reuses_noise(*runs)
    return AuditReport(trials, delta, epsilon_of(cost, delta), findings, duplicates)


def audit_mechanism(
    mechanism: Step[Any],
    left: Bounded,
    right: Bounded,
    *,
    noise: NoiseSource,
    trials: int,
    read: Callable[[Any], NDArray[np.float64]],
    direction: NDArray[np.float64] | None = None,
    alpha: float = 1e-2,
    delta: float = 1e-5,
    continuous: bool = True,
) -> AuditReport:
    """Audit a mechanism on two neighbouring statistics; ``read`` flattens its release."""
    return audit(
        lambda: read(release(mechanism, left, ledger=None, noise=noise)),
        lambda: read(release(mechanism, right, ledger=None, noise=noise)),
        cost=mechanism.cost(),
        trials=trials,
        direction=direction,
        alpha=alpha,
        delta=delta,
        continuous=continuous,
    )


def _statistics(
    train: list[NDArray[np.float64]], direction: NDArray[np.float64] | None
) -> dict[str, Score]:
    """Return scores that may depend on the first quarter of the runs only."""
    centre = (train[0].mean(axis=0) + train[1].mean(axis=0)) / 2
    variance = (train[0].var(axis=0) + train[1].var(axis=0)) / 2
    gap = train[0].mean(axis=0) - train[1].mean(axis=0) if direction is None else direction
    # A coordinate without noise is not ignored: it outweighs all others where the sides differ.
    smallest = 1e-12 * float(np.max(variance + gap**2)) or 1.0
    weight = 1.0 / np.maximum(variance, smallest)

    def along(runs: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (runs - centre) @ (gap * weight)
        return scores

    def energy(runs: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (runs - centre) ** 2 @ weight
        return scores

    return {"direction": along, "energy": energy}


@dataclass(frozen=True, slots=True, eq=False)
class _Contest:
    """Scores of both sides under one statistic; the first side should exceed the threshold."""

    name: str
    train: _Pair
    test: _Pair

    def findings(
        self, allowed: Callable[[float], float], level: float, delta: float
    ) -> Iterator[Finding]:
        """Choose thresholds on the first quarter of the runs, measure on the rest."""
        pooled = np.concatenate(self.train)
        thresholds = np.unique(np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS))).tolist()

        def excess(threshold: float) -> float:
            power, error = _limits(self.train, threshold, level)
            return power - allowed(error)

        def epsilon(threshold: float) -> float:
            return _epsilon(*_limits(self.train, threshold, level), delta)

        for goal in (excess, epsilon):
            power, error = _limits(self.test, max(thresholds, key=goal), level)
            yield Finding(self.name, power, error, allowed(error), _epsilon(power, error, delta))


def _epsilon(power: float, error: float, delta: float) -> float:
    return max(0.0, math.log((power - delta) / error)) if power > delta else 0.0


def _limits(scores: _Pair, threshold: float, level: float) -> tuple[float, float]:
    """Clopper-Pearson: lower limit on the first frequency, upper limit on the second."""
    first, second = scores
    hits, misses = int(np.sum(first > threshold)), int(np.sum(second > threshold))
    n, m = len(first), len(second)
    power = float(beta.ppf(level / 2, hits, n - hits + 1)) if hits else 0.0
    error = float(beta.ppf(1 - level / 2, misses + 1, m - misses)) if misses < m else 1.0
    return power, error


def _allowed_power(cost: Cost) -> Callable[[float], float]:
    """Return the trade-off the cost promises: largest p at a given q."""
    if isinstance(cost, Gaussian):
        return lambda q: float(norm.cdf(norm.ppf(q) + cost.mu)) if q < 1 else 1.0
    # An approximate cost has no finite epsilon below its own delta.
    widest = next(e for e in (epsilon_of(cost, 10.0**-k) for k in range(6, -1, -1)) if e < math.inf)
    grid = np.linspace(0.0, max(2 * widest, 1.0), 200).tolist()
    curve = [(math.exp(epsilon), delta_of(cost, epsilon)) for epsilon in grid]
    return lambda q: min(1.0, *(factor * q + delta for factor, delta in curve))


def _reuses_noise(left: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    """Return whether two runs coincide, or paired runs differ by the same amount throughout.

    Fewer than three free coordinates on a grid of 2**20 points may coincide by chance.
    """
    spread = np.maximum(left.std(axis=0), right.std(axis=0))
    if not spread.any():
        return True
    if np.linalg.matrix_rank(left[:200] - left[:200].mean(axis=0)) < 3:
        return False
    everything = np.concatenate([left, right])
    repeated = len(np.unique(everything, axis=0)) < len(everything)
    paired = bool(np.all((left - right).std(axis=0) <= 1e-6 * spread))
    return repeated or paired
