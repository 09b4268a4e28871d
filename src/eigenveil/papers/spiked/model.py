r"""Rows from a covariance of a few spikes over noise, and how far one of them can matter.

.. math:: \Sigma = U \Lambda U' + \sigma^2 I, \quad \lambda_k I \preceq \Lambda \preceq \lambda_1 I

It is enough that Sigma has U for eigenvectors, between lambda_k + sigma^2 and lambda_1 + sigma^2
along them and at most sigma^2 across.

With probability at least 1 - failure over n rows and n further ones, each put in the place of one
row, all rows lie in the ball of `row_norm`, and no replacement moves the projector on the leading k
eigenvectors of the second moment by more than

.. math:: \Delta_1 = 2\sqrt2\, \frac{q_a q_b}{n\,g}

in Frobenius norm: q_a and q_b bound a row inside and outside those eigenvectors, g the gap of the
second moment. Proof: docs/proofs/spiked.md.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scipy.stats import chi2

from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import plural

_PRINTED = 4.0  # C_2 in the experiments of the source
_MESH = 0.1  # of the net on the sphere: 21^m points suffice, and cost a factor 1/(1 - 2 mesh)


class _Spectrum(NamedTuple):
    """Bounds on the second moment of n whitened rows."""

    lowest: float  # eigenvalue among the k coordinates of the spikes
    highest: float  # eigenvalue among the others
    cross: float  # operator norm of the block between them


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikedModel:
    """The assumed law of rows. Fields are public, or released before; never data.

    Attributes
    ----------
    rank : int
        Number of spikes.
    smallest_spike, largest_spike : float
        Bounds on what the spikes add to the noise, lambda_k and lambda_1 = kappa lambda_k.
    noise_variance : float
        sigma^2; an upper bound is safe if the spikes are counted from it.
    failure : float
        Probability, over tables, that the bounds do not hold.
    tail : {"gaussian", "sub-gaussian"}
        Sub-Gaussian: the mean of exp(u'x) is at most exp(proxy u'Sigma u / 2) for every u.
    proxy : float
        Variance proxy of a sub-Gaussian law, relative to its variance; at least 1.
    form : {"quantile", "printed", "federated"}
        "quantile" has a proof. The others are not private and serve comparisons with the papers
        alone: "printed" is the formula of the source with the constant of its experiments, 4, for
        which no failure probability is known. "federated" is that of Li, Cai, Xia, Zhang 2024,
        Algorithm 1, with the constant 1, which tables of the model exceed; rows keep the ball of
        "quantile".

    """

    rank: int
    smallest_spike: float
    largest_spike: float
    noise_variance: float
    failure: float = 1e-6
    tail: Literal["gaussian", "sub-gaussian"] = "gaussian"
    proxy: float = 1.0
    form: Literal["quantile", "printed", "federated"] = "quantile"

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InvalidParameterError("the rank of a spiked model must be at least 1")
        if not 0 < self.smallest_spike <= self.largest_spike < math.inf:
            raise InvalidParameterError("give spikes with 0 < smallest_spike <= largest_spike")
        if not 0 < self.noise_variance < math.inf:
            raise InvalidParameterError("noise_variance must be positive and finite")
        if not 0 < self.failure < 1:
            raise InvalidParameterError("failure must be a probability between 0 and 1")
        if self.tail not in ("gaussian", "sub-gaussian"):
            raise InvalidParameterError("tail must be 'gaussian' or 'sub-gaussian'")
        if not 1 <= self.proxy < math.inf:
            raise InvalidParameterError("proxy must be at least 1, the variance itself")
        if self.form not in ("quantile", "printed", "federated"):
            raise InvalidParameterError("form must be 'quantile', 'printed' or 'federated'")

    @property
    def proven(self) -> bool:
        """Whether tables of the model are private by it; otherwise it is for comparisons alone."""
        return self.form == "quantile"

    @property
    def assumption(self) -> str:
        """The model in words, for a guarantee; a form without a proof has none to state."""
        if not self.proven:
            raise InvalidParameterError(
                f"form={self.form!r} is not private, for comparison only: no guarantee is stated"
            )
        low, high = (s + self.noise_variance for s in (self.smallest_spike, self.largest_spike))
        law = "Gaussian" if self.tail == "gaussian" else f"sub-Gaussian (proxy {self.proxy:g})"
        return (
            f"rows are independent and {law} about the centre, with variance {low:g} to {high:g} "
            f"along {self.rank} unknown {plural('direction', self.rank)} and at most "
            f"{self.noise_variance:g} across, but for a failure probability of "
            f"{self.failure:g} over such tables"
        )

    def row_norm(self, n: int, d: int) -> float:
        """Return a ball that holds all n rows and their replacements."""
        if self.form == "printed":  # where sqrt(2) R^2/n is the source's Delta_2
            spikes = self.largest_spike * (self.rank + math.log(n))
            noise = self.noise_variance * (d + math.log(n))
            return math.sqrt(_PRINTED * (spikes + noise) / math.sqrt(2))
        inside, outside = self._row_quantiles(n, d)
        return math.hypot(
            math.sqrt(self.largest_spike + self.noise_variance) * inside,
            math.sqrt(self.noise_variance) * outside,
        )

    def projector_sensitivity(self, n: int, d: int) -> float:
        """Delta_1: how far one row moves the leading projector, in Frobenius norm.

        No two projectors of rank k are further apart than sqrt(2 min(k, d - k)): where the model
        has nothing better to say, this holds for every table.
        """
        if self.rank >= d:
            return math.sqrt(2)  # there is one projector only; any positive number will do
        most = math.sqrt(2 * min(self.rank, d - self.rank))
        forms = {
            "quantile": self._quantile,
            "printed": self._printed,
            "federated": self._federated,
        }
        return min(most, forms[self.form](n, d))

    def moment_sensitivity(self, n: int, d: int) -> float | None:
        """Delta_2, where the model has one for the second moment along k directions.

        None: sqrt(2) R^2/n for rows in the ball of `row_norm`, whatever they are.
        """
        if self.form != "federated":
            return None
        spikes = self.largest_spike * (self.rank + math.log(n))
        return math.hypot(spikes, self.noise_variance * d) / n

    def _federated(self, n: int, d: int) -> float:
        ratio = self.noise_variance / self.smallest_spike
        return math.sqrt(ratio * (ratio + 1) * d * (self.rank + math.log(n))) / n

    def _printed(self, n: int, d: int) -> float:
        ratio = self.noise_variance / self.smallest_spike
        kappa = self.largest_spike / self.smallest_spike
        size = math.sqrt(d * (self.rank + math.log(n)))
        return _PRINTED * (ratio + math.sqrt(kappa * ratio)) * size / n

    def _quantile(self, n: int, d: int) -> float:
        noise = self.noise_variance
        top, bottom = self.largest_spike + noise, self.smallest_spike + noise
        inside, outside = self._row_quantiles(n, d)
        lowest, highest, cross = self._spectrum(n, d)
        # Without one row: it takes this much from the blocks at most.
        gap = bottom * (lowest - inside**2 / n) - noise * highest
        if gap <= 0:
            return math.inf
        leak = min(1.0, math.sqrt(noise * top) * (cross + inside * outside / n) / gap)
        q_a = math.sqrt(top) * inside
        q_b = math.sqrt(noise + self.largest_spike * leak**2) * outside
        gap -= q_b**2 / n
        return 2 * math.sqrt(2) * q_a * q_b / (n * gap) if gap > 0 else math.inf

    def _row_quantiles(self, n: int, d: int) -> tuple[float, float]:
        """Bounds on k and on d - k whitened coordinates of a row; 8n such events share half of
        the failure probability.
        """
        level = self.failure / (16 * n)
        return self._norm(self.rank, level), self._norm(d - self.rank, level)

    def _norm(self, m: int, level: float) -> float:
        if m == 0:
            return 0.0
        if self.tail == "gaussian":
            return math.sqrt(chi2.isf(level, m))
        tau = math.log(1 / level)  # Hsu, Kakade, Zhang 2012
        return math.sqrt(self.proxy * (m + 2 * math.sqrt(m * tau) + 2 * tau))

    def _spectrum(self, n: int, d: int) -> _Spectrum:
        """Return bounds on the spectrum; six events share half of the failure probability."""
        tau = math.log(12 / self.failure)
        k, others, rows = self.rank, d - self.rank, math.sqrt(n)
        if self.tail == "sub-gaussian":
            deviation = [self._deviation(m, n, tau) for m in (k, others, d)]
            return _Spectrum(1 - deviation[0], 1 + deviation[1], deviation[2])
        t = math.sqrt(2 * tau)  # Davidson, Szarek 2001
        lowest = max(0.0, rows - math.sqrt(k) - t) ** 2 / n
        highest = (rows + math.sqrt(others) + t) ** 2 / n
        cross = (rows + math.sqrt(k) + t) * (math.sqrt(others) + math.sqrt(k) + t) / n
        return _Spectrum(lowest, highest, cross)

    def _deviation(self, m: int, n: int, tau: float) -> float:
        """Return how far the second moment of n whitened sub-Gaussian rows lies from I."""
        if m > 1:  # Bernstein's inequality on a net
            tau += m * math.log(1 + 2 / _MESH)
        at_point = math.sqrt(32 * tau / n) * self.proxy + 2 * self.proxy * tau / n
        return at_point / (1 - 2 * _MESH) if m > 1 else at_point
