"""All rows of one person move a statistic no further than one row does."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil.data import (
    Clip,
    count,
    norm_counts,
    open_rows,
    second_moment,
    spectrum,
    total,
    trace,
)
from eigenveil.data.clip import NO_EXPONENT, SHARE_BITS
from eigenveil.data.gram import public_rows
from eigenveil.data.groups import GroupedSource, LabelledSource, PairedUnits, paired
from eigenveil.data.norms import OCTAVES, column_counts, rows_beyond
from eigenveil.data.products import moment_products
from eigenveil.data.source import (
    ArraySource,
    IterableSource,
    PairedSource,
    ScaledSource,
    protected,
    sampled,
    tables,
    unit_tables,
)
from eigenveil.data.updates import View, moment_columns
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
ONE = 1 << 18
CLIP = Clip(row_norm=1.0, on_invalid="zero")
CLIPS = {
    "clipped": CLIP,
    "normalised": replace(CLIP, normalise=True),
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


def people(d=3):
    """Persons of one row and of many, with rows of every kind."""
    rng, axes = np.random.default_rng(0), np.eye(d)
    return [
        axes[:1],
        -axes[:1],
        np.repeat(axes[:1], 5, axis=0),
        np.repeat(-axes[:1], 300, axis=0),
        np.repeat(axes[1:2], 7, axis=0),
        np.full((1, d), d**-0.5),
        np.full((3, d), -(d**-0.5)),
        np.zeros((1, d)),
        np.zeros((9, d)),
        np.full((4, d), 1e300),
        np.full((2, d), 1e-300),
        np.full((1, d), np.nan),
        np.vstack([axes, np.full((1, d), np.inf)]),
        rng.standard_normal((1, d)),
        rng.standard_normal((40, d)),
        rng.standard_normal((1000, d)) * 1e-3,
        axes[:1] * (1 - 2.0**-19),
    ]


def distance(one, other, norm):
    """Between exact sums, in units of the ball."""
    gap = one.value.units - other.value.units
    scale = 2.0**one.value.exponent
    match norm:
        case "linf":
            return int(np.abs(gap).max()) * scale
        case "nuclear":
            return float(np.abs(np.linalg.eigvalsh(gap.astype(float))).sum()) * scale
        case "l1":
            square = gap.ndim == 2 and gap.shape[0] == gap.shape[1]
            return int(np.abs(gap[np.triu_indices(len(gap))] if square else gap).sum()) * scale
    return math.sqrt(sum(int(g) ** 2 for g in gap.ravel().tolist())) * scale


def between(d):
    """Two orthonormal columns, between the first two axes."""
    columns = np.zeros((d, 2))
    columns[:2] = [[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]]
    return columns


STATISTICS = {
    "moment": lambda source, clip, adjacency: second_moment(source, clip, adjacency),
    "trace": lambda source, clip, adjacency: trace(source, clip, adjacency),
    "total": lambda source, clip, adjacency: total(source, replace(clip, lift=0.0), adjacency),
    "norms": lambda source, clip, adjacency: norm_counts(source, clip, adjacency),
    "beyond": lambda source, clip, adjacency: rows_beyond(norm_counts(source, clip, adjacency)),
    "columns": lambda source, clip, adjacency: column_counts(source, clip, adjacency),
    "count": lambda source, clip, adjacency: count(source, clip),
    "products": lambda source, clip, adjacency: moment_columns(
        source, clip, View(between(clip.width(3))), adjacency
    ),
}


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
    monkeypatch.setattr("eigenveil.data.clip._radius", lambda d: radius)
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
    for _ in range(300):
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
    for size in (1, 17, 1000):
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
    rows = np.array([[1.5, 0.0], [0.0, 0.0], [6.0, 0.0]])  # octaves 1 and 3
    counts = column_counts(grouped([rows]), CLIP, REPLACE)
    assert counts.value.units.sum() == 1
    assert counts.value.units[0, OCTAVES.index(2)] == 1
    assert counts.sensitivities == column_counts(ArraySource(rows), CLIP, REPLACE).sensitivities


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


def differences(source, order=np.arange):
    pairs = paired(source, REPLACE, order)
    chunks = list(unit_tables(pairs))
    return pairs, np.vstack([c for c, _ in chunks]), np.concatenate([u for _, u in chunks])


def test_pairs_of_persons_go_round_the_shorter_one():
    rows = np.arange(8.0)[:, None] ** 2
    source = GroupedSource(ArraySource(rows), list("abacabbd"))  # a: 0 2 4, b: 1 5 6, c: 3, d: 7
    pairs, found, units = differences(source)
    assert (pairs.unpaired, pairs.unit_sizes.tolist(), units.tolist()) == (
        4,
        [3, 3],
        [0, 0, 0, 1, 1, 1],
    )
    a, b, c, d = [0, 4, 16], [1, 25, 36], [9], [49]
    first = [(x - c[0]) / 2 for x in a]  # the first half is paired with the second: a-c, b-d
    second = [(x - d[0]) / 2 for x in b]
    assert found[:, 0].tolist() == [*first, *second]
    uneven = GroupedSource(ArraySource(rows), list("aaaaabbb"))
    _, found, _ = differences(uneven)
    a, b = rows[:5, 0], rows[5:, 0]
    assert found[:, 0].tolist() == ((a - b[[0, 1, 2, 0, 1]]) / 2).tolist()


def test_a_replaced_person_replaces_one_pair():
    """Whatever the numbers of rows: the sum moves by sqrt(2) at most, and that is attained."""
    rng = np.random.default_rng(7)
    company = [rng.standard_normal((m, 3)) for m in (3, 1, 8, 2, 5)]
    bound = math.sqrt(2)
    for one, other in itertools.combinations([*people(), rng.standard_normal((70, 3))], 2):
        sums = [
            second_moment(
                PairedUnits(_listed([person, *company]), REPLACE, np.arange), CLIP, REPLACE
            )
            for person in (one, other)
        ]
        assert distance(*sums, "frobenius") <= bound
        assert sums[0].count == sums[1].count == 3
    axes = 2 * np.eye(3)
    ends = [
        second_moment(
            PairedUnits(_listed([np.tile(axis, (m, 1)), np.zeros((4, 3))]), REPLACE, np.arange),
            CLIP,
            REPLACE,
        )
        for axis, m in ((axes[0], 9), (axes[1], 2))
    ]
    assert distance(*ends, "frobenius") >= bound * (1 - 2.0**-11)


def _listed(persons):
    """In the order of persons, so that a fixed order pairs the same ones."""
    ids = np.repeat(np.arange(len(persons)), [len(rows) for rows in persons])
    return GroupedSource(ArraySource(np.vstack(persons)), ids)


def test_pairs_of_persons_of_one_row_are_pairs_of_rows():
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 9, (101, 3))
    for scale in (None, np.array([2.0, np.inf, 3.0])):
        plain, shared = ArraySource(rows), GroupedSource(ArraySource(rows), rng.permutation(101))
        if scale is not None:
            plain, shared = ScaledSource(plain, scale), ScaledSource(shared, scale)
        rng = np.random.default_rng(9)
        expected = np.vstack(list(tables(PairedSource(plain, REPLACE, rng.permutation))))
        rng = np.random.default_rng(9)
        pairs, found, _ = differences(shared, rng.permutation)
        assert np.array_equal(found, expected)
        assert (pairs.n_columns, pairs.rereadable) == (plain.n_columns, True)


def test_pairs_are_read_in_chunks_alike(monkeypatch):
    persons = [np.random.default_rng(m).standard_normal((m, 3)) for m in (5, 1, 30, 7, 2, 2)]
    _, whole, owners = differences(_listed(persons))
    monkeypatch.setattr("eigenveil.data.groups._CHUNK_BYTES", 24 * 4)
    streamed = _listed(persons)
    streamed.rows = IterableSource([streamed.rows.array[i : i + 3] for i in range(0, 47, 3)])
    _, again, units = differences(streamed)
    assert np.array_equal(whole, again)
    assert np.array_equal(owners, units)


def test_pairs_need_a_public_number_of_two_persons():
    source = _listed([np.ones((4, 2)), np.zeros((4, 2))])
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        paired(source, ADD, np.arange)
    with pytest.raises(InvalidDataError, match="two persons"):
        paired(_listed([np.ones((4, 2))]), REPLACE, np.arange)
    with pytest.raises(InvalidParameterError, match="PairedSource"):
        PairedUnits(ArraySource(np.ones((4, 2))), REPLACE, np.arange)


# No road around the weights


def test_rows_of_persons_are_not_read_as_plain_rows():
    source = _listed([np.ones((4, 2)), np.zeros((4, 2))])
    for refusing in (source, ScaledSource(source, np.ones(2))):
        with pytest.raises(InvalidParameterError, match="protected together"):
            list(tables(refusing))
        with pytest.raises(InvalidParameterError, match="protected together"):
            PairedSource(refusing, REPLACE, np.arange)
        assert protected(refusing) == GROUP
        assert public_rows(refusing) == 2
    with pytest.raises(InvalidParameterError, match="say already"):
        GroupedSource(source, np.arange(8))
    assert open_rows(source) is source


# Ids


class Unhashable:
    __hash__ = None


IDS = {
    "list": ["x", "y", "x", "z"],
    "integers": np.array([3, 1, 3, 2], dtype=np.uint8),
    "floats": np.array([3.5, 1.0, 3.5, np.inf]),
    "text": np.array(["x", "y", "x", "z"]),
    "bytes": np.array([b"x", b"y", b"x", b"z"]),
    "space": ["x ", "y", " x", "z"],
    "dates": np.array(["2020-01-02", "2020-01-01", "2020-01-02", "2021-01-01"], "M8[D]"),
    "series": pd.Series(["x", "y", "x", "z"], index=[9, 8, 7, 6]),
    "categories": pd.Series(["x", "y", "x", "z"], dtype="category"),
    "nullable": pd.Series([3, 1, 3, 2], dtype="Int64"),
    "objects": np.array([3, 7, 3.0, True], dtype=object),
    "generator": None,
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_kind(kind):
    ids = IDS[kind] if kind != "generator" else (name for name in "xyxz")
    source = GroupedSource(ArraySource(np.zeros((4, 1))), ids)
    assert source.unit_sizes.tolist() == [2, 1, 1]
    ((_, units),) = unit_tables(source)
    assert units.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "ids",
    [
        ["x", None, "secret", "z"],
        ["x", math.nan, "secret", "z"],
        np.array(["x", np.nan, "secret", "z"]),
        ["x", "", "secret", "z"],
        [1.0, math.nan, 2.0, 3.0],
        np.array([1.0, np.nan, 2.0, 3.0]),
        pd.Series([1, None, 2, 3], dtype="Int64"),
        pd.Series(["a", None, "secret", "d"]),
        np.array(["NaT", "2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]"),
        np.ma.masked_array([1, 2, 3, 4], mask=[0, 1, 0, 0]),
        [Unhashable(), 1, 2, 3],
    ],
)
def test_a_missing_id_is_an_error_that_shows_none(ids):  # whatever it is written as
    with pytest.raises(InvalidDataError, match="no id") as caught:
        GroupedSource(ArraySource(np.zeros((4, 1))), ids)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 2, 3, 4, 5], []])
def test_one_id_for_each_row(ids):
    rows = np.zeros((4, 1))
    with pytest.raises(InvalidDataError, match="one id for each row"):
        GroupedSource(ArraySource(rows), ids)
    streamed = GroupedSource(IterableSource([rows[:2], rows[2:]]), ids)
    with pytest.raises(InvalidDataError, match="one id for each row"):
        second_moment(streamed, CLIP, ADD)


@pytest.mark.parametrize("ids", [7, "abcd", np.zeros((4, 1)), None])
def test_ids_must_be_a_column(ids):
    with pytest.raises(InvalidParameterError, match="one id for each row"):
        GroupedSource(ArraySource(np.zeros((4, 1))), ids)


# Files


@pytest.fixture
def table():
    rng = np.random.default_rng(10)
    frame = pd.DataFrame(rng.standard_normal((60, 3)), columns=list("abc"))
    frame.insert(1, "patient", [f"p {i}" for i in rng.integers(0, 11, 60)])
    return frame


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, row_group_size=13)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("numbers", [False, True])
def test_files_say_whose_rows_they_hold(table, tmp_path, monkeypatch, suffix, numbers):
    if numbers:
        table["patient"] = table["patient"].str[2:].astype(int)
    monkeypatch.setattr("eigenveil.data.files._CSV_LINES", 7)
    source = open_rows(write(table, tmp_path / f"t{suffix}"), unit="patient")
    assert isinstance(source, LabelledSource)
    assert (source.feature_names, source.n_columns) == (("a", "b", "c"), 3)
    assert protected(source) == Unit("person", "patient")
    expected = GroupedSource(ArraySource(table[list("abc")].to_numpy()), table["patient"])
    assert np.array_equal(source.unit_sizes, expected.unit_sizes)
    for statistic in STATISTICS.values():
        found, wanted = (statistic(s, CLIP, REPLACE) for s in (source, expected))
        assert np.array_equal(found.value.units, wanted.value.units)
        assert found.protects == Unit("person", "patient")
    assert len(np.vstack(list(tables(source.rows)))) == 60
    fewer = open_rows(tmp_path / f"t{suffix}", columns=["c", "a"], unit="patient")
    assert fewer.feature_names == ("c", "a")
    plain = open_rows(tmp_path / f"t{suffix}", columns=["c", "a"])
    assert np.array_equal(*(np.vstack(list(tables(s))) for s in (fewer.rows, plain)))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_may_not_leave_a_row_without_an_owner(table, tmp_path, suffix):
    table.loc[3, "patient"] = None
    source = open_rows(write(table, tmp_path / f"t{suffix}"), unit="patient")
    with pytest.raises(InvalidDataError, match="no id"):
        second_moment(source, CLIP, REPLACE)


def test_an_uneven_line_has_no_owner(tmp_path):
    (tmp_path / "t.csv").write_text("a,patient\n1,p\n2,p,3\n")
    with pytest.raises(InvalidDataError, match="no id"):
        public_rows(open_rows(tmp_path / "t.csv", unit="patient"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_column_of_the_unit(table, tmp_path, suffix):
    path = write(table, tmp_path / f"t{suffix}")
    with pytest.raises(InvalidDataError, match="no column 'person'"):
        open_rows(path, unit="person")
    with pytest.raises(InvalidParameterError, match="no feature"):
        open_rows(path, columns=["a", "patient"], unit="patient")
    np.save(tmp_path / "t.npy", np.zeros((2, 2)))
    for data in (tmp_path / "t.npy", np.zeros((2, 2))):
        with pytest.raises(InvalidParameterError, match="groups=ids"):
            open_rows(data, unit="patient")


def test_a_column_of_dates_is_no_unit(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidDataError, match="text or whole numbers"):
        open_rows(tmp_path / "t.parquet", unit="day")


@pytest.mark.parametrize("change", ["another row", "another person"])
def test_a_file_that_changes_between_reads_is_refused(table, tmp_path, change):
    """The weights are those of the first read: more rows would weigh too much."""
    path = write(table, tmp_path / "t.csv")
    source = open_rows(path, unit="patient")
    second_moment(source, CLIP, REPLACE)
    more = table.iloc[:1] if change == "another row" else table.iloc[:1].assign(patient="new")
    write(pd.concat([table, more]), path)
    with pytest.raises(InvalidDataError, match="changed while"):
        second_moment(source, CLIP, REPLACE)


@pytest.mark.parametrize("word", ["", " ", "NA", "n/a", "None", "NULL", "<NA>", "NaT", "nan"])
def test_words_for_no_id(word):
    for ids in (["a", word], [b"a", word.encode()]):
        with pytest.raises(InvalidDataError, match="no id"):
            GroupedSource(ArraySource(np.zeros((2, 1))), ids)


@pytest.mark.parametrize(
    "ids",
    [
        [7, "7", 8],
        np.array([7, "7", 8.0], object),
        pd.Series(["7", 7, 7], dtype=object),
        ["7", b"7", "8"],
    ],
    ids=range(4),
)
def test_an_id_is_of_one_type(ids):
    """A column that was read in parts may hold one person as 7 and as "7"."""
    with pytest.raises(InvalidDataError, match="store them as one type"):
        GroupedSource(ArraySource(np.zeros((3, 1))), ids)
    numbers = GroupedSource(ArraySource(np.zeros((3, 1))), [7, 7.0, np.int8(7)])
    assert numbers.unit_sizes.tolist() == [3]


def test_a_file_that_shrank_is_refused(table, tmp_path):
    """Pairs would take the rows of one person for those of another."""
    path = write(table, tmp_path / "t.csv")
    source = open_rows(path, unit="patient")
    assert source.unit_sizes.sum() == len(table)
    write(table[:-3], path)
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        list(source.unit_chunks())


def test_persons_are_never_sampled_by_position():
    rows = ArraySource(np.zeros((100, 1)))
    grouped = GroupedSource(rows, np.arange(100) // 2)
    for source in (grouped, ScaledSource(grouped, np.ones(1))):
        assert sampled(source, 0.1, Adjacency.REPLACE_ONE, None, lambda rows: None) is source


@pytest.mark.parametrize(
    "ids",
    [
        [("s", 1), ("s", np.nan), ("s", np.nan)],
        pd.MultiIndex.from_arrays([["s"] * 3, [1, np.nan, np.nan]]),
        np.array([(1, np.nan)] * 3, dtype=[("a", int), ("b", float)]),
        [frozenset("a")] * 3,
    ],
    ids=range(4),
)
def test_composite_ids_are_refused(ids):
    """Parts may be missing, or of two types, and then one person is many."""
    with pytest.raises(InvalidDataError, match="ids are text or numbers"):
        GroupedSource(ArraySource(np.zeros((3, 1))), ids)


def test_spellings_that_look_the_same_are_the_same():
    ids = ["7", "\ufeff7", "7\u200b", " 7 ", "e\u0301", "\u00e9"]
    assert GroupedSource(ArraySource(np.zeros((6, 1))), ids).unit_sizes.tolist() == [4, 2]
