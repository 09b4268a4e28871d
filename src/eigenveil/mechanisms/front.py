r"""A covariance of columns in any units: scales, a centre, finer scales and a bound, then matrices.

.. math:: x_{ij} \to \frac{x_{ij}}{s_j} \to \frac{x_{ij}}{s_j} - c_j
          \to \frac{x_{ij}/s_j - c_j}{\sqrt{Y_{jj}}} \to \mathrm{clip}_R \to \text{matrices}

Scales only condition the columns, so a rough one does no harm; a column without one takes the
median. The centre is found on circles, which need no bound and which no search can lose. They leave
whole turns of the longest one unknown, so that rows are folded about the centre. A first matrix
divides each column by the deviation that it shows. Rows are then centred once more, clipped at a
private radius and in each column, and `elliptical` draws the matrices. Where all columns seem to
share one unit they keep it: one scale for all.

A column whose variance cannot be told from noise is zero unless its scale was found beyond doubt:
an estimate for any other one would be of the noise. The steps that are taken depend on public and
released numbers and never cost more than the whole. New here; section 12 of the contract.
Proof: docs/proofs/front.md.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import moment_sensitivities, second_moment, total
from eigenveil.exact.row_maps import MarkChanged, OnCircles, circular_mean
from eigenveil.mechanisms.additive import NoisyMean, PrivateMean, VectorNoise, vector_noise
from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.column_scale import ColumnScale, scale_share
from eigenveil.mechanisms.columns import Columns
from eigenveil.mechanisms.distances import (
    CLEANED,
    NoisyDistances,
    PrivateDistances,
    distance_share,
    noise_rows,
)
from eigenveil.mechanisms.elliptical import SHOWN_VARIANCE, Elliptical
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.prepared import Prepared, Table
from eigenveil.privacy import accounting
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import sampled

# Limits on q = sqrt(2) d/(n mu), the noise of a variance in its own units.
_MANY_ROWS = 0.02  # up to which the last mean is the one that matters
_SEARCHED = 0.045  # up to which distances find the radius
_REFINED = 0.06  # up to which a first matrix refines the scales
# Shares of mu^2.
_FIRST_SCALES = 0.05  # of the draw that may show one unit for all columns
_SINGLE_DRAW = 0.12  # up to which scales are found in one draw
_LEAST_CIRCLE, _MOST_CIRCLE, _CIRCLES = 0.002, 0.06, 0.06
_ANGLE = 0.12  # noise of an angle on a circle that a larger share need not go below
_MIDDLE_MEAN, _MIDDLE_MEAN_MANY_ROWS = 0.06, 0.02
_FIRST_MATRIX, _SEARCH = 0.05, 0.05
_MEAN_AGAIN, _MEAN_AGAIN_UNREFINED, _MEAN_AGAIN_MANY_ROWS = 0.02, 0.06, 0.05
_LAST_PRICED = 0.5  # of the matrices, as the search for their radius expects it
# In units of a column's scale.
_FIRST_TURN = 16.0  # of the circles
_LEAST_CIRCLES, _MOST_CIRCLES = 2, 10  # each four times as long as the one before
_WIDE_CIRCLES = 7  # each eight times as long: as far as the most of the others
_FIRST_LIMIT, _FIRST_LIMIT_NOISE = 8.0, 0.4  # on a coordinate of the first matrix; over q
_FIRST_RADIUS = 4.0  # largest of the first matrix, over sqrt(d)
_UNSEARCHED_RADIUS = 0.8  # R^2/d
_RADIUS_STEP = 2.0**-0.125
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What the steps are for: it decides how much of the rows' tails is worth its noise.

    Attributes
    ----------
    limit, limit_noise : float
        Least limit on a coordinate; the larger of it and ``limit_noise`` over q holds.
    radius, radius_noise : float
        The same for the largest radius, over sqrt(d).
    price : float
        Of noise in the matrix, against what clipping loses.
    standardises : bool
        Whether correlations are wanted. Each column then has its own scale, a variance that noise
        hides is made large instead of zero, and no fourth moments are bought.

    """

    limit: float
    limit_noise: float
    radius: float
    radius_noise: float
    price: float
    standardises: bool


COVARIANCE = Aim(
    limit=8.0, limit_noise=0.3, radius=4.0, radius_noise=0.02, price=1.0, standardises=False
)
CORRELATION = Aim(
    limit=2.5, limit_noise=0.08, radius=2.0, radius_noise=0.004, price=4.0, standardises=True
)


@dataclass(frozen=True, kw_only=True)
class Front:
    """All steps to a covariance, for a public number of rows. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Of all steps together.
    rows, columns : int
        Of the table; the former is the number of persons where they own several rows.
    known_scale : array, optional
        Scales of all columns that are public, and NaN for the others.
    sample : float
        Share of the rows that a centre is located from.
    apart : int
        Number of last columns with known scales that no common unit replaces.
    aim : Aim
        What the matrix is for.

    """

    name: ClassVar[str] = "front"
    mu: float
    rows: int
    columns: int
    known_scale: NDArray[np.float64] | None = None
    sample: float = 1.0
    apart: int = 0
    aim: Aim = COVARIANCE

    def cost(self) -> Cost:
        """Return the cost of all steps: their shares add to at most 1 on every route."""
        return Gaussian(self.mu)

    @property
    def inner(self) -> Elliptical:
        """The last step where nothing is spared."""
        return self._matrices(1 - sum(self.shares.values()))

    @cached_property
    def shares(self) -> dict[str, float]:
        """The largest shares of mu^2 by stage, before the matrices."""
        radius = max(distance_share(self._whole, self.rows), _SEARCH)
        first = _FIRST_MATRIX + radius if self._refines else 0.0
        return {
            "scale": self._scale_share + first,
            "centre": self.locating_share + self._again_share,
            "radius": radius,
        }

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[NoisyMatrix]:
        """Read the rows; centre and matrix are in the units of the scales that are returned."""
        ready = self.prepare(source, start, gate)
        table, columns = ready.table, ready.columns
        matrices = self._matrices(ready.left)
        known = bool(table.knows_turns.all())
        changed = table.base.map(MarkChanged(ready.clip, table.limits, counts_turns=known))
        released = matrices.within(table.source, ready.clip, ready.inverse, gate, changed)
        noise, clearness = released.noise_scale, released.clearness
        assert clearness is not None  # of this mechanism
        if self.aim.standardises:
            variances = columns.softened(released.matrix.diagonal(), clearness, noise)
            released = replace(released, variances=variances)
        else:
            kept = columns.kept(clearness, noise, refined=ready.refined)
            matrix = np.where(np.outer(kept, kept), released.matrix, 0.0)
            released = replace(released, matrix=matrix)
        return CentredResult(
            table.centre,
            ready.clip.centre_error,
            None,
            released,
            scale=table.scale,
            column_limit=ready.limit,
            turn=table.turn,
        )

    def prepare(self, source: RowSource, start: Clip, gate: Gate) -> Prepared:
        """Find scales, a centre and a bound: all that matrices need."""
        anywhere = Clip(
            row_norm=LARGEST_NORM,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
            present=start.present,
        )
        left = 1 - sum(self.shares.values())
        found = self._scales.run(source, anywhere, gate)
        if found.one_unit:
            left += self._scale_share - _FIRST_SCALES
        columns = Columns.of(found, self.apart, common_unit=not self.aim.standardises)
        table = self.centred(source, columns.scale, anywhere, gate)
        searches = self._searches or columns.one_unit
        if not searches:
            left += self.shares["radius"] * (1 + self._refines)
        # Columns of one unit need no finer scales, unless rows are many.
        refines = self._refines and not (columns.one_unit and self._q > _MANY_ROWS)
        if self._refines and not refines:
            left += _FIRST_MATRIX + searches * self.shares["radius"]
        if refines:
            limit = max(_FIRST_LIMIT, _FIRST_LIMIT_NOISE / self._q)
            noisy = self._first_matrix(table.limited(limit), searches, gate)
            present = 1.0 if start.present is None else start.present
            variances, noise = noisy.matrix.diagonal() / present, noisy.noise_scale / present
            table = table.divided(columns.factors(variances, np.full(self.columns, noise)))
        aim = self.aim
        limit = max(aim.limit, aim.limit_noise / self._q)
        table = table.limited(limit)
        most = math.inf
        if not columns.one_unit:
            most = max(aim.radius, aim.radius_noise / self._q)
        radius, distances = self._radius(table, _LAST_PRICED, most, searches, gate)
        mean = self.mean(
            self._again_share, table.source, replace(table.about, row_norm=radius), gate
        )
        table = table.moved(mean).limited(limit)
        return Prepared(
            table=table,
            columns=columns,
            clip=replace(table.about, row_norm=radius, centre_error=mean.squared_error),
            limit=limit,
            inverse=None if distances is None else distances.mean_power(-2),
            left=left,
            refined=refines,
        )

    @property
    def _whole(self) -> Gaussian:
        return Gaussian(self.mu)

    @property
    def _q(self) -> float:
        return math.sqrt(2) * self.columns / (max(1, self.rows) * self.mu)

    @property
    def _searches(self) -> bool:
        return self._q <= _SEARCHED

    @property
    def _refines(self) -> bool:
        return self._q < _REFINED

    @property
    def _scale_share(self) -> float:
        known = self.known_scale
        sought = self.columns if known is None else int(np.isnan(known).sum())
        return scale_share(self._whole, self.rows, sought)

    @property
    def _scales(self) -> ColumnScale:
        share = self._scale_share
        if share <= _SINGLE_DRAW or self.aim.standardises:
            return ColumnScale(first=self._noise(share), known=self.known_scale)
        return ColumnScale(
            first=self._noise(_FIRST_SCALES),
            more=self._noise(share - _FIRST_SCALES),
            known=self.known_scale,
        )

    @property
    def _circles(self) -> tuple[int, int, float]:
        """Number of circles, doublings from one to the next, and the share of all together.

        As many as are cheap, and fewer that are farther apart where noise is small enough, or two
        that are near each other where it is large.
        """
        noise = 2 * math.sqrt(self.columns) / (max(1, self.rows) * self.mu)
        share = min(_MOST_CIRCLE, max(_LEAST_CIRCLE, (noise / _ANGLE) ** 2))
        count = min(_MOST_CIRCLES, max(_LEAST_CIRCLES, int(_CIRCLES / share)))
        if noise > _ANGLE * math.sqrt(share) * _ROUNDING:  # too much to tell turns of a long circle
            return count, 1, count * share
        wide = _WIDE_CIRCLES * (2 * noise / _ANGLE) ** 2  # half the noise for twice the distance
        if count == _MOST_CIRCLES and wide <= count * share:
            return _WIDE_CIRCLES, 3, count * share
        return count, 2, count * share

    @property
    def locating_share(self) -> float:
        """Share of the budget that `centred` spends."""
        return self._circles[2] + self._middle_share

    @property
    def _middle_share(self) -> float:
        return _MIDDLE_MEAN_MANY_ROWS if self._q <= _MANY_ROWS else _MIDDLE_MEAN

    @property
    def _again_share(self) -> float:
        if self._q <= _MANY_ROWS:
            return _MEAN_AGAIN_MANY_ROWS
        return _MEAN_AGAIN if self._refines else _MEAN_AGAIN_UNREFINED

    def part(self, share: float) -> Gaussian:
        """Return a share of the budget."""
        step = accounting.part(self._whole, share)
        assert isinstance(step, Gaussian)  # a part of a Gaussian budget
        return step

    def _noise(self, share: float) -> VectorNoise:
        return vector_noise(self.part(share))

    def _matrices(self, share: float) -> Elliptical:
        return Elliptical(
            strength=self.part(share),
            n_rows=self.rows,
            n_columns=self.columns,
            searches=False,
            spreads=not self.aim.standardises,
        )

    def mean(self, share: float, source: RowSource, clip: Clip, gate: Gate) -> NoisyMean:
        """Draw a mean of clipped rows with a share of the budget."""
        query = total(source, clip, gate.adjacency, valid=clip.leaves_out)
        return gate.draw(PrivateMean(noise=self._noise(share)), query)

    def centred(
        self, source: RowSource, scale: NDArray[np.float64], anywhere: Clip, gate: Gate
    ) -> Table:
        """Return the table about a mean, folded about it where whole turns stay unknown."""
        some = sampled(source, self.sample, gate.adjacency, gate.sample, anywhere.check)
        count, doublings, share = self._circles
        circles = OnCircles(_FIRST_TURN * scale, circles=count, doublings=doublings)
        clip = replace(anywhere, row_norm=circles.reach, present=None)
        mean = self.mean(share, some.map(circles), clip, gate)
        turns = circles.turns / scale
        noise = math.sqrt(mean.squared_error / mean.offset.size)
        centre, turn = circular_mean(mean.offset, turns, noise)
        about = replace(anywhere, centre=centre)
        table = Table(
            base=source,
            scale=scale,
            about=about,
            turn=turn,
            concentration=np.hypot(*mean.offset.reshape(count, 2, -1)[0]),
        )
        clip = replace(about, row_norm=math.sqrt(self.columns))
        return table.moved(self.mean(self._middle_share, table.source, clip, gate))

    def _radius(
        self, table: Table, share: float, most: float, searches: bool, gate: Gate
    ) -> tuple[float, NoisyDistances | None]:
        """Return where rows are clipped for matrices of this share, and their distances."""
        root = math.sqrt(self.columns)
        unsearched = math.sqrt(_UNSEARCHED_RADIUS) * root
        if not searches:
            return unsearched, None
        found = self._distances.run(table.source, table.about, gate)
        if not found.found:
            return unsearched, None
        step = self.part(share)
        noise = self.aim.price * noise_rows(step, self.columns, gate.adjacency) / CLEANED
        radius = min(found.clipping(noise / max(1.0, found.rows), 2), most * root)
        # The noise of a variance grows as R^2, what shows of a variance less.
        sensitivity = moment_sensitivities(self.columns, gate.adjacency)["frobenius"]
        least = SHOWN_VARIANCE * self.columns * sensitivity / (self.rows * step.mu)
        while radius > unsearched and found.mean_square_within(radius) < least * radius**2:
            radius = max(unsearched, radius * _RADIUS_STEP)
        return radius, found

    @property
    def _distances(self) -> PrivateDistances:
        return PrivateDistances.fine(self._noise(self.shares["radius"]), self._whole, self.rows)

    def _first_matrix(self, table: Table, searches: bool, gate: Gate) -> NoisyMatrix:
        radius, _ = self._radius(table, _FIRST_MATRIX, _FIRST_RADIUS, searches, gate)
        clip = replace(table.about, row_norm=radius)
        step = GaussCov(mu=self.part(_FIRST_MATRIX).mu)
        return gate.draw(step, second_moment(table.source, clip, gate.adjacency))
