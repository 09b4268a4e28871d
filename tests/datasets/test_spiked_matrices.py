import numpy as np
import pytest

from eigenveil.datasets import SpikedGaussian, SpikedMatrices, SpikedSigns
from eigenveil.exceptions import InvalidParameterError
from eigenveil.rows import IterableSource, MatrixChunk, MatrixSource, open_rows


def moment(rows):
    return rows.T @ rows / len(rows)


def test_products_are_those_of_the_matrices():
    stream = SpikedMatrices(5, 6, (3.0, 2.0), 0.7, seed=1)
    (chunk,) = stream
    basis = stream.basis
    matrices = [basis @ np.diag([3.0, 2.0]) @ basis.T + np.outer(z, z) for z in chunk.noise]
    columns = np.random.default_rng(0).standard_normal((6, 3))
    assert chunk.times(columns) == pytest.approx(np.array(matrices) @ columns)
    assert chunk.diagonals() == pytest.approx(np.array([np.diag(matrix) for matrix in matrices]))
    weights = np.arange(5.0)
    assert chunk.total(weights) == pytest.approx(np.einsum("i,ijk->jk", weights, matrices))
    assert chunk[1:3].times(columns) == pytest.approx((np.array(matrices) @ columns)[1:3])


def test_matrices_come_as_a_source_that_can_be_read_again():
    source = MatrixSource(SpikedMatrices(9000, 4, (1.0, 0.5), 0.1, seed=2), 4)
    assert source.rereadable
    first, again = list(source.chunks()), list(source.chunks())
    assert all(isinstance(chunk, MatrixChunk) for chunk in first)
    assert [len(chunk) for chunk in first] == [4096, 4096, 808]
    noise = np.concatenate([chunk.noise for chunk in first])
    assert np.array_equal(noise, np.concatenate([chunk.noise for chunk in again]))
    assert len(np.unique(noise[:, 0])) == 9000  # no two chunks alike


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (SpikedSigns(40_000, 8, (2.0,), 0.5, seed=3), (4.25, 0.25)),
        (SpikedGaussian(40_000, 8, (4.0, 3.0), 0.5, seed=4), (4.25, 3.25, 0.25)),
    ],
)
def test_second_moment_of_rows(stream, expected):
    """Entries of the moment deviate by at most 6/sqrt(n) = 0.03 here, five times over: 1e-6."""
    rows = np.concatenate(list(stream))
    assert rows.shape == (40_000, 8)
    k = len(stream.spikes)
    leading = np.diag(np.array(expected[:k]) - expected[k])
    truth = stream.basis @ leading @ stream.basis.T + expected[k] * np.eye(8)
    assert moment(rows) == pytest.approx(truth, abs=0.15)


def test_signs_without_noise_are_plus_and_minus_one_vector():
    stream = SpikedSigns(100, 5, (2.0,), 0.0, seed=5)
    (rows,) = stream
    shares = rows @ stream.basis[:, 0]
    assert np.abs(shares) == pytest.approx(np.full(100, 2.0))
    assert 20 < np.sum(shares > 0) < 80


def test_rows_come_as_a_source():
    stream = SpikedSigns(5000, 3, (1.0,), 0.1, seed=6)
    assert isinstance(open_rows(stream), IterableSource)


def test_matrices_without_noise_are_all_the_same():
    (chunk,) = SpikedMatrices(3, 4, (2.0, 1.0), 0.0, seed=7)
    products = chunk.times(chunk.basis)
    assert products == pytest.approx(np.array([chunk.basis * [2.0, 1.0]] * 3))


def test_a_start_drawn_from_the_same_seed_is_not_the_basis():
    """Cosines of random directions in 400 dimensions; numpy drops trailing zeros of seeds."""
    for seed in range(3):
        start = np.linalg.qr(np.random.default_rng(seed).standard_normal((400, 2)))[0]
        basis = SpikedMatrices(1, 400, (2.0, 1.0), 0.1, seed=seed).basis
        assert np.abs(start.T @ basis).max() < 0.3  # 6 deviations


def test_another_seed_is_another_basis():
    one, other = (SpikedMatrices(1, 4, (1.0,), 0.1, seed=seed).basis for seed in (1, 2))
    assert one.T @ one == pytest.approx(np.eye(1))
    assert not np.allclose(one, other)


@pytest.mark.parametrize(
    "settings",
    [
        (0, 3, (1.0,), 0.1),
        (3, 0, (1.0,), 0.1),
        (3, 2, (1.0,) * 3, 0.1),
        (3, 2, (), 0.1),
        (3, 2, (0.0,), 0.1),
        (3, 2, (1.0,), -1.0),
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InvalidParameterError):
        SpikedMatrices(*settings, seed=0)
    with pytest.raises(InvalidParameterError, match="one spike"):
        SpikedSigns(3, 3, (1.0, 1.0), 0.1, seed=0)
