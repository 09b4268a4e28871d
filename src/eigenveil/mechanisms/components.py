"""NoisyComponents: released directions, and how reliable each of them is."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.numerics.component_law import (
    ComponentStatement,
    dense_statement,
    leading_statement,
    pair_noise,
)
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.spectral import top_eigenpairs

_FEW = 512  # columns
_ROUNDING = 1e-12  # of a sum of shares


@dataclass(frozen=True, slots=True, eq=False)
class NoisyComponents:
    """Released directions, and public facts about their noise.

    Attributes
    ----------
    components : array of shape (k, d)
        Orthonormal rows, the leading one first.
    eigenvalues : array of shape (k,)
        Noisy second moment along each.
    trace : float
        Noisy, or a public bound on it.
    noise_scale : float
        Standard deviation of the noise on one of the eigenvalues' matrix entries.
    law : NoiseLaw or None
        Law of the matrix noise in the caller's units; None where no noisy matrix was released.
    reliability : array of shape (k,)
        Agreement of the span: expected squared cosine between each component and the span of those
        that the same rows would give without noise; 0 where it does not stand out. Components of
        nearly the same variance mix among themselves, which does not count.
    energy : float
        Squared Frobenius norm of the noisy matrix, or an estimate where none was formed.
    floor : float
        Where there is no law: the eigenvalue that noise alone rarely exceeds; zero where unknown.
    single : ComponentStatement, optional
        Agreement of single components with those of the same rank without noise, where the law of
        the noise is known to say so.

    """

    components: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    trace: float
    noise_scale: float
    law: NoiseLaw | None
    reliability: NDArray[np.float64]
    energy: float = math.nan
    floor: float = 0.0
    single: ComponentStatement | None = None

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of the noisy variance along each component."""
        positive = np.maximum(self.eigenvalues, 0.0)
        return np.asarray(positive / (max(self.trace, float(positive.sum())) or 1.0))

    def count_holding(self, share: float, fewest: int = 1) -> int:
        """Return how few components, ``fewest`` or more, hold a share of the noisy variance."""
        together = np.cumsum(self.shares)
        enough = int(np.searchsorted(together, share * (1 - _ROUNDING))) + 1
        return min(len(together), max(fewest, enough))


def leading(noisy: NoisyMatrix, k: int, *, states: bool = True) -> NoisyComponents:
    """Return the top-k eigenpairs of a noisy matrix: post-processing.

    ``states`` says whether a statement about each of them is wanted.
    """
    assert noisy.law is not None  # there is noise
    d = noisy.law.d
    # The others tell how far the released ones stand from the rest. Of many columns they lie in a
    # bulk, where each would take as long to find as all that were asked for.
    found = d if d <= _FEW else k
    values, vectors = top_eigenpairs(noisy.matrix, found, negligible(noisy.law))
    gaps = _gaps(values[:k], values[k:]) if found == d else None
    trace = float(np.trace(noisy.matrix))
    energy = float(np.vdot(noisy.matrix, noisy.matrix))
    # Gaussian noise whose spectrum ends where that of other noise does turns as much as that.
    noise: Any = noisy.law.edge / math.sqrt(2 * d)
    single = None
    if states and found < d:
        single = leading_statement(values, vectors, noise, k, trace=trace, energy=energy)
    elif states:
        if noisy.entry_noise is not None:
            noise = pair_noise(vectors, noisy.entry_noise) * noise / noisy.law.deviation
        single = dense_statement(values, vectors, noise, vectors[:k])
    values = values[:k]
    return NoisyComponents(
        components=vectors[:k],
        eigenvalues=values,
        trace=trace,
        noise_scale=noisy.noise_scale,
        law=noisy.law,
        reliability=reliability(values, trace, noisy.law, energy, gaps),
        energy=energy,
        single=single,
    )


def reliability(
    values: NDArray[np.float64],
    trace: float,
    law: NoiseLaw,
    energy: float,
    gaps: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the squared cosines that noise of this law leaves to eigenvectors of these noisy
    eigenvalues.

    Zero where noise alone about a common level would do: an eigenvalue has to exceed the mean of
    itself and all smaller ones by more than noise does. Zero too inside the bulk of the others, of
    table and noise together, where a direction is one of many, unless it stands further from all
    of them than noise spreads equal ones. Noise then turns it by a sine of edge/(2 gap) at most.
    ``energy`` is the squared Frobenius norm, ``gaps`` are how far eigenvalues stand from the
    others, where that is known.
    """
    floor = law.floor()
    smaller = (trace - np.append(0.0, np.cumsum(values)[:-1])) / (law.d - np.arange(values.size))
    clear = np.logical_and.accumulate(values > smaller + floor)
    level = law.level(values, trace)
    clear &= beyond_bulk(values, trace, energy, law.d)
    overlaps = np.array([law.signal(value - level)[1] for value in values])
    apart = np.zeros(values.size)
    if gaps is not None:
        apart = 1 - (law.edge / 2 / np.maximum(gaps, law.edge)) ** 2
        apart[gaps <= 2 * floor] = 0.0
    return np.maximum(np.where(clear, overlaps, 0.0), apart)


def beyond_bulk(
    values: NDArray[np.float64], trace: float, energy: float, d: int
) -> NDArray[np.bool_]:
    """Return whether each value lies beyond the bulk of those that are not beyond it, the last one
    first.

    A bulk without its own largest members would look narrower than it is.
    """
    others, total = d - values.size, trace - float(values.sum())
    squares = energy - float(values @ values)
    beyond = np.zeros(values.size, dtype=bool)
    for i in reversed(range(values.size)):
        level = total / others if others else 0.0
        width = math.sqrt(max(0.0, squares / others - level**2)) if others else 0.0
        # That of a semicircle, as `floor` has it.
        beyond[i] = others > 0 and values[i] > level + width * (2 + 2.02 * d ** (-2 / 3))
        if not beyond[i]:
            others, total = others + 1, total + values[i]
            squares += values[i] ** 2
    return beyond


def _gaps(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance to the largest of the others; where there are none, to each other."""
    if others.size:
        return np.asarray(values - others[0])
    between = np.append(np.append(np.inf, -np.diff(values)), np.inf)
    return np.asarray(np.minimum(between[:-1], between[1:]))


def energy_beside(values: NDArray[np.float64], energy: float, level: float, d: int) -> float:
    """Sum of squares, about their level, of the eigenvalues that are not among ``values``."""
    return energy - float(values @ values) - (d - values.size) * level**2


def negligible(law: NoiseLaw) -> float:
    """Residual of an eigenpair that is invisible beside the noise.

    A residual r turns an eigenvector by about r/gap, the noise itself by about edge/(2 gap). At a
    fiftieth of the edge the overlap with true directions falls by less than 1 % where noise all
    but hides them, by 0.2 % where they are half as strong again, and not at all beyond.
    """
    return law.edge / 50
