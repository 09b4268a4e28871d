r"""DP-PCA: one component, from truncated means of batches.

Source: Liu, Kong, Jain, Oh [DPPCA], Algorithm 3 and Appendix E.

The first half of a batch estimates how far the products A w spread, the second their mean about a
private centre (`truncated_mean`, with advanced composition over coordinates), which corrects w.
Records are used once: all batches together cost what one does. Proof: docs/proofs/dp_pca.md.

Differences from the source
---------------------------
1. The learning rate is that of `one_pass`, which needs no spectrum; ``schedule`` is the source's.
2. Those of `truncated_mean`.
3. Batches grow as in `one_pass`, from the smallest in which the histograms show anything.
4. The trace of rows, which the learning rate looks at, is bought on the half of the first batch
   that pays for no mean.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.batches import Records
from eigenveil.data.clip import Clip
from eigenveil.data.gram import trace
from eigenveil.data.matrices import MatrixBatch
from eigenveil.data.updates import View
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.one_pass import Iterate, OnePass, Schedule
from eigenveil.mechanisms.scalars.trace import PrivateTrace
from eigenveil.mechanisms.truncated_mean import Composition, TruncatedMean, halves
from eigenveil.privacy.cost import Cost

__all__ = ["DPPCA"]

_GROWTH = 9  # of a table over its first batch, by `sizes`: three batches


@dataclass(frozen=True, slots=True, kw_only=True)
class DPPCA(OnePass):
    """One direction by truncated means. Fields are public, never data."""

    name: ClassVar[str] = "dp-pca"
    mean: TruncatedMean

    def __post_init__(self) -> None:
        if self.n_components != 1:
            raise InvalidParameterError(
                "'dp-pca' finds one component: use mechanism='deflation' or 'adaptive-oja' for more"
            )

    @classmethod
    def build(
        cls,
        epsilon: float,
        delta: float,
        n_components: int = 1,
        *,
        composition: Composition = "advanced",
        batch_size: int | None = None,
        schedule: Schedule | None = None,
    ) -> Self:
        """For an allotment of `printed_cost`."""
        mean = TruncatedMean.build(epsilon, delta, composition)
        return cls(
            mu=mean.noise.mu,
            n_components=n_components,
            batch_size=batch_size,
            schedule=schedule,
            mean=mean,
        )

    def cost(self) -> Cost:
        """Of one batch, and so of all."""
        return self.mean.cost()

    def width(self, d: int) -> int:
        """One column."""
        return 1

    def first_batch(self, d: int) -> int:
        """As many as the histograms of all coordinates need."""
        return self.batch_size or self.mean.needed_records(d)

    def needed_records(self, d: int) -> int:
        """Fewest records that can be used."""
        return self.batch_size or _GROWTH * self.first_batch(d)

    def check_records(self, d: int, n: int | None) -> None:
        """Refuse batches too small, before anything is charged."""
        needed = self.mean.needed_records(d)
        if self.batch_size is not None and self.batch_size < needed:
            raise InvalidParameterError(
                f"{self.name!r} needs batches of {needed} records at least for {d} columns at this "
                "budget: give a larger batch_size or a larger budget"
            )
        OnePass.check_records(self, d, n)

    def advance(self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate) -> Iterate:
        """One batch, the trace on the way; what is left at the end of a stream is left out."""
        return self._advance(iterate, batch, clip, gate, np.empty((0, len(iterate.basis))))

    def step(self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate) -> Iterate:
        """Correct the estimate by one batch."""
        return self._step(iterate, batch, clip, gate, np.empty((0, len(iterate.basis))))

    def direction(
        self, records: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, float]:
        """A unit vector orthogonal to the rows of ``away``, the eigenvalue along it, and the
        deviation of the noise on an entry of its image.
        """
        d, n = away.shape[1], len(records.records)
        self.check_records(d, n)
        iterate = self.start(d, clip, gate)
        if len(away):  # what the trace leaves to other directions is not known
            iterate = replace(iterate, basis=_outside(iterate.basis, away), trace=math.nan)
        used = 0
        for size in self.sizes(n, d):
            iterate = self._advance(iterate, records.slice(used, used + size), clip, gate, away)
            used += size
        direction = iterate.basis[:, 0]
        value = float(direction @ iterate.image[:, 0])
        return direction, value, math.sqrt(iterate.noise_variance)

    def _advance(
        self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> Iterate:
        too_small = len(batch.records) < self.mean.needed_records(len(iterate.basis))
        if too_small and iterate.steps:  # the end of a stream
            return iterate
        first, _ = halves(batch)
        if math.isnan(iterate.trace) and not isinstance(first, MatrixBatch) and not len(away):
            noise = PrivateTrace(noise=self.mean.noise)
            released = gate.draw(noise, trace(first, clip, gate.adjacency))
            iterate = replace(iterate, trace=released.value)
        return self._step(iterate, batch, clip, gate, away)

    def _step(
        self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> Iterate:
        noisy = self.mean.estimate(batch, clip, View(iterate.basis), gate, away)
        moved = iterate.corrected(
            noisy.values - iterate.image, noisy.deviation, batch, self.schedule
        )
        return replace(moved, basis=_outside(moved.basis, away))


def _outside(basis: NDArray[np.float64], away: NDArray[np.float64]) -> NDArray[np.float64]:
    """A unit column orthogonal to the rows of ``away``, which rounding may have moved."""
    outside = basis - away.T @ (away @ basis)
    return np.asarray(outside / np.linalg.norm(outside))
