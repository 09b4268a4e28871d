r"""Records in a secret random order, one product after the other.

A record is a symmetric matrix A in the unit ball, of rows A = xx'. For a unit vector w, chosen from
earlier releases, a step sees Aw, or its part beside released directions.

For rows, Aw = x (x'w) lies in the ball of diameter 1 about w/2, whatever x is: replacing one row
moves it by at most 1. A general matrix has its product pulled in to the unit ball: 2.
Proof: docs/proofs/shuffled_oja.md.

DP-Ojas: the leading component by one record at a time, in a secret random order.

Source: Liu, Kong, Jain, Oh [DPPCA], Algorithm 2 and Appendix D.

.. math:: y_t = \mathrm{clip}(A_{\pi(t)} w_t) + \sigma z_t, \qquad
          P \leftarrow P + \tfrac{2}{t+1} (y_t - P), \qquad w_{t+1} = P/|P|

with pi a secret random order and z_t standard normal. Every y_t is an (eps0, delta0) randomiser of
one record; by shuffling, all of them together are (epsilon, delta). The components are a function
of the y_t. Proof: docs/proofs/shuffled_oja.md.

Differences from the source
---------------------------
1. Constants: `privacy.shuffling` and the exact Gaussian curve, where the source has unnamed ones.
2. Products with rows, A = xx', lie in a ball of diameter 1: the noise is half of the source's,
   which takes two points of the unit ball to be 2 apart.
3. The learning rate needs no spectrum: P is the mean of all answers with weights 1, 2, 3, ..., so
   that w moves by 2/((t+1) |P|), |P| near the eigenvalue. ``rate="harmonic"`` is 1/(1 + t) in the
   caller's units, which [kPCA] F.2 uses with this method; it suits one scale of the records only.
4. The eigenvalue is the mean of w_t'y_t with the same weights, in which noise has mean zero. It
   costs nothing more.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Batches, Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import BLOCK_BYTES, FRACTION_BITS, Clip
from eigenveil.exact.updates import update_blocks, update_sum
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.registry import NOT_AN_OPTION, BuildContext, ComponentMechanism
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.numerics.spectral import signed
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Allotment, Approx, Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.privacy.shuffling import local_mu
from eigenveil.rows.base import RowSource
from eigenveil.rows.matrices import MatrixBatch, MatrixSource
from eigenveil.rows.memory import Batch

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def beside(away: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors, or rows of them, less their part along the orthonormal rows of ``away``."""
    return np.asarray(vectors - (vectors @ away.T) @ away)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ShuffledRecords(Bounded):
    """Records whose products are seen one at a time; ``sensitivities`` are those of one product.

    ``value`` is the exact sum of Aw over all records at w = ``start``, and names the table.

    Attributes
    ----------
    start : array of shape (d,)
        A unit vector beside ``away``. Public.
    away : array of shape (j, d)
        Orthonormal rows that were released before.
    in_order : callable
        For one record after the other, the function from unit vectors w beside ``away`` to Aw
        beside it, in units of the ball. Private.

    """

    start: NDArray[np.float64]
    away: NDArray[np.float64]
    in_order: Callable[[], Iterator[Product]]


def shuffled_records(
    records: Records,
    clip: Clip,
    start: NDArray[np.float64],
    away: NDArray[np.float64],
    order: NDArray[np.intp],
    adjacency: Adjacency,
) -> ShuffledRecords:
    """Return the records in a random order, secret and independent of them."""
    view = BasisProduct(start[:, None])
    first = update_sum(records, clip, view, adjacency)
    sensitivity = first.sensitivity("l2")  # of products of matrices, which are pulled in
    if records.holds_matrices:
        in_order = partial(_matrices, records, clip, away, order)
    else:
        # With what rounding x'w to 2^-b adds to the first sum.
        sensitivity = 1 + view.skew + 2.0**-FRACTION_BITS
        in_order = partial(_rows, records, clip, away, order)
    return ShuffledRecords.over(
        records,
        value=first.value,
        sensitivities={"l2": sensitivity},
        adjacency=adjacency,
        unit=clip.radius**2,
        count=len(order),
        exact=False,  # products are floats
        start=start,
        away=away,
        in_order=in_order,
    )


def _rows(
    batch: Batch, clip: Clip, away: NDArray[np.float64], order: NDArray[np.intp]
) -> Iterator[Product]:
    size = max(1, BLOCK_BYTES // (8 * batch.n_columns))
    for first in range(0, len(order), size):
        rows = batch.array[order[first : first + size]]
        integers = np.empty(rows.shape)
        clip.to_integers(rows, integers)
        # Beside what is released already: PAPw = (Px)(Px)'w for w = Pw.
        for row in beside(away, integers * 2.0**-FRACTION_BITS):
            yield partial(_rank_one, row)


def _rank_one(row: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    return row * (row @ w)


def _matrices(
    batch: MatrixBatch, clip: Clip, away: NDArray[np.float64], order: NDArray[np.intp]
) -> Iterator[Product]:
    def product(i: int, w: NDArray[np.float64]) -> NDArray[np.float64]:
        (block,) = update_blocks(batch.slice(i, i + 1), clip, BasisProduct(w[:, None]))
        return beside(away, block[0, :, 0]) / clip.radius**2

    for i in order.tolist():
        yield partial(product, i)


_NOISE_ENTRIES = 1 << 17  # numbers of noise


@dataclass(frozen=True, slots=True, eq=False)
class NoisyDirection:
    """What the pass ends with: a function of the noisy answers.

    Attributes
    ----------
    vector : array of shape (d,)
        Of length one.
    eigenvalue : float
        Second moment along it, in the caller's units.
    deviation : float
        Of the noise on one entry of an answer, in the same units.

    """

    vector: NDArray[np.float64]
    eigenvalue: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class ShuffledOja(ComponentMechanism):
    """One component by one record at a time, in a secret random order.

    Attributes
    ----------
    rate : {"mean", "harmonic"}
        The learning rate; the second is that of the papers' experiments.

    """

    name = "shuffled-oja"
    about = "a paper's shuffled records; one component"
    source = "Liu et al. 2022, DP-Ojas; amplification: Feldman, McMillan, Talwar 2021"
    numerics = Numerics.IDEALISED
    reads_once = False
    unit_rows = True
    batches = True
    needs_delta = True
    pays_per_component = True
    unpredicted = "is not predicted: 'oja' lost a hundredth as much wherever both were tried"
    rate: Literal["mean", "harmonic"] = "mean"
    exact: ClassVar[bool] = False
    n_components: int = field(default=1, repr=False, metadata=NOT_AN_OPTION)
    delta: float = field(default=0.0, repr=False, metadata=NOT_AN_OPTION)
    n_records: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_components != 1:
            raise InvalidParameterError(
                "'shuffled-oja' finds one component: use ",
                option("mechanism", "deflation"),
                " for more",
            )
        if self.n_records:
            local_mu(self.epsilon, self.delta, self.n_records)  # refuses too few records

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return the mechanism that runs at a strength, the mu of which is an epsilon."""
        if context.n_rows is None:
            raise InvalidDataError(
                "'shuffled-oja' must know the number of rows: give a table that can be read twice, "
                "or choose ",
                option("mechanism", "oja"),
            )
        delta = context.delta(self.name, "oja")
        found = super().at(strength, context)
        return replace(
            found,
            strength=Pure(found.mu),
            delta=delta if context.alone else delta / 2,  # the rest is for the centre
            n_records=context.n_rows,
        )

    def cost(self) -> Cost:
        """Return the cost of the whole pass."""
        return Approx(self.epsilon, self.delta)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyDirection:
        """Pass once over shuffled records."""
        if not isinstance(query, ShuffledRecords) or query.count != self.n_records:
            raise InvalidParameterError("the noise is for another number of shuffled records")
        mu = local_mu(self.epsilon, self.delta, self.n_records)
        scale = noise_scale(query.sensitivity("l2"), mu)
        w, image, value = query.start, np.zeros(len(query.start)), 0.0
        answers = zip(query.in_order(), _noise(query, scale, noise), strict=True)
        for t, (product, z) in enumerate(answers, start=1):
            answer = product(w) + z  # the randomiser of one record; the rest is post-processing
            weight = 2 / (t + 1)
            value += weight * (float(w @ answer) - value)
            if self.rate == "mean":
                image += weight * (answer - image)
            else:
                image = w + query.unit / (1 + t) * answer
            w = image / math.sqrt(image @ image)
        w = beside(query.away, w)
        return NoisyDirection(
            vector=w / np.linalg.norm(w),
            eigenvalue=value * query.unit,
            deviation=scale * query.unit,
        )

    def direction(
        self, records: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, float]:
        """Return the leading direction beside the orthonormal rows of ``away``, its eigenvalue, and
        the deviation of the noise on an entry of its image.
        """
        found = self._pass(records, clip, gate, away)
        return found.vector, found.eigenvalue, self._image_deviation(found)

    def check_records(self, d: int, n: int | None, rows_each: int = 1) -> None:
        """Refuse another number of records, before anything is charged."""
        if n != self.n_records:
            raise InvalidDataError("n_records is not the number of records: give their number")

    def _pass(
        self, records: Records, clip: Clip, gate: Gate, away: NDArray[np.float64]
    ) -> NoisyDirection:
        j, d = away.shape
        if j >= d:
            raise InvalidParameterError("no direction is left apart from those found before")
        self.check_records(d, len(records.records))
        if not records.holds_matrices:
            clip.check(records.array)
        start = beside(away, gate.normals(d))
        order = gate.order(self.n_records)
        query = shuffled_records(
            records, clip, start / np.linalg.norm(start), away, order, gate.adjacency
        )
        return gate.draw(self, query)

    def run(self, source: RowSource | MatrixSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading component about the centre of ``clip``, of a table in memory."""
        d = source.n_columns
        records = Batches(source, gate.adjacency).take(self.n_records + 1)
        if records is None:
            raise InvalidDataError("the table has no rows: check the file, the filter or the path")
        found = self._pass(records, clip, gate, np.empty((0, d)))
        bounded = not source.schema.holds_matrices  # rows: their trace is at most the bound
        trace = clip.row_norm**2 if bounded else max(0.0, found.eigenvalue)
        level = max(0.0, trace - found.eigenvalue) / max(1, d - 1)
        return NoisyComponents(
            components=signed(found.vector[None, :]),
            eigenvalues=np.array([found.eigenvalue]),
            trace=trace,
            noise_scale=self._image_deviation(found),
            law=None,
            reliability=np.array([self._reliability(found, level)]),
        )

    def _image_deviation(self, found: NoisyDirection) -> float:
        """Return the deviation of the noise on an entry of the mean of all answers."""
        return found.deviation * math.sqrt(_weights_squared(self.n_records))

    def _reliability(self, found: NoisyDirection, level: float) -> float:
        """Return the squared cosine that noise leaves, by a linearised recursion.

        An entry e across becomes (1 - eta gap) e + eta deviation z.
        """
        d = len(found.vector)
        gap = found.eigenvalue - level
        scale = self._image_deviation(found)
        if gap <= scale * (math.sqrt(d) + 1):  # noise alone would do
            return 0.0
        t = np.arange(1, self.n_records + 1)
        rates = 2 / (t + 1) / found.eigenvalue if self.rate == "mean" else 1 / (1 + t)
        kept = np.cumprod(np.clip(1 - rates * gap, 0.0, 1.0)[::-1])[::-1]
        after = np.append(kept[1:], 1.0)
        return float(1 / (1 + (d - 1) * np.sum((rates * found.deviation * after) ** 2)))


def _weights_squared(n: int) -> float:
    """Sum of the squares of weights proportional to 1, ..., n."""
    return 2 * (2 * n + 1) / (3 * n * (n + 1))


def _noise(
    query: ShuffledRecords, scale: float, noise: NoiseSource
) -> Iterator[NDArray[np.float64]]:
    """Return noise for every record, outside released directions: a projection of it all."""
    assert query.count is not None
    d = len(query.start)
    size = max(1, _NOISE_ENTRIES // d)
    for first in range(0, query.count, size):
        draws = normals(noise, (min(size, query.count - first), d))
        yield from beside(query.away, scale * draws)
