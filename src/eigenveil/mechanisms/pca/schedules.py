r"""The learning rates of [kPCA], Appendix F.2. They need a spectrum, or luck; the default does not.

.. math:: \eta_t = \frac{1}{t + c} \Bigl(\frac{\tau + c}{t + c}\Bigr)^{p\,[t > \tau]}, \quad
          \tau = \lceil \rho T \rceil, \qquad\text{or}\qquad
          \eta_t = \frac{1}{20\, \sigma \lambda_1 s + \Delta t / \ln n}
"""

import math
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Schedule", "SpikedRate", "StepDecay"]


class Schedule(Protocol):
    """Learning rates from public numbers."""

    def rate(self, step: int, steps: int, n: int) -> float:
        """Of the ``step``-th of ``steps`` batches, from 1; ``n`` records in all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecay:
    """1/(t + offset), falling faster after a share ``cutoff`` of the steps."""

    cutoff: float
    power: float
    offset: float = 10.0

    def rate(self, step: int, steps: int, n: int) -> float:
        """Of the ``step``-th of ``steps`` batches, from 1; ``n`` records in all."""
        last = math.ceil(self.cutoff * steps) + self.offset
        here = step + self.offset
        return min(1.0, last / here) ** self.power / here


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikedRate:
    """The source's lambda1_spiked; times the dimension with ``factor`` d."""

    noise: float
    leading: float
    gap: float
    factor: float = 1.0

    def rate(self, step: int, steps: int, n: int) -> float:
        """Of the ``step``-th of ``steps`` batches, from 1; ``n`` records in all."""
        base = 20 * self.noise * self.leading * self.factor
        return 1 / (base + self.gap * step / math.log(n))
