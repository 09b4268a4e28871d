r"""DP-PCA: one component, from truncated means of batches.

Source: Liu, Kong, Jain, Oh [DPPCA], Algorithm 3 and Appendix E.

The first half of a batch estimates how far the products A w spread, the second their mean about a
private centre (`truncated_mean`, with advanced composition over coordinates), which corrects w.
Records are used once: all batches together cost what one does. Proof: docs/proofs/dp_pca.md.

Differences from the source: those of `boxed-oja`, which this is for one column.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.registry import NOT_AN_OPTION
from eigenveil.messages import option
from eigenveil.papers.kpca.boxed_oja import Boxed
from eigenveil.papers.kpca.truncated_mean import ADVANCED_UP_TO, Composition, TruncatedMean


@dataclass(frozen=True, kw_only=True)
class DPPCA(Boxed):
    """One component by truncated means of batches.

    Attributes
    ----------
    composition : {"advanced", "basic"}, optional
        Over coordinates; by default the advanced one as far as it holds.

    """

    name = "dp-pca"
    about = "a paper's truncated means; one component, many rows"
    source = "Liu, Kong, Jain, Oh 2022, Appendix E"
    otherwise = "oja"
    pays_per_component = True
    unpredicted = "is not predicted: 'oja' needs fewer rows and lost a hundredth as much"
    composition: Composition | None = None
    n_components: int = field(default=1, repr=False, metadata=NOT_AN_OPTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_components != 1:
            raise InvalidParameterError(
                "'dp-pca' finds one component: use ",
                option("mechanism", "deflation"),
                " or 'adaptive-oja' for more",
            )

    @cached_property
    def mean(self) -> TruncatedMean:
        """The mean of a batch."""
        composition: Composition = "advanced" if self.epsilon <= ADVANCED_UP_TO else "basic"
        return TruncatedMean.build(self.epsilon, self.delta, self.composition or composition)

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
