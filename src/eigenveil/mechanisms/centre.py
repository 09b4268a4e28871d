r"""Private centres: a mean within bounds, a located centre without bounds, differences of pairs.

`Centred`: a share of the budget buys a rough mean, started at a public point and kept inside the
public bounds; the rest goes to the inner procedure on rows about that mean. The cost is the
composition of the two, charged once before the first draw. What remains of the mean, (m - c)(m -
c)', stays in the second moment: it has rank one.

A tenth of mu^2 is enough: on the digits at epsilon = 1, shares from .1 to .2 capture .93 of the
variance, .05 and .3 less. Proof: docs/proofs/centred.md.

`Paired`: half differences of two rows,

.. math:: z_i = (x_{\pi(2i-1)} - x_{\pi(2i)})/2

The mean cancels, whatever it is, so no budget is spent on it and data far from the origin do no
harm. There are half as many differences as rows, and one replaced row replaces one of them: the
same sensitivity, half the signal, so in effect twice the noise. For few rows that is cheaper than a
centre. The pairing is random, secret and independent of the rows. Proof: docs/proofs/paired.md.

`LocatedCentre`: without any bound,

.. math:: h_t = \text{private distances } |x_i - c_{t-1}|, \qquad
          c_t = c_{t-1} + \frac1n \sum_i \mathrm{clip}_{r_t}(x_i - c_{t-1}) + \text{noise}

in two or three steps from a public c_0, the origin or the point of stated ranges nearest to it.
Distances are counted on a public scale from 1e50 down (`distances`), so no bound is asked for, and
r_t is where noise and loss together are least: at a generous budget beyond all rows. Early steps
come near, with an error that grows with the distance of the data from the start; the last pays for
their spread only. Lengths of rows, unlike their directions, suffer from a centre that is still far
off, so a covariance takes three steps. Where the first distances do not stand out, there is no
centre: differences of pairs of rows need none. Where directions are wanted, distances are looked
at once more, about the centre that was found: only they tell data that lie too far away for two
steps from data of one direction. Of a large table some of the rows are enough (`enough_rows`),
which saves up to five reads of it.
Proof: docs/proofs/located.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.exact.gram import count, total
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import LaplaceNoise, PrivateMean, VectorNoise
from eigenveil.mechanisms.distances import PrivateDistances
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.messages import BOUNDS, option
from eigenveil.numerics.pair_shares import PairShares
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import count_checked, paired, sampled

CENTRE_SHARE = 0.1  # of mu^2, or of a pure epsilon

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class CentredResult(Generic[Result]):
    """A released centre, and what was released about it.

    Attributes
    ----------
    centre : array
        NaN where there is none: differences of rows need none.
    centre_error : float
        Expected squared distance of the centre from the mean, in the units of what ``inner`` sees.
    noisy_count : float or None
        Number of rows, where that is private.
    inner
        What was released about the centre.
    scale : array, optional
        Of columns, where released.
    differences : bool
        Whether ``inner`` is about half differences of pairs of rows.
    present : array, optional
        Share of the cells of each column that ``inner`` saw, where released.
    pairs_present : PairShares, optional
        Shares of rows whose cells of two columns ``inner`` saw, where ``present`` is released.
    distance_error : float, optional
        ``centre_error`` in the units of scaled rows, where ``inner`` sees their directions.
    column_limit : float, optional
        How far from the centre ``inner`` saw entries, in the units of scaled rows.
    turn : array, optional
        Numbers of which any multiple may have to be added to the centre, where it is known up to
        them only; ``inner`` saw each entry moved by such a multiple to within half of it.
    drawn_rows : int, optional
        Number of rows drawn at random that ``inner`` saw, where that of the table is private; 0
        where a noisy count was too small for anything but zeros.
    unit_distance : float
        Distance from the centre, in the units of scaled rows, from which on ``inner`` saw rows at
        unit length; nearer ones were divided by it. Zero where it saw no directions, or all so.

    """

    centre: NDArray[np.float64]
    centre_error: float
    noisy_count: float | None
    inner: Result
    scale: NDArray[np.float64] | None = None
    differences: bool = False
    present: NDArray[np.float64] | None = None
    pairs_present: PairShares | None = None
    distance_error: float | None = None
    column_limit: float | None = None
    turn: NDArray[np.float64] | None = None
    drawn_rows: int | None = None
    unit_distance: float = 0.0

    @property
    def pair_factor(self) -> float:
        """What turns half differences of two rows into something with the covariance of one."""
        return math.sqrt(2) if self.differences else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred(Generic[Result]):
    """First the mean, then ``inner`` about it. Fields are public, never data.

    ``fixed_centre`` keeps the public start as the centre: the first step then releases the
    count alone, which add/remove needs (sensitivity 1). ``sample``: share of the rows that
    the mean is taken of.
    """

    proof: ClassVar[str] = "centred"
    name: ClassVar[str] = "centred"
    mean: PrivateMean
    inner: Procedure[Result]
    row_norm: float
    fixed_centre: bool = False
    sample: float = 1.0

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.mean.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows twice; ``start`` bounds them for the mean."""
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        if self.fixed_centre:
            rough = gate.draw(self.mean, count(source, start))
        else:
            some = sampled(source, self.sample, gate.adjacency, gate.sample, start.check)
            query = total(some, start, gate.adjacency, valid=start.leaves_out)
            rough = gate.draw(self.mean, query)
            present = 1.0 if start.present is None else start.present
            centre = project_to_bounds(centre + rough.offset / present, start)
        added = rough.squared_error * (rough.count or 1.0)
        about = replace(start, row_norm=self.row_norm, centre=centre, centre_error=added)
        inner = self.inner.run(source, about, gate)
        return CentredResult(centre, rough.squared_error, rough.count, inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncentred(Generic[Result]):
    """``inner`` about the origin, for rows assumed centred. Fields are public, never data."""

    proof: ClassVar[str] = "centred"
    name: ClassVar[str] = "uncentred"
    inner: Procedure[Result]
    row_norm: float

    def cost(self) -> Cost:
        """Return the cost of the inner release."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows about the origin."""
        inner = self.inner.run(source, replace(start, row_norm=self.row_norm), gate)
        return CentredResult(np.zeros(source.n_columns), 0.0, None, inner)


def project_to_bounds(point: NDArray[np.float64], start: Clip) -> NDArray[np.float64]:
    """Return the point of the public box, or else of the public ball, nearest to ``point``."""
    if start.box is not None:
        return np.clip(point, *start.box)
    length = float(np.linalg.norm(point))
    return point * (start.row_norm / length) if length > start.row_norm else point


def drawn_pairs(source: RowSource, clip: Clip, gate: Gate) -> tuple[RowSource, int]:
    """Return random pairs, and the number of rows or of persons that they are pairs of.

    Every row is first known to be one that ``clip`` accepts: drawing charges.
    """
    rows = count_checked(source, clip.check)
    sizes = source.units.sizes
    pairs = paired(source, gate.adjacency, gate.order)
    return pairs, rows if sizes is None else len(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Generic[Result]):
    """``inner`` on differences of rows. Fields are public, never data."""

    proof: ClassVar[str] = "paired"
    name: ClassVar[str] = "paired"
    inner: Procedure[Result]

    def cost(self) -> Cost:
        """Return the cost of the inner release."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the differences as ``start`` says, about zero: centre and box are those of rows."""
        pairs, n = drawn_pairs(source, start, gate)
        present = None if start.present is None else start.present**2  # a cell of both rows
        pairs_present = None if start.pairs_present is None else start.pairs_present.squared()
        about = replace(start, centre=None, box=None, present=present, pairs_present=pairs_present)
        inner = self.inner.run(pairs, about, gate)
        gate.rows = n  # the inner release has counted pairs
        nowhere = np.full(source.n_columns, np.nan)
        return CentredResult(
            nowhere,
            0.0,
            None,
            inner,
            differences=True,
            present=present,
            pairs_present=pairs_present,
        )


# Of mu^2 for the two means, or of a pure epsilon, at most; and the second at least.
_MEANS = (0.04, 0.15)
_LEAST_MEAN = 0.05
_SAMPLE_ROWS, _SAMPLE_BYTES = 1 << 15, 1 << 27
_UNIT_DISTANCE = 0.25  # quantile of the distances that end up as length one
_SAVING = 1 / 3  # a larger share: checking and gathering it takes as long as the passes it saves


def mean_shares(whole: Allotment, rows: int | None, columns: int) -> tuple[float, float]:
    """Return the shares of a budget for a rough mean and for the mean.

    The squared error of the second mean, 4 d/(s (n mu)^2) of a squared distance, need not fall
    below a fifth of the noise of a matrix, 2 sqrt(d)/(n mu): a share of 10 sqrt(d)/(n mu) is
    enough, and half of it for the rough one.
    """
    rough, fine = _MEANS
    if rows and isinstance(whole, Gaussian):
        enough = max(_LEAST_MEAN, 10 * math.sqrt(columns) / (rows * whole.mu))
        rough, fine = min(rough, enough / 2), min(fine, enough)
    return rough, fine


def enough_rows(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of the rows that a centre is found from, where their number is public.

    The error of a mean at a hundredth of mu^2 or more then stays below the noise of the matrix,
    4 d/(0.01 (s mu)^2) < 2 sqrt(d)/(n mu), and what sampling adds is half a hundredth of the
    spread. All rows where that is not a saving, or a sample would fill more than 128 MiB.
    """
    if rows is None or isinstance(whole, Pure):
        return 1.0
    mu = whole.mu
    root = math.sqrt(columns)
    sample = max(_SAMPLE_ROWS, math.sqrt(200 * rows * root / mu), 1000 * root / mu)
    share = sample / rows
    return 1.0 if share > _SAVING or 8 * sample * columns > _SAMPLE_BYTES else share


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How far steps towards a centre have come.

    Attributes
    ----------
    taken : int
        How many found distances.
    about : Clip
        Rows about the centre that was reached.
    error : float
        Its expected squared distance from the mean.
    count : float, optional
        Number of rows, where that is private.
    reach, loss : float
        Where rows of the last step were clipped, and what that takes from their mean length.

    """

    taken: int
    about: Clip
    error: float = 0.0
    count: float | None = None
    reach: float | None = None
    loss: float = 0.0

    @property
    def centre(self) -> NDArray[np.float64]:
        """The centre."""
        assert self.about.centre is not None  # from the start
        return self.about.centre


@dataclass(frozen=True, slots=True, kw_only=True)
class CentreSteps:
    """Steps towards a centre: distances, then the mean of rows clipped at one of them.

    ``searches`` is empty where a range is stated; then means within it are enough.
    """

    searches: tuple[PrivateDistances, ...]
    means: tuple[PrivateMean, ...]

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        searches = (search.cost() for search in self.searches)
        return compose(*searches, *(mean.cost() for mean in self.means))

    def towards(
        self,
        source: RowSource,
        about: Clip,
        gate: Gate,
        length: Callable[[PrivateMean], float],
        *,
        present: float | NDArray[np.float64] = 1.0,
        valid: bool = False,
    ) -> Steps:
        """Take the steps, as long as distances stand out.

        ``length`` is that of the noise on a sum of rows in the unit ball, about, and ``present``
        the shares of cells that are.
        """
        found = Steps(taken=0, about=about)
        for i, mean in enumerate(self.means):
            clip, reach, loss = found.about, None, 0.0
            if self.searches:
                seen = self.searches[i].run(source, found.about, gate)
                if not seen.found:
                    break
                reach = seen.clipping(length(mean) / max(1.0, seen.rows), 1)
                reach = min(LARGEST_NORM, max(SMALLEST_NORM, reach))
                clip, loss = replace(clip, row_norm=reach), seen.loss(reach)
            rough = gate.draw(mean, total(source, clip, gate.adjacency, valid=valid))
            centre = found.centre + rough.offset / present
            if about.box is not None:
                centre = np.clip(centre, *about.box)
            found = Steps(
                taken=i + 1,
                about=replace(about, centre=centre),
                error=rough.squared_error,
                count=rough.count,
                reach=reach,
                loss=loss,
            )
        return found

    def run(
        self, source: RowSource, start: Clip, gate: Gate
    ) -> tuple[NDArray[np.float64], float] | None:
        """Return a centre and its squared error; None where no distance stands out."""
        d, public = source.n_columns, gate.adjacency.count_is_public

        def length(mean: PrivateMean) -> float:
            if isinstance(mean.noise, LaplaceNoise):
                root = math.sqrt(d)
                return math.sqrt(2 * d) * (2 * root if public else root + 1) / mean.noise.epsilon
            return math.sqrt(d) * (2.0 if public else math.sqrt(2)) / mean.noise.mu

        about = replace(start, centre=np.zeros(d) if start.centre is None else start.centre)
        found = self.towards(source, about, gate, length)
        return (found.centre, found.error) if found.taken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCentre(Generic[Result]):
    """First the centre, then ``inner`` about it. Fields are public, never data.

    Attributes
    ----------
    distances : tuple of `PrivateDistances`
        One for each step, and with ``directions`` one more about the centre that was found.
    means : tuple of `PrivateMean`
        One for each step.
    inner : Procedure
        What is released about the centre; or about pairs of rows where no centre was found.
    sample : float
        Share of the rows that the centre is found from.
    directions : bool
        Whether ``inner`` sees directions of rows, of which the error of the centre is a share;
        otherwise it is in their squared units.

    """

    proof: ClassVar[str] = "located"
    name: ClassVar[str] = "located"
    distances: tuple[PrivateDistances, ...]
    means: tuple[PrivateMean, ...]
    inner: Procedure[Result]
    sample: float = 1.0
    directions: bool = True

    @classmethod
    def build(
        cls,
        noises: Sequence[VectorNoise],
        inner: Procedure[Result],
        *,
        sample: float = 1.0,
        directions: bool = True,
    ) -> Self:
        """Build it from the noise of one search and of the mean of each step."""
        search, *means = noises
        return cls(
            distances=(PrivateDistances(noise=search),) * (len(means) + directions),
            means=tuple(PrivateMean(noise=mean) for mean in means),
            inner=inner,
            sample=sample,
            directions=directions,
        )

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        searches = (search.cost() for search in self.distances)
        means = (mean.cost() for mean in self.means)
        return compose(*searches, *means, self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows twice for each step; ``start`` says how they are read about the centre."""
        some = sampled(source, self.sample, gate.adjacency, gate.sample, start.check)
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        about = Clip(  # rows as they are, however they are read about the centre
            row_norm=LARGEST_NORM,
            centre=centre,
            box=start.box,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
        )
        d = source.n_columns
        steps = CentreSteps(searches=self.distances[: len(self.means)], means=self.means)
        found = steps.towards(
            some,
            about,
            gate,
            lambda mean: mean.deviation(d, gate.adjacency) * math.sqrt(d),
            present=1.0 if start.present is None else start.present,
            valid=start.leaves_out,
        )
        if found.taken < len(self.means):
            return self._without_centre(source, start, gate)
        error = found.error
        distance, nearest = error, 0.0
        if self.directions:
            error = 1.0
            seen = self.distances[-1].run(some, found.about, gate)
            if seen.found:
                nearest = seen.lower_quantile(_UNIT_DISTANCE)
                error = min(1.0, (distance + found.loss**2) * seen.inverse_square_share(nearest))
        added = error * (found.count or 1.0)
        clip = replace(
            start,
            centre=found.centre,
            centre_error=added,
            unit_distance=nearest,
            found_norm=None if self.directions else found.reach,
        )
        inner = self.inner.run(source, clip, gate)
        return CentredResult(
            found.centre,
            error,
            found.count,
            inner,
            distance_error=distance,
            unit_distance=nearest,
        )

    def _without_centre(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        if not gate.adjacency.count_is_public:
            raise NothingFoundError(
                "no distance of rows stood out, so there is no centre, and the budget is spent: "
                "state ",
                BOUNDS,
                " and ",
                option("centring", "mean"),
                ", or give more rows or a larger budget",
            )
        return Paired(inner=self.inner).run(source, start, gate)
