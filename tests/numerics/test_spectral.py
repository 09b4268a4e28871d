"""Eigenpairs from products, against a full decomposition."""

import numpy as np
import pytest

from eigenveil.numerics import block_krylov, project_to_simplex, spectral, top_eigenpairs


def spiked(d, spikes, seed=0):
    g = np.random.default_rng(seed).standard_normal((d, d))
    matrix = (g + g.T) / np.sqrt(8 * d)  # a semicircle up to 1
    matrix[np.arange(len(spikes)), np.arange(len(spikes))] += spikes
    return matrix


def start(d, width, seed=1):
    return np.random.default_rng(seed).standard_normal((d, width))


@pytest.mark.parametrize("width", [2, 4, 7])
def test_separated_pairs_agree_with_a_full_decomposition(width):
    matrix = spiked(300, [9.0, 7.0, 5.0, 3.0])
    values, rows, residual = block_krylov(
        lambda block: matrix @ block, start(300, width), 4, 1e-10, columns=300
    )
    expected, vectors = np.linalg.eigh(matrix)
    assert residual <= 1e-10
    assert values == pytest.approx(expected[::-1][:4], abs=1e-12)
    assert np.abs(np.sum(rows * vectors[:, ::-1][:, :4].T, axis=1)) == pytest.approx(1, abs=1e-12)
    assert all(row[np.argmax(np.abs(row))] > 0 for row in rows)


def test_blocks_are_orthonormal_and_the_residual_is_the_true_one():
    matrix = spiked(200, [2.0, 1.5])
    blocks = []

    def product(block):
        blocks.append(block)
        return matrix @ block

    for tolerance in (0.3, 0.05, 1e-3):
        blocks.clear()
        values, rows, residual = block_krylov(product, start(200, 3), 2, tolerance, columns=150)
        basis = np.hstack(blocks)
        assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-12)
        true = np.linalg.norm(matrix @ rows.T - rows.T * values, axis=0).max()
        assert residual == pytest.approx(true, rel=1e-6)
        assert residual <= tolerance


@pytest.mark.parametrize(("d", "width", "k"), [(1, 1, 1), (5, 2, 5), (7, 3, 2), (6, 6, 6)])
def test_all_of_a_small_space(d, width, k):
    matrix = spiked(d, [1.0])
    values, rows, residual = block_krylov(
        lambda block: matrix @ block, start(d, width), k, 0.0, columns=d
    )
    assert residual < 1e-12
    assert values == pytest.approx(np.linalg.eigvalsh(matrix)[::-1][:k])
    assert rows @ rows.T == pytest.approx(np.eye(k))


@pytest.mark.parametrize("diagonal", [[0.0] * 9, [1.0] * 9, [3.0, 2.0, 1.0, *[0.0] * 6]], ids=str)
def test_spaces_that_products_do_not_leave(diagonal):
    """Nothing more is to be found there, and the search ends."""
    seen = []

    def product(block):
        seen.append(block)
        return np.diag(diagonal) @ block

    values, _, residual = block_krylov(product, start(9, 3), 3, 1e-12, columns=9)
    basis = np.hstack(seen)
    assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-10)
    assert values == pytest.approx(diagonal[:3], abs=1e-10)
    assert residual <= 1e-12


def test_the_cap_on_columns_holds():
    matrix = spiked(400, [])
    asked = []
    block_krylov(
        lambda block: asked.append(block.shape[1]) or matrix @ block,
        start(400, 4),
        3,
        0.0,
        columns=42,
    )
    assert sum(asked) == 40


def test_a_residual_below_a_fiftieth_of_the_edge_is_invisible():
    """What a residual takes from the overlap with true directions, beside what the noise takes."""
    spikes = [1.2, 1.0, 0.9, 0.75]  # the noise hides those below 1/2
    losses = []
    for seed in range(20):
        matrix = spiked(400, spikes, seed)
        _, exact = top_eigenpairs(matrix, 4)
        _, rows, _ = block_krylov(
            lambda b, a=matrix: a @ b, start(400, 4, seed), 4, 0.02, columns=400
        )
        kept = np.sum(exact[:, :4] ** 2)
        losses.append((kept - np.sum(rows[:, :4] ** 2)) / kept)
        assert kept < 0.9 * 4
    assert abs(np.mean(losses)) < 2e-3


@pytest.mark.parametrize("spikes", [[4.0, 3.0, 2.5, 2.0], []], ids=["separated", "noise"])
def test_large_matrices_give_what_lapack_gives(monkeypatch, spikes):
    matrix = spiked(500, spikes)
    expected = top_eigenpairs(matrix, 4)
    monkeypatch.setattr(spectral, "_TIGHT_SIZE", 400)
    values, rows = top_eigenpairs(matrix, 4)
    assert values == pytest.approx(expected[0], abs=1e-10)
    assert rows == pytest.approx(expected[1], abs=1e-7)
    again = top_eigenpairs(matrix, 4)
    assert np.array_equal(rows, again[1])  # the start is fixed


def test_only_separated_pairs_are_found_without_lapack(monkeypatch):
    monkeypatch.setattr(spectral, "_LOOSE_SIZE", 400)
    monkeypatch.setattr(spectral, "_TIGHT_SIZE", 400)
    monkeypatch.setattr(spectral, "eigh", count := Counting(spectral.eigh))
    top_eigenpairs(spiked(500, [4.0, 3.0, 2.5, 2.0]), 4)
    assert max(count.sizes) < 500
    top_eigenpairs(spiked(500, []), 4)
    assert max(count.sizes) == 500  # noise converges slowly
    count.sizes.clear()
    top_eigenpairs(spiked(500, []), 4, tolerance=0.05)
    assert max(count.sizes) < 500


class Counting:
    def __init__(self, function):
        self.function = function
        self.sizes = []

    def __call__(self, matrix, **options):
        self.sizes.append(len(matrix))
        return self.function(matrix, **options)


@pytest.mark.parametrize("total", [1e-300, 1e-20, 1e-17])
def test_a_total_far_below_rounding_leaves_nothing(total):
    for values in ([1.0], [3.0, 1.0, -2.0], [1.0, 1.0]):
        held = project_to_simplex(np.array(values), total)
        assert (held >= 0).all()
        assert held.sum() <= total
