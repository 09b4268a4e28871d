"""What a private regression will be like, before anything is spent.

The regression itself is run on assumed tables: normal features of equal variance, of which
neighbours have an assumed correlation, and a target with as much of its variance explained as is
assumed. Noise depends on n mu and n epsilon alone, so that large tables are stood for by smaller
ones of the same n mu and n epsilon; what sampling leaves is that of the large ones.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.exact.gram import most_rows
from eigenveil.exceptions import EigenveilError, InvalidParameterError, NothingFoundError
from eigenveil.numerics.random import SimulationSource, normals
from eigenveil.planning.linear_plan import RegressionPlan
from eigenveil.planning.linear_release import release_regression
from eigenveil.planning.prediction import MOST_SEARCHED_ROWS, Needed, Prediction, banded, least
from eigenveil.planning.request import Request, Targets
from eigenveil.privacy.accounting import gaussian_delta
from eigenveil.privacy.adjacency import ROW, Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.rows.memory import ArraySource
from eigenveil.text import plural

MEASURE = (
    "median extra squared error of predictions beyond the best line, as a share of the target's "
    "variance"
)

_RUNS, _FEW = 40, 12  # releases of a prediction, and of each step of a search
_ROWS, _CELLS = 10_000, 400_000  # of a simulated table, at most
CORRELATION = 0.3  # between none and the 0.5 that tables of measurements often have
_LEAST_DELTA, _MOST_DELTA = 1e-100, 0.1  # of a budget that has the same mu and epsilon
_REACH = 4.0  # half a stated range of the target, in its standard deviations
_SMALLEST, _LARGEST = 1e-3, 1e4  # budgets that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionSituation:
    """Public numbers of a regression, and what is assumed about its table.

    Attributes
    ----------
    n, p : int
        Rows, or whom else ``unit`` counts, and features.
    budget : Budget
        What may be spent.
    r2 : float
        Assumed share of the target's variance that the features explain.
    correlation : float
        Assumed correlation of neighbouring features; those farther apart have its powers.
    adjacency : Adjacency
        The neighbours; under add/remove features are assumed to be scaled.
    scaled : bool
        Whether scales or ranges of features are stated.
    ranged : bool
        Whether a range of the target is stated, assumed to be eight standard deviations wide.
    unit : {"row", "group", "person"}
        What is protected, and counted.

    """

    n: int
    p: int
    budget: Budget
    r2: float = 0.5
    correlation: float = CORRELATION
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    scaled: bool = False
    ranged: bool = False
    unit: Literal["row", "group", "person"] = "row"

    def __post_init__(self) -> None:
        if not 0 <= self.r2 < 1:
            raise InvalidParameterError(
                "r2, the assumed share of variance explained, must lie between 0 and 1"
            )
        if not -1 < self.correlation < 1:
            raise InvalidParameterError(
                "the assumed correlation of neighbouring features must lie between -1 and 1"
            )
        if not (self.p >= 1 and 1 <= self.n <= most_rows(self.p + 1)):
            raise InvalidParameterError(
                "a regression needs at least one feature and one row, and "
                f"{most_rows(self.p + 1):,} rows at most"
            )

    def __str__(self) -> str:
        return (
            f"regression on {self.p:,} {plural('feature', self.p)}, "
            f"{self.n:,} {plural(self.unit, self.n)}, {self.budget}, "
            f"R2 = {self.r2:g}, correlation of neighbouring features = {self.correlation:g}"
        )

    @property
    def simulated_rows(self) -> int:
        """Rows of a simulated table."""
        return min(self.n, max(_ROWS, 20 * self.p), max(100, _CELLS // self.p))

    def request(self) -> Request:
        """Return what is asked of a simulated table, with the n mu of the real one."""
        rows = self.simulated_rows
        known = self.scaled or not self.adjacency.count_is_public
        reach = _REACH
        return Request(
            releases="regression",
            budget=_amplified(self.budget, self.n / rows),
            adjacency=self.adjacency,
            unit=ROW,
            n_columns=self.p,
            n_rows=rows if self.adjacency.count_is_public else None,
            scale=np.ones(self.p) if known else None,
            targets=Targets(
                count=1,
                boxes=((-reach, reach),) if self.ranged else None,
                accepts_means=True,  # whose error is foreseen, too
            ),
        )


def _amplified(budget: Budget, more: float) -> Budget:
    """Return a budget of so many times the mu and so many times the epsilon."""
    if more == 1:
        return budget
    if budget.is_pure:
        assert budget.epsilon is not None  # a pure budget has nothing else
        return Budget(epsilon=budget.epsilon * more)
    mu = whole_strength(budget, pure=False) * more
    if budget.epsilon is not None:
        epsilon = budget.epsilon * more
        delta = gaussian_delta(mu, epsilon)
        if _LEAST_DELTA < delta < _MOST_DELTA:
            return Budget(epsilon=epsilon, delta=delta)
    return Budget(rho=mu**2 / 2)


@lru_cache(maxsize=256)
def predict_regression(situation: RegressionSituation, runs: int = _RUNS) -> Prediction:
    """Return the median error of a regression: see `MEASURE`; r2 is lost by the mean alone."""
    none = Prediction(mechanism="linear", measure=MEASURE)
    errors = []
    with threadpool_limits(1):
        try:
            request = situation.request()
            plan = RegressionPlan(request=request)
            for seed in range(runs):
                try:
                    errors.append(_simulated(situation, request, seed))
                except NothingFoundError:
                    continue
        except EigenveilError as error:
            return replace(none, why=str(error), refusal=error.with_traceback(None))
    if len(errors) < runs / 2:
        return replace(none, why="in most releases no distance of the target would stand out")
    shares = tuple(plan.shares_by_name.items())
    why = "only the mean of the target can be released" if plan.means_alone else ""
    middle = float(np.median(errors))  # a search that fails costs everything, and moves a mean
    found = banded(replace(none, mechanism=plan.procedure.name), errors)
    assert found.low is not None  # simulated
    return replace(found, error=middle, low=min(found.low, middle), shares=shares, why=why)


def _simulated(situation: RegressionSituation, request: Request, seed: int) -> float:
    """Return the error of one release from a fresh table, whose target has variance 1."""
    source = SimulationSource(seed).bound_to(np.array([situation.p]))
    n, p = situation.simulated_rows, situation.p
    covariance = situation.correlation ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    rows = normals(source, (n, p)) @ np.linalg.cholesky(covariance).T
    slopes = normals(source, (p,))
    slopes *= np.sqrt(situation.r2 / (slopes @ covariance @ slopes))
    target = rows @ slopes + np.sqrt(1 - situation.r2) * normals(source, (n,))
    table = ArraySource(np.column_stack([rows, target]))
    fitted = release_regression(request, table, ledger=None, noise=SimulationSource(seed))
    model = fitted.model
    found, kept = np.zeros(p), np.isfinite(model.scale)
    offset = model.targets[0].offset
    coefficients = model.targets[0].coefficients
    if coefficients.size > 1:  # otherwise the offset is all there is
        found[kept] = coefficients[1:] / model.scale[kept]
        offset += model.lift * coefficients[0] - found @ model.centre
    if n == situation.n:
        off = found - slopes
        return float(off @ covariance @ off + offset**2)
    # Noise moves the line of the simulated rows; theirs is nearer to the truth with more of them.
    ones = np.column_stack([np.ones(n), rows])
    best = np.linalg.lstsq(ones, target, rcond=None)[0]
    off = found - best[1:]
    moved = float(off @ covariance @ off + (offset - best[0]) ** 2)
    return moved + (1 - situation.r2) * (p + 1) / situation.n


def needed_regression_epsilon(situation: RegressionSituation, error: float) -> Needed:
    """Return the smallest epsilon, or rho, for an ``error``; a delta stays as it is."""
    _require_reachable(situation, error)
    budget = situation.budget
    name = "rho" if budget.epsilon is None else "epsilon"

    def at(size: float) -> Prediction:
        changed = Budget(rho=size) if name == "rho" else Budget(epsilon=size, delta=budget.delta)
        return predict_regression(replace(situation, budget=changed), _FEW)

    return least(at, error, _SMALLEST, _LARGEST, name, whole=False)


def needed_regression_rows(situation: RegressionSituation, error: float) -> Needed:
    """Return the smallest number of rows for an ``error``."""
    _require_reachable(situation, error)
    return least(
        lambda size: predict_regression(replace(situation, n=round(size)), _FEW),
        error,
        float(situation.p + 2),
        float(MOST_SEARCHED_ROWS),
        f"{situation.unit}s",
        whole=True,
    )


def _require_reachable(situation: RegressionSituation, error: float) -> None:
    if not 0 < error < 1:
        raise InvalidParameterError("the wanted error must lie between 0 and 1")
    if error >= situation.r2:
        raise InvalidParameterError(
            f"the wanted error must be below {situation.r2:g}: so much the mean of the target "
            "loses alone"
        )
