"""Archives of arrays, and sparse matrices."""

import numpy as np
import pytest
from scipy import sparse

from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows import open_rows
from tests.data.sources.tables import refused

ROWS = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
KINDS = [getattr(sparse, f"{name}_{kind}") for name in FORMATS for kind in ("matrix", "array")]


def test_one_table_in_an_archive(tmp_path):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "t.npz", ROWS)
        np.testing.assert_array_equal(open_rows(tmp_path / "t.npz").whole(), ROWS)
    sparse.save_npz(tmp_path / "s.npz", sparse.csc_matrix(ROWS))
    np.testing.assert_array_equal(open_rows(tmp_path / "s.npz").whole(), ROWS)


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.__name__.startswith(("dok", "lil"))])
def test_every_format_that_scipy_saves_is_read(kind, tmp_path):
    sparse.save_npz(tmp_path / "s.npz", kind(ROWS))
    np.testing.assert_array_equal(open_rows(tmp_path / "s.npz").whole(), ROWS)


def test_archives_that_hold_no_table(tmp_path):
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    assert "holds 2 arrays: save the one table" in refused(lambda: open_rows(tmp_path / "two.npz"))
    np.savez(tmp_path / "objects.npz", np.array([{}], dtype=object))
    assert "not a readable .npz" in refused(lambda: open_rows(tmp_path / "objects.npz"))
    np.savez(tmp_path / "line.npz", np.ones(3))
    assert "two-dimensional" in refused(lambda: open_rows(tmp_path / "line.npz"))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:200])
    assert "not a readable .npz" in refused(lambda: open_rows(tmp_path / "cut.npz"))
    with pytest.raises(InvalidParameterError, match="has no column names"):
        open_rows(tmp_path / "two.npz", columns=["a"])


def test_an_archive_beyond_all_proportion_is_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "t.npz", ROWS)
    monkeypatch.setattr("eigenveil.rows.memory._MAX_BYTES", 10)
    with pytest.raises(InvalidDataError, match="too large for memory"):
        open_rows(tmp_path / "t.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_are_rows(kind, monkeypatch):
    monkeypatch.setattr("eigenveil.rows.base._CHUNK_BYTES", 8 * 5 * 7)
    source = open_rows(kind(ROWS))
    np.testing.assert_array_equal(source.whole(), ROWS)
    np.testing.assert_array_equal(source.rows_at(np.array([1, 50])), ROWS[[1, 50]])
    assert (source.n_rows, source.n_columns) == ROWS.shape


def test_a_fit_on_sparse_rows_is_one_on_dense_rows():
    rows = np.tile(ROWS, (20, 1))
    dense, thin = (
        PrivatePCA(2, epsilon=2.0, delta=1e-6, random_state=0).fit(table)
        for table in (rows, sparse.csr_matrix(rows))
    )
    np.testing.assert_array_equal(dense.components_, thin.components_)
    np.testing.assert_array_equal(dense.transform(rows), thin.transform(sparse.csr_matrix(rows)))
    covariance = PrivateCovariance(epsilon=2.0, delta=1e-6, random_state=0)
    found = covariance.fit(sparse.csr_matrix(rows)).covariance_
    np.testing.assert_array_equal(found, covariance.fit(rows).covariance_)


def test_bytes_of_sparse_numbers_may_be_in_any_order():
    """scipy cuts no rows out of a matrix whose numbers another kind of machine wrote."""
    matrix = sparse.csr_matrix(np.eye(5)[:, :3] * 7)
    matrix.data = matrix.data.astype(">i4")
    (chunk,) = open_rows(matrix).chunks()
    assert np.array_equal(chunk, np.eye(5)[:, :3] * 7)


def test_sparse_tables_of_other_things_are_refused():
    with pytest.raises(InvalidDataError, match="Complex data"):
        open_rows(sparse.csr_matrix(ROWS * 1j))


def unchecked(name, **changed):
    """A matrix whose arrays were replaced after scipy looked at them."""
    matrix = getattr(sparse, f"{name}_matrix")(ROWS)
    for array, value in changed.items():
        setattr(matrix, array, value)
    return matrix


def with_entry(array, place, value):
    other = array.copy()
    other[place] = value
    return other


CSR, CSC, COO = (kind(ROWS) for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix))
BSR = sparse.bsr_matrix(ROWS, blocksize=(2, 5))
MALFORMED = {
    "a column in the next row": unchecked("csr", indices=with_entry(CSR.indices, 0, 7)),
    "a column far outside": unchecked("csr", indices=with_entry(CSR.indices, 0, 1 << 30)),
    "a negative column": unchecked("csr", indices=with_entry(CSR.indices, 3, -1)),
    "a row outside": unchecked("csc", indices=with_entry(CSC.indices, 0, 60)),
    "rows that end before they start": unchecked("csr", indptr=with_entry(CSR.indptr, 5, 0)),
    "rows that start late": unchecked("csr", indptr=with_entry(CSR.indptr, 0, 1)),
    "rows beyond the entries": unchecked("csr", indptr=with_entry(CSR.indptr, -1, 1 << 20)),
    "too few rows": unchecked("csr", indptr=CSR.indptr[:-1]),
    "indices that are no integers": unchecked("csr", indices=CSR.indices.astype(float)),
    "fewer entries than places": unchecked("csr", data=CSR.data[:9]),
    "a block outside": unchecked("bsr", data=BSR.data, indptr=BSR.indptr, indices=BSR.indices + 1),
    "single entries outside": unchecked("coo", col=with_entry(COO.col, 0, 5)),
    "single entries of unequal length": unchecked("coo", col=COO.col[:-1]),
    "lists of unequal length": unchecked(
        "lil", rows=with_entry(sparse.lil_matrix(ROWS).rows, 0, [0, 1, 2, 3, 4, 4, 4])
    ),
    "a listed column outside": unchecked(
        "lil",
        rows=with_entry(sparse.lil_matrix(ROWS).rows, 0, [9]),
        data=with_entry(sparse.lil_matrix(ROWS).data, 0, [1.0]),
    ),
    "diagonals without an offset": unchecked("dia", offsets=np.array([0])),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_sparse_matrices_are_refused(kind):
    told = refused(lambda: open_rows(MALFORMED[kind]))
    assert "has an index outside its shape" in told


def test_malformed_sparse_archives_are_refused_before_a_charge(tmp_path):
    """An index past the last column would put an entry of one record into the row of another."""
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=1, delta=1e-6)
    rows = np.tile(ROWS, (20, 1))
    parts = sparse.csr_matrix(rows)
    np.savez(
        tmp_path / "t.npz",
        indices=with_entry(parts.indices, 0, 7),
        indptr=parts.indptr,
        format=b"csr",
        shape=rows.shape,
        data=parts.data,
    )
    estimator = PrivateCovariance(epsilon=1, delta=1e-6, row_norm=3.0, ledger=ledger)
    assert "index outside its shape" in refused(lambda: estimator.fit(tmp_path / "t.npz"))
    assert not ledger.entries


@pytest.mark.parametrize(
    ("name", "kind"),
    [("indices", float), ("indices", complex), ("indptr", np.uint64), ("shape", float)],
)
def test_stored_indices_of_other_types_are_refused(name, kind, tmp_path, recwarn):
    """scipy would cut them off to integers."""
    arrays = {"data": CSR.data, "indices": CSR.indices, "indptr": CSR.indptr, "shape": ROWS.shape}
    arrays[name] = np.array(arrays[name], dtype=kind)
    np.savez(tmp_path / "t.npz", format=b"csr", **arrays)
    told = refused(lambda: open_rows(tmp_path / "t.npz"))
    assert "outside its shape" in told or "not a readable .npz" in told
    assert not len(recwarn)


@pytest.mark.parametrize("shape", [(1 << 40, 3), (3, 1 << 40)])
def test_a_sparse_matrix_beyond_memory_is_refused(shape, tmp_path):
    none = np.zeros(0, dtype=np.int64)
    np.savez(tmp_path / "t.npz", format=b"coo", shape=shape, data=none * 1.0, row=none, col=none)
    assert "too large for memory" in refused(lambda: open_rows(tmp_path / "t.npz"))


def test_entries_at_one_place_are_added_and_may_come_in_any_order():
    parts = (np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4]))
    for kind in (sparse.csr_matrix, sparse.csr_array):
        source = open_rows(kind(parts, shape=(2, 3)))
        np.testing.assert_array_equal(source.whole(), [[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]])
        np.testing.assert_array_equal(source.rows_at(np.array([0])), [[2.0, 0.0, 5.0]])
    np.testing.assert_array_equal(parts[1], [2, 0, 2, 1])  # as the caller has them
