"""Arrays in .npy files: small and large ones, and headers that are odd."""

import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exact import public_rows
from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import ArraySource, GroupedSource, NpySource, open_rows
from tests.data.sources.tables import TABLE, refused, rows_of


def test_a_flat_npy_says_so(tmp_path):
    np.save(tmp_path / "t.npy", np.ones(3))
    with pytest.raises(InvalidDataError, match="two-dimensional"):
        open_rows(tmp_path / "t.npy")


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidDataError):
        open_rows(tmp_path / "t.npy")


def test_a_small_npy_outlives_its_file(tmp_path):
    """Read on, a memory map of it would have ended the process by SIGBUS."""
    np.save(tmp_path / "t.npy", np.ones((200_000, 3)))
    script = (
        "import os, sys, numpy; from eigenveil import open_rows; source = open_rows(sys.argv[1]); "
        "os.truncate(sys.argv[1], 100); assert sum(chunk.sum() for chunk in source.chunks()) == 6e5"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "t.npy"], check=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">i2", "|u1", "|b1"])
def test_chunks_of_a_large_npy_are_its_rows(dtype, order, tmp_path, out_of_core):
    rows = np.asarray(np.abs(TABLE * 90).astype(dtype), order=order)
    np.save(tmp_path / "t.npy", rows)
    source = open_rows(tmp_path / "t.npy")
    assert isinstance(source, NpySource)
    for _ in range(2):
        chunks = [chunk.copy() for chunk in source.chunks()]
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
    monkeypatch.setattr("eigenveil.rows.npy._MAX_HELD_BYTES", 1 << 12)
    monkeypatch.setattr("eigenveil.rows.base._CHUNK_BYTES", 1 << 18)
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
