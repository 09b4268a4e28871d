r"""DP-PCA: one component, from truncated means of batches.

Source: Liu, Kong, Jain, Oh [DPPCA], Algorithm 3 and Appendix E.

The first half of a batch estimates how far the products A w spread, the second their mean about a
private centre (`truncated_mean`, with advanced composition over coordinates), which corrects w.
Records are used once: all batches together cost what one does. Proof: docs/proofs/dp_pca.md.

Differences from the source: those of `boxed-oja`, which this is for one column.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePassEntry, Schedule
from eigenveil.mechanisms.registry import Terms
from eigenveil.messages import option
from eigenveil.papers.kpca.boxed_oja import Boxed
from eigenveil.papers.kpca.truncated_mean import ADVANCED_UP_TO, Composition, TruncatedMean


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedMeanPCA(Boxed):
    """One direction by truncated means. Fields are public, never data."""

    name: ClassVar[str] = "dp-pca"

    def __post_init__(self) -> None:
        if self.n_components != 1:
            raise InvalidParameterError(
                "'dp-pca' finds one component: use ",
                option("mechanism", "deflation"),
                " or 'adaptive-oja' for more",
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
        """Build the method for an allotment of `printed_cost`."""
        mean = TruncatedMean.build(epsilon, delta, composition)
        return cls(
            mu=mean.noise.mu,
            n_components=n_components,
            batch_size=batch_size,
            schedule=schedule,
            mean=mean,
        )

    def direction(
        self, records: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, float]:
        """Return a unit vector orthogonal to the rows of ``away``, the eigenvalue along it, and the
        deviation of the noise on an entry of its image.
        """
        d, n = away.shape[1], len(records.records)
        self.check_records(d, n)
        beside = away if len(away) else None
        iterate = self.start(d, clip, gate)
        if beside is not None:  # what the trace leaves to other directions is not known
            iterate = replace(iterate, basis=_outside(iterate.basis, away), trace=math.nan)
        used = 0
        for size in self.sizes(n, d):
            batch = records.slice(used, used + size)
            iterate = self.advance(iterate, batch, clip, gate, beside)
            iterate = replace(iterate, basis=_outside(iterate.basis, away))
            used += size
        direction = iterate.basis[:, 0]
        value = float(direction @ iterate.image[:, 0])
        return direction, value, math.sqrt(iterate.noise_variance)


def _outside(basis: NDArray[np.float64], away: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a unit column orthogonal to the rows of ``away``, which rounding may have moved."""
    outside = basis - away.T @ (away @ basis)
    return np.asarray(outside / np.linalg.norm(outside))


@dataclass(frozen=True, kw_only=True)
class DPPCA(OnePassEntry):
    """One component by truncated means of batches.

    Attributes
    ----------
    composition : {"advanced", "basic"}, optional
        Over coordinates; by default the advanced one as far as it holds.

    """

    name = "dp-pca"
    about = "a paper's truncated means; one component, many rows"
    source = "Liu, Kong, Jain, Oh 2022, Appendix E"
    needs_delta = True
    pays_per_component = True
    unpredicted = "is not predicted: 'oja' needs fewer rows and lost a hundredth as much"
    composition: Composition | None = None

    def gaussian(self, mu: float, terms: Terms) -> TruncatedMeanPCA:
        """Build the mechanism; its strength is an epsilon."""
        composition: Composition = "advanced" if mu <= ADVANCED_UP_TO else "basic"
        return TruncatedMeanPCA.build(
            mu,
            terms.delta(self.name, "oja"),
            terms.n_components,
            composition=self.composition or composition,
            batch_size=self.batch_size,
            schedule=self.schedule,
        )


ENTRY = DPPCA()
