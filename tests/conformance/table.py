"""One row per mechanism. A new mechanism adds a row here and inherits every check.

Rows are clipped to the unit ball about the origin unless the mechanism says otherwise, so the
declared sensitivities are those of the unit ball.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import eigenveil.data
from eigenveil.data import (
    Bounded,
    Clip,
    along,
    column_counts,
    eigengap,
    eigenvalues,
    leading,
    norm_counts,
    second_moment,
    total,
    trace,
    weighted_eigenvalues,
)
from eigenveil.data.basis_product import BasisProduct
from eigenveil.data.boxes import coordinate_counts
from eigenveil.data.clip import LARGEST_NORM
from eigenveil.data.moment_columns import OUTSIDE_SCALE, moment_columns
from eigenveil.data.norms import distance_counts, rows_beyond
from eigenveil.data.products import moment_products
from eigenveil.data.shuffled import shuffled_records
from eigenveil.data.sources import (
    Batch,
    GroupedSource,
    PairedSource,
    PresentSource,
    ProjectedSource,
)
from eigenveil.data.spectrum import compressed, projector
from eigenveil.data.spreads import spread_counts
from eigenveil.data.updates import update_counts
from eigenveil.exceptions import GapTooSmallError, NothingFoundError
from eigenveil.mechanisms import (
    AdaptiveCleanedCov,
    AdaptiveCov,
    AnalyzeGaussPCA,
    BinghamDirection,
    Centred,
    CleanedCov,
    ClippingThreshold,
    CoinPressCov,
    ColumnScale,
    ComponentStages,
    DeflationPCA,
    ExponentialCov,
    ExponentialPCA,
    GapProjectorPCA,
    Gate,
    GaussCov,
    GaussianNoise,
    HomogeneousRows,
    LapCov,
    LaplaceNoise,
    LaplacePCA,
    LocatedCentre,
    OjaPCA,
    Paired,
    PowerPCA,
    PrivateEigenvalues,
    PrivateGap,
    PrivateMean,
    PrivateNoiseVariance,
    PrivateQuantile,
    PrivateRadius,
    PrivateRadiusClip,
    PrivateRank,
    PrivateSpread,
    PrivateTrace,
    PrivateVariances,
    ProductNoise,
    ProjectedCov,
    ProjectedMoment,
    Scaled,
    SeparateCov,
    ShuffledOjaPCA,
    SparseVector,
    SphericalPCA,
    SpikedPCA,
    SpikedProjector,
    SpikedValues,
    StabilityHistogram,
    TangentPCA,
    TruncatedMean,
    TruncatedMeanPCA,
    Uncentred,
    Variances,
    WishartCov,
    WishartPCA,
    ZeroCov,
)
from eigenveil.mechanisms.covariance.elliptical import EllipticalCov
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOjaPCA
from eigenveil.mechanisms.pca.boxed_oja import BoxedOjaPCA
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.mechanisms.pca.one_pass import OnePassState
from eigenveil.mechanisms.pca.spherical import directions
from eigenveil.mechanisms.pca.tangent_oja import TangentOjaPCA
from eigenveil.mechanisms.present import Present
from eigenveil.mechanisms.scalars.distances import PrivateDistances
from eigenveil.mechanisms.scalars.noise_variance import bulk_weights
from eigenveil.mechanisms.scalars.threshold import NoiseBound
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.spiked_model import SpikedModel
from eigenveil.privacy.accounting import epsilon_of, rho_of, split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost, Gaussian, Pure

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=1.0, on_invalid="zero")
DIRECTIONS = replace(CLIP, normalise=True)
FILLED = replace(CLIP, on_missing="centre")
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
        keys = next(k for k in (cls.person_keys, cls.row_keys) if k is not None and len(k) == n)
        return np.argsort(keys)


def open_rows(rows):
    """The table of a case, arranged."""
    n = len(rows)
    order = np.argsort(rows[:, 0], kind="stable") if Arranged.by_first_column else np.arange(n)
    Arranged.row_keys, Arranged.person_keys = np.random.default_rng(n).random(n)[order], None
    source = eigenveil.data.open_rows(rows[order])
    if not Arranged.persons:
        return source
    ids = (np.arange(n) // 2)[order]
    _, first = np.unique(ids, return_index=True)
    keys = np.random.default_rng(n + 1).random(n)
    Arranged.person_keys = keys[ids[np.sort(first)]]  # persons are numbered as they appear
    return GroupedSource(source, ids)


def mu_of(cost):
    return math.sqrt(2 * rho_of(cost))


def pure_of(cost):
    return epsilon_of(cost, 0.0)


@dataclass(frozen=True)
class Case:
    """How to build, feed and read one mechanism."""

    name: str
    module: str  # under eigenveil.mechanisms; its proof page has the same stem
    build: Callable[[float, int, int], Any]  # (strength, columns, components) -> mechanism
    query: Callable[[np.ndarray, Adjacency], Bounded]  # of its first step
    run: Callable[[Any, np.ndarray, Adjacency, Gate], Any]
    read: Callable[[Any], np.ndarray]  # a flat array of independent entries
    norm: str  # in which the first step is bounded
    sensitivity: dict[Adjacency, Callable[[int], float]]  # of the number of columns
    worst_pair: Callable[[int, Adjacency], tuple[np.ndarray, np.ndarray | None]]
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

    def __str__(self):
        return self.name


def _moment(rows, adjacency):
    return second_moment(open_rows(rows), CLIP, adjacency)


def _total(rows, adjacency):
    return total(open_rows(rows), CLIP, adjacency)


def _trace(rows, adjacency):
    return trace(open_rows(rows), CLIP, adjacency)


def _norms(rows, adjacency):
    return norm_counts(open_rows(rows), CLIP, adjacency)


def _beyond(rows, adjacency):
    return rows_beyond(_norms(rows, adjacency))


def _spiked_model(k):
    """Spikes too weak for the tables here, which do not follow it: what it says of them is the
    worst case. Tables that do follow a model are in tests/mechanisms/test_spiked.py.
    """
    return SpikedModel(rank=k, smallest_spike=1.0, largest_spike=2.0, noise_variance=1.0)


def _in_the_ball(rows, adjacency):
    """Of the spiked model."""
    clip = replace(CLIP, row_norm=(1 + 2.0**-10) * _spiked_model(1).row_norm(*rows.shape))
    return second_moment(open_rows(rows), clip, adjacency)


def _leading_projector(rows, adjacency):
    sensitivity = _spiked_model(1).projector_sensitivity(*rows.shape)
    return projector(_in_the_ball(rows, adjacency), 1, sensitivity)


def _inside(rows, adjacency):
    """Two directions, or the only one."""
    return compressed(_in_the_ball(rows, adjacency), _turned(rows.shape[1])[:, :2])


def _far_along(d, adjacency):
    """Beyond the ball along the first direction, and along another."""
    return 1e3 * _turned(d)[:, 0], 1e3 * _turned(d)[:, 1]


def _directions(rows, adjacency):
    return second_moment(open_rows(rows), DIRECTIONS, adjacency)


def _inside_directions(rows, adjacency):
    """Directions of rows in the coordinates of two between the axes, or of the only one."""
    basis = _turned(rows.shape[1])[:, :2]
    return second_moment(ProjectedSource(open_rows(rows), DIRECTIONS, basis), CLIP, adjacency)


def _in_the_basis(d, adjacency):
    """A long row inside it, and another across."""
    turned = 1e3 * _turned(d)
    return turned[:, 0], None if adjacency is ADD else turned[:, 1]


def _distances(rows, adjacency):
    return distance_counts(open_rows(rows), replace(CLIP, row_norm=LARGEST_NORM), adjacency)


def _octaves(rows, adjacency):
    return column_counts(open_rows(rows), CLIP, adjacency)


def _accompanied(rows):
    """A row at the origin for each, so that there is a pair at least."""
    return open_rows(np.vstack([rows, np.zeros(rows.shape)]))


def _differences(rows, adjacency):
    return second_moment(
        PairedSource(_accompanied(rows), adjacency, np.arange), DIRECTIONS, adjacency
    )


def _lifted_moment(rows, adjacency):
    lifted = Clip(row_norm=1.0, on_invalid="zero", lift=0.5)
    return second_moment(open_rows(rows), lifted, adjacency)


def _leading(rows, adjacency):
    moment = _moment(rows, adjacency)
    return leading(moment, min(2, len(moment.value.units)))


def _along(rows, adjacency):
    """Two directions, or the only one."""
    moment = _moment(rows, adjacency)
    return along(moment, _turned(len(moment.value.units))[:2])


def _turned(d):
    """Orthonormal rows between the axes."""
    return np.linalg.qr(np.vander(np.arange(1.0, d + 1), d))[0]


def _bulk(rows, adjacency):
    moment = _moment(rows, adjacency)
    return weighted_eigenvalues(moment, bulk_weights(len(moment.value.units), ROWS))


def _two_columns(rows):
    """A gap needs two columns, and so does a rank."""
    return np.column_stack([rows, np.zeros(len(rows))]) if rows.shape[1] == 1 else rows


def _spectrum(rows, adjacency):
    return eigenvalues(_moment(_two_columns(rows), adjacency))


def _gap(rows, adjacency):
    return eigengap(_moment(_two_columns(rows), adjacency), 1)


def _with_a_gap(rows):
    """The same rows in fixed company that opens a gap behind the first eigenvalue."""
    wide = _two_columns(rows)
    return np.vstack([np.tile(np.eye(wide.shape[1])[0], (400, 1)), wide])


def _one_step(query):
    def run(mechanism, rows, adjacency, gate):
        return gate.draw(mechanism, query(rows, adjacency))

    return run


def _stretched_clip(d):
    """Directions of rows, stretched threefold along one between the axes."""
    return replace(directions(CLIP), stretch=(_turned(d)[:1], 3.0))


def _stretched(rows, adjacency):
    return second_moment(open_rows(rows), _stretched_clip(rows.shape[1]), adjacency)


def _products(rows, adjacency):
    return moment_products(open_rows(rows), directions(CLIP), adjacency)


def _moment_columns(rows, adjacency):
    """Products with two columns between the axes, or with the only one."""
    view = BasisProduct(np.ascontiguousarray(_turned(rows.shape[1])[:2].T))
    return moment_columns(open_rows(rows), directions(CLIP), view, adjacency)


def _moment_columns_sensitivity(natural, ends):
    """Of the unit ball, and what rounding adds: 181/128 sqrt(columns) 2^-19 a row."""
    return lambda d: natural + ends * 181 / 128 * math.sqrt(min(d, 2)) * 2.0**-19


def _columns(d):
    """Of a one-pass basis at k = 1."""
    return _turned(d)[:12].T


def _updates(clip):
    def query(rows, adjacency):
        return moment_columns(
            Batch(rows, 0), clip, BasisProduct(_columns(rows.shape[1])), adjacency
        )

    return query


BATCH = 8


def _one_pass(clip):
    """In fixed company: batches before, the rows, and others beside them in their batch."""

    def run(mechanism, rows, adjacency, gate):
        return mechanism.run(open_rows(_batched(mechanism, rows, 2)), clip, gate)

    return run


def _batched(mechanism, rows, before):
    """The last batch ends with the rows; so many come before."""
    size = mechanism.batch_size
    company = np.random.default_rng(5).standard_normal(
        (before * size + -len(rows) % size, rows.shape[1])
    )
    return np.vstack([company, rows])


def _tangent_step(mechanism, rows, adjacency, gate):
    """One batch after the warm start."""
    basis = _columns(rows.shape[1])[:, : mechanism.n_components]
    batch = Batch(_batched(mechanism, rows, 0), 0)
    return mechanism.step(OnePassState(basis, basis / 2, trace=1.0), batch, DIRECTIONS, gate)


def _update_counts(rows, adjacency):
    return update_counts(
        Batch(rows, 0), DIRECTIONS, BasisProduct(_columns(rows.shape[1])), adjacency
    )


def _tangent_counts(rows, adjacency):
    view = BasisProduct(_columns(rows.shape[1])[:, :1], tangent=True)
    return update_counts(Batch(rows, 0), DIRECTIONS, view, adjacency)


def _adaptive(kind):
    """Batches large enough for a radius; a sixteenth of mu^2 goes into it."""

    def build(mu, d, k):
        part = mu / math.sqrt(1 + 1 / 16)
        return kind.build(part, k, batch_size=math.ceil(257 / part))

    return build


def _found(run):
    """A refusal is an outcome like any other."""

    def found(mechanism, rows, adjacency, gate):
        try:
            return run(mechanism, rows, adjacency, gate)
        except NothingFoundError:
            d, k = rows.shape[1], mechanism.n_components
            return NoisyComponents(np.eye(d)[:k], np.zeros(k), 0.0, 0.0, None, np.zeros(k))

    return found


def _one_step_of_a_pass(mechanism, rows, adjacency, gate):
    """The estimate that one batch gives: all that it releases."""
    basis = _columns(rows.shape[1])
    batch, start = Batch(rows, 0), OnePassState(basis, np.zeros_like(basis))
    return mechanism.step(start, batch, DIRECTIONS, gate)


def _estimate(iterate):
    return _upper(iterate.image @ iterate.basis.T)


def _among_many(rows):
    """The same rows among others at the origin."""
    return np.vstack([rows, np.zeros((MANY - len(rows), rows.shape[1]))])


def _shuffled(rows, adjacency):
    d = rows.shape[1]
    start, away = np.full(d, 1 / math.sqrt(d)), np.empty((0, d))
    batch = Batch(_among_many(rows), 0)
    return shuffled_records(batch, CLIP, start, away, np.arange(MANY), adjacency)


def _tangent_estimate(released):
    if isinstance(released, NoisyComponents):  # nothing was found
        return np.zeros(released.components.shape[1] * (released.components.shape[1] + 1) // 2)
    return _estimate(released)


def _stages(mu, d, k):
    """A rank, components, a distance, and a variance."""
    rank, inner, distance, values = split(mu, (0.2, 0.5, 0.1, 0.2))
    return ComponentStages(
        inner=TangentPCA(mu=inner, n_components=k),
        normalise=True,
        rank=PrivateRank(noise=GaussianNoise(mu=rank), max_rank=1, rows=ROWS),
        variances=Variances(
            distances=PrivateDistances(noise=GaussianNoise(mu=distance)),
            values=PrivateVariances(noise=GaussianNoise(mu=values)),
        ),
    )


def _staged(mechanism, rows, adjacency, gate):
    """A refusal is an outcome like any other."""
    rows = _with_a_gap(rows)
    try:
        released = _procedure(mechanism, rows, adjacency, gate)
    except NothingFoundError:
        return np.zeros(rows.shape[1] * (rows.shape[1] + 1) // 2 + 2)
    return np.append(_projector(released.components), [released.variance, released.row_norm])


def _with_scales(rows):
    """The same rows, all of them with partners, in fixed company that has scales."""
    company = np.random.default_rng(3).standard_normal((400 + len(rows) % 2, rows.shape[1]))
    return np.vstack([company, rows])


def _paired_octaves(rows, adjacency):
    return column_counts(
        PairedSource(open_rows(_with_scales(rows)), adjacency, np.arange), CLIP, adjacency
    )


def _scaled(mechanism, rows, adjacency, gate):
    rows = _with_scales(rows)
    d = rows.shape[1]
    try:
        released = _procedure(mechanism, rows, adjacency, gate)
    except NothingFoundError:
        return np.zeros(d + d * (d + 1) // 2)
    return np.append(1 / released.scale, _matrix(released.inner))


def _with_distances(rows):
    """The same rows in fixed company that has distances."""
    return np.vstack([np.random.default_rng(4).standard_normal((400, rows.shape[1])), rows])


def _ranged(clip, read):
    """A refusal is an outcome like any other."""

    def run(mechanism, rows, adjacency, gate):
        rows = _with_distances(rows)
        try:
            return read(mechanism.run(open_rows(rows), clip, gate))
        except NothingFoundError:
            return np.zeros(1)

    return run


def _within_radius(released):
    return np.append(_matrix(released), released.row_norm)


def _tested(mechanism, rows, adjacency, gate):
    """A refusal is an outcome like any other."""
    rows = _with_a_gap(rows)
    try:
        return _projector(_procedure(mechanism, rows, adjacency, gate))
    except GapTooSmallError:
        return _upper(np.zeros((rows.shape[1], rows.shape[1])))


def _procedure(mechanism, rows, adjacency, gate):
    return mechanism.run(open_rows(rows), CLIP, gate)


def _on_directions(mechanism, rows, adjacency, gate):
    return mechanism.run(open_rows(rows), DIRECTIONS, gate)


def _spreads(rows, adjacency):
    """Pairs of rows, each a block; one at the origin for each, so that no row is left over."""
    d = rows.shape[1]
    batch = Batch(np.vstack([rows, np.zeros(rows.shape)]), 0)
    view = BasisProduct(np.full((d, 1), 1 / math.sqrt(d)))
    return spread_counts(batch, CLIP, view, adjacency, len(rows), np.empty((0, d)))


def dense_counts(query, filled):
    """Counts of these bins, whether they are empty or not."""
    counts = np.zeros(len(filled), dtype=np.int64)
    counts[np.searchsorted(filled, query.bins)] = query.value.units
    return counts


def _coordinates(rows, adjacency):
    """Entries of Aq in bins of width 0.01, empty ones included."""
    d = rows.shape[1]
    view, away = BasisProduct(np.full((d, 1), 1 / math.sqrt(d))), np.empty((0, d))
    query = coordinate_counts(Batch(rows, 0), CLIP, view, adjacency, 0.01, away)
    numbers = np.arange(-102, 102) + (1 << 31)
    filled = ((np.arange(d)[:, None] << 32) + numbers).ravel()
    return replace(query, value=FixedPoint(dense_counts(query, filled), 0), bins=None)


def _truncated(epsilon, d, k):
    """Blocks enough to agree more often than not: the company of the rows is all alike."""
    mean = TruncatedMean.build(epsilon, 0.1, "basic")
    return replace(mean, spread=replace(mean.spread, zeta=0.5))


def _dp_pca(epsilon, d, k):
    mean = _truncated(epsilon, d, k)
    size = mean.needed_records(d)
    return TruncatedMeanPCA(mu=mean.noise.mu, n_components=1, batch_size=size, mean=mean)


def _among(rows, n, first):
    """The rows in public company, n in all."""
    lengths = np.resize([0.5, 0.6], n - len(rows))
    company = lengths[:, None] * np.eye(rows.shape[1])[0]
    return np.vstack([rows, company] if first else [company, rows])


def _truncated_mean(mechanism, rows, adjacency, gate):
    """The rows are in the half that the mean is of."""
    d = rows.shape[1]
    batch = Batch(_among(rows, mechanism.needed_records(d), first=False), 0)
    view = BasisProduct(np.full((d, 1), 1 / math.sqrt(d)))
    return mechanism.estimate(batch, CLIP, view, gate, np.empty((0, d)))


def _one_batch(mechanism, rows, adjacency, gate):
    return _procedure(mechanism, _among(rows, mechanism.batch_size, first=True), adjacency, gate)


def _boxed(centre):
    """A batch of the least size."""

    def build(epsilon, d, k):
        mean = _truncated(epsilon, d, k)
        mechanism = BoxedOjaPCA(mu=mean.noise.mu, n_components=k, mean=mean, centre=centre)
        return replace(mechanism, batch_size=mechanism.fewest(d))

    return build


def _one_part_each(mechanism, rows, adjacency, gate):
    n = mechanism.n_components * mechanism.inner.batch_size
    return _procedure(mechanism, _among(rows, n, first=True), adjacency, gate)


def _upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


def _matrix(released):
    return _upper(released.matrix)


def _projector(released):
    return _upper(released.components.T @ released.components)


def _components(released):
    return np.append(_projector(released), released.eigenvalues)


def _centred_entries(released, inner=_matrix):
    noisy_count = [] if released.noisy_count is None else [released.noisy_count]
    centre = np.nan_to_num(released.centre)  # of pairs there is none
    return np.concatenate([centre, noisy_count, inner(released.inner)])


def _number(released):
    return np.array([float(released)])


def _orthogonal(d, adjacency):
    """xx' and yy' of orthogonal unit rows are sqrt(2) apart; d = 1 has none."""
    first = np.eye(d)[0]
    return first, None if adjacency is ADD else np.eye(d)[-1]


def _antipodal(d, adjacency):
    first = np.full(d, 1 / math.sqrt(d))
    return first, None if adjacency is ADD else -first


def _long_and_short(d, adjacency):
    first = np.full(d, 1 / math.sqrt(d))
    return first, None if adjacency is ADD else np.zeros(d)


def _all_entries(d, adjacency):
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
        reached = np.abs(_upper(np.outer(y, y) - np.outer(x, x))).sum()
        if reached > best:
            best, pair = reached, (x, y)
    return pair


def _heaviest(d, adjacency):
    """The axis that raises the largest eigenvalue with a weight, in the company of one axis."""
    heaviest = np.eye(d)[np.argmax(bulk_weights(d, ROWS))]
    return heaviest, None if adjacency is ADD else np.zeros(d)


def _octaves_apart(d, adjacency):
    """No entry is zero, and every one moves to another octave."""
    return np.ones(d), None if adjacency is ADD else np.full(d, 4.0)


def _about_the_start(d, adjacency):
    """At 45 degrees on either side of (1, ..., 1), in a plane with it."""
    start = np.full(d, 1 / math.sqrt(d))
    across = (np.eye(d)[0] - np.eye(d)[-1]) / math.sqrt(2)
    return (start + across) / math.sqrt(2), (start - across) / math.sqrt(2)


def _two_directions(d, adjacency):
    first, second = _turned(d)[:2]
    return first, None if adjacency is ADD else second


def _oblique(d, adjacency):
    """Lifted by 1/2, rows with scalar product -1/4 are orthogonal."""
    first = np.eye(d)[0]
    return first, None if adjacency is ADD else -first / 4 + np.eye(d)[-1] * math.sqrt(15) / 4


def _far_octaves(d, adjacency):
    return np.full(d, 1e9), np.full(d, 1e18)


def _one_axis(n, d):
    """Rows along which a further one raises the largest eigenvalue, and any other does not."""
    return np.tile(np.eye(d)[0], (n, 1))


def _constant(replaced, added):
    return {REPLACE: lambda d: replaced, ADD: lambda d: added}


def _symmetric_sigma(mu, d, adjacency):
    """s = sensitivity/mu on the diagonal, s/sqrt(2) off it, written out independently."""
    s = (math.sqrt(2) if adjacency is REPLACE else 1.0) / mu
    full = np.full((d, d), s / math.sqrt(2))
    np.fill_diagonal(full, s)
    return _upper(full)


def _laplace_sigma(epsilon, d, adjacency):
    replaced = min(d + 1, math.sqrt((d * d + 3 * d) / 2))
    scale = (replaced if adjacency is REPLACE else (d + 1) / 2) / epsilon
    return np.full(d * (d + 1) // 2, math.sqrt(2) * scale)


def _wishart_sigma(epsilon, d, adjacency):
    """Diagonal sqrt(d + 1)/c, off it smaller by sqrt(2), c = epsilon/2 or epsilon."""
    s = math.sqrt(d + 1) * (2 if adjacency is REPLACE else 1) / epsilon
    full = np.full((d, d), s / math.sqrt(2))
    np.fill_diagonal(full, s)
    return _upper(full)


def _vector_sigma(mu, d, adjacency):
    return np.full(d, 2.0 / mu) if adjacency is REPLACE else np.full(d + 1, math.sqrt(2) / mu)


def _laplace_vector_sigma(epsilon, d, adjacency):
    if adjacency is REPLACE:
        return np.full(d, math.sqrt(2) * 2 * math.sqrt(d) / epsilon)
    return np.full(d + 1, math.sqrt(2) * (math.sqrt(d) + 1) / epsilon)


def _centred(mu, d, k):
    mean_mu, inner_mu = split(mu, (0.1, 0.9))
    return Centred(
        mean=PrivateMean(noise=GaussianNoise(mu=mean_mu)),
        inner=GaussCov(mu=inner_mu),
        row_norm=1.0,
    )


CENTRE = (0.2, 0.1, 0.2, 0.1)  # shares of two searches and two means


def _located(mu, d, k):
    inner = GaussCov(mu=math.sqrt(0.4) * mu * (1 - 2**-40))
    return LocatedCentre.build(Gaussian(mu), CENTRE, inner)


def _located_pure(epsilon, d, k):
    inner = LapCov(epsilon=0.4 * epsilon * (1 - 2**-40))
    return LocatedCentre.build(Pure(epsilon), CENTRE, inner)


def _located_whole(mu, d, k):
    """Nine tenths of mu^2 for the centre, searches among them, the rest for a matrix."""
    return LocatedCentre.whole(math.sqrt(0.9) * mu * (1 - 2**-40), GaussCov(mu=math.sqrt(0.1) * mu))


def _ranged_about_a_centre(mu, d, k):
    """A centre, a radius and a matrix, as they are built for rows without any bound."""
    whole = Gaussian(mu)
    inner = PrivateRadiusClip.build(
        whole,
        0.1,
        GaussCov(mu=math.sqrt(0.3) * mu * (1 - 2**-40)),
        columns=d,
        adjacency=REPLACE,
    )
    return LocatedCentre.build(whole, CENTRE, inner, directions=False)


def _elliptical(mechanism, rows, adjacency, gate):
    """In company whose distances stand out; a refusal is an outcome like any other."""
    d = rows.shape[1]
    rows = np.vstack([np.random.default_rng(4).standard_normal((3000, d)), rows])
    try:
        return _within_radius(mechanism.run(open_rows(rows), ANYWHERE, gate))
    except NothingFoundError:
        return np.zeros(d * (d + 1) // 2 + 1)


def _present(mechanism, rows, adjacency, gate):
    """Rows of which some cells are empty."""
    return mechanism.run(open_rows(_with_holes(rows)), FILLED, gate)


def _with_holes(rows):
    rows = _with_distances(rows)
    rows[::3, 0] = np.nan
    return rows


def _present_cells(rows, adjacency):
    cells = PresentSource(open_rows(rows), FILLED)
    return total(cells, Clip(row_norm=cells.reach, on_invalid="zero"), adjacency)


def _full_and_empty(d, adjacency):
    """A row without an empty cell, and one with nothing else."""
    return np.ones(d), None if adjacency is ADD else np.full(d, np.nan)


def _threshold(mu, d, k):
    """Three equal shares of rho."""
    each = mu / math.sqrt(3)
    return ClippingThreshold(
        radius=PrivateRadius(epsilon=each),
        trace=PrivateTrace(noise=GaussianNoise(mu=each)),
        search=SparseVector(epsilon=each),
        noise=NoiseBound(frobenius=3.0, operator=1.0, values=1.0),
    )


def _mean_entries(released):
    return np.append(released.offset, [] if released.count is None else released.count)


MOMENT = _constant(math.sqrt(2), 1.0)
NUCLEAR = _constant(2.0, 1.0)
MEAN = _constant(2.0, math.sqrt(2))
UPPER_L1 = {
    REPLACE: lambda d: min(d + 1, math.sqrt((d * d + 3 * d) / 2)),
    ADD: lambda d: (d + 1) / 2,
}
ONE = _constant(1.0, 1.0)
SHARED_L2 = {REPLACE: lambda d: math.sqrt(2) if d > 1 else 1.0, ADD: lambda d: 1.0}
SHARED_L1 = {REPLACE: lambda d: 2.0 if d > 1 else 1.0, ADD: lambda d: 1.0}


def _case(name, module, build, **differences):
    """A mechanism on the second moment that releases a matrix, unless it differs."""
    fields = {
        "name": name,
        "module": module,
        "build": build,
        "query": _moment,
        "run": _procedure,
        "read": _matrix,
        "norm": "frobenius",
        "sensitivity": MOMENT,
        "worst_pair": _orthogonal,
    }
    return Case(**(fields | differences))


COUNTED = {  # numbers found by counting rows
    "query": _norms,
    "run": _one_step(_norms),
    "read": _number,
    "norm": "linf",
    "sensitivity": ONE,
    "worst_pair": _long_and_short,
    "strength_of": pure_of,
    "may_coincide": True,
    "shows": False,
}
VECTOR = {
    "query": _total,
    "run": _one_step(_total),
    "norm": "l2",
    "sensitivity": MEAN,
    "worst_pair": _antipodal,
}
VECTOR_L1 = {
    "norm": "l1",
    "sensitivity": {REPLACE: lambda d: 2 * math.sqrt(d), ADD: lambda d: math.sqrt(d) + 1},
}
PURE = {"strength_of": pure_of}
PRINTED = {  # half of (epsilon, delta) on histograms, half on a Gaussian mean
    "strength_of": lambda cost: 2 * cost.parts[1].epsilon,
    "ledger": {"epsilon": 50.0, "delta": 0.5},
    "trials": 200,
    "shows": False,
    "adjacencies": (REPLACE,),
}
ONE_OR_SHARED = {  # of one number, or of two that share what a row adds
    "l2": {REPLACE: lambda d: 1.0 if d == 1 else math.sqrt(2), ADD: lambda d: 1.0},
    "l1": {REPLACE: lambda d: 1.0 if d == 1 else 2.0, ADD: lambda d: 1.0},
}
EIGENVALUES = {
    "query": _leading,
    "run": _one_step(_leading),
    "read": lambda released: released.values,
    "company": _one_axis,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}
VARIANCES = {
    "query": _along,
    "run": _one_step(_along),
    "read": lambda released: released.values,
    "worst_pair": _two_directions,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}
ANYWHERE = replace(CLIP, row_norm=LARGEST_NORM)
BRACKETS = _constant(math.sqrt(2), 1.0)
BRACKETS_L1 = _constant(2.0, 1.0)


def _located_entries(mechanism, rows, adjacency, gate):
    """In company that has distances; a refusal is an outcome like any other."""
    return _found_centre(mechanism, _with_distances(rows), adjacency, gate, DIRECTIONS)


def _found_centre(mechanism, rows, adjacency, gate, clip):
    d = rows.shape[1]
    try:
        return _centred_entries(mechanism.run(open_rows(rows), clip, gate))
    except NothingFoundError:
        return np.zeros(d + d * (d + 1) // 2)


LOCATED = {
    "query": lambda rows, adjacency: _distances(_with_distances(rows), adjacency),
    "run": _located_entries,
    "read": lambda entries: entries,
    "norm": "l2",
    "sensitivity": BRACKETS,
    "worst_pair": _long_and_short,
    "trials": 1000,
    "shows": False,
}
RANGED = {
    "query": lambda rows, adjacency: _distances(_with_distances(rows), adjacency),
    "read": lambda released: released,
    "norm": "l2",
    "sensitivity": BRACKETS,
    "worst_pair": _long_and_short,
    "trials": 1000,
    "shows": False,
}
BY_DISTANCE = {
    "query": _distances,
    "run": _one_step(lambda rows, adjacency: _distances(_with_distances(rows), adjacency)),
    "read": lambda released: released.counts[320:345],  # distances about 1
    "worst_pair": _long_and_short,
    "may_coincide": True,
    "trials": 1000,
    "shows": False,
}
OCTAVES = {
    "query": _octaves,
    "run": _one_step(_octaves),
    "read": lambda scales: np.where(np.isfinite(scales), scales, 0.0),
    "worst_pair": _octaves_apart,
    "may_coincide": True,
    "trials": 1000,
    "shows": False,
}
ONE_PASS = {
    "read": _components,
    "norm": "l2",
    # Up to 12 columns, whose coordinates are rounded.
    "sensitivity": {
        REPLACE: lambda d: math.sqrt(2) + OUTSIDE_SCALE * math.sqrt(min(d, 12)) * 2.0**-18
    },
    "worst_pair": _two_directions,
    "adjacencies": (REPLACE,),
}
COUNTED_PART = {  # a radius comes first
    "norm": "linf",
    "sensitivity": ONE,
    "worst_pair": _long_and_short,
    "trials": 500,
    "shows": False,
}
GAP = {
    "query": _gap,
    "run": _one_step(_gap),
    "read": lambda released: np.array([released.value]),
    "company": _one_axis,
    "sensitivity": NUCLEAR,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}

TABLE = [
    _case(
        "gauss",
        "covariance.gauss",
        lambda mu, d, k: GaussCov(mu=mu),
        deviation=_symmetric_sigma,
    ),
    _case(
        "gauss of filled rows",
        "covariance.gauss",
        lambda mu, d, k: GaussCov(mu=mu),
        query=lambda rows, adjacency: second_moment(open_rows(rows), FILLED, adjacency),
        run=lambda step, rows, adjacency, gate: step.run(open_rows(rows), FILLED, gate),
    ),
    _case(
        "gauss on directions",
        "covariance.gauss",
        lambda mu, d, k: GaussCov(mu=mu),
        query=_directions,
        run=_on_directions,
        deviation=_symmetric_sigma,
    ),
    _case("cleaned", "covariance.cleaned", lambda mu, d, k: CleanedCov(mu=mu), may_coincide=True),
    _case(
        "projection",
        "covariance.projection",
        lambda mu, d, k: ProjectedCov(mu=mu),
        may_coincide=True,
    ),
    _case(
        "laplace",
        "covariance.laplace",
        lambda epsilon, d, k: LapCov(epsilon=epsilon),
        norm="l1",
        sensitivity=UPPER_L1,
        worst_pair=_all_entries,
        attained=0.95,
        deviation=_laplace_sigma,
        **PURE,
    ),
    _case(
        "wishart",
        "covariance.wishart",
        lambda epsilon, d, k: WishartCov(epsilon=epsilon),
        norm="nuclear",
        sensitivity=NUCLEAR,
        may_coincide=True,
        exact=False,
        **PURE,
    ),
    _case(
        "wishart uncleaned",
        "covariance.wishart",
        lambda epsilon, d, k: WishartCov(epsilon=epsilon, clean=False),
        norm="nuclear",
        sensitivity=NUCLEAR,
        deviation=_wishart_sigma,
        exact=False,
        **PURE,
    ),
    _case(
        "separate",
        "covariance.separate",
        lambda mu, d, k: SeparateCov.gaussian(mu),
        may_coincide=True,
        exact=False,
    ),
    _case(
        "separate pure",
        "covariance.separate",
        lambda epsilon, d, k: SeparateCov.pure(epsilon),
        norm="l1",
        sensitivity=UPPER_L1,
        worst_pair=_all_entries,
        attained=0.95,
        may_coincide=True,
        exact=False,
        **PURE,
    ),
    _case(
        "adaptive",
        "covariance.adaptive",
        lambda mu, d, k: AdaptiveCov.gaussian(mu, d),
        query=_norms,
        norm="linf",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "adaptive pure",
        "covariance.adaptive",
        lambda epsilon, d, k: AdaptiveCov.pure(epsilon, d),
        query=_norms,
        norm="linf",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
        **PURE,
    ),
    _case(
        "adaptive-cleaned",
        "covariance.adaptive_cleaned",
        lambda mu, d, k: AdaptiveCleanedCov.gaussian(mu),
        query=_norms,
        norm="linf",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        may_coincide=True,
        trials=1000,
        shows=False,
    ),
    _case(
        "exponential",
        "covariance.exponential",
        lambda mu, d, k: ExponentialCov.concentrated(mu, d),
        query=lambda rows, adjacency: eigenvalues(_moment(rows, adjacency)),
        company=_one_axis,
        norm="l2",
        sensitivity=SHARED_L2,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "exponential pure",
        "covariance.exponential",
        lambda epsilon, d, k: ExponentialCov.pure(epsilon, d),
        query=lambda rows, adjacency: eigenvalues(_moment(rows, adjacency)),
        company=_one_axis,
        norm="l1",
        sensitivity=SHARED_L1,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
        **PURE,
    ),
    _case(
        "direction",
        "covariance.exponential",
        lambda epsilon, d, k: BinghamDirection(epsilon=epsilon, concentrated=False),
        run=_one_step(_moment),
        read=lambda u: _upper(np.outer(u, u)),
        norm="nuclear",
        sensitivity=NUCLEAR,
        may_coincide=True,  # in one dimension
        exact=False,
        **PURE,
    ),
    _case(
        "coinpress",
        "covariance.coinpress",
        lambda mu, d, k: CoinPressCov.gaussian(mu),
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case("zero", "covariance.zero", lambda mu, d, k: ZeroCov(), free=True, may_coincide=True),
    _case(
        "analyze-gauss",
        "pca.analyze_gauss",
        lambda mu, d, k: AnalyzeGaussPCA(mu=mu, n_components=k),
        read=_projector,
    ),
    _case(
        "spiked",
        "pca.spiked",
        lambda mu, d, k: SpikedPCA(mu=mu, model=_spiked_model(k)),
        query=_leading_projector,
        read=_components,
        company=lambda n, d: np.zeros((n, d)),
        exact=False,
        adjacencies=(REPLACE,),
    ),
    _case(
        "spiked-projector",
        "pca.spiked",
        lambda mu, d, k: SpikedProjector(mu=mu, model=_spiked_model(k)),
        query=_leading_projector,
        company=lambda n, d: np.zeros((n, d)),
        exact=False,
        trials=1000,
        adjacencies=(REPLACE,),
    ),
    _case(
        "spiked-values",
        "pca.spiked",
        lambda mu, d, k: SpikedValues(mu=mu, model=_spiked_model(k), basis=_turned(d)[:, :k]),
        query=_inside,
        worst_pair=_far_along,
        exact=False,
        trials=1000,
        adjacencies=(REPLACE,),
    ),
    _case(
        "analyze-gauss lazy",
        "pca.analyze_gauss",
        lambda mu, d, k: AnalyzeGaussPCA(mu=mu, n_components=k, lazy=True),
        read=_projector,
        exact=False,
    ),
    _case(
        "spherical",
        "pca.spherical",
        lambda mu, d, k: SphericalPCA(mu=mu, n_components=k),
        query=_directions,
        read=_projector,
    ),
    _case(
        "inside",
        "pca.inside",
        lambda mu, d, k: ProjectedMoment(mu=mu, basis=_turned(d)[:, :2]),
        query=_inside_directions,
        worst_pair=_in_the_basis,
    ),
    _case(
        "spherical lazy",
        "pca.spherical",
        lambda mu, d, k: SphericalPCA(mu=mu, n_components=k, lazy=True),
        query=_directions,
        read=_projector,
        exact=False,
    ),
    _case(
        "tangent",
        "pca.tangent",
        lambda mu, d, k: TangentPCA(mu=mu, n_components=k),
        query=_directions,
        read=_projector,
    ),
    _case(
        "tangent lazy",
        "pca.tangent",
        lambda mu, d, k: TangentPCA(mu=mu, n_components=k, lazy=True),
        query=_directions,
        read=_projector,
        exact=False,
    ),
    _case(
        "oja",
        "pca.oja",
        lambda mu, d, k: OjaPCA(mu=mu, n_components=k, batch_size=BATCH),
        **ONE_PASS,
        query=_updates(DIRECTIONS),
        run=_one_pass(DIRECTIONS),
        trials=500,
        shows=False,
    ),
    _case(
        "oja step",
        "pca.oja",
        lambda mu, d, k: OjaPCA(mu=mu, n_components=k),
        **(ONE_PASS | {"read": _estimate}),
        query=_updates(DIRECTIONS),
        run=_one_step_of_a_pass,
        may_coincide=True,
    ),
    _case(
        "oja clipped",
        "pca.oja",
        lambda mu, d, k: OjaPCA(mu=mu, n_components=k, batch_size=BATCH),
        **ONE_PASS,
        query=_updates(CLIP),
        run=_one_pass(CLIP),
        trials=500,
        shows=False,
    ),
    *(
        _case(
            name,
            module,
            _adaptive(kind),
            **(ONE_PASS | COUNTED_PART),
            query=_update_counts,
            run=_found(_one_pass(clip)),
        )
        for name, module, kind, clip in (
            ("adaptive-oja", "pca.adaptive_oja", AdaptiveOjaPCA, DIRECTIONS),
            ("adaptive-oja clipped", "pca.adaptive_oja", AdaptiveOjaPCA, CLIP),
            ("tangent-oja", "pca.tangent_oja", TangentOjaPCA, DIRECTIONS),
        )
    ),
    _case(
        "tangent-oja step",
        "pca.tangent_oja",
        _adaptive(TangentOjaPCA),
        **(ONE_PASS | COUNTED_PART | {"read": _tangent_estimate}),
        query=_tangent_counts,
        run=_found(_tangent_step),
        may_coincide=True,
    ),
    # What tangent does with rows that it stretches: tables here are too small for it to do so.
    _case(
        "gauss on stretched directions",
        "pca.tangent",
        lambda mu, d, k: GaussCov(mu=mu),
        query=_stretched,
        run=_one_step(_stretched),
        worst_pair=_two_directions,
        deviation=_symmetric_sigma,
    ),
    _case(
        "product",
        "pca.tangent",
        lambda mu, d, k: ProductNoise(mu=mu, columns=_turned(d)[:, :k]),
        query=_products,
        run=_one_step(_products),
        read=lambda released: np.append(released.columns, released.trace),
        exact=False,
    ),
    _case(
        "power",
        "pca.power",
        lambda mu, d, k: PowerPCA(mu=mu, n_components=k),
        query=_trace,
        read=_projector,
        norm="l2",
        sensitivity=ONE,
        worst_pair=_long_and_short,
    ),
    _case(
        "power on directions",
        "pca.power",
        lambda mu, d, k: PowerPCA(mu=mu, n_components=k),
        query=lambda rows, adjacency: (_moment_columns if adjacency is REPLACE else _trace)(
            rows, adjacency
        ),
        run=_on_directions,
        read=_projector,
        norm="l2",
        sensitivity={REPLACE: _moment_columns_sensitivity(math.sqrt(2), 2), ADD: lambda d: 1.0},
        worst_pair=_two_directions,
    ),
    _case(
        "gaussian on columns",
        "pca.power",
        lambda mu, d, k: GaussianNoise(mu=mu),
        query=_moment_columns,
        run=_one_step(_moment_columns),
        read=lambda released: released.values.ravel(),
        norm="l2",
        sensitivity={
            REPLACE: _moment_columns_sensitivity(math.sqrt(2), 2),
            ADD: _moment_columns_sensitivity(1.0, 1),
        },
        worst_pair=_two_directions,
    ),
    _case(
        "shuffled-oja",
        "pca.shuffled_oja",
        lambda epsilon, d, k: ShuffledOjaPCA(epsilon=epsilon, delta=0.1, n_records=MANY),
        query=_shuffled,
        run=lambda step, rows, adjacency, gate: step.run(open_rows(_among_many(rows)), CLIP, gate),
        read=_components,
        norm="l2",
        sensitivity={REPLACE: lambda d: 1 + 2.0**-18},  # rounding
        worst_pair=_about_the_start,
        strength_of=lambda cost: cost.epsilon,
        ledger={"epsilon": 50.0, "delta": 0.5},
        exact=False,
        adjacencies=(REPLACE,),
        trials=500,
        shows=False,
    ),
    _case(
        "staged",
        "pca.staged",
        _stages,
        query=lambda rows, adjacency: eigenvalues(_directions(_with_a_gap(rows), adjacency)),
        run=_staged,
        read=lambda released: released,
        company=_one_axis,
        norm="l2",
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "wishart components",
        "pca.wishart",
        lambda epsilon, d, k: WishartPCA(epsilon=epsilon, n_components=k),
        read=_components,
        norm="nuclear",
        sensitivity=NUCLEAR,
        exact=False,
        **PURE,
    ),
    _case(
        "exponential components",
        "pca.exponential",
        lambda mu, d, k: ExponentialPCA.concentrated(mu, k),
        read=_components,
        norm="nuclear",
        sensitivity=NUCLEAR,
        exact=False,
    ),
    _case(
        "exponential components, pure",
        "pca.exponential",
        lambda epsilon, d, k: ExponentialPCA.pure(epsilon, k),
        read=_components,
        norm="nuclear",
        sensitivity=NUCLEAR,
        exact=False,
        **PURE,
    ),
    _case(
        "laplace components",
        "pca.laplace",
        lambda epsilon, d, k: LaplacePCA(epsilon=epsilon, n_components=k),
        read=_components,
        norm="l1",
        sensitivity=UPPER_L1,
        worst_pair=_all_entries,
        attained=0.95,
        **PURE,
    ),
    _case(
        "gaussian",
        "additive",
        lambda mu, d, k: GaussianNoise(mu=mu),
        read=lambda released: released.values,
        deviation=_vector_sigma,
        **VECTOR,
    ),
    _case(
        "laplace vector",
        "additive",
        lambda epsilon, d, k: LaplaceNoise(epsilon=epsilon),
        read=lambda released: released.values,
        deviation=_laplace_vector_sigma,
        **(VECTOR | VECTOR_L1 | PURE),
    ),
    _case(
        "mean",
        "mean",
        lambda mu, d, k: PrivateMean(noise=GaussianNoise(mu=mu)),
        read=_mean_entries,
        deviation=_vector_sigma,
        **VECTOR,
    ),
    _case(
        "centred",
        "centred",
        _centred,
        read=_centred_entries,
        **(VECTOR | {"run": _procedure}),
    ),
    _case(
        "centred pure",
        "centred",
        lambda epsilon, d, k: Centred(
            mean=PrivateMean(noise=LaplaceNoise(epsilon=0.1 * epsilon)),
            inner=LapCov(epsilon=0.9 * epsilon),
            row_norm=1.0,
        ),
        read=_centred_entries,
        strength_of=pure_of,
        shows=False,
        **(VECTOR | VECTOR_L1 | {"run": _procedure}),
    ),
    _case(
        "centred about a known centre",
        "centred",
        lambda epsilon, d, k: Centred(
            mean=PrivateMean(noise=LaplaceNoise(epsilon=0.1 * epsilon)),
            inner=LapCov(epsilon=0.9 * epsilon),
            row_norm=1.0,
            fixed_centre=True,
        ),
        read=_centred_entries,
        norm="l1",
        sensitivity=UPPER_L1,
        worst_pair=_all_entries,
        attained=0.95,
        adjacencies=(ADD,),  # the count is public otherwise
        shows=False,
        **PURE,
    ),
    _case(
        "uncentred",
        "centred",
        lambda mu, d, k: Uncentred(inner=GaussCov(mu=mu), row_norm=1.0),
        read=_centred_entries,
    ),
    _case(
        "lifted",
        "lifted",
        lambda epsilon, d, k: HomogeneousRows(
            inner=WishartCov(epsilon=epsilon, clean=False), row_norm=1.0
        ),
        query=_lifted_moment,
        worst_pair=_oblique,
        may_coincide=True,
        read=_centred_entries,
        norm="nuclear",
        sensitivity=NUCLEAR,
        exact=False,
        **PURE,
    ),
    _case("located", "located", _located, **LOCATED),
    _case(
        "located pure",
        "located",
        _located_pure,
        **(LOCATED | PURE | {"norm": "l1", "sensitivity": BRACKETS_L1}),
    ),
    _case("located at one mu", "located", _located_whole, **LOCATED),
    _case(
        "located of a sample",
        "located",
        lambda mu, d, k: replace(_located(mu, d, k), sample=0.75),
        **(LOCATED | {"adjacencies": (REPLACE,)}),
    ),
    _case(
        "located of filled rows",
        "located",
        _located,
        **(
            LOCATED
            | {
                "run": lambda step, rows, adjacency, gate: _found_centre(
                    step, _with_distances(rows), adjacency, gate, replace(FILLED, normalise=True)
                )
            }
        ),
    ),
    _case(
        "ranged",
        "ranged",
        lambda mu, d, k: PrivateRadiusClip(
            distances=PrivateDistances(noise=GaussianNoise(mu=math.sqrt(0.2) * mu)),
            inner=GaussCov(mu=math.sqrt(0.8) * mu * (1 - 2**-40)),
            rows=10.0,
        ),
        run=_ranged(replace(CLIP, row_norm=LARGEST_NORM), _within_radius),
        **RANGED,
    ),
    _case(
        "ranged pure",
        "ranged",
        lambda epsilon, d, k: PrivateRadiusClip(
            distances=PrivateDistances(noise=LaplaceNoise(epsilon=0.4 * epsilon)),
            inner=LapCov(epsilon=0.6 * epsilon),
            rows=10.0,
        ),
        run=_ranged(replace(CLIP, row_norm=LARGEST_NORM), _within_radius),
        **(RANGED | PURE | {"norm": "l1", "sensitivity": BRACKETS_L1}),
    ),
    _case(
        "ranged about a private centre",
        "ranged",
        _ranged_about_a_centre,
        run=_ranged(
            replace(FILLED, row_norm=LARGEST_NORM),
            lambda released: _centred_entries(released, _within_radius),
        ),
        **RANGED,
    ),
    _case(
        "distances",
        "scalars.distances",
        lambda mu, d, k: PrivateDistances(noise=GaussianNoise(mu=mu)),
        **(BY_DISTANCE | {"norm": "l2", "sensitivity": BRACKETS}),
    ),
    _case(
        "distances pure",
        "scalars.distances",
        lambda epsilon, d, k: PrivateDistances(noise=LaplaceNoise(epsilon=epsilon)),
        **(BY_DISTANCE | PURE | {"norm": "l1", "sensitivity": BRACKETS_L1}),
    ),
    _case(
        "elliptical",
        "covariance.elliptical",
        lambda mu, d, k: EllipticalCov.build(Gaussian(mu), 400),
        **(RANGED | {"run": _elliptical, "may_coincide": True}),
    ),
    _case(
        "elliptical pure",
        "covariance.elliptical",
        lambda epsilon, d, k: EllipticalCov.build(Pure(epsilon), 400),
        **(
            RANGED
            | PURE
            | {"run": _elliptical, "norm": "l1", "sensitivity": BRACKETS_L1}
            | {"may_coincide": True, "exact": False}
        ),
    ),
    _case(
        "present",
        "present",
        lambda mu, d, k: Present(
            shares=PrivateMean(noise=GaussianNoise(mu=math.sqrt(0.5) * mu)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_present_cells,
        run=_present,
        read=lambda released: np.concatenate([released.present, _matrix(released.inner)]),
        norm="l2",
        sensitivity=MEAN,
        worst_pair=_full_and_empty,
        may_coincide=True,  # a share of 1 is no more
        shows=False,
        trials=1000,
    ),
    _case(
        "paired",
        "paired",
        lambda mu, d, k: Paired(inner=GaussCov(mu=mu)),
        query=_differences,
        run=lambda step, rows, adjacency, gate: step.run(_accompanied(rows), DIRECTIONS, gate),
        read=_centred_entries,
        company=lambda n, d: np.zeros((n, d)),
        adjacencies=(REPLACE,),
    ),
    _case(
        "column-scale",
        "scalars.column_scale",
        lambda mu, d, k: ColumnScale(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity={REPLACE: lambda d: math.sqrt(2 * d), ADD: math.sqrt},
        **OCTAVES,
    ),
    _case(
        "column-scale pure",
        "scalars.column_scale",
        lambda epsilon, d, k: ColumnScale(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity={REPLACE: lambda d: 2.0 * d, ADD: float},
        **(OCTAVES | PURE),
    ),
    _case(
        "scaled",
        "scaled",
        lambda mu, d, k: Scaled(
            scale=ColumnScale(noise=GaussianNoise(mu=math.sqrt(0.5) * mu)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_paired_octaves,
        run=_scaled,
        read=lambda released: released,
        worst_pair=_far_octaves,
        norm="l2",
        sensitivity={REPLACE: lambda d: math.sqrt(2 * d)},
        may_coincide=True,
        adjacencies=(REPLACE,),
        trials=1000,
        shows=False,
    ),
    _case(
        "trace",
        "scalars.trace",
        lambda mu, d, k: PrivateTrace(noise=GaussianNoise(mu=mu)),
        query=_trace,
        run=_one_step(_trace),
        read=lambda released: np.array([released.value]),
        shows=False,
        norm="l2",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        may_coincide=True,
    ),
    _case(
        "trace pure",
        "scalars.trace",
        lambda epsilon, d, k: PrivateTrace(noise=LaplaceNoise(epsilon=epsilon)),
        query=_trace,
        run=_one_step(_trace),
        read=lambda released: np.array([released.value]),
        shows=False,
        norm="l1",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        may_coincide=True,
        **PURE,
    ),
    _case(
        "sparse-vector",
        "scalars.sparse_vector",
        lambda epsilon, d, k: SparseVector(epsilon=epsilon),
        **(COUNTED | {"query": _beyond, "run": _one_step(_beyond)}),
    ),
    _case(
        "radius",
        "scalars.radius",
        lambda epsilon, d, k: PrivateRadius(epsilon=epsilon),
        **COUNTED,
    ),
    _case(
        "quantile",
        "scalars.quantile",
        lambda epsilon, d, k: PrivateQuantile(epsilon=epsilon, level=0.5),
        **COUNTED,
    ),
    _case(
        "threshold",
        "scalars.threshold",
        _threshold,
        **(COUNTED | {"run": _procedure, "strength_of": mu_of, "trials": 1000}),
    ),
    _case(
        "histogram",
        "scalars.histogram",
        lambda epsilon, d, k: StabilityHistogram(epsilon=epsilon, delta=1e-3),
        ledger={"epsilon": 50.0, "delta": 0.5},
        **(
            COUNTED
            | {
                "read": lambda released: np.array([released.get(j, 0.0) for j in range(3)]),
                "norm": "l1",
                "sensitivity": NUCLEAR,
                "strength_of": lambda cost: cost.epsilon,
            }
        ),
    ),
    _case(
        "eigenvalues",
        "scalars.leading",
        lambda mu, d, k: PrivateEigenvalues(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity=ONE_OR_SHARED["l2"],
        **EIGENVALUES,
    ),
    _case(
        "eigenvalues pure",
        "scalars.leading",
        lambda epsilon, d, k: PrivateEigenvalues(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity=ONE_OR_SHARED["l1"],
        **(EIGENVALUES | PURE),
    ),
    _case(
        "variances",
        "scalars.variances",
        lambda mu, d, k: PrivateVariances(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity=ONE_OR_SHARED["l2"],
        **VARIANCES,
    ),
    _case(
        "variances pure",
        "scalars.variances",
        lambda epsilon, d, k: PrivateVariances(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity=ONE_OR_SHARED["l1"],
        **(VARIANCES | PURE),
    ),
    _case(
        "gap",
        "scalars.gap",
        lambda mu, d, k: PrivateGap(noise=GaussianNoise(mu=mu)),
        norm="l2",
        **GAP,
    ),
    _case(
        "gap pure",
        "scalars.gap",
        lambda epsilon, d, k: PrivateGap(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        **(GAP | PURE),
    ),
    _case(
        "rank",
        "scalars.rank",
        lambda mu, d, k: PrivateRank(noise=GaussianNoise(mu=mu), max_rank=1, rows=ROWS),
        query=_spectrum,
        run=_one_step(_spectrum),
        read=lambda released: np.append(released.eigenvalues, released.rank or 0),
        company=_one_axis,
        norm="l2",
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "noise-variance",
        "scalars.noise_variance",
        lambda mu, d, k: PrivateNoiseVariance(noise=GaussianNoise(mu=mu)),
        query=_bulk,
        run=_one_step(_bulk),
        read=lambda released: np.array([released.value]),
        company=_one_axis,
        norm="l2",
        sensitivity={a: lambda d: bulk_weights(d, ROWS).max() for a in (REPLACE, ADD)},
        worst_pair=_heaviest,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "gap-projector",
        "pca.gap_projector",
        lambda mu, d, k: GapProjectorPCA.build(mu, 1e-3, min(k, max(1, d - 1))),
        query=lambda rows, adjacency: eigengap(_moment(_with_a_gap(rows), adjacency), 1),
        run=_tested,
        read=lambda released: released,
        company=_one_axis,
        norm="l2",
        sensitivity=NUCLEAR,
        strength_of=lambda cost: cost.parts[0].mu,
        ledger={"epsilon": 50.0, "delta": 0.5},
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    _case(
        "spread",
        "scalars.spread",
        lambda epsilon, d, k: PrivateSpread(epsilon=epsilon, delta=1e-3),
        query=_spreads,
        run=_one_step(_spreads),
        read=lambda released: np.array([-1.0 if released is None else released]),
        norm="l1",
        sensitivity=NUCLEAR,
        worst_pair=_long_and_short,
        strength_of=lambda cost: cost.epsilon,
        ledger={"epsilon": 50.0, "delta": 0.5},
        may_coincide=True,
        trials=300,
        shows=False,
        adjacencies=(REPLACE,),
    ),
    _case(
        "truncated-mean",
        "truncated_mean",
        _truncated,
        query=_coordinates,
        run=_truncated_mean,
        read=lambda released: released.values.ravel(),
        norm="l1",
        sensitivity={REPLACE: lambda d: 2.0 * d},
        worst_pair=_long_and_short,
        **PRINTED,
    ),
    _case(
        "dp-pca",
        "pca.dp_pca",
        _dp_pca,
        query=_trace,
        run=_one_batch,
        read=_components,
        norm="l2",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        **PRINTED,
    ),
    _case(
        "deflation",
        "pca.deflation",
        lambda epsilon, d, k: DeflationPCA(inner=_dp_pca(epsilon, d, k), n_components=k),
        query=_trace,
        run=_one_part_each,
        read=_components,
        norm="l2",
        sensitivity=ONE,
        worst_pair=_long_and_short,
        **PRINTED,
    ),
    *(
        _case(
            f"boxed-oja {centre}",
            "pca.boxed_oja",
            _boxed(centre),
            query=_trace,
            run=_one_batch,
            read=_components,
            norm="l2",
            sensitivity=ONE,
            worst_pair=_long_and_short,
            **PRINTED,
        )
        for centre in ("mean", "histograms")
    ),
]
