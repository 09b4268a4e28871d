r"""Law of single eigenvectors of a noisy symmetric matrix: which true components they mix.

For Y = S + E with Gaussian E of deviation s on the diagonal and s/sqrt(2) off it, eigenvalues v of
Y and t of S, the squared cosines O^2 between eigenvectors of both have the density

.. math:: \exp\Bigl(\sum_{jl} v_j t_l O_{jl}^2 / s^2\Bigr).

A pair of ranks turns by an angle of a von Mises law, and P, the mean of O^2, follows in mean field
over all pairs, with a(x) the mean cosine of that angle:

.. math:: \kappa_{jl} = |v_j - v_l|\,|t_j - t_l| / s^2, \quad a = a(\kappa_{jl}/2), \quad
          c_{jl} = \frac{4a}{1 - a^2}, \quad
          P_{jl} = \frac{1}{c_{jl} + x_j}, \quad \sum_l P_{jl} = 1.

The true spectrum is not known: t = P v, sorted, repeats until it stays. Trailing values that noise
about one level would spread as far have that level. Post-processing: docs/proofs/component_law.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.text import percent

SIGN_ERRORS = 3.0  # standard errors beyond which the sign of a loading is certain

_MIN_SHARE_INSIDE = 0.7  # expected squared cosine with the span
_CROSSING = 0.1  # expected number of directions that cross a clear cut, at most
_ROUNDS = 50  # of the true spectrum
_SETTLED = 1e-4  # change of the spectrum, in deviations of the noise, that ends the rounds
_NEWTON_STEPS = 60
_SINGLE = 64  # leading values that are never binned
_BINS = 48
_LEAST_NOISE = 1e-15  # of the largest value: below it, rounding is the larger error


@dataclass(frozen=True, slots=True)
class ComponentGroup:
    """A run of components that noise may have mixed; a single one where it did not.

    Attributes
    ----------
    first, last : int
        Ranks of its first and last component, counted from 1.
    share : float
        Expected share of the span of these components inside the span of the same ranks without
        noise; NaN where nothing is known.
    closed : bool
        Whether the last of them can be told from the components that follow.

    """

    first: int
    last: int
    share: float
    closed: bool

    def __str__(self) -> str:
        """Return a sentence for people who read the components."""
        single = self.first == self.last
        joint = "and" if self.last == self.first + 1 else "to"
        names = f"components {self.first} {joint} {self.last}"
        if single:
            names = f"component {self.first}"
        if math.isnan(self.share) and single:
            return f"nothing is known about {names}"
        if math.isnan(self.share):
            return f"it is not known whether {names} can be told apart"
        share = percent(min(1.0, self.share))
        if single and self.closed:
            return f"{names} is told apart from all others: {share}"
        if self.closed:
            return f"{names} cannot be told apart; together {share}"
        if single:
            return f"{names} is mixed with later ones: {share}"
        return f"{names} cannot be told apart, nor from later ones; together {share}"


@dataclass(frozen=True, slots=True, eq=False)
class ComponentStatement:
    """Expected agreement of k released components with those of the same matrix without noise.

    Attributes
    ----------
    mixing : array of shape (k, k)
        Expected squared cosine between released component j and component l without noise. Rows sum
        to 1 at most: the rest lies in components that were not released. A row of NaN states
        nothing.
    loading_errors : array of shape (k, d)
        Standard error of every loading, about the same component without noise.

    """

    mixing: NDArray[np.float64]
    loading_errors: NDArray[np.float64]

    @property
    def reproducibility(self) -> NDArray[np.float64]:
        """Expected squared cosine of each component with the one of the same rank without noise."""
        return np.asarray(self.mixing.diagonal().copy())

    @property
    def groups(self) -> tuple[ComponentGroup, ...]:
        """Runs of components between clear cuts, the leading one first.

        A cut is clear where at most a tenth of a direction is expected to cross it.
        """
        known = np.nan_to_num(self.mixing, nan=0.0)
        found, first = [], 0
        for stop in range(1, len(known) + 1):
            closed = stop - float(known[:stop, :stop].sum()) <= _CROSSING
            if closed or stop == len(known):
                share = float(self.mixing[first:stop, first:stop].sum()) / (stop - first)
                found.append(ComponentGroup(first + 1, stop, share, closed))
                first = stop
        return tuple(found)

    def certain_signs(self, components: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which loadings of these components have the sign that they have without noise."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(components) > SIGN_ERRORS * self.loading_errors)

    def leading(self, k: int) -> "ComponentStatement":
        """Return the same about the first k components."""
        return ComponentStatement(self.mixing[:k, :k], self.loading_errors[:k])

    def reduced(self, factors: NDArray[np.float64]) -> "ComponentStatement":
        """Return the same where components are right with these probabilities; NaN: unknown."""
        mixing = self.mixing * factors[:, None]
        errors = np.where(np.isnan(factors)[:, None], np.nan, self.loading_errors)
        return replace(self, mixing=mixing, loading_errors=errors)


def mostly_inside(
    mixing: NDArray[np.float64], reliability: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which components mostly lie in the span of as many components without noise.

    Where nothing is stated of a single component its reliability decides.
    """
    share = mixing.sum(axis=1)
    return np.where(np.isnan(share), reliability > 0, share > _MIN_SHARE_INSIDE)


def expected_mixing(
    values: NDArray[np.float64], noise: Any, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the expected squared cosines between noisy and true eigenvectors, rows noisy.

    Parameters
    ----------
    values : array of shape (m,)
        Eigenvalues of the noisy matrix, descending.
    noise : float or array of shape (m, m)
        Standard deviation of the noise on a diagonal entry; or, for each pair of eigenvectors,
        sqrt(2) times that of the noise between them.
    weights : array of shape (m,), optional
        Directions that each value stands for. Columns of the result are sums over as many.

    """
    values = np.asarray(values, dtype=np.float64)
    m = values.size
    count = np.ones(m) if weights is None else weights
    deviation = np.broadcast_to(np.asarray(noise, dtype=np.float64), (m, m))
    unit = max(float(np.abs(values).max()), float(deviation.max())) or 1.0
    values = values / unit
    variance = np.maximum(deviation / unit, _LEAST_NOISE) ** 2
    start = _first_of_flat_tail(values, variance, count)
    pull = np.abs(values[:, None] - values) / variance
    level = max(0.0, float(count[start:] @ values[start:] / count[start:].sum()))
    spectrum = np.append(values[:start], np.full(m - start, level))
    close = _SETTLED * math.sqrt(float(variance.max()))
    mixing, terms = np.eye(m), count
    for _ in range(_ROUNDS):
        ties = _ties(pull * np.abs(spectrum[:, None] - spectrum) / 2)
        terms = _row_terms(ties, count, terms)
        mixing = count / (ties + terms[:, None])
        new = np.sort(np.maximum(mixing @ values, 0.0))[::-1]
        new[start:] = min(level, float(new[start:].max()))
        settled = float(np.abs(new - spectrum).max()) < close
        spectrum = new
        if settled:
            break
    return np.asarray(mixing / mixing.sum(axis=1, keepdims=True))


def _ties(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 4a/(1 - a^2), where a = x/(1/2 + sqrt(x^2 + 9/4)) bounds I1(x)/I0(x) from below.

    The bound is exact at both ends.
    """
    root = np.sqrt(x * x + 2.25)
    whole = 0.5 + root
    less = 0.5 + 2.25 / (root + x)  # whole - x, which would cancel
    return np.asarray(4 * x * whole / (less * (whole + x)))


def _row_terms(
    ties: NDArray[np.float64], count: NDArray[np.float64], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return x with sum_l count_l / (ties_jl + x_j) = 1 for every row, by Newton from any x.

    One over the sum is concave in x, so that the first step ends below the root and the others
    rise to it.
    """
    for _ in range(_NEWTON_STEPS):
        terms = 1 / (ties + x[:, None])
        total = terms @ count
        # A direction is not tied to itself, so x is its own count at least.
        new = np.maximum(count, x + (total - 1) * total / ((terms * terms) @ count))
        change = float(np.max(np.abs(new - x) / new))
        x = new
        if change < 1e-9:
            break
    return x


def _first_of_flat_tail(
    values: NDArray[np.float64], variance: NDArray[np.float64], count: NDArray[np.float64]
) -> int:
    """Return the first of the trailing values that noise about one level would spread as far."""
    m = values.size

    def tails(array: NDArray[np.float64]) -> NDArray[np.float64]:
        return array[::-1].cumsum()[::-1]

    # Sums over all pairs of a tail, of twice the variance between them.
    pairs = (variance * np.outer(count, count))[::-1, ::-1].cumsum(0).cumsum(1).diagonal()[::-1]
    size = tails(count)
    deviation = np.sqrt(pairs) / size
    above = values - values[-1]  # tails begin at zero, where their sums lose nothing
    mean = tails(count * above) / size
    energy = tails(count * above**2) - size * mean**2
    degrees = size * (size + 1) / 2 - 1
    flat = (above - mean <= 2 * deviation * np.sqrt(size / 2)) & (
        energy <= deviation**2 * (degrees + np.sqrt(2 * np.maximum(degrees, 0.0)))
    )
    flat[-1] = True
    return int(np.argmax(flat)) if m > 1 else 0


def _bins(size: int, k: int) -> NDArray[np.intp]:
    """Return where bins of ranks begin: the leading ones alone, the rest in few."""
    single = max(_SINGLE, k)
    if size <= single + 2 * _BINS:
        return np.arange(size)
    return np.append(np.arange(single), np.linspace(single, size, _BINS + 1)[:-1].astype(int))


def dense_statement(
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    noise: Any,
    released: NDArray[np.float64],
) -> ComponentStatement:
    """Return what holds of components where all eigenpairs of the noisy matrix are known.

    ``noise`` as `expected_mixing` has it. ``released`` are orthonormal rows, near the leading
    eigenvectors: what a correction turned them by is counted as well.
    """
    k, d = released.shape
    starts = _bins(d, k)
    count = np.diff(np.append(starts, d)).astype(np.float64)
    if np.ndim(noise):
        noise = np.asarray(noise)[np.ix_(starts, starts)]
    mixing = expected_mixing(np.add.reduceat(values, starts) / count, noise, count)
    turned = np.add.reduceat((released @ vectors.T) ** 2, starts, axis=1)
    squares = np.add.reduceat(vectors**2, starts, axis=0) / count[:, None]
    return _statement(turned @ mixing, squares)


def _statement(mixing: NDArray[np.float64], squares: NDArray[np.float64]) -> ComponentStatement:
    """Return the statement; ``squares``: mean squared loadings of the directions of each column."""
    k = len(mixing)
    weights = mixing.copy()
    # What is left of the component itself is shorter by the cosine.
    np.fill_diagonal(weights, (1 - np.sqrt(np.minimum(1.0, mixing.diagonal()))) ** 2)
    return ComponentStatement(mixing[:, :k], np.sqrt(weights @ squares))


def leading_statement(
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    noise: float,
    k: int,
    *,
    trace: float,
    energy: float | None = None,
) -> ComponentStatement:
    """Return what holds of the first k of some leading eigenvectors (rows), the others not known.

    The trace and the squared Frobenius norm of the noisy matrix say where the others lie: in a
    semicircle of that mean and width; without the norm, at one level that is not negative. Their
    directions are taken as spread evenly.
    """
    found, d = vectors.shape
    others = d - found
    if not others:
        return dense_statement(values, vectors, noise, vectors[:k])
    level, width = (trace - float(values.sum())) / others, 0.0
    if energy is None:
        level = max(0.0, level)
    else:
        width = math.sqrt(max(0.0, (energy - float(values @ values)) / others - level**2))
    bins = min(_BINS, others)
    bulk = np.minimum(level + width * _semicircle(bins), values[-1])
    count = np.append(np.ones(found), np.full(bins, others / bins))
    mixing = expected_mixing(np.append(values, bulk), noise, count)[:k]
    squares = vectors**2
    rest = np.maximum(0.0, 1 - squares.sum(axis=0)) / others
    return _statement(mixing, np.vstack([squares, np.tile(rest, (bins, 1))]))


def _semicircle(bins: int) -> NDArray[np.float64]:
    """Return quantiles of the semicircle of variance 1 in the middle of bins, descending."""
    angle = np.linspace(0.0, np.pi, 2001)
    share = (angle - np.sin(angle) * np.cos(angle)) / np.pi
    middle = np.interp((np.arange(bins) + 0.5) / bins, share, angle)
    return np.asarray(2 * np.cos(middle))


def inner_statement(
    values: NDArray[np.float64],
    vectors: NDArray[np.float64],
    noise: float,
    inside: NDArray[np.float64],
) -> ComponentStatement:
    """Return what holds of components that were told apart inside a released span.

    ``values`` and ``noise`` are those of the small matrix inside it; ``inside`` is the expected
    squared cosine of each component with the span that holds without noise.
    """
    k, d = vectors.shape
    mixing = expected_mixing(values, noise) * inside[:, None]
    squares = vectors**2
    outside = np.maximum(0.0, 1 - squares.sum(axis=0)) / max(1, d - k)
    leak = np.maximum(0.0, 1 - mixing.sum(axis=1))
    return _statement(np.column_stack([mixing, leak]), np.vstack([squares, outside]))


def pair_noise(vectors: NDArray[np.float64], entry_noise: NDArray[np.float64]) -> Any:
    """Return the noise between eigenvectors (rows), as `expected_mixing` has it.

    ``entry_noise`` is the standard deviation of every entry of the matrix.
    """
    variance = entry_noise**2
    np.fill_diagonal(variance, variance.diagonal() / 2)
    squares = vectors**2
    return np.sqrt(2 * squares @ variance @ squares.T)


def correlation_statement(
    moment: NDArray[np.float64],
    noise: float | NDArray[np.float64],
    variances: NDArray[np.float64],
    released: NDArray[np.float64],
) -> ComponentStatement:
    """Return what holds of components of a noisy second moment divided by released variances.

    About the same matrix without noise, divided by the same variances: they are taken as given.

    Parameters
    ----------
    moment : array of shape (d, d)
        The noisy second moment.
    noise : float or array of shape (d, d)
        Standard deviation of the noise on a diagonal entry, or of every entry.
    variances : array of shape (d,)
        Positive.
    released : array of shape (k, d)
        Orthonormal rows. They need not be eigenvectors of the divided matrix: what a correction
        turned them by is counted as well.

    """
    root = np.sqrt(variances)
    values, columns = np.linalg.eigh(moment / root / root[:, None])
    values, vectors = values[::-1], np.ascontiguousarray(columns[:, ::-1].T)
    if np.ndim(noise):
        entries = np.asarray(noise, dtype=np.float64)
        level = math.sqrt(float((entries**2).mean() * 2 * len(root) / (len(root) + 1)))
    else:
        level = float(noise)
        entries = np.full(moment.shape, level / math.sqrt(2))
        np.fill_diagonal(entries, level)
    between = pair_noise(vectors, entries / root / root[:, None])
    along = (vectors / variances) @ vectors.T
    return dense_statement(values, vectors, np.hypot(between, level * along), released)
