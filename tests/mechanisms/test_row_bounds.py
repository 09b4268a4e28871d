"""What the first batch of a stream buys: a centre, distances, scales."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import LARGEST_NORM, NO_EXPONENT, Clip
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms import (
    FrontBounds,
    Gate,
    GaussianNoise,
    LocatedBounds,
    NoisyDistances,
    PrivateDistances,
    RadiusBounds,
    ReleasedScales,
    RowBounds,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian, covers
from eigenveil.rows import Batch
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
ANYWHERE = Clip(row_norm=LARGEST_NORM)


def bounds_of(mechanism, rows, start=ANYWHERE, seed=0):
    """Return what the rows as a first batch release; the gate holds every step to the cost."""
    noise = SimulationSource(seed)
    gate = Gate(mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=noise)
    return mechanism.run(Batch(rows, 0), start, gate)


def normal(n=2000, d=4, shift=50.0, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) + shift


def distances(lengths, rows=1000.0):
    """Return released counts of rows at these lengths."""
    counts = np.zeros(NO_EXPONENT)
    upper = LARGEST_NORM * 2.0 ** (-np.arange(counts.size) / 2)
    for length in lengths:
        counts[np.flatnonzero(upper > length)[-1]] += rows / len(lengths)
    return NoisyDistances(counts, rows, 1.0)


def scales(d=3):
    """Return scales of one, with variances of about one."""
    return ReleasedScales(
        scale=np.ones(d),
        turn=np.full(d, 1e6),
        limit=8.0,
        first=np.ones(d),
        least=np.full(d, 1e-6),
        variances=np.ones(d),
        noise=np.full(d, 0.1),
        centre_error=np.zeros(d),
    )


@pytest.mark.parametrize("mu", [0.01, 0.237, 3.0, 500.0])
@pytest.mark.parametrize("d", [1, 20, 900])
def test_all_steps_fit_into_one_mu_and_leave_hardly_any(mu, d):
    for rows in (32, 5000, 10**7):
        front = FrontBounds.whole(mu, rows, d)
        spent = front.front.mu**2 * sum(front.front.shares.values()) + front.inner.noise.mu**2
        assert 0.3 * mu**2 < spent <= mu**2
        assert spent > 0.85 * mu**2 or rows * mu < 300
    for mechanism in (LocatedBounds.whole(mu), RadiusBounds.whole(mu)):
        assert covers(Gaussian(mu), mechanism.cost())
        assert not covers(Gaussian(mu * (1 - 1e-6)), mechanism.cost())


def test_a_centre_is_found_far_from_the_origin():
    """Deviations of a thousand: distances about the centre are those of the rows."""
    found = bounds_of(LocatedBounds.whole(1.0), normal(shift=1000.0))
    assert np.linalg.norm(found.centre - 1000.0) < 0.5
    assert found.distances.quantile(0.5) < 4


@pytest.mark.parametrize(
    ("mechanism", "advice"),
    [
        (LocatedBounds.whole(1.0), "or pass centring='none' and state row_norm"),
        (RadiusBounds.whole(1.0), "or state row_norm"),
    ],
)
def test_equal_rows_have_no_distances(mechanism, advice):
    """The advice is something that was not done already, and that needs no search."""
    with pytest.raises(NothingFoundError, match="the first records stood out") as caught:
        bounds_of(mechanism, np.zeros((400, 3)))
    assert str(caught.value).endswith(f"a larger budget, {advice}")


def test_a_stated_norm_does_where_no_distance_is_found():
    found = bounds_of(RadiusBounds.whole(1.0), np.zeros((400, 3)), replace(ANYWHERE, row_norm=7.0))
    assert found.radius(replace(ANYWHERE, row_norm=7.0), 1.0, 1000) == 7.0


def test_scales_of_columns_in_other_units_are_found():
    units = 10.0 ** np.arange(4)
    found = bounds_of(FrontBounds.whole(1.0, 4000, 4), normal(4000) * units)
    assert np.all(np.abs(np.log(found.columns.scale / units)) < math.log(1.5))
    assert np.abs(found.centre * found.columns.scale / units - 50).max() < 0.5
    assert (found.columns.turn > 1000).all()


def test_what_a_smaller_radius_took_is_known_from_distances():
    bounds = RowBounds(centre=np.zeros(4), centre_error=0.0, distances=distances([1, 1, 1, 16]))
    assert bounds.lost(100.0) == 0  # nothing was clipped yet
    seen = bounds.clipping_at(2.0)
    assert seen.clipped == seen.reach == 2.0
    assert seen.lost(2.0) == seen.lost(1.0) == 0
    assert seen.lost(8.0) == pytest.approx((8.0**2 - 2.0**2) / 4)
    assert 16**2 / 6 < seen.lost(100.0) < 16**2 / 3  # lengths are known to a factor of sqrt(2)
    doubled = replace(seen, stretch=2.0, reach=4.0)
    assert doubled.lost(16.0) == pytest.approx(4 * seen.lost(8.0))


def test_a_radius_leaves_half_of_the_variance_where_noise_allows():
    """One row in twenty at a distance of 20: they hold half of the variance of normal rows."""
    found = distances([4.5] * 19 + [20.0])
    bounds = RowBounds(centre=np.zeros(20), centre_error=0.0, distances=found)
    assert bounds.radius(ANYWHERE, 0.237, 3000) < 7
    assert bounds.radius(ANYWHERE, 0.237, 14_000) > 15


def test_distances_are_renewed_where_a_search_shows_clearly_fewer_rows():
    bounds = bounds_of(LocatedBounds.whole(1.0), normal(n=400, d=4))
    search = PrivateDistances(noise=GaussianNoise(mu=0.2))
    assert bounds.distances.rows == 400
    same = bounds.distances.unseen / 400  # of the share of rows that a bracket may hide
    enough = 1.5 * search.unseen / same
    assert not bounds.sharpened(search, math.floor(enough * 0.99))
    assert bounds.sharpened(search, math.ceil(enough * 1.01))
    assert not RowBounds(centre=np.zeros(4), centre_error=0.0).sharpened(search, 10**9)
    nothing = replace(bounds.distances, counts=np.zeros(NO_EXPONENT))
    assert bounds.with_distances(nothing) is bounds
    stretched = replace(bounds, stretch=2.0).with_distances(bounds.distances)
    assert stretched.stretch == 1.0


def test_the_radius_grows_with_the_records_and_never_beyond_what_is_stated():
    bounds = RowBounds(
        centre=np.zeros(4), centre_error=0.0, distances=distances([1, 1, 1, 1, 1, 1, 2, 4, 16])
    )
    radii = [bounds.radius(ANYWHERE, 0.3, n) for n in (100, 1000, 10_000, 100_000)]
    assert radii == sorted(radii)
    assert radii[0] < 3
    assert radii[-1] > 11
    assert bounds.radius(replace(ANYWHERE, row_norm=1.5), 0.3, 100_000) == 1.5
    old = replace(bounds, distances=None)  # as an earlier version kept it
    assert old.radius(ANYWHERE, 0.3, 1000) is None


def test_scaled_rows_are_clipped_at_no_more_than_noise_allows():
    """One heavy column would otherwise decide alone."""
    bounds = RowBounds(
        centre=np.zeros(4),
        centre_error=0.0,
        distances=distances([2, 200]),
        columns=scales(4),
    )
    assert bounds.radius(ANYWHERE, 0.3, 1000) <= 3.0
    assert bounds.radius(ANYWHERE, 0.3, 10**8) > 100


def test_later_batches_are_seen_in_scales_about_the_centre():
    columns = replace(scales(), scale=np.array([1.0, 10.0, 100.0]))
    bounds = RowBounds(centre=np.array([5.0, 0.0, 0.0]), centre_error=0.0, columns=columns)
    rows = np.array([[5.0, 10.0, 1e5], [6.0, np.nan, 1e308], [-1e308, 0.0, 0.0]])
    seen = bounds.seen(Batch(rows, 30), ANYWHERE)
    assert seen.records == range(30, 33)
    assert seen.array[0] == pytest.approx([5.0, 1.0, 8.0])
    assert np.isnan(seen.array[1, 1])
    assert np.abs(seen.array[2] - bounds.centre).max() <= 8 + 1e-9
    filled = bounds.seen(Batch(rows, 30), replace(ANYWHERE, on_missing="centre"))
    assert filled.array[1, 1] == 0.0


def _read(found):
    """Return all numbers that later batches depend on."""
    counts = np.zeros(0) if found.distances is None else found.distances.counts
    columns = found.columns
    more = [] if columns is None else [columns.scale, columns.turn, columns.variances]
    return np.concatenate([found.centre, counts, *more, [found.centre_error]])


def _in_company(mechanism, rows, adjacency, gate):
    try:
        return _read(mechanism.run(case.open_rows(case.with_distances(rows)), case.ANYWHERE, gate))
    except NothingFoundError:
        return np.zeros(rows.shape[1] + 1)


def _with_scales(mechanism, rows, adjacency, gate):
    try:
        return _read(mechanism.run(case.open_rows(case.with_scales(rows)), case.ANYWHERE, gate))
    except NothingFoundError:
        return np.zeros(rows.shape[1] + 1)


CASES = [
    case.Case(
        "row-bounds",
        lambda mu, d, k: LocatedBounds.whole(mu),
        run=_in_company,
        proof="streaming",
        **case.BRACKETS | {"adjacencies": (REPLACE,), "may_coincide": True},
    ),
    case.Case(
        "row-bounds about the origin",
        lambda mu, d, k: RadiusBounds.whole(mu),
        run=_in_company,
        proof="streaming",
        **case.BRACKETS | {"adjacencies": (REPLACE,), "may_coincide": True},
    ),
    case.Case(
        "row-bounds in any units",
        lambda mu, d, k: FrontBounds.whole(mu, math.ceil(math.sqrt(2) * d / (0.03 * mu)), d),
        run=_with_scales,
        proof="streaming",
        query=case.paired_magnitudes,
        read=lambda released: released,
        worst_pair=case.far_magnitudes,
        norm="l2",
        sensitivity={REPLACE: lambda d: math.sqrt(2 * d)},
        may_coincide=True,
        adjacencies=(REPLACE,),
        trials=300,
        shows=False,
    ),
]
