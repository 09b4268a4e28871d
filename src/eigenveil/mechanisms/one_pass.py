r"""What one-pass methods share: batches, and an estimate that each batch corrects.

The state is an orthonormal basis Q and an estimate P of its image MQ, M the mean of the records.
A batch of m records brings a noisy D for the mean of AQ - P, and

.. math:: P \leftarrow P + h D, \qquad h = v/(v + s^2),
          \qquad \hat M = \ell I + Q (Q'P - \ell) Q' + T Q' + Q T', \quad T = (I - QQ')P,

s^2 and v the variances that noise gives to an entry of D and of P; v is enlarged by 2/t after step
t, so that what early steps along a poor basis left in P is forgotten, be all batches of one size.
The next basis are the leading eigenvectors of M-hat, and its image is M-hat times them: a Newton
step of Oja's method, whose learning rate is h over the gap of each direction, so that no spectrum
need be known. The level l is what the trace leaves to a direction outside Q.

Batches grow by a factor of two, and the last one of a table has two thirds of it: every earlier
one only has to bring the basis near enough for the next. Noise on a mean falls as 1/m, so that h is
three quarters or more; for the sampling error, which falls as 1/sqrt(m), that loses little.
Noise on AQ does not grow with the number of columns where records are bounded as a whole, so the
basis has more columns than are asked for until the leading ones stand still, and a random start
meets all directions sooner.

Parallel composition: a record is in one batch, so all batches together cost what one does.
Proof: docs/proofs/batches.md.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.batches import Batches, Records, check_batches, count_records
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import trace
from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms.additive import GaussianNoise, PrivateTrace
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.elliptical import CLEAR_VARIANCE
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.image_noise import ImageNoise
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.messages import option
from eigenveil.numerics.spectral import eigenpairs_of_image, signed
from eigenveil.privacy.accounting import split
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import shuffled
from eigenveil.rows.matrices import MatrixSource
from eigenveil.rows.memory import Batch
from eigenveil.text import plural

_GROWTH = 2  # of batches
_EARLIER = 3  # of a table whose end is known, one record in so many comes before the last batch
_FORGET = 2.0  # over the number of steps, by which the weight of earlier ones falls
_TURNING, _STILL = 0.8, 0.95  # smallest cosine of leading directions with those before
_DOUBT = 4.0  # times what noise alone gives, where they turn
_SAME, _CLEAR = 0.3, 0.9  # change of values, and reliability, of directions that stand still
_TRACE_SHARE = 0.02  # of mu^2, where rows have no known length
_FIRST_NOISE = 4.0  # times the operator norm of the noise on a first batch: the trace of unit rows
_SMALLEST_FIRST_BATCH = 32  # records of a first batch
_LEVEL_DEVIATIONS = 3.0  # of the noise of a trace, within which it tells no level
_ENLARGED_NOISE = 1.5  # share of a column in the noise, from which on it was enlarged
_WHOLE_COLUMNS = 256  # up to which an estimate may hold the whole matrix
_STEPS = 3  # batches at least, or there is nothing to correct


@runtime_checkable
class Schedule(Protocol):
    """Learning rates, from public numbers."""

    def rate(self, step: int) -> float:
        """Return the rate of step 1, 2, ..., in the inverse units of A."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class OnePassState:
    """The state of a one-pass method: all of it released or public.

    Attributes
    ----------
    basis, image : arrays of shape (d, p)
        Q, and the estimate P of its image; in the caller's units.
    trace, trace_weight, trace_noise : float
        Of the mean of the records, not a number where it is unknown; its weight, in squared sizes
        of batches clipped at the present radius; and the standard deviation of its noise.
    records, steps : int
        How many records were used, in how many batches.
    noise_variance : float
        Of an entry of the image, by noise; infinite before the first step.
    doubt : float
        The same, with what early steps along a poor basis, and at smaller radii, have left in it.
    column_noise : array of shape (d,), optional
        Shares s of the columns in the noise: the entry at columns i and l of the estimate has
        ``noise_variance`` times s_i s_l at most. One for all where absent.

    """

    basis: NDArray[np.float64]
    image: NDArray[np.float64]
    trace: float = math.nan
    records: int = 0
    steps: int = 0
    noise_variance: float = math.inf
    doubt: float = math.inf
    trace_weight: float = 0.0
    trace_noise: float = 0.0
    column_noise: NDArray[np.float64] | None = None

    @property
    def level(self) -> float:
        """What the trace leaves to a direction outside the basis.

        Zero where that is unknown, or may be noise: a level above the leading values would replace
        them by directions outside.
        """
        d, p = self.basis.shape
        if p == d or math.isnan(self.trace):
            return 0.0
        outside = self.trace - float(np.einsum("ij,ij->", self.basis, self.image))
        return outside / float(d - p) if outside > _LEVEL_DEVIATIONS * self.trace_noise else 0.0

    @property
    def diagonal(self) -> NDArray[np.float64] | None:
        """The variances of the columns; None where the estimate does not hold the whole matrix."""
        d, p = self.basis.shape
        return None if p < d else np.asarray(np.einsum("ij,ij->i", self.basis, self.image))

    @property
    def expected(self) -> NDArray[np.float64]:
        """The image that records are compared with: zero in enlarged columns that show nothing.

        There it is noise, which was enlarged as well. Records that are pulled in towards it would
        seem to vary as it does.
        """
        if self.column_noise is None:
            return self.image
        diagonal = np.einsum("ij,ij->i", self.basis, self.image)
        kept = diagonal > CLEAR_VARIANCE * self.noise().on_diagonal
        kept |= self.column_noise < _ENLARGED_NOISE
        across = self.basis.T @ (kept[:, None] * self.basis)  # the identity if all are kept
        return np.asarray(kept[:, None] * (self.image @ across))

    def reaching(self, growth: float, lost: float) -> "OnePassState":
        """Return the state for rows clipped at a radius that is larger by the factor ``growth``.

        At the smaller one rows had less variance, by ``lost`` in all, which bounds the norm of what
        the image is missing. Noise of the same norm is added to the doubt, and takes as much from
        the weight of the trace, whose noise was smaller.
        """
        if not 0 < self.doubt < math.inf:
            return self
        roots = sum(math.sqrt(size) for size in self.basis.shape)
        doubt = self.doubt + (lost / roots) ** 2
        weight = self.trace_weight * growth**4 * self.doubt / doubt
        return replace(self, doubt=doubt, trace_weight=weight)

    def values(self, k: int) -> NDArray[np.float64]:
        """Return the eigenvalues along the leading ``k`` directions."""
        return np.asarray(np.einsum("ij,ij->j", self.basis, self.image)[:k])

    def corrected(
        self,
        correction: NDArray[np.float64],
        deviation: float,
        batch: Records,
        schedule: "Schedule | None" = None,
    ) -> "OnePassState":
        """Return the image moved by its share of ``correction``, and the basis of the estimate.

        ``deviation`` is that of the noise on an entry. With a ``schedule`` the basis is that of
        Oja's own update.
        """
        rate, variance, column_noise = 1.0, deviation**2, None
        if schedule is None and 0 < self.doubt < math.inf:
            doubt = self.doubt * (1 + _FORGET / self.steps)
            rate = doubt / (doubt + variance)
            old, fresh = (1 - rate) ** 2 * self.noise_variance, rate**2 * variance
            variance = old + fresh
            if self.column_noise is not None:  # the geometric mean of two of them is enough
                column_noise = np.sqrt((old * self.column_noise**2 + fresh) / variance)
        basis = self.basis
        image = self.image + rate * correction
        if schedule is None:
            turned, values = eigenpairs_of_image(basis, image, self.level, basis.shape[1])
            image = turned * values
        else:
            block = basis.T @ image
            inside = (block + block.T) / 2
            outer = image - basis @ block
            eta = schedule.rate(self.steps + 1)
            turned = np.linalg.qr(basis + eta * (basis @ inside + outer))[0]
            seen = basis.T @ turned
            image = basis @ (inside @ seen + outer.T @ turned) + outer @ seen
        return replace(
            self,
            basis=turned,
            image=image,
            records=batch.records.stop,
            steps=self.steps + 1,
            noise_variance=variance,
            doubt=rate * deviation**2,
            column_noise=column_noise,
        )

    def traced(self, mu: float, batch: Batch, clip: Clip, gate: Gate) -> "OnePassState":
        """Return the state with the trace of one more batch, bought at ``mu``."""
        step = PrivateTrace(noise=GaussianNoise(mu=mu))
        query = trace(batch, clip, gate.adjacency)
        released = gate.draw(step, query).value
        noise = noise_scale(query.sensitivity("l2"), mu) * query.unit
        size = len(batch.records) ** 2
        share = size / (self.trace_weight + size)
        before = released if math.isnan(self.trace) else self.trace
        return replace(
            self,
            trace=before + (released - before) * share,
            trace_weight=self.trace_weight + size,
            trace_noise=math.hypot((1 - share) * self.trace_noise, share * noise),
        )

    def standardised(
        self,
        offset: NDArray[np.float64],
        factor: NDArray[np.float64],
        variances: NDArray[np.float64],
        deviations: NDArray[np.float64],
        k: int,
    ) -> "OnePassState":
        """Return the estimate about a centre moved by ``offset``, of columns divided by ``factor``.

        ``variances`` are those of the columns before, with noise of these ``deviations``. All of it
        is released or public. The next step is taken as if noise were everywhere as along the
        noisiest of the ``k`` leading directions.
        """
        basis, shares = self.basis, 1 / factor
        turned = np.linalg.qr(basis * shares[:, None])[0]
        columns = turned * shares[:, None]
        # The estimate times them, with no more outside than a column has: see the proof.
        inside = basis.T @ columns
        block = basis.T @ self.image
        outer = self.image - basis @ block
        image = basis @ ((block + block.T) / 2 @ inside + outer.T @ columns)
        image += outer @ inside - np.outer(offset, offset @ columns)
        outside = np.clip(variances, 0.0, self.level)[:, None] * (columns - basis @ inside)
        image += outside - basis @ (basis.T @ outside)
        image *= shares[:, None]
        moved = replace(
            self,
            basis=turned,
            image=image,
            trace=float(np.maximum(variances * shares**2, 0.0).sum()),
            trace_noise=float(np.linalg.norm(deviations * shares**2)),
            column_noise=self.noise().spread * shares**2,
        )
        leading, values = eigenpairs_of_image(turned, image, moved.level, turned.shape[1])
        along = float((shares**2 @ leading[:, :k] ** 2).max())
        return replace(
            moved,
            basis=leading,
            image=leading * values,
            doubt=self.doubt * float(np.mean(shares**2)) * along,
        )

    def narrowed(self, k: int) -> "OnePassState":
        """Return the state with the leading ``k`` columns alone."""
        basis, image = self.basis[:, :k], self.image[:, :k]
        return replace(self, basis=np.ascontiguousarray(basis), image=np.ascontiguousarray(image))

    def noise(self) -> ImageNoise:
        """Return the noise of the estimate."""
        even = ImageNoise.even(self.noise_variance, len(self.basis))
        return even if self.column_noise is None else replace(even, spread=self.column_noise)

    def components(self, k: int) -> NoisyComponents:
        """Return the leading ``k`` directions."""
        p = self.basis.shape[1]
        values, noise = self.values(p), self.noise()
        trace = self.trace if not math.isnan(self.trace) else float(np.maximum(values, 0.0).sum())
        return NoisyComponents(
            components=signed(self.basis[:, :k].T),
            eigenvalues=values[:k],
            trace=trace,
            noise_scale=math.sqrt(noise.largest),
            law=None,
            reliability=noise.reliability(self.basis, values, k, trace),
            floor=noise.floor(p),
        )


@dataclass(frozen=True, kw_only=True)
class OnePass(ComponentMechanism):
    """Batches of records, one after the other, each of them used once.

    Its strength is what one batch may spend.

    Attributes
    ----------
    batch_size : int, optional
        Records in every batch; by default batches grow.
    schedule : Schedule, optional
        Learning rates of Oja's own update, which must not come from the data; by default a Newton
        step, which needs no spectrum.

    """

    unit_rows = True
    batches = True
    batch_size: int | None = None
    schedule: Schedule | None = None

    @abstractmethod
    def step(self, iterate: OnePassState, batch: Records, clip: Clip, gate: Gate) -> OnePassState:
        """Correct the estimate by one batch."""

    def width(self, d: int) -> int:
        """Return the number of columns of the basis."""
        k = self.n_components
        return min(d, k if self.schedule is not None else 4 * k + 20)

    def first_batch(self, d: int) -> int:
        """Return records in the first batch: as many as noise on unit rows asks for."""
        return self.batch_size or _first(d, self.mu)

    def next_batch(self, iterate: OnePassState) -> int:
        """Return records in the next batch of a stream whose end is not known."""
        first = self.first_batch(len(iterate.basis))
        return first if self.batch_size is not None else first * _GROWTH**iterate.steps

    def sizes(self, n: int, d: int) -> list[int]:
        """Return records in each batch of a table of ``n``."""
        if self.batch_size is not None:
            size = self.batch_size
            return [min(size, n - start) for start in range(0, n, size)]
        growing = round(n / _EARLIER)
        steps = max(_STEPS - 1, int(math.log(growing / self.first_batch(d) + 1, _GROWTH)))
        sizes = [growing * _GROWTH**step // _grown(1, steps) for step in range(steps)]
        return [*sizes, n - sum(sizes)]

    def needed_records(self, d: int) -> int:
        """Fewest records that can be used."""
        return self.batch_size or _grown(_first(d, self.mu), _STEPS)

    def stream_records(self, d: int) -> int:
        """Return records of a stream that reaches as many batches as a random start needs."""
        return _grown(self.first_batch(d), _STEPS)

    def table_records(self, d: int) -> int:
        """Return records of a table of which no batch is smaller than the first should be."""
        return _EARLIER * _grown(self.first_batch(d), _STEPS - 1)

    def start(self, d: int, clip: Clip, gate: Gate, *, whole: bool = False) -> OnePassState:
        """Return a random basis; with ``whole`` one of all columns, unless they are many."""
        width = d if whole and d <= _WHOLE_COLUMNS else self.width(d)
        basis = np.linalg.qr(gate.normals(d, width))[0]
        return OnePassState(basis, np.zeros_like(basis), clip.known_trace)

    def run(self, source: RowSource | MatrixSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``; the records are read once."""
        check_batches(gate.protects, gate.adjacency)
        d = source.n_columns
        n = count_records(source) if source.rereadable else None
        self.check_records(d, n)
        reader = Batches(shuffled(source, gate.order, clip.check), gate.adjacency)
        iterate = self.start(d, clip, gate)
        sizes = None if n is None else iter(self.sizes(n, d))
        while True:
            size = self.next_batch(iterate) if sizes is None else next(sizes, 0)
            batch = reader.take(size) if size else None
            if batch is None:
                break
            iterate = self.advance(iterate, batch, clip, gate)
        if math.isinf(iterate.noise_variance):  # a stream that ended before the first step
            self.check_records(d, iterate.records)
        found = iterate.components(self.n_components)
        if iterate.records < self.needed_records(d):  # a random start may still show
            return replace(found, reliability=np.zeros(self.n_components))
        return found

    def advance(
        self, iterate: OnePassState, batch: Records, clip: Clip, gate: Gate
    ) -> OnePassState:
        """Use one batch, of which rows of unknown lengths also give the trace."""
        method = self
        if not (clip.scales_all or batch.holds_matrices):
            small, rest = split(self.mu, (_TRACE_SHARE, 1 - _TRACE_SHARE))
            iterate = iterate.traced(small, batch, clip, gate)
            method = replace(self, strength=Gaussian(rest))
        return method.weighed_step(iterate, batch, clip, gate)

    def weighed_step(
        self,
        iterate: OnePassState,
        batch: Records,
        clip: Clip,
        gate: Gate,
        *,
        narrows: bool = True,
    ) -> OnePassState:
        """Correct the estimate, and say what earlier steps are worth and how many columns to keep.

        While the leading directions turn, an image of others says little about theirs. Once they
        stand still, and their values too, further columns only add to the time, and to distances.
        """
        after = self.step(iterate, batch, clip, gate)
        return after if self.schedule is not None else self._considered(iterate, after, narrows)

    def _considered(
        self, before: OnePassState, after: OnePassState, narrows: bool = True
    ) -> OnePassState:
        k, columns = self.n_components, after.basis.shape[1]
        if not math.isfinite(before.noise_variance) or columns == k:
            return after
        cosine = np.linalg.svd(before.basis[:, :k].T @ after.basis[:, :k], compute_uv=False)[-1]
        if cosine < _TURNING:
            # The next batch is larger, or else it has to add up with those before.
            return replace(after, doubt=_DOUBT * after.doubt) if self.batch_size is None else after
        if not narrows:
            return after
        values = after.values(k)
        same = np.abs(before.values(k) - values) <= _SAME * np.abs(values)
        clear = after.components(k).reliability.min() > _CLEAR
        return after.narrowed(k) if cosine > _STILL and same.all() and clear else after

    def check_records(self, d: int, n: int | None, rows_each: int = 1) -> None:
        """Refuse a table too small, before anything is charged; the message counts rows."""
        needed = self.needed_records(d)
        if n is not None and n < needed:
            raise InvalidDataError(
                f"{self.name!r} needs {needed * rows_each} records at least for {d} "
                f"{plural('column', d)} at this budget: give more, a larger budget, or choose ",
                option("mechanism", "spherical"),
            )


def _first(d: int, mu: float) -> int:
    """Return as many records as noise on unit rows asks for."""
    return math.ceil(max(_SMALLEST_FIRST_BATCH, _FIRST_NOISE * math.sqrt(2 * d) / mu))


def _grown(first: int, batches: int) -> int:
    """Return records in so many batches from the first on."""
    return first * sum(int(_GROWTH**step) for step in range(batches))
