"""Differences of pairs, and scales of columns."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import Clip, column_counts, second_moment
from eigenveil.exceptions import (
    BudgetExceededError,
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
    enough_for_scales,
    scale_share,
    vector_noise,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian, Pure, epsilon_of, part
from eigenveil.rows import Divide, PairedSource, open_rows
from tests.conformance import case
from tests.conformance.case import mu_of

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


def half_differences(rows):
    return column_counts(
        PairedSource(open_rows(rows), REPLACE, np.arange), Clip(row_norm=1.0), REPLACE
    )


def found_scales(rows, noise, *, seed=0, **options):
    step = ColumnScale(first=noise, **options)
    return step.find(half_differences(rows), gate(step, seed=seed))


def scales(rows, noise, *, seed=0):
    return found_scales(rows, noise, seed=seed).scale


@pytest.mark.parametrize("noise", [GaussianNoise(mu=0.5), LaplaceNoise(epsilon=4.0)], ids=str)
def test_scales_of_columns_in_very_different_units(noise):
    """4,000 rows, spreads from 1e-12 to 1e12 far from zero: all 240 scales within a factor of 2.
    Beside them three constant columns, whose noise stands out in one of 100 runs.
    """
    spread = 10.0 ** np.linspace(-12, 12, 12)
    rows = np.hstack([normal(4000, 12) * spread + 1000 * spread, np.full((4000, 3), 77.0)])
    found = np.array([scales(rows, noise, seed=s) for s in range(20)])
    ratio = found[:, :12] / spread
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()
    assert np.isinf(found[:, 12:]).all()


def test_rare_extremes_do_not_move_a_scale():
    rows = normal(8000, 3)
    rows[:40] *= 1e9
    found = scales(rows, GaussianNoise(mu=0.5))
    assert (found > 0.4).all()
    assert (found < 2).all()


@pytest.mark.parametrize("share", [0.5, 0.15, 0.03])
def test_zeros_count_in_the_scale_of_a_column_that_is_mostly_constant(share):
    """The scale follows the standard deviation; the peak of the differences stays where it was."""
    rows = normal(20_000, 3)
    rows[np.random.default_rng(1).random(rows.shape) > share] = 0.0
    found = scales(rows, GaussianNoise(mu=1.0))
    assert found / rows.std(axis=0) == pytest.approx(np.ones(3), rel=0.3)


def test_more_budget_brings_scales_nearer_to_the_deviations():
    """Skewed columns, of which larger budgets show more of the tails."""
    rows = np.exp(1.5 * normal(20_000, 6))
    errors = [
        np.abs(np.log(scales(rows, GaussianNoise(mu=mu)) / rows.std(axis=0))).mean()
        for mu in (0.1, 1.0, 10.0)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.3


def test_two_draws_are_pooled_by_their_precisions():
    """Noise of mu = 0.3 and 0.4 is worth one draw at 0.5: counts of constant columns tell."""
    step = ColumnScale(first=GaussianNoise(mu=0.3), more=GaussianNoise(mu=0.4))
    assert mu_of(step.cost()) == pytest.approx(0.5)
    counts = half_differences(np.zeros((100, 10)))
    allotment = gate(step)
    first, second = (step._draw(noise, counts, allotment) for noise in (step.first, step.more))
    pooled = first.pooled(second)
    assert pooled.deviation == pytest.approx(math.sqrt(20) / 0.5)
    assert np.std(pooled.counts) == pytest.approx(pooled.deviation, rel=0.09)


def test_one_unit_is_seen_and_spares_the_second_draw():
    alike = normal(4000, 8) * [1.0, 0.7, 1.4, 1.0, 0.8, 1.2, 1.0, 0.9]
    apart = alike * 10.0 ** np.arange(8)
    found = found_scales(alike, GaussianNoise(mu=0.5), more=GaussianNoise(mu=1.0))
    assert found.one_unit
    assert found.sure.all()
    assert found.scale == pytest.approx(np.full(8, found.scale[0]))
    assert found.scale[0] == pytest.approx(1.0, rel=0.3)
    other = found_scales(apart, GaussianNoise(mu=0.5), more=GaussianNoise(mu=1.0))
    assert not other.one_unit
    assert other.scale / 10.0 ** np.arange(8) == pytest.approx(np.ones(8), rel=0.6)
    alone = found_scales(alike, GaussianNoise(mu=0.5))
    assert not alone.one_unit
    assert len(set(alone.scale)) == 8


def test_one_column_in_another_unit_is_no_common_unit():
    rows = normal(4000, 8)
    for factor in (1e-6, 1e6):
        rows[:, 3] *= factor
        found = found_scales(rows, GaussianNoise(mu=0.5), more=GaussianNoise(mu=1.0))
        assert not found.one_unit
        rows[:, 3] /= factor


def test_a_draw_that_is_spared_is_not_paid_from_the_allotment():
    """What it would have cost is left to the steps that follow."""
    step = ColumnScale(first=GaussianNoise(mu=0.6), more=GaussianNoise(mu=0.8))
    allotment = gate(step)
    assert step.find(half_differences(normal(4000, 4)), allotment).one_unit
    found = ColumnScale(first=GaussianNoise(mu=0.8)).find(
        half_differences(normal(40, 4)), allotment
    )
    assert found.scale.shape == (4,)
    with pytest.raises(BudgetExceededError):
        ColumnScale(first=GaussianNoise(mu=0.1)).find(half_differences(normal(40, 4)), allotment)


def test_a_column_without_a_scale_is_left_out():
    rows = np.column_stack([normal(4000, 1) * 1e6, np.full(4000, 3.0)])
    found = scales(rows, GaussianNoise(mu=1.0))
    assert np.isinf(found[1])
    scaled = np.concatenate(list(open_rows(rows).map(Divide(found)).chunks()))
    assert 0.5 < scaled[:, 0].std() < 2
    assert scaled.shape == (4000, 1)


def test_a_column_never_has_the_scale_of_another():
    """Of 64 columns 400 pairs each are two deviations of their noise: none has a scale, and none is
    lent one, although all together would stand out by 16.
    """
    rows = normal(800, 64) * 2.0 ** (np.arange(64) % 2)
    assert np.isinf(scales(rows, GaussianNoise(mu=0.1))).all()


def test_a_column_of_two_values_has_the_scale_of_its_variance():
    """All differences lie at the lower end of an octave, so scales are 1.47 times as large."""
    rows = (normal(8000, 3) > np.array([0.0, 0.5, 1.0])) * 1.0
    found = scales(rows, GaussianNoise(mu=10.0)) / rows.std(axis=0)
    assert found == pytest.approx(math.sqrt(1.5 / math.log(2)), rel=0.06)


def test_public_scales_are_kept_and_the_others_found():
    """The noise is that of two columns: with all four it would be larger by sqrt(2)."""
    rows = normal(4000, 4) * [1.0, 10.0, 100.0, 1000.0]
    seen = []

    class Watched(GaussianNoise):
        def perturb(self, query, noise):
            seen.append(query.sensitivity("l2"))
            return super().perturb(query, noise)

    known = np.array([3.0, np.nan, 7.0, np.nan])
    step = ColumnScale(first=Watched(mu=1.0), known=known)
    found = step.run(open_rows(rows), Clip(row_norm=1.0), gate(step))
    assert seen == [pytest.approx(2.0)]
    assert found.scale[[0, 2]].tolist() == [3.0, 7.0]
    assert found.scale[[1, 3]] / [10.0, 1000.0] == pytest.approx([1.0, 1.0], rel=0.3)
    assert found.sure.all()


def test_shares_of_scales_follow_from_public_numbers():
    whole, pure = Gaussian(0.3), Pure(3.0)
    shares = [scale_share(whole, n, 20) for n in (10, 1200, 4000, 10**7)]
    assert shares[0] == 0.4
    assert shares == sorted(shares, reverse=True)
    assert shares[2] == 0.1  # more than typical columns need, and the most for sparse ones
    assert shares[-1] == 0.02
    assert scale_share(whole, 1400, 20) == pytest.approx(shares[1] * 36 / 49)
    assert scale_share(pure, 10, 20) == 0.6
    assert scale_share(pure, 6000, 20) == 0.3  # for sparse columns
    assert scale_share(pure, 4000, 20) == pytest.approx(scale_share(pure, 3000, 20) * 3 / 4)
    assert enough_for_scales(whole, 10_000, 20)
    assert not enough_for_scales(whole, 100, 20)
    assert not enough_for_scales(Pure(0.1), 1000, 20)


@pytest.mark.parametrize("whole", [Gaussian(0.3), Pure(2.0)], ids=str)
@pytest.mark.parametrize("d", [1, 10])
def test_where_public_numbers_allow_it_every_column_has_a_scale(whole, d):
    """At the fewest rows that are not refused, a column is missed in 1 of 5 tables at most: of 60,
    22 or more are with probability 1e-3. With half the rows, most tables miss one.
    """
    rows = 2
    while not enough_for_scales(whole, rows, d):
        rows = math.ceil(rows * 1.02)

    def missed(n):
        units = 4.0 ** ((np.arange(d) + 0.5) / d)
        noise = vector_noise(part(whole, scale_share(whole, n, d)))
        drawn = [scales(normal(n, d, seed=s) * units, noise, seed=s) for s in range(60)]
        return sum(np.isinf(one).any() for one in drawn)

    assert missed(rows) <= 21
    assert missed(rows // 2) > 30


def test_the_cost_of_scales_is_that_of_their_noise():
    assert ColumnScale(first=GaussianNoise(mu=0.3)).cost() == Gaussian(0.3)
    assert ColumnScale(first=LaplaceNoise(epsilon=0.3)).cost() == Pure(0.3)
    two = ColumnScale(first=LaplaceNoise(epsilon=0.3), more=LaplaceNoise(epsilon=0.4))
    assert epsilon_of(two.cost(), 0.0) == pytest.approx(0.7)


@BOTH
def test_the_noise_on_the_counts(adjacency):
    """A constant column shows noise alone: 10 columns of 333 brackets have deviation sqrt(2 d)/mu,
    or sqrt(d)/mu. 3330 entries: five standard errors are 6 %; without the 2 it would be 29 % off.
    """
    seen = []

    class Watched(GaussianNoise):
        def perturb(self, query, noise):
            seen.append(super().perturb(query, noise).values)
            return super().perturb(query, noise)

    counts = column_counts(open_rows(np.zeros((50, 10))), Clip(row_norm=1.0), adjacency)
    step = ColumnScale(first=Watched(mu=0.1))
    step.find(counts, gate(step, adjacency))
    expected = math.sqrt(20 if adjacency is REPLACE else 10) / 0.1
    assert np.sqrt(np.mean(seen[0] ** 2)) == pytest.approx(expected, rel=0.06)


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


def _first_known(d):
    """Scales of which the first is public; of a single column none is."""
    return np.append(np.full(min(1, d - 1), 2.0), np.full(max(1, d - 1), np.nan))


def _paired_magnitudes_but_the_first(rows, adjacency):
    pairs = PairedSource(case.open_rows(case.with_scales(rows)), adjacency, np.arange)
    known = np.isfinite(_first_known(rows.shape[1]))
    sought = pairs.map(Divide(np.where(known, np.inf, 1.0)))
    return column_counts(sought, case.CLIP, adjacency)


def _scaled(mechanism, rows, adjacency, gate):
    rows = case.with_scales(rows)
    d = rows.shape[1]
    try:
        released = case.procedure(mechanism, rows, adjacency, gate)
    except NothingFoundError:
        return np.zeros(d + d * (d + 1) // 2)
    return np.append(1 / released.scale, case.matrix(released.inner))


def _magnitudes_apart(d, adjacency):
    """No entry is zero, and every one moves to another octave."""
    return np.ones(d), None if adjacency is case.ADD else np.full(d, 4.0)


def _kept_scales(found):
    return np.where(np.isfinite(found.scale), found.scale, 0.0)


MAGNITUDES = {
    "query": _magnitudes,
    "run": lambda step, rows, adjacency, gate: step.find(_magnitudes(rows, adjacency), gate),
    "read": _kept_scales,
    "worst_pair": _magnitudes_apart,
    "may_coincide": True,
    "trials": 1000,
    "shows": False,
}


CASES = [
    case.Case(
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
        lambda mu, d, k: ColumnScale(first=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * d), case.ADD: math.sqrt},
        **MAGNITUDES,
    ),
    case.Case(
        "column-scale pure",
        lambda epsilon, d, k: ColumnScale(first=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity={case.REPLACE: lambda d: 2.0 * d, case.ADD: float},
        **(MAGNITUDES | case.PURE),
    ),
    case.Case(
        "column-scale in two draws",
        lambda mu, d, k: ColumnScale(
            first=GaussianNoise(mu=0.6 * mu), more=GaussianNoise(mu=0.8 * mu)
        ),
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * d), case.ADD: math.sqrt},
        **MAGNITUDES,
    ),
    case.Case(
        "column-scale in two draws pure",
        lambda epsilon, d, k: ColumnScale(
            first=LaplaceNoise(epsilon=0.4 * epsilon), more=LaplaceNoise(epsilon=0.6 * epsilon)
        ),
        norm="l1",
        sensitivity={case.REPLACE: lambda d: 2.0 * d, case.ADD: float},
        **(MAGNITUDES | case.PURE),
    ),
    case.Case(
        "scaled",
        lambda mu, d, k: Scaled(
            scale=ColumnScale(first=GaussianNoise(mu=math.sqrt(0.5) * mu)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=case.paired_magnitudes,
        run=_scaled,
        read=lambda released: released,
        worst_pair=case.far_magnitudes,
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * d)},
        may_coincide=True,
        adjacencies=(case.REPLACE,),
        trials=1000,
        shows=False,
    ),
    case.Case(
        "scaled beside a known scale",
        lambda mu, d, k: Scaled(
            scale=ColumnScale(first=GaussianNoise(mu=math.sqrt(0.5) * mu), known=_first_known(d)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_paired_magnitudes_but_the_first,
        run=_scaled,
        read=lambda released: released,
        worst_pair=case.far_magnitudes,
        norm="l2",
        sensitivity={case.REPLACE: lambda d: math.sqrt(2 * max(1, d - 1))},
        may_coincide=True,
        adjacencies=(case.REPLACE,),
        trials=1000,
        shows=False,
    ),
]
