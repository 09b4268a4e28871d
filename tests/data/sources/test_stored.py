"""Files that change while they are read, or cannot be read at all."""

import io
import os

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import open_rows, tables
from tests.data.sources.tables import NEIGHBOURS, TABLE, covariance, refused, rows_of, stored

CHANGED = r"^the table changed while it was read: .* what was charged before stays charged$"
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


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz", "xlsx", "folder"])
def test_a_file_whose_name_is_not_utf_8_is_read(kind, tmp_path):
    frame, path = pd.DataFrame(TABLE, columns=["a", "b", "c"]), tmp_path / os.fsdecode(b"t\xff")
    if kind != "folder":
        path = path.with_name(f"{path.name}.{kind}")
    buffer = io.BytesIO()
    match kind:
        case "csv":
            frame.to_csv(buffer, index=False)
        case "parquet" | "folder":
            frame.to_parquet(buffer)
        case "npy":
            np.save(buffer, TABLE)
        case "npz":
            np.savez(buffer, TABLE)
        case "xlsx":
            pytest.importorskip("openpyxl")
            frame.to_excel(buffer, index=False)
    if kind == "folder":
        path.mkdir()
    (path / "part.parquet" if kind == "folder" else path).write_bytes(buffer.getvalue())
    np.testing.assert_array_equal(open_rows(path).whole(), TABLE)


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


def test_as_many_rows_in_every_pass(tmp_path, out_of_core):
    """Where size and time do not tell."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    source = open_rows(path)
    assert source.count_rows() == 2
    before = path.stat()
    path.write_text("a,b\n1,22222\n")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InvalidDataError, match=CHANGED):
        rows_of(source)


@KINDS
def test_rows_that_change_in_place_are_refused(kind, tmp_path, out_of_core):
    """Where size, time, identity and number of rows do not tell."""
    path = stored(tmp_path, kind, TABLE)
    source = open_rows(path)
    assert np.array_equal(rows_of(source), TABLE)
    before = path.stat()

    def write(rows):
        stored(tmp_path, kind, rows)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return path.stat().st_size == before.st_size

    turned, other = TABLE[::-1], TABLE.copy()
    other[[0, 1], 0] = other[[1, 0], 0]
    if write(turned):  # compressed, it may be shorter
        assert np.array_equal(rows_of(source), turned)  # no sum depends on the order
    write(other)
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


def test_damaged_files(tmp_path):
    pytest.importorskip("pyarrow")
    for name in ("t.parquet", "t.npy"):
        path = tmp_path / name
        path.write_bytes(b"PAR1 truncated")
        with pytest.raises(InvalidDataError, match="not a readable"):
            open_rows(path)


def test_an_impossible_path_is_no_file():
    with pytest.raises(InvalidDataError, match="no file"):
        open_rows("x" * 5000 + ".csv")


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
