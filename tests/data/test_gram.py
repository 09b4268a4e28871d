"""Sums without rounding: the same bits whatever the road."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exact import FRACTION_BITS, Clip, count, gram, second_moment, total
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics import SimulationSource, integers
from eigenveil.privacy import Adjacency
from eigenveil.rows import ArraySource, IterableSource, RowSource, open_rows

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=4.0, centre=np.full(23, 0.25))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((3001, 23)) * 1.3


def naive(rows, clip):
    """Integer arithmetic from end to end."""
    out = np.empty(rows.shape)
    clip.to_integers(rows, out)
    k = out.astype(np.int64)
    return k.T @ k, k.sum(axis=0)


def test_sums_equal_integer_arithmetic(rows):
    moment, sums = naive(rows, CLIP)
    query = second_moment(open_rows(rows), CLIP, REPLACE)
    assert np.array_equal(query.value.units, moment)
    assert query.value.exponent == -2 * FRACTION_BITS
    assert np.array_equal(total(open_rows(rows), CLIP, REPLACE).value.units, sums)
    counted = total(open_rows(rows), CLIP, ADD).value
    assert np.array_equal(counted.units, np.append(sums, 3001 << FRACTION_BITS))


def test_the_sum_is_close_to_the_floating_point_one(rows):
    x = (rows - 0.25) / 4.0
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    got = second_moment(open_rows(rows), CLIP, REPLACE)
    # Rounding entries to 2**-19 at worst moves the sum of n x x' by far less than this.
    assert np.abs(got.value.to_float() - x.T @ x).max() < 3001 * 2.0**-17
    assert got.unit == pytest.approx(16.0 / 3001)


DIRECTIONS = replace(CLIP, normalise=True)
STRETCHED = replace(DIRECTIONS, stretch=(np.linalg.qr(np.vander(np.arange(23.0), 3))[0].T, 0.05))


@pytest.mark.parametrize(
    "clip", [CLIP, DIRECTIONS, STRETCHED], ids=["clipped", "normalised", "stretched"]
)
def test_bit_identical_under_order_chunking_threads_layout_and_source(rows, tmp_path, clip):
    expected = second_moment(open_rows(rows), clip, REPLACE).value.units
    shuffled = np.random.default_rng(1).permutation(rows)
    np.save(tmp_path / "rows.npy", rows)
    header = ",".join(f"c{i}" for i in range(23))
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header=header, comments="", fmt="%.17g")
    pieces = [rows[:1], rows[1:8], rows[8:2500], rows[2500:2500], rows[2500:]]
    wide = np.zeros((3001, 46))
    wide[:, ::2] = rows
    others = [
        shuffled,
        np.asfortranarray(rows),
        wide[:, ::2],
        rows[::-1],
        tmp_path / "rows.npy",
        tmp_path / "rows.csv",
        iter(pieces),
        IterableSource(pieces),
    ]
    for other in others:
        assert np.array_equal(second_moment(open_rows(other), clip, REPLACE).value.units, expected)
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            assert np.array_equal(
                second_moment(open_rows(rows), clip, REPLACE).value.units, expected
            )


def test_bit_identical_through_parquet(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({f"c{i}": rows[:, i] for i in range(23)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    expected = second_moment(open_rows(rows), CLIP, REPLACE).value.units
    got = second_moment(open_rows(tmp_path / "rows.parquet"), CLIP, REPLACE).value.units
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_many_rows_near_the_bound_stay_exact(d):
    """300,000 rows of norm one: more than float64 holds, whatever the blocks."""
    clip = Clip(row_norm=1.0)
    rows = np.random.default_rng(d).uniform(-0.1, 0.1, size=(300_000, d))
    rows[:, 0] += 1.0
    moment, sums = naive(rows, clip)
    assert moment[0, 0] > 1 << 53
    for table in (rows, rows[::-1], iter(np.array_split(rows, 7))):
        assert np.array_equal(second_moment(open_rows(table), clip, REPLACE).value.units, moment)
    assert np.array_equal(total(open_rows(rows), clip, REPLACE).value.units, sums)


class Repeated(RowSource):
    """One chunk again and again."""

    def __init__(self, chunk, times):
        self.n_columns = chunk.shape[1]
        self._chunk, self._times = chunk, times

    def chunks(self):
        """Yield the chunk."""
        return itertools.repeat(self._chunk, self._times)


def test_several_moments_take_one_pass(rows):
    class Counted(ArraySource):
        passes = 0

        def chunks(self):
            self.passes += 1
            return super().chunks()

    clips = (Clip(row_norm=3.0), Clip(row_norm=1.0, normalise=True), Clip(row_norm=2.0, lift=0.5))
    source = Counted(rows)
    together = gram.second_moments(source, clips, Adjacency.REPLACE_ONE)
    assert source.passes == 1
    for moment, clip in zip(together, clips, strict=True):
        alone = second_moment(ArraySource(rows), clip, Adjacency.REPLACE_ONE)
        assert np.array_equal(moment.value.units, alone.value.units)
        assert (moment.unit, moment.count) == (alone.unit, alone.count)


def test_sums_beyond_int64_are_exact():
    """2^27 rows and more on the sphere: the sum of their squares passes 2^63."""
    chunk = np.random.default_rng(4).choice([-1.0, 1.0], size=(1 << 20, 1))
    clip = Clip(row_norm=1.0)
    once = second_moment(open_rows(chunk), clip, REPLACE).value.units
    large = second_moment(Repeated(chunk, 130), clip, REPLACE)
    assert large.count == 130 << 20
    assert large.value.units.tolist() == [[130 * int(once[0, 0])]]
    assert large.value.units[0, 0] > 2**63


def test_a_release_has_the_same_bits_however_early_sums_leave_int64(monkeypatch):
    """With a limit of 30 bits for 63, nearly every sum is one of Python's integers."""
    rows = np.random.default_rng(5).standard_normal((3000, 6)) * (9, 6, 1, 1, 1, 1) + 1
    ids = np.random.default_rng(6).integers(0, 900, 3000)
    bound_to = SimulationSource.bound_to

    def by_value(self, query):
        return bound_to(self, query.astype(np.int64) if query.dtype == object else query)

    def released():
        options = {"epsilon": 9.0, "delta": 1e-6, "random_state": 1}
        for mechanism in ("auto", "power", "tangent", "oja", "gap-projector", "wishart"):
            yield PrivatePCA(2, mechanism=mechanism, **options).fit(rows).components_
        for adjacency in ("replace_one", "add_remove"):
            for mechanism in ("adaptive", "separate", "adaptive-cleaned", "exponential"):
                model = PrivateCovariance(
                    mechanism=mechanism, row_norm=20.0, adjacency=adjacency, **options
                )
                yield model.fit(rows).covariance_
            alike = PrivateCovariance(adjacency=adjacency, scale="same", **options)
            yield alike.fit(rows).covariance_
        yield PrivatePCA(2, **options).fit(rows, groups=ids).components_

    expected = list(released())
    monkeypatch.setattr(integers, "LARGEST", 1 << 30)
    monkeypatch.setattr(SimulationSource, "bound_to", by_value)
    for found, before in zip(released(), expected, strict=True):
        assert np.array_equal(found, before)


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(gram, "_ALWAYS_ROWS", 4)
    monkeypatch.setattr(gram, "_MOST_NUMBERS", 20)
    for source in (open_rows(np.ones((11, 2))), iter([np.ones((6, 2)), np.ones((5, 2))])):
        with pytest.raises(InvalidDataError, match="2 columns may have 10 rows at most: split it"):
            second_moment(open_rows(source), Clip(row_norm=1.0), REPLACE)
    second_moment(open_rows(np.ones((4, 50))), Clip(row_norm=1.0), REPLACE)


def test_the_limits_keep_sums_exact():
    largest = 1 << (2 * FRACTION_BITS)  # what one row adds at most
    assert gram._EXACT_ROWS * largest <= 1 << 53
    assert gram.most_rows(4096) == gram.most_rows(10**6) == 2**27
    assert gram.most_rows(64) == 2**33
    assert gram.most_rows(1) == gram.most_rows(0) == 2**39


class Careless:
    """A source of somebody else's that does not check its chunks."""

    rereadable = True
    feature_names = None
    n_columns = 2

    def __init__(self, *chunks):
        self.stored = chunks

    def chunks(self):
        return iter(self.stored)


@pytest.mark.parametrize("chunk", [np.ones((2, 1)), np.array([["secret", 1]], dtype=object)])
def test_chunks_of_any_source_are_checked(chunk):
    with pytest.raises(InvalidDataError) as caught:
        second_moment(open_rows(Careless(chunk)), Clip(row_norm=1.0), REPLACE)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_sensitivities_and_units(rows):
    replaced, add = (second_moment(open_rows(rows), CLIP, a) for a in (REPLACE, ADD))
    assert (replaced.sensitivity("frobenius"), add.sensitivity("frobenius")) == (math.sqrt(2), 1.0)
    assert replaced.sensitivity("frobenius") ** 2 >= 2
    assert (replaced.sensitivity("nuclear"), add.sensitivity("nuclear")) == (2.0, 1.0)
    assert replaced.sensitivity("l1") ** 2 >= (23**2 + 3 * 23) / 2
    assert add.sensitivity("l1") == 12.0
    with pytest.raises(InvalidParameterError, match="no bound in the l2 norm"):
        replaced.sensitivity("l2")
    assert (replaced.count, add.count) == (3001, None)
    assert (replaced.unit, add.unit) == (16.0 / 3001, 16.0)
    replaced, add = (total(open_rows(rows), CLIP, a) for a in (REPLACE, ADD))
    assert (replaced.sensitivity("l2"), add.sensitivity("l2")) == (2.0, math.sqrt(2))
    assert replaced.sensitivity("l1") >= 2 * math.sqrt(23)
    assert add.sensitivity("l1") >= math.sqrt(23) + 1
    assert (replaced.unit, add.unit) == (4.0 / 3001, 4.0)


def test_a_count_moves_by_one_at_most():
    clip = Clip(row_norm=1.0, on_invalid="zero")
    rows = np.ones((3, 2))
    base = count(open_rows(rows), clip).value.units[0]
    for extra in ([1e308, 1.0], [0.0, 0.0], [np.nan, 1.0]):
        more = count(open_rows(np.vstack([rows, extra])), clip).value.units[0]
        assert 0 <= more - base <= 1 << FRACTION_BITS


def test_invalid_rows_are_not_counted_under_add_remove():
    rows = np.array([[0.5, 0.5], [np.nan, 1.0]])
    clip = Clip(row_norm=1.0, on_invalid="zero")
    assert total(open_rows(rows), clip, ADD).value.units[-1] == 1 << FRACTION_BITS
    counted = count(open_rows(rows), clip)
    assert counted.value.units.tolist() == [1 << FRACTION_BITS]
    assert (counted.sensitivity("l2"), counted.adjacency) == (1.0, ADD)


def test_an_empty_table_is_an_error_only_where_its_size_is_public():
    empty = np.empty((0, 3))
    with pytest.raises(InvalidDataError, match="no rows"):
        second_moment(open_rows(empty), Clip(row_norm=1.0), REPLACE)
    assert not second_moment(open_rows(empty), Clip(row_norm=1.0), ADD).value.units.any()


def test_the_self_test_passes_here_and_catches_a_broken_blas(monkeypatch):
    assert gram.blas_is_exact(gram._accumulate)

    def single_precision(rows, sums):
        return sums + (rows.astype(np.float32).T @ rows.astype(np.float32)).astype(np.float64)

    def off_by_a_bit(rows, sums):
        out = sums + rows.T @ rows
        out[0, -1] += 1.0
        return out

    def single_when_wide(rows, sums):
        return single_precision(rows, sums) if rows.shape[1] > 300 else sums + rows.T @ rows

    for broken in (single_precision, off_by_a_bit, single_when_wide):
        assert not gram.blas_is_exact(broken)
    monkeypatch.setattr(gram, "_accumulate", single_precision)
    assert not second_moment(open_rows(np.ones((2, 2))), Clip(row_norm=1.0), REPLACE).exact


def test_memory_does_not_grow_with_rows():
    import tracemalloc

    def peak(chunks):
        stream = (np.ones((1000, 50)) for _ in range(chunks))
        tracemalloc.start()
        second_moment(open_rows(stream), Clip(row_norm=1.0), REPLACE)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(5)
    assert peak(400) < 1.2 * peak(40)


def test_values_stay_out_of_representations(rows):
    query = second_moment(open_rows(rows), CLIP, REPLACE)
    shown = repr(query) + repr(query.value)
    assert "sensitivities" in shown
    for entry in itertools.chain(query.value.units[0], query.value.to_float()[0]):
        assert str(entry) not in shown


def test_a_count_of_valid_rows_adds_nothing_to_what_a_replaced_row_moves():
    d = 3
    clip = Clip(row_norm=1.0, on_invalid="zero")
    ends = [np.full(d, s * d**-0.5) for s in (1, -1)]
    first = [*ends, np.zeros(d), np.full(d, np.nan), np.array([1.0, 0, 0])]
    bounds = total(open_rows(np.zeros((2, d))), clip, REPLACE, valid=True).sensitivities
    largest = {"l2": 0.0, "l1": 0.0}
    for one, other in itertools.permutations(first, 2):
        moved = [
            total(open_rows(np.vstack([np.zeros(d), row])), clip, REPLACE, valid=True).value
            for row in (one, other)
        ]
        difference = (moved[0].units - moved[1].units) * 2.0**-FRACTION_BITS
        assert len(difference) == d + 1
        largest["l2"] = max(largest["l2"], np.linalg.norm(difference))
        largest["l1"] = max(largest["l1"], np.abs(difference).sum())
    for norm, found in largest.items():
        assert 0.999 * bounds[norm] < found <= bounds[norm]
