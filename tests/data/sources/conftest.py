"""Files and sizes that the tests of several sources share."""

import pytest


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("age,name,height\n31,ann,1.7\n,bob,1.8\n\n45,eve,1.6\n")
    return path


@pytest.fixture
def out_of_core(monkeypatch):
    """Every file counts as large, and chunks are of seven rows of three numbers."""
    monkeypatch.setattr("eigenveil.rows.npy._MAX_HELD_BYTES", 100)
    monkeypatch.setattr("eigenveil.rows.base._CHUNK_BYTES", 7 * 24)
    monkeypatch.setattr("eigenveil.rows.csv._MAX_LINES", 7)
    monkeypatch.setattr("eigenveil.rows.csv._BLOCK_CHARACTERS", 7 * 12)
    monkeypatch.setattr("eigenveil.rows.csv._MAX_KEPT_BYTES", 0)
    monkeypatch.setattr("eigenveil.rows.parquet._BATCH_BYTES", 7 * 24)
