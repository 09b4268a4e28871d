"""Archives of arrays, and sparse matrices."""

import numpy as np
import pytest
from scipy import sparse

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.data.sources import open_rows
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from tests.data.sources.tables import refused

ROWS = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(float)


def test_one_table_in_an_archive(tmp_path):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "t.npz", ROWS)
        np.testing.assert_array_equal(open_rows(tmp_path / "t.npz").whole(), ROWS)
    sparse.save_npz(tmp_path / "s.npz", sparse.csc_matrix(ROWS))
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
    monkeypatch.setattr("eigenveil.data.sources.npz._MAX_BYTES", 10)
    with pytest.raises(InvalidDataError, match="too large for memory"):
        open_rows(tmp_path / "t.npz")


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
def test_sparse_rows_are_rows(kind, monkeypatch):
    monkeypatch.setattr("eigenveil.data.sources.base._CHUNK_BYTES", 8 * 5 * 7)
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


def test_sparse_tables_of_other_things_are_refused():
    with pytest.raises(InvalidDataError, match="Complex data"):
        open_rows(sparse.csr_matrix(ROWS * 1j))
