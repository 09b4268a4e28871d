"""Differences of pairs, and scales of columns."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.data import Clip, column_counts, open_rows, second_moment
from eigenveil.data.sources import PairedSource, ScaledSource
from eigenveil.exceptions import (
    InvalidDataError,
    NothingFoundError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import (
    ColumnScale,
    Gate,
    GaussCov,
    GaussianNoise,
    LaplaceNoise,
    Paired,
    Scaled,
    Uncentred,
    release,
)
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.scalars.column_scale import enough_for_scales, scale_share
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.accounting import part
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Gaussian, Pure
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
DIRECTIONS = Clip(row_norm=1.0, normalise=True)


def gate(mechanism, adjacency=REPLACE, seed=0):
    noise = SimulationSource(seed)
    return Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=noise)


def normal(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def paired(rows, *, start=DIRECTIONS, seed=0, mu=1.0):
    mechanism = Paired(inner=GaussCov(mu=mu))
    allotment = gate(mechanism, seed=seed)
    return mechanism.run(open_rows(rows), start, allotment), allotment


def test_a_mean_cancels_in_pairs():
    """To the last bit, where the differences are exact."""
    rows = np.random.default_rng(0).integers(-500, 500, (301, 4)).astype(float)
    here, _ = paired(rows)
    there, _ = paired(rows + 2.0**30)
    assert np.array_equal(here.inner.matrix, there.inner.matrix)
    assert np.isnan(here.centre).all()
    assert here.differences
    assert (here.centre_error, here.noisy_count) == (0.0, None)


def test_pairs_show_half_of_the_covariance():
    """At 40,000 rows and mu = 1e4, where noise is no matter: entries within 4 %."""
    mixing = np.array([[2.0, 0.0], [1.0, 0.5]])
    rows = normal(40_000, 2) @ mixing.T + 100.0
    found, allotment = paired(rows, start=Clip(row_norm=20.0), mu=1e4)
    assert 2 * found.inner.matrix == pytest.approx(mixing @ mixing.T, rel=0.04)
    assert allotment.rows == 40_000
    assert allotment.exact


def test_a_centre_or_a_box_of_rows_is_none_of_their_differences():
    rows = normal(200, 2) + 5.0
    expected, _ = paired(rows)
    box = (np.full(2, 4.0), np.full(2, 6.0))
    other, _ = paired(rows, start=replace(DIRECTIONS, centre=np.full(2, 5.0), box=box))
    assert np.array_equal(other.inner.matrix, expected.inner.matrix)


def test_pairs_cost_what_the_inner_release_does_and_need_a_public_count():
    mechanism = Paired(inner=GaussCov(mu=0.7))
    assert mechanism.cost() == Gaussian(0.7)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        mechanism.run(open_rows(normal(8, 2)), DIRECTIONS, gate(mechanism, ADD))
    with pytest.raises(InvalidDataError, match="two rows"):
        mechanism.run(open_rows(normal(1, 2)), DIRECTIONS, gate(mechanism))


def scales(rows, noise, *, seed=0):
    counts = column_counts(
        PairedSource(open_rows(rows), REPLACE, np.arange), Clip(row_norm=1.0), REPLACE
    )
    return release(ColumnScale(noise=noise), counts, ledger=None, noise=SimulationSource(seed))


@pytest.mark.parametrize("noise", [GaussianNoise(mu=0.5), LaplaceNoise(epsilon=4.0)], ids=str)
def test_scales_of_columns_in_very_different_units(noise):
    """4,000 rows, spreads from 1e-12 to 1e12 far from zero: all 240 scales within a factor of 2.
    Beside them three constant columns, whose noise stands out once in ten thousand runs.
    """
    spread = 10.0 ** np.linspace(-12, 12, 12)
    rows = np.hstack([normal(4000, 12) * spread + 1000 * spread, np.full((4000, 3), 77.0)])
    found = np.array([scales(rows, noise, seed=s) for s in range(20)])
    ratio = found[:, :12] / spread
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()
    assert np.isinf(found[:, 12:]).all()


def test_extremes_and_zeros_do_not_move_a_scale():
    rows = normal(8000, 3)
    rows[:80] *= 1e9
    rows[4000:, 1] = 0.0  # a sparse column: half of the differences are between zeros and others
    found = scales(rows, GaussianNoise(mu=0.5))
    assert (found > 0.4).all()
    assert (found < 2).all()


def test_a_column_without_a_scale_is_left_out():
    rows = np.column_stack([normal(4000, 1) * 1e6, np.full(4000, 3.0)])
    found = scales(rows, GaussianNoise(mu=1.0))
    assert np.isinf(found[1])
    scaled = np.concatenate(list(ScaledSource(open_rows(rows), found).chunks()))
    assert 0.5 < scaled[:, 0].std() < 2
    assert scaled.shape == (4000, 1)


def test_a_column_never_has_the_scale_of_another():
    """Of 64 columns 400 pairs each are two deviations of their noise: none has a scale, and none is
    lent one, although all together would stand out by 16.
    """
    rows = normal(800, 64) * 2.0 ** (np.arange(64) % 2)
    assert np.isinf(scales(rows, GaussianNoise(mu=0.1))).all()


def test_a_column_of_zeros_and_ones_has_the_scale_one():
    """Half of its differences are zero, the others one half: the middle of a bracket. Noise moves
    the centre of three brackets by 5 % at most (five deviations).
    """
    rows = (normal(8000, 3) > np.array([0.0, 0.5, 1.0])) * 1.0
    assert scales(rows, GaussianNoise(mu=10.0)) == pytest.approx(1.0, rel=0.05)


def test_public_scales_are_kept_and_the_others_found():
    """The noise is that of two columns: with all four it would be larger by sqrt(2)."""
    rows = normal(4000, 4) * [1.0, 10.0, 100.0, 1000.0]
    seen = []

    class Watched(GaussianNoise):
        def perturb(self, query, noise):
            seen.append(query.sensitivity("l2"))
            return super().perturb(query, noise)

    known = np.array([3.0, np.nan, 7.0, np.nan])
    step = ColumnScale(noise=Watched(mu=1.0), known=known)
    found = step.run(open_rows(rows), Clip(row_norm=1.0), gate(step))
    assert seen == [pytest.approx(2.0)]
    assert found[[0, 2]].tolist() == [3.0, 7.0]
    assert found[[1, 3]] / [10.0, 1000.0] == pytest.approx([1.0, 1.0], rel=0.3)


def test_shares_of_scales_follow_from_public_numbers():
    whole = Gaussian(0.3)
    shares = [scale_share(whole, n, 20) for n in (10, 2000, 4000, 10**7)]
    assert shares[0] == 0.4
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.02
    assert shares[2] == pytest.approx(shares[1] / 4)
    assert scale_share(Pure(3.0), 16000, 20) == pytest.approx(scale_share(Pure(3.0), 8000, 20) / 2)
    assert enough_for_scales(whole, 10_000, 20)
    assert not enough_for_scales(whole, 100, 20)
    assert not enough_for_scales(Pure(0.1), 1000, 20)


@pytest.mark.parametrize("whole", [Gaussian(0.3), Pure(2.0)], ids=str)
@pytest.mark.parametrize("d", [1, 10])
def test_where_public_numbers_allow_it_every_column_has_a_scale(whole, d):
    """At the fewest rows that are not refused, a column is missed in 1 of 20 tables at most: of 60,
    11 or more are with probability 2e-4. With half the rows, most tables miss one.
    """
    rows = 2
    while not enough_for_scales(whole, rows, d):
        rows = math.ceil(rows * 1.02)

    def missed(n):
        units = 4.0 ** ((np.arange(d) + 0.5) / d)
        noise = vector_noise(part(whole, scale_share(whole, n, d)))
        drawn = [scales(normal(n, d, seed=s) * units, noise, seed=s) for s in range(60)]
        return sum(np.isinf(one).any() for one in drawn)

    assert missed(rows) <= 10
    assert missed(rows // 2) > 30


def test_the_cost_of_scales_is_that_of_their_noise():
    assert ColumnScale(noise=GaussianNoise(mu=0.3)).cost() == Gaussian(0.3)
    assert ColumnScale(noise=LaplaceNoise(epsilon=0.3)).cost() == Pure(0.3)


@BOTH
def test_the_noise_on_the_counts(adjacency):
    """A constant column shows noise alone: 10 columns of 167 brackets have deviation sqrt(2 d)/mu,
    or sqrt(d)/mu. 1670 entries: five standard errors are 9 %; without the 2 it would be 29 % off.
    """
    seen = []

    class Watched(GaussianNoise):
        def perturb(self, query, noise):
            seen.append(super().perturb(query, noise).values)
            return super().perturb(query, noise)

    counts = column_counts(open_rows(np.zeros((50, 10))), Clip(row_norm=1.0), adjacency)
    release(ColumnScale(noise=Watched(mu=0.1)), counts, ledger=None, noise=SimulationSource(0))
    expected = math.sqrt(20 if adjacency is REPLACE else 10) / 0.1
    assert np.sqrt(np.mean(seen[0] ** 2)) == pytest.approx(expected, rel=0.09)


def _magnitudes(rows, adjacency):
    return column_counts(case.open_rows(rows), case.CLIP, adjacency)


def _accompanied(rows):
    """A row at the origin for each, so that there is a pair at least."""
    return case.open_rows(np.vstack([rows, np.zeros(rows.shape)]))


def _beside_others(rows):
    """As many other rows: by places, a table that is sorted otherwise would have other pairs."""
    others = np.random.default_rng(6).standard_normal(rows.shape)
    return case.open_rows(np.vstack([rows, others]))


def _differences(rows, adjacency):
    return second_moment(
        PairedSource(_accompanied(rows), adjacency, np.arange), case.DIRECTIONS, adjacency
    )


def _with_scales(rows):
    """The same rows, all of them with partners at the origin, in fixed company that has scales."""
    company = np.random.default_rng(3).standard_normal((400, rows.shape[1]))
    return np.vstack([company[:200], rows, company[200:], np.zeros_like(rows)])


def _paired_magnitudes(rows, adjacency):
    return column_counts(
        PairedSource(case.open_rows(_with_scales(rows)), adjacency, np.arange), case.CLIP, adjacency
    )


def _first_known(d):
    """Scales of which the first is public; of a single column none is."""
    return np.append(np.full(min(1, d - 1), 2.0), np.full(max(1, d - 1), np.nan))


def _paired_magnitudes_but_the_first(rows, adjacency):
    pairs = PairedSource(case.open_rows(_with_scales(rows)), adjacency, np.arange)
    known = np.isfinite(_first_known(rows.shape[1]))
    sought = ScaledSource(pairs, np.where(known, np.inf, 1.0))
    return column_counts(sought, case.CLIP, adjacency)


def _scaled(mechanism, rows, adjacency, gate):
    rows = _with_scales(rows)
    d = rows.shape[1]
    try:
        released = case.procedure(mechanism, rows, adjacency, gate)
    except NothingFoundError:
        return np.zeros(d + d * (d + 1) // 2)
    return np.append(1 / released.scale, case.matrix(released.inner))


def _magnitudes_apart(d, adjacency):
    """No entry is zero, and every one moves to another bracket."""
    return np.ones(d), None if adjacency is case.ADD else np.full(d, 4.0)


def _far_magnitudes(d, adjacency):
    return np.full(d, 1e9), np.full(d, 1e18)


MAGNITUDES = {
    "query": _magnitudes,
    "run": case.one_step(_magnitudes),
    "read": lambda scales: np.where(np.isfinite(scales), scales, 0.0),
    "worst_pair": _magnitudes_apart,
    "may_coincide": True,
    "trials": 1000,
    "shows": False,
}


CASES = [
    case.Case(
        "paired",
        "paired",
        lambda mu, d, k: Paired(inner=GaussCov(mu=mu)),
        query=_differences,
        run=lambda step, rows, adjacency, gate: step.run(
            _beside_others(rows), case.DIRECTIONS, gate
        ),
        read=case.centred_entries,
        company=lambda n, d: np.zeros((n, d)),
        adjacencies=(case.REPLACE,),
    ),
    case.Case(
        "column-scale",
        "scalars.column_scale",
        lambda mu, d, k: ColumnScale(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * d), case.ADD: math.sqrt},
        **MAGNITUDES,
    ),
    case.Case(
        "column-scale pure",
        "scalars.column_scale",
        lambda epsilon, d, k: ColumnScale(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity={case.REPLACE: lambda d: 2.0 * d, case.ADD: float},
        **(MAGNITUDES | case.PURE),
    ),
    case.Case(
        "scaled",
        "scaled",
        lambda mu, d, k: Scaled(
            scale=ColumnScale(noise=GaussianNoise(mu=math.sqrt(0.5) * mu)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_paired_magnitudes,
        run=_scaled,
        read=lambda released: released,
        worst_pair=_far_magnitudes,
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * d)},
        may_coincide=True,
        adjacencies=(case.REPLACE,),
        trials=1000,
        shows=False,
    ),
    case.Case(
        "scaled beside a known scale",
        "scaled",
        lambda mu, d, k: Scaled(
            scale=ColumnScale(noise=GaussianNoise(mu=math.sqrt(0.5) * mu), known=_first_known(d)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_paired_magnitudes_but_the_first,
        run=_scaled,
        read=lambda released: released,
        worst_pair=_far_magnitudes,
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * max(1, d - 1))},
        may_coincide=True,
        adjacencies=(case.REPLACE,),
        trials=1000,
        shows=False,
    ),
]
