import sys
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from eigenveil.data.batches import Batches
from eigenveil.data.source import (
    ArraySource,
    IterableSource,
    PairedSource,
    RowSource,
    ScaledSource,
    as_table,
    held,
    open_rows,
    sampled,
)
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    UnsupportedNotionError,
)
from eigenveil.privacy.adjacency import Adjacency

SECRET = "patient-4711"


def read(data, **options):
    return np.concatenate(list(open_rows(data, **options).chunks()))


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("age,name,height\n31,ann,1.7\n,bob,1.8\n\n45,eve,1.6\n")
    return path


def test_csv_columns_by_name_and_empty_cells(csv):
    got = read(csv, columns=["height", "age"])
    assert np.array_equal(got, [[1.7, 31.0], [1.8, np.nan], [1.6, 45.0]], equal_nan=True)
    assert open_rows(csv, columns=["age"]).feature_names == ("age",)


def test_csv_rows_that_cannot_be_read_are_missing_values(tmp_path):
    """A function of that record alone: text, an uneven line, a stray byte."""
    path = tmp_path / "t.csv"
    path.write_bytes(f"a,b\n1,{SECRET}\n2,3\n4\n5,6,7\n\xff,8\n".encode("latin-1"))
    nan = np.nan
    expected = [[1, nan], [2, 3], [nan, nan], [nan, nan], [nan, 8]]
    assert np.array_equal(read(path), expected, equal_nan=True)


def test_a_blank_line_is_a_missing_value_where_records_are_one_cell(tmp_path):
    """Otherwise the number of rows, public under replace-one, would depend on a value."""
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n\n3\n")
    assert np.array_equal(read(path), [[1], [np.nan], [3]], equal_nan=True)


@pytest.mark.parametrize(
    "content",
    ["", "1,2\n3,4\n", "a,a\n1,2\n", "a,b\n1," + "9" * 200_000],
    ids=["empty", "no names", "same name", "huge cell"],
)
def test_csv_without_names_or_out_of_range(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(InvalidDataError) as caught:
        read(path)
    assert "999" not in str(caught.value)


RECORDS = {
    "semicolons": b"SSN 123-45-6789;4711.5;secret\n1;2;3\n",
    "decimal commas": b"Meier;4711,5;secret\n1;2;3\n",
    "tabs": b"Meier\t4711\tsecret\n",
    "bars": b"Meier|4711|secret\n",
    "binary": b"PK\x03\x04Meier,secret\n",
    "not UTF-8": b"M\xfcller,secret\n",
    "a quote over lines": b'"a,b\nMeier,4711\nMeier,secret\n',
    "a telephone number": b"Meier,030/4711-12,secret\n",
    "a date": b"Meier,2020-02-03,secret\n",
    "a number": b"Meier,12,secret\n",
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("columns", [None, ["other"]])
def test_a_first_line_that_may_be_a_record_is_not_quoted(tmp_path, name, columns):
    path = tmp_path / "t.csv"
    path.write_bytes(RECORDS[name])
    with pytest.raises(InvalidDataError, match=r"^t\.csv ") as error:
        open_rows(path, columns=columns)
    for cell in ("123", "4711", "secret", "Meier", "2020"):
        assert cell not in str(error.value)


def test_names_with_digits_and_marks_are_names(tmp_path):
    names = ("1007_s_at", "rs123", "k__A|p__B", "rate; %", "2ndFloor", "$")
    path = tmp_path / "t.csv"
    path.write_text(",".join(names) + "\n1,2,3,4,5,6\n")
    assert open_rows(path).feature_names == names


def test_csv_with_an_unnamed_index(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a\n0,5\n1,6\n")
    with pytest.raises(InvalidDataError, match="row index"):
        open_rows(path)
    assert np.array_equal(read(path, columns=["a"]), [[5], [6]])


def test_csv_in_another_encoding_says_what_to_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(InvalidDataError, match="not in UTF-8"):
        read(path)


def test_csv_in_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.data.files._CSV_LINES", 7)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n" * 15 + "".join(f"{i},{-i}\n" for i in range(50)))
    assert np.array_equal(read(path), [[i, -i] for i in range(50)])


def test_parquet_types_nulls_and_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    table = {"a": [1, 2, None], "b": [0.5, None, 1.5], "t": [SECRET] * 3, "f": [True, False, True]}
    pq.write_table(pa.table(table), path, row_group_size=2)
    got = read(path, columns=["f", "a", "b"])
    expected = [[1, 1, 0.5], [0, 2, np.nan], [1, np.nan, 1.5]]
    assert np.array_equal(got, expected, equal_nan=True)
    with pytest.raises(InvalidDataError, match="column 't' does not hold numbers"):
        open_rows(path)


def test_parquet_index_and_repeated_names(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    named = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([7, 9], name="patient"))
    for frame in (named, named.rename_axis(None)):
        frame.to_parquet(path)
        assert open_rows(path).feature_names == ("a",)
    named.to_parquet(path)
    assert np.array_equal(read(path, columns=["patient"]), [[7], [9]])
    named[[]].to_parquet(path)
    with pytest.raises(InvalidDataError, match="no columns"):
        open_rows(path)
    named.to_parquet(path)
    assert np.array_equal(read(path), [[1.0], [2.0]])
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), path)
    with pytest.raises(InvalidDataError, match="same name"):
        open_rows(path)


def test_damaged_files(tmp_path):
    pytest.importorskip("pyarrow")
    for name in ("t.parquet", "t.npy"):
        path = tmp_path / name
        path.write_bytes(b"PAR1 truncated")
        with pytest.raises(InvalidDataError, match="not a readable"):
            open_rows(path)


def test_a_parquet_file_cut_short_inside_a_column(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).standard_normal(5000)}), path)
    content = bytearray(path.read_bytes())
    content[4:80] = bytes(76)
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match="damaged or truncated"):
        read(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eigenveil\[parquet\]'"):
        open_rows(path)


def test_a_flat_npy_says_so(tmp_path):
    np.save(tmp_path / "t.npy", np.ones(3))
    with pytest.raises(InvalidDataError, match="two-dimensional"):
        open_rows(tmp_path / "t.npy")


def test_an_impossible_path_is_no_file():
    with pytest.raises(InvalidDataError, match="no file"):
        open_rows("x" * 5000 + ".csv")


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidDataError):
        open_rows(tmp_path / "t.npy")


def test_iterators_are_read_once_and_iterables_again():
    pieces = [np.ones((2, 3)), np.zeros((1, 3))]
    once, again = open_rows(iter(pieces)), IterableSource(pieces)
    assert (once.rereadable, again.rereadable) == (False, True)
    assert once.n_columns == again.n_columns == 3
    assert len(np.concatenate(list(once.chunks()))) == 3
    with pytest.raises(InvalidDataError, match="read already"):
        list(once.chunks())
    for _ in range(2):
        assert len(np.concatenate(list(again.chunks()))) == 3


def test_tables_in_memory_and_streams_are_told_apart():
    class Again:
        def __iter__(self):
            return iter([np.ones((2, 3)), np.zeros((1, 3))])

    for table in ([[1, 2], [3, 4]], pd.DataFrame({"a": [1, 2]}), np.ones((2, 2))):
        assert isinstance(open_rows(table), ArraySource)
    source = open_rows(Again())
    assert isinstance(source, IterableSource)
    assert source.rereadable

    class Once:
        def __init__(self):
            self.shared = iter([np.ones((2, 3)), np.zeros((1, 3))])

        def __iter__(self):
            return self.shared

    once = open_rows(Once())
    assert not once.rereadable
    assert len(np.concatenate(list(once.chunks()))) == 3


def test_missing_values_of_nullable_frames_are_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.5, 1.5]})
    assert np.array_equal(as_table(frame), [[1, 0.5], [np.nan, 1.5]], equal_nan=True)


def test_every_source_follows_the_protocol(csv):
    for source in (ArraySource(np.ones((2, 2))), IterableSource([np.ones((1, 1))]), open_rows(csv)):
        assert isinstance(source, RowSource)
        assert open_rows(source) is source


@pytest.mark.parametrize(
    "data",
    [
        np.ones(3),
        np.ones((2, 2, 2)),
        np.ones((2, 0)),
        np.array([[SECRET]]),
        np.array([[1j]]),
        iter([]),
        42,
        "missing.csv",
        "unknown.xlsx",
    ],
)
def test_unusable_rows_are_refused_in_one_line(data):
    with pytest.raises(InvalidDataError) as caught:
        read(data)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_columns_must_exist(csv, tmp_path):
    with pytest.raises(InvalidDataError, match="no column 'weight': choose from age, name"):
        open_rows(csv, columns=["weight"])
    with pytest.raises(InvalidParameterError, match="one column twice"):
        open_rows(csv, columns=["age", "age"])
    with pytest.raises(InvalidParameterError, match="empty"):
        open_rows(csv, columns=[])
    with pytest.raises(InvalidParameterError, match="slice"):
        open_rows(np.ones((1, 1)), columns=["a"])
    np.save(tmp_path / "t.npy", np.ones((1, 1)))
    with pytest.raises(InvalidParameterError, match="slice"):
        open_rows(tmp_path / "t.npy", columns=["a"])
    other = tmp_path / "t.txt"
    other.write_text("x")
    with pytest.raises(InvalidDataError, match=r"\.npy, \.csv or \.parquet"):
        open_rows(other)


def shuffled(n):
    return np.random.default_rng(n).permutation(n)


def differences(rows):
    return read(PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, shuffled))


def pairs(n):
    """Who is paired with whom, from differences of unit vectors."""
    found = differences(np.eye(n))
    return np.argmax(found, axis=1), np.argmin(found, axis=1)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 50, 501])
def test_every_row_has_one_partner(n):
    first, second = pairs(n)
    assert len(first) == n // 2
    assert len({*first, *second}) == 2 * (n // 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_pairing_depends_on_the_order_alone(seed):
    rows = np.random.default_rng(seed).standard_normal((101, 3)) * 10.0 ** (5 * seed)
    first, second = pairs(101)
    expected = (rows[first] - rows[second]) / 2
    assert np.array_equal(differences(rows), expected)
    for other in (iter(np.array_split(rows, 7)), IterableSource([rows[:1], rows[1:]])):
        assert np.array_equal(differences(other), expected)


def test_partners_are_scattered():
    """A table sorted by a value, or in time, still shows its variance in the differences."""
    first, second = pairs(2000)
    assert (np.abs(first - second) == 1).sum() <= 5
    for period in (1, 2, 10, 1000):
        values = (np.arange(4000) // period % (4000 // period)).astype(float)[:, None]
        spread = 2 * np.mean(differences(values) ** 2)
        assert spread == pytest.approx(values.var(), rel=0.1)


def test_one_row_replaced_is_one_difference_replaced():
    rows = np.random.default_rng(0).standard_normal((31, 4))
    before = differences(rows)
    changed = []
    for i in range(31):
        for row in (np.zeros(4), np.full(4, 1e308), np.full(4, np.nan), rows[(i + 1) % 31]):
            neighbour = rows.copy()
            neighbour[i] = row
            after = differences(neighbour)
            changed.append(int((before != after).any(axis=1).sum()))
    assert sorted(set(changed)) == [0, 1]
    assert changed.count(0) == 4  # of the row that is left out


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, np.bool_, np.longdouble]
)
def test_differences_of_other_dtypes_are_those_of_floats(dtype):
    rows = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 120, (9, 3))
    got = differences(rows.astype(dtype))
    assert got.dtype == np.float64
    assert np.array_equal(got, differences(rows.astype(np.float64)))


@pytest.mark.filterwarnings("error")
def test_differences_neither_overflow_nor_warn():
    assert np.abs(differences([[1.7e308], [-1.7e308]])).item() == 1.7e308
    assert np.isinf(differences([[np.inf], [np.inf]])).all()
    assert np.isinf(differences([[np.nan], [-np.inf]])).all()  # invalid, not missing
    assert np.isinf(differences([[np.inf], [1.0]])).all()
    assert np.isnan(differences([[np.nan], [1.0]])).all()
    scale = np.array([1e-50, np.inf])
    scaled = read(ScaledSource(open_rows([[1e300, 5.0], [1.0, np.inf]]), scale))
    assert np.array_equal(scaled, [[1e300], [1e50]])  # it was a number, and stays one
    missing = read(ScaledSource(open_rows([[np.inf], [np.nan]]), np.array([1e-9])))
    assert np.array_equal(missing, [[np.inf], [np.nan]], equal_nan=True)


def test_sources_leave_the_handling_of_floats_to_their_reader():
    expected = np.geterr()
    rows = open_rows(np.ones((4, 2)))
    for source in (
        PairedSource(rows, Adjacency.REPLACE_ONE, shuffled),
        ScaledSource(rows, np.ones(2)),
    ):
        for _ in source.chunks():
            assert np.geterr() == expected


def test_pairs_need_two_rows_of_a_public_number():
    for rows in (np.empty((0, 2)), np.ones((1, 2))):
        with pytest.raises(InvalidDataError, match="two rows at least"):
            PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, shuffled)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        PairedSource(open_rows(np.ones((4, 2))), Adjacency.ADD_REMOVE, shuffled)


def test_scaled_columns(csv):
    rows = np.array([[2.0, 30.0, 7.0], [4.0, 60.0, 7.0]])
    source = ScaledSource(open_rows(rows), np.array([2.0, 10.0, np.inf]))
    assert np.array_equal(read(source), [[1, 3], [2, 6]])
    assert isinstance(source, RowSource)
    named = ScaledSource(open_rows(csv, columns=["age", "height"]), np.array([1.0, 2.0]))
    assert named.feature_names == ("age", "height")
    assert not ScaledSource(open_rows(iter([rows])), np.ones(3)).rereadable
    assert isinstance(PairedSource(source, Adjacency.REPLACE_ONE, shuffled), RowSource)
    assert np.array_equal(np.abs(differences(source)), [[0.5, 1.5]])


def kept(table, share, source=None, check=lambda rows: None):
    """The rows of a sample whose places a fixed generator draws."""

    def sample(n, size):
        return np.sort(np.random.default_rng(n).choice(n, size, replace=False))

    source = open_rows(table) if source is None else source
    return np.concatenate(
        list(sampled(source, share, Adjacency.REPLACE_ONE, sample, check).chunks())
    )


def test_a_sample_is_one_of_the_drawn_places():
    table = np.arange(90_000.0).reshape(-1, 3)
    rows = kept(table, 0.1)
    assert len(rows) == 3000
    # The same places of any other table, however it comes in chunks.
    other = np.random.default_rng(0).standard_normal(table.shape)
    places = (rows[:, 0] / 3).astype(int)
    # Whatever entries are, and whatever a row of its type does when it is read.
    strange = np.full((len(table), 3), 1.0, dtype=np.longdouble)
    strange[places[::2]] = np.longdouble("1e400")  # infinite where it is a double
    strange[places[1::4]] = np.nan
    strange[places[3::4]] = -1e308
    assert len(kept(strange, 0.1)) == len(places)
    assert np.array_equal(kept(other, 0.1), other[places])
    pieces = IterableSource(np.array_split(other, 7))
    assert np.array_equal(kept(None, 0.1, pieces), other[places])
    assert np.array_equal(
        kept(None, 0.1, ScaledSource(open_rows(other), np.array([1, 2.0, np.inf]))),
        other[places][:, :2] / [1, 2.0],
    )


def test_a_sample_is_drawn_once_every_row_was_seen_and_needs_a_public_count():
    seen = []

    def sample(n, size):
        assert sum(seen) == n == 70_000
        return np.arange(size)

    def note(rows):
        seen.append(len(rows))

    sampled(open_rows(np.ones((70_000, 40))), 0.01, Adjacency.REPLACE_ONE, sample, note)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        sampled(open_rows(np.ones((4, 1))), 0.5, Adjacency.ADD_REMOVE, sample, note)
    everything = open_rows(np.ones((4, 1)))
    assert sampled(everything, 1.0, Adjacency.ADD_REMOVE, sample, note) is everything


def test_chunks_that_fill_the_same_memory_again_are_held_as_they_were():
    def refilled():
        memory = np.empty((2, 3))
        for start in (0.0, 1.0, 2.0):
            memory[:] = start
            yield memory

    class Chunks:
        def __iter__(self):
            return refilled()

    assert held(IterableSource(Chunks())).array[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_chunks_may_state_their_columns_and_then_there_may_be_none():
    source = IterableSource(iter([]), n_columns=3)
    assert (source.n_columns, list(source.chunks())) == (3, [])
    with pytest.raises(InvalidParameterError, match="n_columns"):
        IterableSource([], n_columns=0)
    with pytest.raises(InvalidDataError, match="no rows"):
        IterableSource([])


def test_numbers_beyond_all_floats_are_the_affair_of_their_row():
    """No warning, and no refusal of the table."""
    wide = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.longdouble)
    wide[1, 0] = np.longdouble("1e4000")
    for table in (wide.astype(object), np.ma.array(wide), [[1.0, 2.0], [10**400, 4.0]]):
        rows = as_table(table)
        assert np.isinf(rows[1, 0])
        assert (rows[0] == [1.0, 2.0]).all()


def cells(*entries):
    """An array of objects: the entries, one in a row, beside a column of ones."""
    table = np.ones((len(entries), 2), dtype=object)
    for row, entry in zip(table, entries, strict=True):
        row[0] = entry
    return table


class Strange:
    def __float__(self):
        raise RuntimeError(SECRET)


ENTRIES = [
    (SECRET, np.nan),
    ("", np.nan),
    (" 1.5 ", 1.5),
    (b"1.5", 1.5),
    (None, np.nan),
    (pd.NA, np.nan),
    (Decimal("2.5"), 2.5),
    (Fraction(1, 4), 0.25),
    (True, 1.0),
    (10**400, np.inf),
    (np.float32(0.5), 0.5),
    (1j, np.nan),
    (np.complex64(1j), np.nan),
    (date(2020, 2, 3), np.nan),
    (np.datetime64("2020-02-03"), np.nan),
    (np.timedelta64(7, "s"), np.nan),
    ([1.0], np.nan),
    (np.array([1.0]), np.nan),
    ({"a": 1}, np.nan),
    (Strange(), np.nan),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("other", [0.5, SECRET, 10**400, 1j])
def test_an_entry_is_converted_by_itself(other):
    """Whatever is in other rows; one that is no number makes its own row invalid."""
    for entry, expected in ENTRIES:
        rows = as_table(cells(other, entry, 7))
        assert np.array_equal(rows[1:], [[expected, 1], [7, 1]], equal_nan=True)
    masked = np.ma.array(cells(other, 3, 7), mask=[[0, 0], [0, 0], [1, 0]])
    assert np.array_equal(as_table(masked)[1:], [[3, 1], [np.nan, 1]], equal_nan=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("entry", [SECRET, b"text", 1j, date(2020, 2, 3), np.datetime64("2020")])
def test_a_list_has_no_type_but_that_of_its_entries(entry):
    for rows in ([[1.0, 2.0], [entry, 4.0]], [(1.0, 2.0), (entry, 4.0)]):
        assert np.array_equal(as_table(rows), [[1, 2], [np.nan, 4]], equal_nan=True)


@pytest.mark.parametrize(
    "table",
    [
        [[1.0, 2.0], [3.0]],
        [[1.0, 2.0], [3.0, [4.0]]],
        [SECRET, SECRET],
        np.array([[1.0, 2.0], [3.0]], dtype=object),
        np.array([["1", "2"]]),
        np.array([[b"1", b"2"]]),
        np.ma.array([["1", "2"]]),
        np.ma.array([[1j, 2.0]]),
        np.array([["2020-02-03"]], dtype="M8[D]"),
        np.zeros((2, 2), dtype=[("a", float)]),
    ],
)
def test_what_is_no_table_of_numbers_by_type_or_shape_is_refused(table):
    with pytest.raises(InvalidDataError):
        as_table(table)


def test_batches_of_an_array_are_views_of_it():
    """Copying them took longer than all products with them."""
    rows = np.zeros((50_000, 100))  # several chunks
    reader = Batches(ArraySource(rows), Adjacency.REPLACE_ONE)
    sizes = []
    while (batch := reader.take(30_000)) is not None:
        assert np.shares_memory(batch.array, rows)
        sizes.append(len(batch.records))
    assert sizes == [30_000, 20_000]
