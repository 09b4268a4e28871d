"""Integers of any size in arrays, against Python's own arithmetic."""

import random

import numpy as np
import pytest

from eigenveil.exact import GAUSSIAN, LAPLACE, add_noise, add_symmetric_gaussian
from eigenveil.numerics import (
    LARGEST,
    ExactSum,
    FixedPoint,
    SimulationSource,
    add,
    fitted,
    in_all,
    sum_of_products,
    whole,
    widened,
)

EDGE = 2**63 - 1
LARGE = [EDGE, -EDGE, 2**70, -(2**70), 0, 1]


def objects(values):
    return np.array(values, dtype=object)


def test_the_type_is_decided_by_the_values():
    assert fitted(objects([EDGE, -EDGE])).dtype == np.int64
    assert fitted(objects([EDGE + 1, 0])).dtype == object
    assert fitted(objects([-EDGE - 1, 0])).dtype == object
    assert fitted(objects([])).dtype == np.int64
    assert widened(np.array([2**60]), 2).dtype == np.int64
    assert widened(np.array([-(2**60)]), 3).dtype == object


@pytest.mark.parametrize("top", [2.0**20, 2.0**62, 2.0**63, 2.0**90])
def test_whole_floats_become_integers(top):
    values = np.array([[top, -top], [0.0, 3.0]])
    found = whole(values)
    assert found.tolist() == [[int(top), -int(top)], [0, 3]]
    assert found.dtype == (np.int64 if top < 2.0**63 else object)


def test_sums_of_arrays_of_both_types():
    draw = random.Random(0)
    arrays = [[draw.choice(LARGE) + draw.randrange(9) for _ in range(7)] for _ in range(6)]
    expected = [sum(column) for column in zip(*arrays, strict=True)]
    assert add(*(fitted(objects(array)) for array in arrays)).tolist() == expected
    assert add(np.array([EDGE]), np.array([1])).tolist() == [EDGE + 1]
    back = add(objects([EDGE + 1]), np.array([-5]))
    assert (back.dtype, back.tolist()) == (np.int64, [EDGE - 4])


def test_entries_add_up_beyond_int64():
    assert in_all(np.full((3, 5), EDGE)) == 15 * EDGE
    assert in_all(objects([2**70, -1])) == 2**70 - 1
    assert in_all(np.empty((0, 2), dtype=np.int64)) == 0


@pytest.mark.parametrize("size", [2**20, 2**61, EDGE])
def test_an_exact_sum_is_that_of_python(size):
    draw = random.Random(1)
    sums, expected = ExactSum(2, 3), np.zeros((2, 3), dtype=object)
    for _ in range(200):
        some = np.array([draw.randint(-size, size) for _ in range(6)]).reshape(2, 3)
        some[0, 0] = size  # adds up to far more than int64 holds
        here = sums.holding(size)
        here += some
        expected += some.astype(object)
    assert np.array_equal(sums.total(), expected)
    assert sums.total().dtype == (np.int64 if size == 2**20 else object)


def test_an_exact_sum_refuses_what_int64_cannot_hold():
    sums = ExactSum(1)
    for _ in range(3):
        here = sums.holding(EDGE)
        here += EDGE
    assert sums.total().tolist() == [3 * EDGE]
    with pytest.raises(ValueError, match="smaller parts"):
        sums.holding(EDGE + 1)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("step", [2**50, 2**62, -(2**75)])
def test_noise_on_large_sums_is_that_on_small_ones(law, step):
    """A query moved by a multiple of the grid moves the release by as much, beyond int64 too."""
    units = np.random.default_rng(0).integers(-(2**40), 2**40, 3000)
    grid, sigma, moved = -20, 1.3, step - step % 2**16
    here = add_noise(FixedPoint(units, -36), sigma, SimulationSource(5), law=law, grid=grid)
    far = FixedPoint(fitted(units.astype(object) + moved), -36)
    there = add_noise(far, sigma, SimulationSource(5), law=law, grid=grid)
    assert np.array_equal(there.units, here.units.astype(object) + (moved >> 16))
    exact = [float(int(unit)) * 2.0**-20 for unit in there.units]  # Python rounds to nearest
    assert there.to_float().tolist() == exact


def test_noise_at_the_edge_of_int64_does_not_wrap():
    edge = FixedPoint(np.array([EDGE, -EDGE]), -36)
    noisy = add_noise(edge, 1e-7, SimulationSource(2), law=GAUSSIAN, grid=-36)
    assert max(abs(int(n) - int(e)) for n, e in zip(noisy.units, edge.units, strict=True)) < 2**16
    refined = FixedPoint(np.array([2**40]), 0).refined(-30)
    assert refined.units.tolist() == [2**70]


def test_symmetric_noise_on_large_sums():
    matrix = np.random.default_rng(1).integers(-(2**40), 2**40, (30, 30))
    matrix = matrix + matrix.T
    moved = 2**70
    here = add_symmetric_gaussian(FixedPoint(matrix, -36), 2.0, SimulationSource(3))
    far = FixedPoint(matrix.astype(object) + moved, -36)
    there = add_symmetric_gaussian(far, 2.0, SimulationSource(3))
    shift = here.exponent + 36
    assert np.array_equal(there.units, here.units.astype(object) + (moved >> shift))
    assert np.array_equal(there.units, there.units.T)


def test_seeds_are_bound_to_large_values_and_not_to_where_they_lie():
    one, same, other = objects([2**70, 1]), objects([2**69 * 2, 1]), objects([2**70, 2])
    words = [SimulationSource(1).bound_to(query).words(2).tolist() for query in (one, same, other)]
    assert words[0] == words[1] != words[2]


@pytest.mark.parametrize("largest", [3, 1 << 40, LARGEST, 1 << 70])
def test_sums_of_products_are_exact(largest):
    """Of the largest integers of both signs, in blocks and in one more entry."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], (2, (1 << 14) + 1))
    first = fitted(np.array([largest * int(sign) for sign in signs[0]], dtype=object))
    second = signs[1] * ((1 << 53) - rng.integers(0, 2, signs.shape[1]))
    expected = sum(a * b for a, b in zip(first.tolist(), second.tolist(), strict=True))
    assert sum_of_products(first, second) == expected
    one_sign = np.full(1 << 14, 1 << 53)
    assert sum_of_products(abs(first[:-1]), one_sign) == largest << 67
