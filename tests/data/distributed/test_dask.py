"""Dask collections as tables: the same bits as one machine, however rows are partitioned."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.engines import PartedUnits, SumsOfParts, add
from eigenveil.exact import (
    BasisProduct,
    Clip,
    MomentSum,
    column_counts,
    count,
    distance_counts,
    moment_columns,
    norm_counts,
    second_moment,
    total,
    trace,
)
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics import integers
from eigenveil.privacy import Adjacency
from eigenveil.rows import Divide, PairedSource, count_units, grouped, open_rows, sampled, tables

da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
dask = pytest.importorskip("dask")

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
N, D = 701, 6
ROWS = np.random.default_rng(0).standard_normal((N, D)) * 1.3 + 2
IDS = np.random.default_rng(1).integers(0, 90, N)
CLIP = Clip(row_norm=4.0, centre=np.full(D, 2.0))
VIEW = BasisProduct(np.eye(D)[:, :2])
SKEWED = (1, 0, 600, 7, 93)


@pytest.fixture(autouse=True)
def here():
    """In one thread; `test_cluster.py` has processes."""
    with dask.config.set(scheduler="synchronous"):
        yield


def partitioned(rows, sizes):
    return da.from_array(rows, chunks=(sizes, rows.shape[1]))


def statistics(source, clip=CLIP):
    """Everything that is a sum over rows."""
    for adjacency in (REPLACE, ADD):
        yield second_moment(source, clip, adjacency)
        yield total(source, clip, adjacency)
        yield trace(source, clip, adjacency)
        yield norm_counts(source, clip, adjacency)
        yield distance_counts(source, clip, adjacency)
        yield column_counts(source, clip, adjacency)
        yield moment_columns(source, clip, VIEW, adjacency)
    yield count(source, clip)


def assert_same(source, other):
    for found, expected in zip(statistics(source), statistics(other), strict=True):
        assert np.array_equal(found.value.units, expected.value.units)
        assert (found.unit, found.count) == (expected.unit, expected.count)
        assert found.protects == expected.protects


@pytest.mark.parametrize("sizes", [N, 100, SKEWED], ids=["one", "eight", "skewed"])
def test_sums_have_the_bits_of_one_machine_under_any_partitioning(sizes):
    expected = open_rows(ROWS)
    assert_same(open_rows(partitioned(ROWS, sizes)), expected)
    scale = np.arange(1.0, D + 1)
    scaled = open_rows(partitioned(ROWS, sizes)).map(Divide(scale))
    assert_same(scaled, expected.map(Divide(scale)))


def test_columns_may_be_split_and_numbers_of_rows_unknown():
    split = da.from_array(ROWS, chunks=(200, 4))
    assert_same(open_rows(split), open_rows(ROWS))
    some = partitioned(ROWS, 100)
    kept = some[some[:, 0] > 2]  # nobody knows how many
    assert_same(open_rows(kept), open_rows(ROWS[ROWS[:, 0] > 2]))


def test_a_frame_has_names():
    frame = pd.DataFrame(ROWS, columns=list("abcdef"))
    source = open_rows(dd.from_pandas(frame, npartitions=5))
    assert source.schema.feature_names == tuple("abcdef")
    assert_same(source, open_rows(ROWS))


@pytest.mark.parametrize("kind", ["numbers", "text", "partitioned", "floats and whole numbers"])
def test_persons_across_partitions_are_shuffled_together(kind):
    ids = {
        "numbers": IDS,
        "text": [f" p{i}" if i % 2 else f"p{i} " for i in IDS],
        "partitioned": da.from_array(IDS, chunks=(SKEWED,)),
        "floats and whole numbers": IDS.astype(float),
    }[kind]
    source = grouped(open_rows(partitioned(ROWS, SKEWED)), ids)
    expected = grouped(open_rows(ROWS), IDS)
    assert isinstance(source, PartedUnits)
    assert sorted(source.units.sizes) == sorted(expected.units.sizes)
    assert count_units(source) == len(expected.units.sizes)
    assert_same(source, expected)
    rows, units = source.whole_units()
    assert np.array_equal(np.bincount(units), source.units.sizes)
    assert np.array_equal(np.sort(rows, axis=0), np.sort(ROWS, axis=0))
    with pytest.raises(InvalidParameterError):
        list(source.chunks())


@pytest.mark.parametrize("kind", ["text", "moments", "days"])
def test_spellings_of_an_id_in_different_partitions_are_one_person(kind):
    """A person in two parts would move every sum twice as far as it is allowed to."""
    zones = UTC, timezone(timedelta(hours=5))
    start = datetime(2001, 1, 1, tzinfo=UTC)
    spelled = {
        "text": lambda i, j: f"p{i}" + " " * (j % 2),
        "moments": lambda i, j: (start + timedelta(days=i)).astimezone(zones[j % 2]),
        "days": lambda i, j: (datetime(2001, 1, 1) + timedelta(days=i)).replace(fold=j % 2),
    }[kind]
    ids = np.empty(N, dtype=object)
    ids[:] = [spelled(int(i), j) for j, i in enumerate(IDS)]
    source = grouped(open_rows(partitioned(ROWS, 100)), da.from_array(ids, chunks=100))
    expected = grouped(open_rows(ROWS), IDS)
    assert (
        count_units(source) == count_units(expected) == count_units(grouped(open_rows(ROWS), ids))
    )
    assert_same(source, expected)


def test_ids_that_do_not_fit_are_refused():
    source = open_rows(partitioned(ROWS, 100))
    with pytest.raises(InvalidDataError, match="one id for each row"):
        grouped(source, IDS[:-1])
    with pytest.raises(InvalidDataError, match="partitioned as the rows are"):
        grouped(source, da.from_array(IDS, chunks=200))


def test_a_person_spelled_otherwise_in_another_part_is_the_same():
    source = open_rows(partitioned(ROWS, 100))
    halves = [np.array(["0007"] * 100, dtype=object), np.array([7] * 601, dtype=object)]
    mixed = da.concatenate([da.from_array(half, chunks=100) for half in halves])
    assert grouped(source, mixed.rechunk(100)).units.sizes.tolist() == [N]


@pytest.mark.parametrize("chunks", [5, 1])
def test_groups_of_no_rows_are_no_persons(chunks):
    empty = da.from_array(np.empty((0, D)), chunks=(chunks, D))
    some = partitioned(ROWS, 100)
    for rows in (empty, some[some[:, 0] > 1e9]):
        for ids in ([], np.empty(0, dtype=int)):
            source = grouped(open_rows(rows), ids)
            assert count_units(source) == 0
            assert not second_moment(source, CLIP, ADD).value.units.any()
            with pytest.raises(InvalidDataError, match="no rows"):
                second_moment(source, CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match="one id for each row"):
        grouped(open_rows(some), [])


def test_a_sample_comes_from_where_it_lies():
    chosen = np.array([0, 1, 99, 100, 640, 700])

    def draw(source):
        return sampled(source, 6 / N, REPLACE, lambda n, size: chosen, CLIP.check)

    assert np.array_equal(draw(open_rows(partitioned(ROWS, SKEWED))).whole(), ROWS[chosen])


def test_an_invalid_row_stops_a_run_in_the_same_words():
    rows = ROWS.copy()
    rows[650, 2] = np.nan
    said = []
    for data in (rows, partitioned(rows, 100)):
        with pytest.raises(InvalidDataError) as caught:
            second_moment(open_rows(data), CLIP, REPLACE)
        said.append(caught.value.said("shell"))
    assert said[0] == said[1]
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.said("file") == caught.value.said("file")


def test_what_a_partition_raises_is_not_shown():
    def broken(block):
        raise ValueError(f"secret {block[0, 0]}")

    lost = partitioned(ROWS, 100).map_blocks(broken, dtype=float, meta=np.empty((0, D)))
    with pytest.raises(InvalidDataError, match="could not be computed") as caught:
        second_moment(open_rows(lost), CLIP, REPLACE)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_partitions_that_change_between_passes_are_refused():
    calls = []

    def shrinking(block):
        calls.append(1)
        return block[: len(block) - len(calls)]

    unknown = ((np.nan,) * 8, (D,))
    rows = partitioned(ROWS, 100).map_blocks(shrinking, dtype=float, chunks=unknown)
    source = open_rows(rows)
    assert source.n_rows is None
    source.count_rows()
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        second_moment(source, CLIP, REPLACE)


def shuffled_anew(rows, *, whole):
    """Return rows in an order without a seed: of all of them, or inside every partition."""

    def mixed(block):
        return np.random.default_rng().permutation(block)

    some = rows.rechunk((-1, -1)) if whole else rows
    return some.map_blocks(mixed, dtype=float, meta=np.empty((0, D))).rechunk((100, -1))


@pytest.mark.parametrize(
    "read",
    [
        lambda source: source.whole(),
        lambda source: list(tables(source)),
        lambda source: PairedSource(source, REPLACE, lambda n: np.arange(n)),
        lambda source: grouped(source, IDS).whole_units(),
    ],
    ids=["whole", "chunks", "pairs", "persons"],
)
def test_partitions_of_another_order_are_not_fetched_one_by_one(read):
    """Each would be computed for itself: a record could come two or three times, or never."""
    source = open_rows(shuffled_anew(partitioned(ROWS, 100), whole=True))
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        read(source)


def test_partitions_of_another_order_are_refused_in_another_pass():
    source = open_rows(shuffled_anew(partitioned(ROWS, 100), whole=True))
    second_moment(source, CLIP, REPLACE)  # one pass is of one table
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        second_moment(source, CLIP, REPLACE)


def test_sums_do_not_mind_the_order_inside_a_partition():
    assert_same(open_rows(shuffled_anew(partitioned(ROWS, 100), whole=False)), open_rows(ROWS))


@pytest.mark.parametrize("ids", [IDS, da.from_array(IDS, chunks=100)], ids=["numbers", "dask"])
def test_ids_beside_rows_of_another_order_are_refused(ids):
    source = open_rows(shuffled_anew(partitioned(ROWS, 100), whole=False))
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        grouped(source, ids)
    mixed = da.from_array(IDS, chunks=100).map_blocks(lambda block: np.random.permutation(block))
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        grouped(open_rows(partitioned(ROWS, 100)), mixed)


def test_kept_rows_of_another_order_are_read_as_any():
    kept = shuffled_anew(partitioned(ROWS, 100), whole=True).persist()
    source = open_rows(kept)
    assert_same(source, open_rows(ROWS))
    assert_same(grouped(source, IDS), grouped(open_rows(np.asarray(kept)), IDS))
    assert np.array_equal(source.whole(), np.asarray(kept))


def test_persons_whose_kept_rows_were_lost_and_changed_are_refused():
    source = grouped(open_rows(partitioned(ROWS, 100)), IDS)
    second_moment(source, CLIP, REPLACE)
    parts = source._shuffled._parts
    rows, ids = parts[0].compute()
    parts[0] = dask.delayed((rows, np.roll(ids, 1)))
    for read in (lambda: second_moment(source, CLIP, REPLACE), source.whole_units):
        with pytest.raises(InvalidDataError, match="changed while it was read"):
            read()


def test_a_sample_of_partitions_that_change_is_refused():
    calls = []

    def moving(block):
        calls.append(1)
        return block + len(calls)

    rows = partitioned(ROWS, 100).map_blocks(moving, dtype=float, meta=np.empty((0, D)))
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        sampled(open_rows(rows), 0.5, REPLACE, lambda n, size: np.arange(size), CLIP.check)


def test_a_release_from_rows_without_a_seed_keeps_its_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=4, delta=1e-5)
    rows = shuffled_anew(partitioned(ROWS, 100), whole=True)
    model = PrivatePCA(2, epsilon=1, delta=1e-6, mechanism="oja", ledger=ledger)
    with pytest.raises(InvalidDataError, match="what was charged before stays charged"):
        model.fit(rows)
    assert not hasattr(model, "components_")


def test_numbers_of_rows_that_are_said_are_believed_and_checked():
    """No pass counts what an array says; one that says something else is refused."""
    rows = partitioned(ROWS, SKEWED)
    assert open_rows(rows).n_rows == N
    short = rows.map_blocks(lambda block: block[1:], dtype=float, meta=np.empty((0, D)))
    source = open_rows(short)
    with pytest.raises(InvalidDataError, match="other rows than is said"):
        second_moment(source, CLIP, REPLACE)


def test_a_part_that_is_counted_twice_or_lost_is_refused(monkeypatch):
    source = open_rows(partitioned(ROWS, 100))
    right = source.added

    def twice(what):
        first = what.of(0, source.part(0))
        return add(right(what), first)

    def lost(what):
        sums, seen = right(what)
        return SumsOfParts(sums, seen[seen[:, 0] != 2])

    for wrong in (twice, lost):
        monkeypatch.setattr(source, "added", wrong)
        with pytest.raises(InvalidDataError, match="lost or counted twice"):
            source.summed(MomentSum(CLIP))


def test_sums_of_parts_beyond_int64_are_exact(monkeypatch):
    """Numbers of 31 bits are taken for the largest, so that parts add up to Python's integers."""
    expected = [statistic.value.units for statistic in statistics(open_rows(ROWS))]
    monkeypatch.setattr(integers, "LARGEST", 1 << 31)
    found = [each.value.units for each in statistics(open_rows(partitioned(ROWS, SKEWED)))]
    assert any(units.dtype == object for units in found)
    assert all(map(np.array_equal, found, expected))


def test_a_worker_whose_blas_is_inexact_is_refused(monkeypatch):
    monkeypatch.setattr("eigenveil.engines.parts.sums_are_exact", lambda: False)
    with pytest.raises(InvalidDataError, match="BLAS"):
        second_moment(open_rows(partitioned(ROWS, 100)), CLIP, REPLACE)


def test_parts_of_other_widths_are_refused():
    other = dask.delayed(ROWS[:, :1])
    source = open_rows(partitioned(ROWS, 100))
    source._parts[3] = other
    with pytest.raises(InvalidDataError, match="same number of columns"):
        second_moment(source, CLIP, REPLACE)


def test_estimators_release_the_same_from_a_cluster_as_from_memory():
    rows = partitioned(ROWS, SKEWED)
    options = {"epsilon": 8.0, "delta": 1e-6, "random_state": 3}
    models = []
    for mechanism in ("auto", "tangent", "spherical", "oja"):
        models = [PrivatePCA(2, mechanism=mechanism, **options).fit(X) for X in (ROWS, rows)]
        assert np.array_equal(models[0].components_, models[1].components_), mechanism
        assert np.array_equal(models[0].mean_, models[1].mean_)
    assert np.allclose(models[1].transform(rows), models[0].transform(ROWS))
    models = [PrivateCovariance(row_norm=9.0, **options).fit(X, groups=IDS) for X in (ROWS, rows)]
    assert np.array_equal(models[0].covariance_, models[1].covariance_)


MIXED = np.random.default_rng(2).standard_normal((3000, D))
MIXED[:, 1:3] += 2 * MIXED[:, :1]
MIXED[:, 4:] -= 3 * MIXED[:, 3:4]
MIXED = MIXED * 10.0 ** np.arange(-2, 4) + 5  # two components of three columns in other units
OWNERS = np.random.default_rng(3).integers(0, 1500, len(MIXED))


def components(rows, **options):
    """A seeded release of standardised columns."""
    model = PrivatePCA(2, epsilon=2.0, delta=1e-6, scale="private", random_state=4, **options)
    return model.fit(rows)


def assert_right(model):
    """Its draws are others; what it estimates is the same."""
    truth = np.corrcoef(MIXED.T)
    held = np.einsum("ij,jk,ik->", model.components_, truth, model.components_)
    assert held > 0.97 * np.linalg.eigvalsh(truth)[-2:].sum()
    np.testing.assert_allclose(model.scale_, MIXED.std(axis=0), rtol=0.15)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["array", "frame", "parquet", "parquet by Dask"])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_standardised_components_are_the_same_from_everywhere(kind, adjacency, tmp_path):
    frame = pd.DataFrame(MIXED, columns=list("abcdef"))
    if kind.startswith("parquet"):
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    rows = {
        "array": lambda: partitioned(MIXED, (1000, 1, 1999)),
        "frame": lambda: dd.from_pandas(frame, npartitions=3),
        "parquet": lambda: tmp_path / "t.parquet",
        "parquet by Dask": lambda: dd.read_parquet(tmp_path / "t.parquet"),
    }[kind]()
    found, expected = (components(one, adjacency=adjacency) for one in (rows, MIXED))
    assert found.mechanism_ == "correlation"
    assert found.privacy_.cost == expected.privacy_.cost
    assert_right(found)
    if adjacency == "add-remove":  # rows are drawn at random, in the order of the collection
        return
    for name in ("components_", "mean_", "scale_", "explained_variance_"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_standardised_components_of_persons_are_right_from_a_cluster():
    """Pairs of persons, of which scales are found, are others after a shuffle."""
    rows = partitioned(MIXED, (1000, 1, 1999))
    ids = da.from_array(OWNERS, chunks=((1000, 1, 1999),))
    model = PrivatePCA(2, epsilon=2.0, delta=1e-6, scale="private", random_state=4)
    spent = []
    for table, owners in ((rows, ids), (MIXED, OWNERS)):
        assert_right(model.fit(table, groups=owners))
        spent.append(model.privacy_.cost)
    assert spent[0] == spent[1]


def test_other_collections_are_refused():
    for data in (dask.delayed(ROWS), da.ones(5), da.ones((2, 2, 2))):
        with pytest.raises(InvalidDataError, match="Dask"):
            open_rows(data)
