"""All rows of one person move a statistic no further than one row does."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil.exact import (
    BRACKETS,
    NO_EXPONENT,
    SHARE_BITS,
    Clip,
    column_counts,
    count,
    moment_products,
    norm_counts,
    public_rows,
    second_moment,
    spectrum,
    total,
    trace,
)
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import GROUP, ROW, Adjacency
from eigenveil.rows import ArraySource, GroupedSource, IterableSource
from tests.data.persons import CLIP, STATISTICS, distance, people

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ONE = 1 << 18
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
CLIPS = {
    "clipped": CLIP,
    "normalised": replace(CLIP, normalise=True),
    "normalised from a distance on": replace(CLIP, normalise=True, unit_distance=0.4),
    "lifted": replace(CLIP, lift=0.5),
    "boxed": Clip(
        row_norm=1.0,
        on_invalid="zero",
        centre=np.full(3, 0.1),
        box=(np.full(3, -0.5), np.full(3, 0.7)),
    ),
}


def grouped(persons):
    """A table of persons, each an array of rows, whose rows lie scattered."""
    ids = np.repeat(np.arange(len(persons)), [len(rows) for rows in persons])
    order = np.random.default_rng(len(ids)).permutation(len(ids))
    return GroupedSource(ArraySource(np.vstack(persons)[order]), ids[order])


@BOTH
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_no_person_moves_a_statistic_further_than_a_row(statistic, clip, adjacency):
    """Every pair of persons, among others who are always there."""
    if statistic == "count" and adjacency is REPLACE:
        pytest.skip("the number of persons is public")
    query, bound_by = STATISTICS[statistic], CLIPS[clip]
    alone = query(ArraySource(np.ones((2, 3))), bound_by, adjacency)
    company = [np.random.default_rng(1).standard_normal((m, 3)) for m in (1, 4, 33)]
    sums = [query(grouped([*company, person]), bound_by, adjacency) for person in people()]
    pairs = itertools.combinations(sums, 2)
    if adjacency is ADD:
        pairs = [(query(grouped(company), bound_by, adjacency), other) for other in sums]
    for one, other in pairs:
        assert dict(one.sensitivities) == dict(alone.sensitivities)
        assert one.protects == GROUP
        for norm, bound in one.sensitivities.items():
            assert distance(one, other, norm) <= bound * (1 + 2.0**-40)


@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 1), (3, 1000), (5000, 7)])
def test_the_bounds_are_attained_whatever_the_numbers_of_rows(m, k):
    axes, company = np.eye(3), [np.full((2, 3), 0.1)]
    tight = 1 - 2.0**-10  # rounding, of rows that share a ball

    def queries(statistic, one, other, adjacency):
        tables = [[*company, np.repeat(one[None], m, axis=0)], company]
        if adjacency is REPLACE:
            tables[1] = [*company, np.repeat(other[None], k, axis=0)]
        return [STATISTICS[statistic](grouped(table), CLIP, adjacency) for table in tables]

    for statistic, norm, other, expected in [
        ("moment", "frobenius", axes[1], {REPLACE: math.sqrt(2), ADD: 1.0}),
        ("moment", "nuclear", axes[1], {REPLACE: 2.0, ADD: 1.0}),
        ("products", "l2", axes[1], {REPLACE: math.sqrt(2), ADD: 1.0}),
        ("total", "l2", -axes[0], {REPLACE: 2.0, ADD: math.sqrt(2)}),
        ("trace", "l1", 0 * axes[0], {REPLACE: 1.0, ADD: 1.0}),
        ("norms", "l1", axes[1] / 8, {REPLACE: 2.0, ADD: 1.0}),
        ("columns", "l1", axes[0] / 8, {REPLACE: 2.0, ADD: 1.0}),
    ]:
        for adjacency, sensitivity in expected.items():
            found = distance(*queries(statistic, axes[0], other, adjacency), norm)
            assert found >= sensitivity * tight
            if statistic != "columns":  # other columns are zero here
                assert found <= queries(statistic, axes[0], other, adjacency)[0].sensitivity(norm)


rows_of_one = st.integers(1, 6).flatmap(
    lambda d: st.lists(
        st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=d, max_size=d),
        min_size=1,
        max_size=4,
    )
)


@given(rows_of_one, st.integers(1, 1 << 27), st.booleans())
def test_the_shares_of_a_row_are_exact(rows, m, normalise):
    """m rows like any of these: squared norms add up to 2^36, norms to 2^18 less the rounding."""
    rows = np.array(rows)
    sizes = np.full(len(rows), m)
    clip = replace(CLIP, normalise=normalise)
    out = np.empty(rows.shape)
    clip.to_shares(rows, out, sizes)
    assert np.array_equal(out, np.rint(out))
    for row in out:
        assert m * sum(int(k) ** 2 for k in row) <= ONE**2
    clip.to_shares(rows, out, sizes, linear=True)
    fine = out * 2**SHARE_BITS if m > 1 else out
    assert np.array_equal(fine, np.rint(fine))
    one = ONE << (SHARE_BITS if m > 1 else 0)
    spare = math.sqrt(rows.shape[1]) * (1 << SHARE_BITS) if m > 1 else 0.0
    for row in fine:
        norm = math.sqrt(sum(int(k) ** 2 for k in row))
        assert m * norm <= (one - spare) * (1 + 2.0**-50)


@pytest.mark.parametrize("radius", [1.0, 1.01, 1.5, 100.0, math.inf, math.nan])
@pytest.mark.parametrize("m", [1, 2, 3, 1000])
def test_whatever_goes_wrong_before_it_the_check_holds(radius, m, monkeypatch):
    monkeypatch.setattr("eigenveil.exact.clip.ball_radius", lambda d: radius)
    rows = np.random.default_rng(0).standard_normal((200, 3))
    out, sizes = np.empty(rows.shape), np.full(len(rows), m)
    for clip in CLIPS["clipped"], CLIPS["normalised"]:
        clip.to_shares(rows, out, sizes)
        assert m * max(sum(int(k) ** 2 for k in row) for row in out) <= ONE**2
        clip.to_shares(rows, out, sizes, linear=True)
        spare = math.sqrt(3) if m > 1 else 0.0
        assert m * np.linalg.norm(out, axis=1).max() <= (ONE - spare) * (1 + 2.0**-50)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_rounding_the_whole_sum_adds_nothing(d):
    """Sums with fractions on either side of one half, where rounding turns over."""
    rng = np.random.default_rng(d)
    for _ in range(100):
        company = [rng.uniform(-1, 1, (m, d)) / 2.0 ** rng.integers(0, 18) for m in (3, 5)]
        far = rng.standard_normal(d)
        far *= 9 / np.linalg.norm(far)
        m, k = rng.integers(1, 9, 2)
        one, other = (
            total(grouped([*company, np.tile(side * far, (n, 1))]), CLIP, REPLACE)
            for side, n in ((1, m), (-1, k))
        )
        alone = total(grouped(company), CLIP, ADD)
        joined = total(grouped([*company, np.tile(far, (m, 1))]), CLIP, ADD)
        assert distance(one, other, "l2") <= 2.0
        assert distance(joined, alone, "l2") <= math.sqrt(2)


@BOTH
@pytest.mark.parametrize("statistic", STATISTICS)
def test_neither_order_nor_chunks_matter(statistic, adjacency):
    persons = people()
    rows = np.vstack(persons)
    ids = np.repeat([f"p{i}" for i in range(len(persons))], [len(p) for p in persons])
    rng = np.random.default_rng(3)
    expected = STATISTICS[statistic](GroupedSource(ArraySource(rows), ids), CLIP, adjacency)
    for size in (5, 1000):
        order = rng.permutation(len(rows))
        chunks = [rows[order][i : i + size] for i in range(0, len(rows), size)]
        source = GroupedSource(IterableSource(chunks), ids[order])
        found = STATISTICS[statistic](source, CLIP, adjacency)
        assert np.array_equal(found.value.units, expected.value.units)
        assert found.count == expected.count == (len(persons) if expected.count else None)


@BOTH
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_persons_of_one_row_are_rows(statistic, clip, adjacency):
    rows = np.vstack([person[:1] for person in people()])
    plain = STATISTICS[statistic](ArraySource(rows), CLIPS[clip], adjacency)
    ids = np.random.default_rng(0).permutation(len(rows)) + 0.5
    same = STATISTICS[statistic](GroupedSource(ArraySource(rows), ids), CLIPS[clip], adjacency)
    assert np.array_equal(plain.value.units, same.value.units)
    assert (plain.value.exponent, plain.unit, plain.count, plain.exact) == (
        same.value.exponent,
        same.unit,
        same.count,
        same.exact,
    )
    assert (plain.protects, same.protects) == (ROW, GROUP)


def test_sums_are_those_of_the_means_of_persons():
    rng = np.random.default_rng(5)
    persons = [rng.standard_normal((m, 3)) / 4 + 0.1 for m in (1, 2, 30, 500)]
    source = grouped(persons)
    clip = Clip(row_norm=3.0)
    mean = total(source, clip, REPLACE)
    assert mean.value.to_float() * mean.unit == pytest.approx(
        np.mean([p.mean(axis=0) for p in persons], axis=0), abs=1e-4
    )
    moment = second_moment(source, clip, REPLACE)
    truth = np.mean([p.T @ p / len(p) for p in persons], axis=0)
    assert moment.value.to_float() * moment.unit == pytest.approx(truth, abs=1e-3)
    lazy = moment_products(source, clip, REPLACE)
    assert lazy.times(np.eye(3)) * lazy.unit == pytest.approx(truth, abs=1e-3)
    assert (lazy.count, lazy.protects) == (4, GROUP)
    squares = trace(source, clip, REPLACE)
    assert squares.value.to_float()[0] * squares.unit == pytest.approx(np.trace(truth), abs=1e-3)
    assert public_rows(source) == 4


def test_one_person_may_own_everything_and_very_much():
    """A ball for 200,000 rows is coarse for a second moment, and is not for a mean."""
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((200_000, 2)) * 0.05 + 0.4
    source = GroupedSource(ArraySource(rows), np.zeros(len(rows), dtype=int))
    mean = total(source, CLIP, REPLACE).value.to_float()
    assert mean == pytest.approx(rows.mean(axis=0), abs=1e-4)
    moment = second_moment(source, CLIP, REPLACE).value.to_float()
    assert moment == pytest.approx(rows.T @ rows / len(rows), rel=5e-3)
    assert np.trace(moment) <= 1


def test_a_ball_without_room_for_rounding_holds_nothing():
    """More rows than there can be directions of a bit each: zeros, not an error."""
    rows = np.random.default_rng(0).standard_normal((3, 2))
    out = np.empty(rows.shape)
    for linear in (False, True):
        CLIP.to_shares(rows, out, np.full(3, 1 << 40), linear=linear)
        assert not out.any()


def test_invalid_rows_count_among_the_rows_of_their_person():
    rows = np.array([[0.5, 0.0], [np.nan, 1.0], [0.0, 0.5], [np.inf, np.inf]])
    source = GroupedSource(ArraySource(rows), ["a", "a", "a", "b"])
    both = total(source, CLIP, ADD).value.to_float()
    assert both == pytest.approx([0.5 / 3, 0.5 / 3, 2 / 3], abs=1e-4)
    assert count(source, CLIP).value.to_float() == pytest.approx([2 / 3], abs=1e-5)
    assert second_moment(source, CLIP, ADD).value.to_float() == pytest.approx(
        np.diag([0.25, 0.25]) / 3, abs=1e-4
    )
    strict = replace(CLIP, on_invalid="raise")
    for statistic in STATISTICS.values():
        with pytest.raises(InvalidDataError, match="missing or infinite"):
            statistic(source, strict, ADD)


@pytest.mark.parametrize(
    ("norms", "exponent"),
    [
        ([1.2], 0),
        ([0.8, 0.8, 0.8], 0),
        ([0.3] * 4, 3),
        ([0.8, 0.3], 2),  # brackets 0 and 3
        ([0.8] * 99 + [0.0], 0),
        ([0.8] * 99 + [1e-30], 2),  # a far row does not carry the others along
        ([0.0, 0.0, 0.8], NO_EXPONENT),
        ([0.0, 0.3], 3),
    ],
)
def test_a_person_is_counted_at_the_mean_exponent(norms, exponent):
    rows = np.column_stack([norms, np.zeros(len(norms))])
    counts = norm_counts(grouped([rows]), CLIP, REPLACE)
    assert counts.value.units.sum() == 1
    assert np.flatnonzero(counts.value.units).tolist() == [exponent]


def test_a_person_is_counted_once_in_a_column():
    rows = np.array([[1.5, 0.0], [0.0, 0.0], [24.0, 0.0]])  # octaves 0 and 4
    counts = column_counts(grouped([rows]), CLIP, REPLACE)
    assert counts.value.units.sum() == 1
    assert counts.value.units[0, BRACKETS.index(2)] == 1
    assert counts.sensitivities == column_counts(ArraySource(rows), CLIP, REPLACE).sensitivities


@pytest.mark.parametrize(
    ("zeros", "octaves"), [(0, 0), (1, 0), (2, -1), (3, -1), (6, -1), (15, -2), (255, -4)]
)
def test_zeros_of_a_person_lower_the_octave_to_the_root_mean_square(zeros, octaves):
    rows = np.zeros((zeros + 1, 2))
    rows[0, 0] = 1.5
    counts = column_counts(grouped([rows]), CLIP, REPLACE).value.units
    assert np.flatnonzero(counts[0]).tolist() == [BRACKETS.index(octaves)]


def test_a_person_stays_in_the_lowest_octave_of_each_column():
    rows = np.zeros((400, 3))
    rows[0] = 2.0 ** BRACKETS[0]
    counts = column_counts(grouped([rows]), CLIP, REPLACE).value.units
    assert np.argwhere(counts).tolist() == [[0, 0], [1, 0], [2, 0]]


DIRECTIONS = np.linalg.qr(np.vander([1.0, 2.0, 3.0], 3))[0][:, :2].T
SPECTRA = {
    "eigenvalues": spectrum.eigenvalues,
    "leading": lambda moment: spectrum.leading(moment, 1),
    "along": lambda moment: spectrum.along(moment, DIRECTIONS),
    "along with rest": lambda moment: spectrum.along_with_rest(moment, DIRECTIONS),
    "inside": lambda moment: spectrum.inside(moment, DIRECTIONS),
    "compressed": lambda moment: spectrum.compressed_with_rest(moment, DIRECTIONS.T),
    "gap": lambda moment: spectrum.eigengap(moment, 1),
    "weighted": lambda moment: spectrum.weighted_eigenvalues(moment, np.array([0.5, 2.0, 1.0])),
}


@BOTH
@pytest.mark.parametrize("statistic", SPECTRA)
def test_a_person_of_many_directions_moves_a_spectrum_no_further(statistic, adjacency):
    """What a person adds has any rank; the bounds on one row do not rest on rank one."""
    query = SPECTRA[statistic]
    company = [np.tile(row, (3, 1)) for row in np.diag([1.0, 0.9, 0.8])] * 2
    persons = [*people(), np.eye(3), np.eye(3)[:2], np.vstack([np.eye(3)[1:]] * 4)]
    sums = [
        query(second_moment(grouped([*company, person]), CLIP, adjacency)) for person in persons
    ]
    pairs = itertools.combinations(sums, 2)
    if adjacency is ADD:
        alone = query(second_moment(grouped(company), CLIP, adjacency))
        pairs = [(alone, other) for other in sums]
    for one, other in pairs:
        for norm, bound in one.sensitivities.items():
            assert distance(one, other, norm) <= bound * (1 + 2.0**-28)


@BOTH
def test_a_person_turns_a_projector_no_further_than_a_row(adjacency):
    rng = np.random.default_rng(11)
    for _ in range(200):
        company = [np.tile(row, (2, 1)) for row in np.diag([1.0, 0.5, 0.2])] * 5
        one, other = (
            rng.standard_normal((m, 3)) * [1, 1, rng.integers(2)] for m in rng.integers(1, 4, 2)
        )
        tables = [grouped([*company, one]), grouped([*company, other])]
        if adjacency is ADD:
            tables[1] = grouped(company)
        moments = [second_moment(table, CLIP, adjacency) for table in tables]
        gap = float(spectrum.eigengap(moments[0], 1).value.to_float()[0])
        bound = spectrum.projector_sensitivity(gap, adjacency)
        turned = [spectrum.projector(moment, 1, bound) for moment in moments]
        assert distance(*turned, "frobenius") <= bound


# Pairs of persons


# No road around the weights


# Ids


# Files
