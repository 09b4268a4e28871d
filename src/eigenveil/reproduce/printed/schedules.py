r"""The learning rates of [kPCA], Appendix F.2. They need a spectrum, or luck; the default does not.

.. math:: \eta_t = \frac{1}{t + c} \Bigl(\frac{\tau + c}{t + c}\Bigr)^{p\,[t > \tau]}, \quad
          \tau = \lceil \rho T \rceil, \qquad\text{or}\qquad
          \eta_t = \frac{1}{20\, \sigma \lambda_1 s + \Delta t / \ln n}

All of it must be public: a spectrum that was read off the records is not.
"""

import math
from dataclasses import dataclass

__all__ = ["SpikedRate", "StepDecay"]


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
