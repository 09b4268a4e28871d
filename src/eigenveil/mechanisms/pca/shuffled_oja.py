r"""DP-Ojas: the leading component by one record at a time, in a secret random order.

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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.shuffled import ShuffledRecords, beside, shuffled_records
from eigenveil.exact.batches import Batches, Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.mechanisms.registry import ComponentEntry, Terms
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.numerics.spectral import signed
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Approx, Cost
from eigenveil.privacy.guarantee import Numerics
from eigenveil.privacy.shuffling import local_mu
from eigenveil.rows.base import RowSource
from eigenveil.rows.matrices import MatrixSource
from eigenveil.wording import option

__all__ = ["ENTRY", "NoisyDirection", "ShuffledOja", "ShuffledOjaPCA"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOjaPCA:
    """Noise on the product with every record. Fields are public, never data.

    ``n_records`` is the number of records, on which the noise depends; another one is refused.
    """

    name: ClassVar[str] = "shuffled-oja"
    exact: ClassVar[bool] = False
    epsilon: float
    delta: float
    n_records: int
    n_components: int = 1
    rate: Literal["mean", "harmonic"] = "mean"

    def __post_init__(self) -> None:
        if self.n_components != 1:
            raise InvalidParameterError(
                "'shuffled-oja' finds one component: use ",
                option("mechanism", "deflation"),
                " for more",
            )
        if self.rate not in ("mean", "harmonic"):
            raise InvalidParameterError("rate must be 'mean' or 'harmonic'")
        local_mu(self.epsilon, self.delta, self.n_records)  # refuses too few records

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
        bounded = not source.holds_matrices  # rows: their trace is at most the bound
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


@dataclass(frozen=True, kw_only=True)
class ShuffledOja(ComponentEntry):
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

    def gaussian(self, mu: float, terms: Terms) -> ShuffledOjaPCA:
        """Build the mechanism; its strength is an epsilon."""
        if terms.n_rows is None:
            raise InvalidDataError(
                "'shuffled-oja' must know the number of rows: give a table that can be read twice, "
                "or choose ",
                option("mechanism", "oja"),
            )
        delta = terms.delta(self.name, "oja")
        return ShuffledOjaPCA(
            epsilon=mu,
            delta=delta if terms.alone else delta / 2,  # the rest is for the centre
            n_records=terms.n_rows,
            n_components=terms.n_components,
            rate=self.rate,
        )


ENTRY = ShuffledOja()
