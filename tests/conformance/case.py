"""What a conformance case is, and the tables, queries and readings that cases share.

Cases stand at the end of the tests of their mechanism, in a list ``CASES``; ``table.py`` collects
them. Rows are clipped to the unit ball about the origin unless a mechanism says otherwise, so the
declared sensitivities are those of the unit ball.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import eigenveil.exact
from eigenveil.exact import (
    LARGEST_NORM,
    Bounded,
    Clip,
    column_counts,
    distance_counts,
    norm_counts,
    second_moment,
    total,
    trace,
)
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms import Gate, vector_noise
from eigenveil.privacy import Adjacency, Cost, epsilon_of, part, rho_of
from eigenveil.rows import GroupedSource, PairedSource

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=1.0, on_invalid="zero")
DIRECTIONS = replace(CLIP, normalise=True)
FILLED = replace(CLIP, on_missing="centre")
ANYWHERE = replace(CLIP, row_norm=LARGEST_NORM)
ROWS = 20  # a public number of them, where a mechanism asks for one
MANY = 512  # where it asks for many


class Arranged:
    """How the tables of all cases are sorted, and whose their rows are.

    As they come, unless ``by_first_column``. With ``persons`` two rows after each other, as they
    come, belong to one. Every row and every person has a key of its own, wherever it ends up; what
    a gate draws follows the keys of the newest table, so that draws on two tables are coupled.
    """

    by_first_column = False
    persons = False
    row_keys = person_keys = None

    @classmethod
    def order(cls, n):
        """A random order that treats the same rows, or persons, of two tables alike."""
        for keys in (cls.person_keys, cls.row_keys):
            if keys is not None and len(keys) == n:
                return np.argsort(keys)
        return np.argsort(np.random.default_rng(n).random(n))  # the rows of no case, as they come


def open_rows(rows):
    """The table of a case, arranged."""
    n = len(rows)
    order = np.argsort(rows[:, 0], kind="stable") if Arranged.by_first_column else np.arange(n)
    Arranged.row_keys, Arranged.person_keys = np.random.default_rng(n).random(n)[order], None
    source = eigenveil.open_rows(rows[order])
    if not Arranged.persons:
        return source
    ids = (np.arange(n) // 2)[order]
    _, first = np.unique(ids, return_index=True)
    keys = np.random.default_rng(n + 1).random(n)
    Arranged.person_keys = keys[ids[np.sort(first)]]  # persons are numbered as they appear
    return GroupedSource(source, ids)


def noises(whole, shares):
    """Noise of steps at their shares of a budget."""
    return [vector_noise(part(whole, share)) for share in shares]


def mu_of(cost):
    return math.sqrt(2 * rho_of(cost))


def pure_of(cost):
    return epsilon_of(cost, 0.0)


def moment(rows, adjacency):
    return second_moment(open_rows(rows), CLIP, adjacency)


def row_total(rows, adjacency):
    return total(open_rows(rows), CLIP, adjacency)


def row_trace(rows, adjacency):
    return trace(open_rows(rows), CLIP, adjacency)


def norms(rows, adjacency):
    return norm_counts(open_rows(rows), CLIP, adjacency)


def direction_moment(rows, adjacency):
    return second_moment(open_rows(rows), DIRECTIONS, adjacency)


def distances(rows, adjacency):
    """Of rows in company from the origin, as a search sees them."""
    return distance_counts(open_rows(with_distances(rows)), ANYWHERE, adjacency)


def with_distances(rows, company=400):
    """The same rows in fixed company that has distances."""
    return np.vstack([np.random.default_rng(4).standard_normal((company, rows.shape[1])), rows])


def in_company(size, clip, read, company=400):
    """What is released of rows in company that has distances; a refusal is an outcome like any
    other, of ``size(d)`` zeros, and one for a number of rows that is private beside a centre.
    """

    def run(mechanism, rows, adjacency, gate):
        crowd = with_distances(rows, company)
        try:
            return read(mechanism.run(open_rows(crowd), clip, gate))
        except NothingFoundError:
            counted = read is centred_entries and not adjacency.count_is_public
            return np.zeros(size(rows.shape[1]) + counted)

    return run


def with_scales(rows, units=1.0):
    """The same rows, all of them with partners at the origin, in fixed company that has scales."""
    company = np.random.default_rng(3).standard_normal((400, rows.shape[1])) * units
    return np.vstack([company[:200], rows, company[200:], np.zeros_like(rows)])


def paired_magnitudes(rows, adjacency):
    """Counts of half differences by column and octave, as a search for scales sees them."""
    pairs = PairedSource(open_rows(with_scales(rows)), adjacency, np.arange)
    return column_counts(pairs, CLIP, adjacency)


def far_magnitudes(d, adjacency):
    return np.full(d, 1e9), np.full(d, 1e18)


def turned(d):
    """Orthonormal rows between the axes."""
    return np.linalg.qr(np.vander(np.arange(1.0, d + 1), d))[0]


def two_columns(rows):
    """A gap needs two columns, and so does a rank."""
    return np.column_stack([rows, np.zeros(len(rows))]) if rows.shape[1] == 1 else rows


def with_a_gap(rows):
    """The same rows in fixed company that opens a gap behind the first eigenvalue."""
    wide = two_columns(rows)
    return np.vstack([np.tile(np.eye(wide.shape[1])[0], (400, 1)), wide])


def one_step(query):
    def run(mechanism, rows, adjacency, gate):
        return gate.draw(mechanism, query(rows, adjacency))

    return run


def procedure(mechanism, rows, adjacency, gate):
    return mechanism.run(open_rows(rows), CLIP, gate)


def on_directions(mechanism, rows, adjacency, gate):
    return mechanism.run(open_rows(rows), DIRECTIONS, gate)


def dense_counts(query, filled):
    """Counts of these bins, whether they are empty or not."""
    counts = np.zeros(len(filled), dtype=np.int64)
    counts[np.searchsorted(filled, query.bins)] = query.value.units
    return counts


def upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


def matrix(released):
    return upper(released.matrix)


def projector(released):
    return upper(released.components.T @ released.components)


def components(released):
    return np.append(projector(released), released.eigenvalues)


def centred_entries(released, inner=matrix):
    noisy_count = [] if released.noisy_count is None else [released.noisy_count]
    centre = np.nan_to_num(released.centre)  # of pairs there is none
    return np.concatenate([centre, noisy_count, inner(released.inner)])


def orthogonal(d, adjacency):
    """xx' and yy' of orthogonal unit rows are sqrt(2) apart; d = 1 has none."""
    first = np.eye(d)[0]
    return first, None if adjacency is ADD else np.eye(d)[-1]


def antipodal(d, adjacency):
    first = np.full(d, 1 / math.sqrt(d))
    return first, None if adjacency is ADD else -first


def long_and_short(d, adjacency):
    first = np.full(d, 1 / math.sqrt(d))
    return first, None if adjacency is ADD else np.zeros(d)


def all_entries(d, adjacency):
    """Largest in l1: for given signs of yy' - xx' the best rows are eigenvectors of those signs."""
    if adjacency is ADD:
        return np.full(d, 1 / math.sqrt(d)), None
    best, pair = 0.0, None
    rng = np.random.default_rng(0)
    for _ in range(50):
        signs = np.sign(rng.standard_normal((d, d)))
        for _ in range(20):
            weights = np.triu(signs)
            _, vectors = np.linalg.eigh((weights + weights.T) / 2)
            x, y = vectors[:, 0], vectors[:, -1]
            signs = np.sign(np.outer(y, y) - np.outer(x, x))
        reached = np.abs(upper(np.outer(y, y) - np.outer(x, x))).sum()
        if reached > best:
            best, pair = reached, (x, y)
    return pair


def two_directions(d, adjacency):
    first, second = turned(d)[:2]
    return first, None if adjacency is ADD else second


def one_axis(n, d):
    """Rows along which a further one raises the largest eigenvalue, and any other does not."""
    return np.tile(np.eye(d)[0], (n, 1))


def constant(replaced, added):
    return {REPLACE: lambda d: replaced, ADD: lambda d: added}


def symmetric_sigma(mu, d, adjacency):
    """s = sensitivity/mu on the diagonal, s/sqrt(2) off it, written out independently."""
    s = (math.sqrt(2) if adjacency is REPLACE else 1.0) / mu
    full = np.full((d, d), s / math.sqrt(2))
    np.fill_diagonal(full, s)
    return upper(full)


def vector_sigma(mu, d, adjacency):
    return np.full(d, 2.0 / mu) if adjacency is REPLACE else np.full(d + 1, math.sqrt(2) / mu)


MOMENT = constant(math.sqrt(2), 1.0)
NUCLEAR = constant(2.0, 1.0)
MEAN = constant(2.0, math.sqrt(2))
UPPER_L1 = {
    REPLACE: lambda d: min(d + 1, math.sqrt((d * d + 3 * d) / 2)),
    ADD: lambda d: (d + 1) / 2,
}
ONE = constant(1.0, 1.0)

VECTOR = {
    "query": row_total,
    "run": one_step(row_total),
    "norm": "l2",
    "sensitivity": MEAN,
    "worst_pair": antipodal,
}

VECTOR_L1 = {
    "norm": "l1",
    "sensitivity": {REPLACE: lambda d: 2 * math.sqrt(d), ADD: lambda d: math.sqrt(d) + 1},
}

PURE = {"strength_of": pure_of}


@dataclass(frozen=True)
class Case:
    """How to build, feed and read one mechanism: one on the second moment that releases a matrix,
    unless it says otherwise.
    """

    name: str
    build: Callable[[float, int, int], Any]  # (strength, columns, components) -> mechanism
    query: Callable[[np.ndarray, Adjacency], Bounded] = moment  # of its first step
    run: Callable[[Any, np.ndarray, Adjacency, Gate], Any] = procedure
    read: Callable[[Any], np.ndarray] = matrix  # a flat array of independent entries
    norm: str = "frobenius"  # in which the first step is bounded
    # Of the number of columns.
    sensitivity: dict[Adjacency, Callable[[int], float]] = field(default_factory=lambda: MOMENT)
    worst_pair: Callable[[int, Adjacency], tuple[np.ndarray, np.ndarray | None]] = orthogonal
    # Standard deviations, written out independently; None: not additive.
    deviation: Callable[[float, int, Adjacency], np.ndarray] | None = None
    company: Callable[[int, int], np.ndarray] | None = None  # of the worst pair
    attained: float = 1.0  # share of the declared sensitivity that the worst pair attains
    strength_of: Callable[[Cost], float] = mu_of
    ledger: dict[str, float] = field(default_factory=lambda: {"rho": 10.0})
    may_coincide: bool = False  # honest releases that are cleaned, projected or counted
    exact: bool = True
    trials: int = 3000  # of the audit, for each table
    shows: bool = True  # whether so many can show what one row adds at all
    free: bool = False  # releases nothing
    adjacencies: tuple[Adjacency, ...] = (REPLACE, ADD)
    persons: bool = True  # whether one may have several rows
    proof: str | None = None  # the page, where it is not that of what is built

    def __str__(self):
        return self.name


BRACKETS = {  # of distances, the first step of a search
    "query": distances,
    "read": lambda released: released,
    "norm": "l2",
    "sensitivity": constant(math.sqrt(2), 1.0),
    "worst_pair": long_and_short,
    "trials": 1000,
    "shows": False,
}
PURE_BRACKETS = BRACKETS | PURE | {"norm": "l1", "sensitivity": constant(2.0, 1.0)}
