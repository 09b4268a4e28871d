r"""The papers' rates, to be drawn beside predictions.

Their constants and logarithms are unknown, so a value on its own means nothing: slopes do (how an
error falls with rows and budget), and crossings (where privacy begins to cost more than sampling).
Each rate comes as the sum of what sampling and what privacy contributes.
"""

import math
from dataclasses import dataclass

from eigenveil.exceptions import InvalidParameterError
from eigenveil.planning.request import Situation, Spiked
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian, Pure


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One rate at a situation, up to a constant.

    Attributes
    ----------
    name, formula, source : str
        What it is about, how it reads, and where it is from.
    sampling, privacy : float
        What it is the sum of; privacy costs more than sampling where the second is larger. Zero
        where a rate is about the table itself.
    optimal : bool
        Whether a lower bound of the same form is known.

    """

    name: str
    formula: str
    source: str
    sampling: float
    privacy: float
    optimal: bool

    @property
    def value(self) -> float:
        """The rate."""
        return self.sampling + self.privacy


def reference(situation: Situation) -> tuple[Rate, ...]:
    """Return the rates that speak about a situation, without their constants.

    Epsilon is that of the budget; for ``rho`` alone it is sqrt(2 rho), which differs from it by
    logarithms, as the rates themselves do.
    """
    if situation.n is None:
        raise InvalidParameterError("the number of rows is private: assume one to draw rates")
    if situation.task == "pca":
        return _components(situation, situation.n)
    return _matrix(situation, situation.n)


def _epsilon(situation: Situation) -> float:
    budget = situation.budget
    return strength(budget, Gaussian, "rate") if budget.epsilon is None else budget.epsilon


def _components(situation: Situation, n: int) -> tuple[Rate, ...]:
    d, epsilon = situation.d, _epsilon(situation)
    values, k = situation.eigenvalues, situation.k or 1
    sampling, privacy = math.sqrt(d * k / n), d * k / (n * epsilon)
    rates = []
    if isinstance(situation.spectrum, Spiked):
        ratio = 1 / situation.spectrum.signal_to_noise
        psi = ratio + math.sqrt(ratio)
        rates.append(
            Rate(
                name="subspace of a spiked model, Frobenius",
                formula="sqrt(k) psi (sqrt(d/n) + d sqrt(k)/(n eps))",
                source="Cai, Xia, Zha 2024, Theorem 4.2",
                sampling=psi * sampling,
                privacy=psi * privacy,
                optimal=True,
            )
        )
    gap = float(values[k - 1] - values[k]) if k < d else 0.0
    if gap > 0:
        for name, top, source in (
            ("stochastic k-PCA, Frobenius", float(values[0]), "Theorem 2"),
            (
                "the same with a tangent step",
                math.sqrt(float(values[0] * values[k])),
                "Corollary 3",
            ),
        ):
            factor = "sqrt(l_1 l_{k+1})" if source == "Corollary 3" else "l_1"
            rates.append(
                Rate(
                    name=name,
                    formula=f"{factor}/(l_k - l_{{k+1}}) (sqrt(dk/n) + dk/(n eps))",
                    source=f"Düngler, Sanyal, {source}",
                    sampling=top / gap * sampling,
                    privacy=top / gap * privacy,
                    optimal=False,
                )
            )
    return tuple(rates)


def _matrix(situation: Situation, n: int) -> tuple[Rate, ...]:
    """Return errors in units of the Frobenius norm of the covariance, as predictions have them."""
    d, epsilon = situation.d, _epsilon(situation)
    values = situation.eigenvalues
    norm = float(values @ values) ** 0.5
    rates = []
    if isinstance(situation.spectrum, Spiked):
        k, spike = situation.spectrum.k, situation.spectrum.signal_to_noise
        beside = math.sqrt(1 + spike)
        size = math.sqrt(k * (1 + spike) ** 2 + d - k)
        sampling = spike * math.sqrt(k / n) + beside * math.sqrt(d / n)
        rates.append(
            Rate(
                name="spiked covariance, Frobenius",
                formula="sqrt(k) (l (sqrt(k/n) + k^1.5/(n eps)) + "
                "sqrt(s (l + s)) (sqrt(d/n) + sqrt(k) d/(n eps)))",
                source="Cai, Xia, Zha 2024, section 3.2",
                sampling=math.sqrt(k) * sampling / size,
                privacy=k * (spike * k + beside * d) / (n * epsilon) / size,
                optimal=True,
            )
        )
    # Theorem 1 is in rho and for rows in the unit ball; the trace is the squared spread.
    rho = (
        strength(situation.budget, Pure if situation.budget.is_pure else Gaussian, "rate") ** 2 / 2
    )
    trace = situation.assumed_spread**2
    direct = d / (math.sqrt(rho) * n)
    separate = d**0.25 * math.sqrt(trace / n) * rho**-0.25 + math.sqrt(d) / (math.sqrt(rho) * n)
    rates.append(
        Rate(
            name="any covariance, Frobenius",
            formula="min(d/n, d^(1/4) sqrt(tr/n) + sqrt(d)/n)",
            source="Dong, Liang, Yi 2022, Theorem 1",
            sampling=0.0,  # against the table itself
            privacy=min(direct, separate) / (trace * norm),
            optimal=False,
        )
    )
    return tuple(rates)
