r"""AdaptiveOja: one-pass Oja whose noise follows how far the records are from what is expected.

Source: Düngler, Sanyal [kPCA], Algorithm 2 (AdaDPO), with PrivRange and TruncatedMean.

.. math:: r = \text{private quantile of } |A_i Q - P|_F, \qquad
          D = \frac1m \sum_i \mathrm{clip}_r(A_i Q - P) + Z

with Z of independent N(0, (2r/(m mu))^2) and P, Q as in `one_pass`. P is what earlier batches have
released, so a centre costs nothing; where records vary little about their mean, r and the noise
fall from batch to batch as P comes near it. Proof: docs/proofs/adaptive_oja.md.

Differences from the source
---------------------------
1. The centre is the released image P: no histogram for each of d k coordinates, whose shares of the
   budget make the source's method need huge tables.
2. The range is a quantile of distances in Frobenius norm, on a public scale, which some hundred
   records find. Records are pulled in to a ball and not to a box, which has sqrt(d k) times its
   half-width in every corner.
3. Both steps see the whole batch and are composed; the source halves it. Where a batch is too small
   for the quantile, its records are pulled in to their stated bound.
4. The learning rate is that of `one_pass`.

``form="printed"`` is the source: `truncated_mean` on the two halves of a batch, k columns.
``form="box"`` has its spread and its box, but the centre is a rough Gaussian mean on the half of
the box, composed with the last one in mu; the box is as much wider as that centre may be off.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from eigenveil.data.batches import Records
from eigenveil.data.clip import NO_EXPONENT, Clip
from eigenveil.data.source import Batch
from eigenveil.data.updates import REACH, View, update_counts, update_sum
from eigenveil.exceptions import (
    InvalidParameterError,
    NothingFoundError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.additive import GaussianNoise, NoisyVector
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.one_pass import Iterate, OnePass, Schedule
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.mechanisms.truncated_mean import TruncatedMean, boxed_mean, halves, root_spread
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["AdaptiveOja", "Form"]

Form = Literal["ball", "box", "printed"]
_ROUGH = 0.1  # of mu^2 for the centre of a box
_GROWTH = 9  # of a table over its first batch, by `sizes`: three batches
_RANGE = 0.25  # epsilon of the quantile over mu: a sixteenth of mu^2
_SCALES = 16.0  # of the search's noise: what a bracket beyond all records should miss


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveOja(OnePass):
    """A private radius about the image, then noisy means. Fields are public, never data."""

    name: ClassVar[str] = "adaptive-oja"
    level: ClassVar[float] = 0.75  # of the quantile; lower where records are few
    epsilon: float
    form: Form = "ball"
    mean: TruncatedMean | None = None  # of the other forms

    def __post_init__(self) -> None:
        if (self.form == "ball") != (self.mean is None):
            raise InvalidParameterError("form='ball' has no truncated mean, other forms need one")

    @classmethod
    def build(
        cls,
        strength: float,
        k: int,
        *,
        batch_size: int | None = None,
        schedule: Schedule | None = None,
        form: Form = "ball",
        delta: float | None = None,
    ) -> Self:
        """For k components; ``strength`` is the mu of the means, or the epsilon of `printed_cost`
        for the forms that are not a ball, which need the budget's ``delta``.
        """
        if form != "ball":
            if delta is None:
                raise UnsupportedNotionError(
                    f"form={form!r} may miss with a small probability: give epsilon with delta, or "
                    "leave the form out"
                )
            mean = TruncatedMean.build(strength, delta, "basic")
            return cls(
                mu=mean.noise.mu,
                epsilon=mean.spread.epsilon,
                form=form,
                mean=mean,
                n_components=k,
                batch_size=batch_size,
                schedule=schedule,
            )
        return cls(
            mu=strength,
            epsilon=_RANGE * strength,
            n_components=k,
            batch_size=batch_size,
            schedule=schedule,
        )

    def cost(self) -> Cost:
        """Both steps on one batch, and so on all."""
        if self.mean is not None:
            return self.mean.cost()
        return compose(Gaussian(self.mu), self._quantile(1).cost())

    def width(self, d: int) -> int:
        """More columns than asked for, but not in a box, whose noise grows with them."""
        return OnePass.width(self, d) if self.form == "ball" else min(d, self.n_components)

    def first_batch(self, d: int) -> int:
        """Enough for the quantile, or the histograms, too."""
        first = OnePass.first_batch(self, d)
        return first if self.batch_size else max(first, self._fewest(d))

    def needed_records(self, d: int) -> int:
        """Fewest records that can be used."""
        if self.form == "ball":
            return OnePass.needed_records(self, d)
        return _GROWTH * self.first_batch(d) if self.batch_size is None else 2 * self.batch_size

    def check_records(self, d: int, n: int | None) -> None:
        """Refuse too few, before anything is charged."""
        if self.form != "ball" and self.batch_size and self.batch_size < self._fewest(d):
            raise InvalidParameterError(
                f"form={self.form!r} needs batches of {self._fewest(d)} records at least for {d} "
                "columns at this budget: give a larger batch_size or a larger budget"
            )
        OnePass.check_records(self, d, n)

    def _fewest(self, d: int) -> int:
        """Records of a batch that show anything."""
        if self.mean is None:
            return math.ceil(self._enough)
        if self.form == "box":
            return 2 * self.mean.spread.needed_records
        return self.mean.needed_records(d * self.width(d))

    @property
    def _enough(self) -> float:
        """Records that a median needs."""
        return 4 * _SCALES / self.epsilon

    def _quantile(self, records: int) -> PrivateQuantile:
        level = min(self.level, max(0.5, 1 - 2 * _SCALES / (records * self.epsilon)))
        return PrivateQuantile(epsilon=self.epsilon, level=level)

    def view(self, iterate: Iterate) -> View:
        """What a step looks at."""
        return View(iterate.basis, iterate.image, weighted=True)

    def step(self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate) -> Iterate:
        """Correct the estimate by one batch."""
        if self.mean is not None:
            if iterate.steps and len(batch.records) < self._fewest(len(iterate.basis)):
                return iterate  # the end of a stream
            noisy = self._boxed(self.mean, View(iterate.basis), batch, clip, gate)
            correction = noisy.values - iterate.image
            return iterate.corrected(correction, noisy.deviation, batch, self.schedule)
        view = self.view(iterate)
        radius = self._radius(batch, clip, view, gate)
        query = update_sum(batch, clip, view, gate.adjacency, radius)
        noisy = gate.draw(GaussianNoise(mu=self.mu), query)
        values = view.restored(noisy.values)
        return iterate.corrected(values, noisy.deviation, batch, self.schedule)

    def traced(
        self, iterate: Iterate, batch: Batch, clip: Clip, gate: Gate
    ) -> tuple[Self, Iterate]:
        """A box leaves nothing for the trace."""
        return (self, iterate) if self.mean else OnePass.traced(self, iterate, batch, clip, gate)

    def _boxed(
        self, mean: TruncatedMean, view: View, batch: Records, clip: Clip, gate: Gate
    ) -> NoisyVector:
        """Noisy mean of AQ in a box."""
        nothing = np.empty((0, len(view.basis)))
        if self.form == "printed":
            return mean.estimate(batch, clip, view, gate, nothing)
        first, second = halves(batch)
        width = root_spread(mean.spread.estimate(first, clip, view, gate, nothing), clip)
        rough, rest = (GaussianNoise(mu=mu) for mu in split(self.mu, (_ROUGH, 1 - _ROUGH)))
        centre = gate.draw(rough, update_sum(second, clip, view, gate.adjacency))
        about, zeta = replace(view, centre=centre.values), mean.spread.zeta
        return boxed_mean(
            rest, second, clip, about, gate, width, zeta, nothing, margin=centre.largest
        )

    def _radius(self, batch: Records, clip: Clip, view: View, gate: Gate) -> float:
        size = len(batch.records)
        if size < self._enough:
            return REACH * clip.radius**2
        counts = update_counts(batch, clip, view, gate.adjacency)
        found = gate.draw(self._quantile(size), counts)
        if found == NO_EXPONENT:
            raise NothingFoundError(
                "no distance of records from their mean was found, and the budget is spent: most "
                "records may be equal, or far smaller than the stated bound"
            )
        return float(counts.unit * 2.0 ** (-found / 2))
