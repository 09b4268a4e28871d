"""Files: records that are one line each, files that change, and files that are odd."""

import csv
import json
import os
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.cli.rows import StdinSource
from eigenveil.data.gram import public_rows
from eigenveil.data.groups import GroupedSource
from eigenveil.data.source import ArraySource, NpySource, open_rows, tables
from eigenveil.exceptions import InvalidDataError

SECRET = "patient-4711"
CHANGED = r"^the file changed while it was read: read it again$"


def refused(action):
    """The one line of a refusal, which shows no cell."""
    with pytest.raises(InvalidDataError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


def rows_of(source):
    return np.concatenate(list(tables(source)))


# A record of a CSV file is one line.

LINES = [f"{i},{i % 7},{i % 5}" for i in range(306)]


def with_cells(**lines):
    """A table of 306 records in which some lines, counted with the header, are others."""
    content = ["a,note,who", *LINES]
    for number, line in lines.items():
        content[int(number[1:]) - 1] = line
    return "\n".join(content) + "\n"


DAMAGED = {
    # the line that is named, and the file
    "a quote that is never closed": (8, with_cells(_8=f'5,"{SECRET},1')),
    "two stray quotes in two rows": (8, with_cells(_8=f'5,"{SECRET},1', _200='5,6",1')),
    "a line break in a cell": (4, with_cells(_4=f'5,"{SECRET}\n6",1')),
    "text after a closing quote": (3, with_cells(_3=f'5,"{SECRET}"7,1')),
    "a NUL": (307, with_cells(_307="5,\0,1")),
    "a cell without end": (2, with_cells(_2=f"5,{'9' * (csv.field_size_limit() + 1)},1")),
    "a quote in the first line": (1, with_cells(_1=f'a,"note {SECRET},who')),
    "a quote on the last line, which has no end": (307, with_cells(_307='5,"6,1')[:-1]),
}


@pytest.mark.parametrize("batch", [3, 1 << 14])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_record_that_is_not_one_line_is_refused_by_its_number(name, batch, tmp_path, monkeypatch):
    """Silently, the 306 records were 6: what is published, and what noise is calibrated to."""
    line, content = DAMAGED[name]
    monkeypatch.setattr("eigenveil.data.files._CSV_LINES", batch)
    path = tmp_path / "t.csv"
    path.write_text(content, newline="")
    sources = [
        lambda: open_rows(path, columns=["a"]),
        lambda: StdinSource(content, ["a"]),
    ]
    readings = [lambda source: source.n_rows, rows_of]
    for opened in sources:
        for read in readings:
            message = refused(lambda read=read, opened=opened: read(opened()))
            assert f"line {line}: remove stray quotes" in message
            assert "save the table as parquet" in message
    for read in (
        lambda source: list(source.labels()),
        lambda source: list(source.labelled_chunks()),
    ):
        message = refused(lambda read=read: read(open_rows(path, ["a"], "who").rows))
        assert f"line {line}:" in message


def covariance(folder, adjacency):
    """An estimator that pays from a new ledger, and lets invalid rows contribute nothing."""
    ledger = Ledger.create(folder / "a.ledger", epsilon=1, delta=1e-6, adjacency=adjacency)
    options = {"epsilon": 1, "delta": 1e-6, "row_norm": 9.0, "on_invalid": "zero"}
    return PrivateCovariance(**options, adjacency=adjacency, ledger=ledger)


NEIGHBOURS = pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])


@NEIGHBOURS
def test_a_stray_quote_charges_nothing(adjacency, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(DAMAGED["two stray quotes in two rows"][1])
    private = covariance(tmp_path, adjacency)
    assert "line 8:" in refused(lambda: private.fit(open_rows(path, ["a", "who"])))
    assert private.ledger.entries == ()


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,2\n3,4\n",
        b"a,b\n1,2\n3,4",
        b"a,b\r\n1,2\r\n3,4\r\n",
        b"a,b\r\n1,2\r\n3,4",
        b"a,b\r1,2\r3,4\r",
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        b"a,b\n\n1,2\n\n\n3,4\n\n",
        b'"a",b\n"1","2"\n3,"4"\n',
        b'a,b,c\n1,2,"x, ""y"""\n3,4,5\' 11"\n',
    ],
)
@pytest.mark.parametrize("batch", [1, 1 << 14])
def test_files_that_are_as_they_should_be(content, batch, tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.data.files._CSV_LINES", batch)
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    for source in (
        open_rows(path, ["a", "b"]),
        StdinSource(content.decode("utf-8-sig"), ["a", "b"]),
    ):
        assert np.array_equal(rows_of(source), [[1, 2], [3, 4]])
        assert source.n_rows == 2


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.data.files._CSV_BLOCK", 10)
    path = tmp_path / "t.csv"
    path.write_text(with_cells())
    assert open_rows(path).n_rows == 306
    path.write_text(with_cells(_150="1,\0,2"))
    assert "line 150:" in refused(lambda: open_rows(path).n_rows)


# All passes see one file.


def stored(folder, kind, rows):
    """A file of these rows; large ones of .npy are not held in memory."""
    path = folder / f"t.{kind}"
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    match kind:
        case "csv":
            frame.to_csv(path, index=False)
        case "parquet":
            frame.to_parquet(path)
        case "npy":
            np.save(path, rows)
    return path


@pytest.fixture
def out_of_core(monkeypatch):
    """Every .npy file counts as large, and chunks are of seven rows of three numbers."""
    monkeypatch.setattr("eigenveil.data.npy._WHOLE_BYTES", 100)
    monkeypatch.setattr("eigenveil.data.npy._CHUNK_BYTES", 7 * 24)
    monkeypatch.setattr("eigenveil.data.files._CSV_LINES", 7)
    monkeypatch.setattr("eigenveil.data.files._BATCH_BYTES", 7 * 24)


TABLE = np.random.default_rng(3).standard_normal((50, 3)).round(3)
KINDS = pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])


def grow(path):
    with path.open("ab") as stream:
        stream.write(path.read_bytes()[-100:])


def shrink(path):
    os.truncate(path, path.stat().st_size // 2)


def exchange(path):
    """Another file of the same size and time."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def touch(path):
    os.utime(path, ns=(0, 0))


@KINDS
@pytest.mark.parametrize("change", [grow, shrink, exchange, touch, os.unlink])
def test_a_file_that_changes_between_passes_is_refused(change, kind, tmp_path, out_of_core):
    path = stored(tmp_path, kind, TABLE)
    source = open_rows(path)
    assert np.array_equal(rows_of(source), TABLE)
    change(path)
    with pytest.raises(InvalidDataError, match=CHANGED):
        next(tables(source))


@KINDS
@pytest.mark.parametrize("change", [grow, exchange, touch, os.unlink])
def test_a_file_that_changes_during_a_pass_is_refused(change, kind, tmp_path, out_of_core):
    path = stored(tmp_path, kind, TABLE)
    chunks = tables(open_rows(path))
    next(chunks)
    change(path)
    with pytest.raises(InvalidDataError, match=CHANGED):
        list(chunks)


@KINDS
def test_a_file_that_is_cut_short_during_a_pass_is_refused(kind, tmp_path, out_of_core):
    """Of a memory map, pages would vanish and end the process."""
    path = stored(tmp_path, kind, np.resize(TABLE, (50_000, 3)))
    chunks = tables(open_rows(path))
    next(chunks)
    shrink(path)
    message = refused(lambda: list(chunks))
    assert "changed while it was read" in message or "damaged or truncated" in message


def test_as_many_rows_in_every_pass(tmp_path):
    """Where size and time do not tell."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    source = open_rows(path)
    assert source.n_rows == 2
    before = path.stat()
    path.write_text("a,b\n1,22222\n")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InvalidDataError, match=CHANGED):
        rows_of(source)


@KINDS
@NEIGHBOURS
@pytest.mark.parametrize("during", [False, True])
def test_a_changed_file_charges_nothing(kind, adjacency, during, tmp_path, out_of_core):
    path = stored(tmp_path, kind, TABLE)
    source = open_rows(path)
    read = source.chunks

    def chunks():
        for number, chunk in enumerate(read()):
            if during and number == 1:
                touch(path)
            yield chunk

    source.chunks = chunks
    if not during:
        grow(path)
    private = covariance(tmp_path, adjacency)
    assert "changed while" in refused(lambda: private.fit(source))
    assert private.ledger.entries == ()


def test_a_pass_that_is_given_up_refuses_nothing(tmp_path, out_of_core):
    for kind in ("csv", "parquet", "npy"):
        chunks = tables(open_rows(stored(tmp_path, kind, TABLE)))
        next(chunks)
        chunks.close()


def test_a_small_npy_outlives_its_file(tmp_path):
    """Read on, a memory map of it would have ended the process by SIGBUS."""
    np.save(tmp_path / "t.npy", np.ones((200_000, 3)))
    script = (
        "import os, sys, numpy; from eigenveil import open_rows; source = open_rows(sys.argv[1]); "
        "os.truncate(sys.argv[1], 100); assert sum(chunk.sum() for chunk in source.chunks()) == 6e5"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "t.npy"], check=True)


# Large .npy files.


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">i2", "|u1", "|b1"])
def test_chunks_of_a_large_npy_are_its_rows(dtype, order, tmp_path, out_of_core):
    rows = np.asarray(np.abs(TABLE * 90).astype(dtype), order=order)
    np.save(tmp_path / "t.npy", rows)
    source = open_rows(tmp_path / "t.npy")
    assert isinstance(source, NpySource)
    for _ in range(2):
        chunks = list(source.chunks())
        assert [len(chunk) for chunk in chunks] == [7] * 7 + [1]
        assert all(chunk.dtype == rows.dtype for chunk in chunks)
        assert np.array_equal(np.concatenate(chunks), rows)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_small_npy_is_an_array(order, tmp_path):
    for rows in (np.asarray(TABLE, order=order), np.empty((0, 3))):
        np.save(tmp_path / "t.npy", rows)
        source = open_rows(tmp_path / "t.npy")
        assert isinstance(source, ArraySource)
        assert np.array_equal(source.array, rows)


def test_a_large_npy_knows_its_rows_and_holds_a_chunk_only(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.data.npy._WHOLE_BYTES", 1 << 12)
    monkeypatch.setattr("eigenveil.data.npy._CHUNK_BYTES", 1 << 18)
    np.save(tmp_path / "t.npy", np.ones((1 << 17, 8)))  # 32 chunks
    tracemalloc.start()
    try:
        source = open_rows(tmp_path / "t.npy")
        assert public_rows(source) == 1 << 17
        assert tracemalloc.get_traced_memory()[1] < 1 << 17
        assert sum(chunk.sum() for chunk in source.chunks()) == 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 4 << 18
    finally:
        tracemalloc.stop()
    with pytest.raises(InvalidDataError, match="one id for each row"):
        GroupedSource(source, np.zeros(5))


@pytest.mark.parametrize("centring", ["located", "paired"])
def test_a_release_does_not_depend_on_how_a_npy_is_read(centring, tmp_path, out_of_core):
    np.save(tmp_path / "t.npy", TABLE)
    fits = [
        PrivatePCA(1, epsilon=9, delta=1e-6, centring=centring, random_state=0).fit(rows)
        for rows in (TABLE, tmp_path / "t.npy")
    ]
    assert np.array_equal(fits[0].components_, fits[1].components_)


# Odd files end in one line.


def npy(header, version=(1, 0), length=None, data=bytes(96)):
    text = header.encode("latin-1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def described(shape="(4, 3)", descr="'<f8'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


ODD = {
    "no bytes": b"",
    "magic alone": b"\x93NUMPY\x01\x00",
    "a version of the future": npy(described(), (9, 9)),
    "an overflow": npy(described(f"({2**62}, {2**62})")),
    "too many rows": npy(described("(5, 3)")),
    "negative rows": npy(described("(-4, 3)")),
    "negative columns": npy(described("(-4, -3)")),
    "no rows and too many columns": npy(described(f"(0, {10**15})")),
    "no columns": npy(described(f"({10**15}, 0)")),
    "truth for a size": npy(described("(4.0, 3)")),
    "one dimension": npy(described("(12,)")),
    "three dimensions": npy(described("(2, 2, 3)")),
    "objects": npy(described(descr="'|O'")),
    "fields": npy(described(descr="[('a', '<f8'), ('b', '<f8')]", shape="(2, 3)")),
    "arrays of arrays": npy(described(descr="('<f8', (2, 2))", shape="(1, 3)")),
    "text": npy(described(descr="'<U2'")),
    "dates": npy(described(descr="'<M8[s]'")),
    "complex": npy(described(descr="'<c16'", shape="(2, 3)")),
    "no type": npy(described(descr="7")),
    "no flag": npy(described(fortran="'C'")),
    "a header beyond the file": npy(described(), length=60_000),
    "a header of four gigabytes": npy(described(), (2, 0), length=2**32 - 1),
    "a header too long": npy(described() + " " * 20_000, (2, 0)),
    "nesting": npy("(" * 9_000),
    "signs": npy("-" * 9_900 + "1"),
    "sums": npy("1+" * 4_900 + "1"),
    "an open string": npy("'''"),
    "no dictionary": npy("[1, 2]"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_npy_files(name, tmp_path):
    path = tmp_path / "t.npy"
    path.write_bytes(ODD[name])
    assert refused(lambda: open_rows(path))


def test_the_header_of_these_tests_is_one(tmp_path):
    path = tmp_path / "t.npy"
    for version in ((1, 0), (2, 0), (3, 0)):
        path.write_bytes(npy(described(), version))
        assert np.array_equal(rows_of(open_rows(path)), np.zeros((4, 3)))


@pytest.mark.parametrize(
    "noted",
    [
        b"{",
        b"[1, 2]",
        b"\xff",
        b'{"index_columns": 5}',
        b'{"column_indexes": [{}]}',
        b'{"column_indexes": [{"pandas_type": 7}]}',
        b"[" * 100_000,
    ],
)
def test_odd_notes_of_pandas_in_a_parquet_file(noted, tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"a": [1.0]}).replace_schema_metadata({b"pandas": noted})
    pq.write_table(table, path)
    assert "not a readable parquet file" in refused(lambda: open_rows(path))


def test_parquet_files_cut_anywhere(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": TABLE[:, 0], "n": [{"x": [1.0]}] * 50}), path)
    content = path.read_bytes()
    assert np.array_equal(rows_of(open_rows(path, ["a"]))[:, 0], TABLE[:, 0])
    assert "column 'n' does not hold numbers" in refused(lambda: open_rows(path))
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        refused(lambda: open_rows(path))
        path.write_bytes(content[:size] + content[-8:])
        refused(lambda: rows_of(open_rows(path)))


def test_a_parquet_file_must_hold_as_many_rows_as_it_says(tmp_path):
    """Their number is taken from its last lines, before a row is read."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(306.0)}), path, row_group_size=306, compression="none")
    content = path.read_bytes()
    number = b"\xe4\x04"  # 306, as thrift writes it
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content.count(number, footer) >= 2
    refusals = 0
    place = content.find(number, footer)
    while place >= 0:
        path.write_bytes(content[:place] + b"\x8c\x01" + content[place + 2 :])
        try:
            source = open_rows(path)
            assert len(rows_of(source)) == source.n_rows
        except InvalidDataError as error:
            refusals += "damaged or truncated" in str(error)
        place = content.find(number, place + 1)
    assert refusals >= 2


def odd_paths(folder):
    """Names at which no table lies."""
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    (folder / "gone.npy").symlink_to(folder / "nowhere")
    for kind in ("csv", "npy", "parquet"):
        (folder / f"folder.{kind}").mkdir()
        os.mkfifo(folder / f"fifo.{kind}")
        yield folder / f"folder.{kind}"
        yield folder / f"fifo.{kind}"
        yield folder / f"{'x' * 300}.{kind}"
        yield folder / f"a\nb.{kind}"
        yield folder / f"nul\0.{kind}"
    yield folder / "loop.csv"
    yield folder / "gone.npy"
    yield folder / "loop.csv" / "t.csv"


def test_odd_paths(tmp_path):
    for path in odd_paths(tmp_path):
        assert refused(lambda path=path: open_rows(path)).startswith("no file at ")
        assert refused(lambda path=path: PrivatePCA(1, rho=1.0).fit(str(path)))


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
def test_files_that_may_not_be_read(kind, tmp_path, monkeypatch):
    path = stored(tmp_path, kind, TABLE)
    if os.geteuid():
        path.chmod(0)
    else:  # root may read everything

        def forbidden(*_, **__):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr("pathlib.Path.open", forbidden)
        monkeypatch.setattr("pyarrow.parquet.read_metadata", forbidden)
    assert "not a readable" in refused(lambda: open_rows(path))


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
def test_odd_names_are_spelled_out(kind, tmp_path):
    path = tmp_path / f"a\n\x1b[2K.{kind}"
    path.write_bytes(b"")
    assert "a\\n\\x1b[2K" in refused(lambda: open_rows(path))


# Names that may be a record.


def headerless(folder, values):
    """As pandas reads a file whose first line is a record."""
    path = folder / "bare.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in values) + "\n")
    return pd.read_csv(path)


def test_a_first_record_as_names_in_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    for first in ([5.1, 3.5], [5.1, 5.1], ["Meier", 5.1], ["2020-02-03", "x"]):
        headerless(tmp_path, [first, [1, 2], [3, 4]]).to_parquet(path)
        for columns in (None, ["age"]):
            message = refused(lambda columns=columns: open_rows(path, columns))
            assert message.startswith("t.parquet has a column named like a value")
            assert "header=None" in message
            assert "5.1" not in message
            assert "2020" not in message


def test_positions_are_no_record_in_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame(TABLE).to_parquet(path)
    noted = json.loads(pq.read_schema(path).metadata[b"pandas"])
    assert noted["column_indexes"][0]["pandas_type"] == "int64"
    assert open_rows(path).feature_names == ("0", "1", "2")
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert "header=None" in refused(lambda: open_rows(path))
