r"""TruncatedMean: the mean of products inside a box about a private centre.

Source: Düngler, Sanyal [kPCA], Algorithm 5 and lines 3 to 7 of Algorithm 2; Liu, Kong, Jain, Oh
[DPPCA], Algorithm 5.

The first half of a batch gives the spread S (`coordinate_bins`). On the second half, of m
records, with K = 1, a = 1, zeta = 0.01:

1. for each of the dk coordinates of AQ, a stability histogram over bins of width w; the centre C
   is the lower end of the fullest bin;
2. the mean of AQ, entries cut off at :math:`C \pm R`, :math:`R = 3 \sqrt{S} \ln(m d k/\zeta)`,
   plus N(0, (2 R sqrt(dk)/(m mu))^2) on every entry.

==========  =====================================  ===================================  ===========
name        width w                                budget of one histogram              source
==========  =====================================  ===================================  ===========
basic       :math:`\sqrt S`                        eps/(dk), delta/(dk)                 [kPCA]
advanced    :math:`2^{1/4} \ln(25) \sqrt S`        eps/(2 sqrt(2dk ln(2/delta))),       [DPPCA]
                                                   delta/(2dk)                          Lemma B.4
==========  =====================================  ===================================  ===========

Half of (epsilon, delta) goes to the histograms, half to the mean. Proof:
docs/proofs/truncated_mean.md.

Differences from the source
---------------------------
1. The spread costs as much as the histograms. The sources spend all of (epsilon, delta) on its
   half of the records; here an allotment is paid part by part.
2. Noise is calibrated by the exact Gaussian curve, which holds for every epsilon.
3. [DPPCA] asks for epsilon below 0.9; its lemma is applied to epsilon/2, so that 1.8 will do.
4. A spread of zero becomes 2^-30 of the squared row norm.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms.additive import GaussianNoise, NoisyVector
from eigenveil.mechanisms.gate import Gate
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource
from eigenveil.papers.kpca.coordinate_bins import (
    FINEST,
    PrivateSpread,
    StabilityHistogram,
    box_sum,
    coordinate_counts,
    split_bins,
)
from eigenveil.privacy.accounting import compose, covers
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import noise_scale, strength
from eigenveil.privacy.cost import Approx, Cost, Gaussian

Composition = Literal["basic", "advanced"]
_LARGEST_EPSILON = 0.9  # epsilon of Lemma B.4
ADVANCED_UP_TO = 2 * _LARGEST_EPSILON  # of which histograms have half
_WIDTHS: dict[Composition, float] = {"basic": 1.0, "advanced": 2**0.25 * math.log(25)}
_FULLEST = 0.32  # share of records in the fullest bin, by [DPPCA], proof of Lemma 6.2
_BOX_REACH = 3.0  # of the box, in roots of the spread and logarithms


def printed_cost(epsilon: float, delta: float) -> Cost:
    """Return the cost of histograms at half of (epsilon, delta) and a mean at the other."""
    half = Budget(epsilon=epsilon / 2, delta=delta / 2)
    return compose(Approx(epsilon / 2, delta / 2), Gaussian(strength(half, Gaussian, "mean")))


def halves(batch: Records) -> tuple[Records, Records]:
    """Return the first half of a batch, for the spread, and the second, for the mean."""
    middle, size = len(batch.records) // 2, len(batch.records)
    return batch.slice(0, middle), batch.slice(middle, size)


def root_spread(spread: float, clip: Clip) -> float:
    """Return a width for bins and boxes, never zero."""
    return max(math.sqrt(spread), clip.radius**2 * FINEST)


def boxed_mean(
    noise: GaussianNoise,
    records: Records,
    clip: Clip,
    view: BasisProduct,
    gate: Gate,
    width: float,
    zeta: float,
    away: NDArray[np.float64],
    margin: float = 0.0,
) -> NoisyVector:
    """Return the mean of AQ in a box about the centre of ``view``.

    ``width`` is the root of the spread, ``margin`` what the centre may be off by.
    """
    size = len(records.records) * view.basis.size
    half_width = margin + _BOX_REACH * width * math.log(size / zeta)
    noisy = gate.draw(noise, box_sum(records, clip, view, gate.adjacency, half_width, away))
    values = noisy.values if view.centre is None else noisy.values + view.centre
    return NoisyVector(values - away.T @ (away @ values), noisy.deviation, noisy.largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateCentre:
    """The fullest bin of every coordinate. Fields are public, never data.

    ``epsilon`` and ``delta`` are for all coordinates together.
    """

    name: ClassVar[str] = "coordinate-centre"
    exact: ClassVar[bool] = True
    epsilon: float
    delta: float
    composition: Composition = "basic"

    def __post_init__(self) -> None:
        if self.composition == "advanced" and self.epsilon > _LARGEST_EPSILON:
            raise InvalidParameterError(
                "advanced composition over coordinates holds up to epsilon = "
                f"{2 * _LARGEST_EPSILON:g}: give a smaller budget, or choose ",
                option("mechanism", "adaptive-oja"),
            )

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Approx(self.epsilon, self.delta)

    def histogram(self, coordinates: int) -> StabilityHistogram:
        """Return the histogram of one coordinate."""
        if self.composition == "basic":
            epsilon, delta = self.epsilon / coordinates, self.delta / coordinates
        else:
            root = math.sqrt(2 * coordinates * math.log(2 / self.delta))
            epsilon, delta = self.epsilon / (2 * root), self.delta / (2 * coordinates)
        down = 1 - 2.0**-40  # so that shares add up to no more
        return StabilityHistogram(epsilon=epsilon * down, delta=delta * down)

    def needed_records(self, coordinates: int, zeta: float) -> int:
        """Enough for the fullest bins of all coordinates to show, but with probability zeta."""
        one = self.histogram(coordinates)
        scale = noise_scale(2.0, one.epsilon)
        noise = scale * max(0.0, math.log(coordinates / (2 * zeta)))
        return math.ceil((one.limit(scale) + noise) / _FULLEST)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """Lower ends of the fullest bins, not a number where none shows.

        ``query`` comes from `coordinate_counts`.
        """
        assert query.bins is not None  # of coordinates
        if query.sensitivity("linf") != 1.0:
            raise InvalidParameterError("coordinates need counts that move by 1 at most")
        size = round(query.sensitivity("l1") / 2)
        one = self.histogram(size)
        scale = noise_scale(2.0, one.epsilon)
        noisy = one.noisy(query.value, scale, noise)
        shown = noisy > one.limit(scale)
        coordinates, bins = split_bins(query.bins[shown])
        order = np.argsort(noisy[shown], kind="stable")  # the fullest is written last
        centre = np.full(size, math.nan)
        centre[coordinates[order]] = bins[order] * query.unit
        return centre


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedMean:
    """A spread, a centre, a mean about it. Fields are public, never data."""

    name: ClassVar[str] = "truncated-mean"
    spread: PrivateSpread
    centre: CoordinateCentre
    noise: GaussianNoise

    def __post_init__(self) -> None:
        if not covers(self.cost(), self.spread.cost()):
            raise InvalidParameterError("the spread may spend no more than the other half does")

    @classmethod
    def build(cls, epsilon: float, delta: float, composition: Composition) -> Self:
        """Build the mechanism for an allotment of `printed_cost`."""
        part, mean = epsilon / 2, delta / 2
        noise = strength(Budget(epsilon=part, delta=mean), Gaussian, cls.name)
        return cls(
            spread=PrivateSpread(epsilon=part, delta=mean),
            centre=CoordinateCentre(epsilon=part, delta=mean, composition=composition),
            noise=GaussianNoise(mu=noise),
        )

    def cost(self) -> Cost:
        """Return the cost on the second half of a batch, which covers that of the first."""
        return compose(self.centre.cost(), self.noise.cost())

    def needed_records(self, coordinates: int) -> int:
        """Fewest records of a batch."""
        needed = self.centre.needed_records(coordinates, self.spread.zeta)
        return 2 * max(self.spread.needed_records, needed)

    def estimate(
        self, batch: Records, clip: Clip, view: BasisProduct, gate: Gate, away: NDArray[np.float64]
    ) -> NoisyVector:
        """Return the mean of AQ over the batch, without what lies along the rows of ``away``."""
        needed = self.needed_records(view.basis.size)
        if len(batch.records) < needed:
            raise InvalidDataError(
                f"a truncated mean of {view.basis.size} coordinates needs {needed} records at "
                "least at this budget: give larger batches or a larger budget"
            )
        first, second = halves(batch)
        spread = self.spread.estimate(first, clip, view, gate, away)
        width = root_spread(spread, clip)
        bins = _WIDTHS[self.centre.composition] * width
        query = coordinate_counts(second, clip, view, gate.adjacency, bins, away)
        centre = gate.draw(self.centre, query)
        if np.isnan(centre).any():
            raise NothingFoundError(
                "the centre of some coordinate did not stand out, and the budget is spent: give "
                "larger batches, more records, a larger budget, or choose ",
                option("mechanism", "adaptive-oja"),
            )
        about = replace(view, centre=centre.reshape(view.basis.shape))
        return boxed_mean(self.noise, second, clip, about, gate, width, self.spread.zeta, away)
