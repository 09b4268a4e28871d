"""The server's steps against the formulas, and how little memory they take."""

import tracemalloc

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import assembled, leading_basis


def orthonormal(d, k, rng):
    return np.linalg.qr(rng.standard_normal((d, k)))[0]


def near(truth, spread, rng):
    return np.linalg.qr(truth + spread * rng.standard_normal(truth.shape))[0]


def naive(bases, weights, k):
    total = sum(w * basis @ basis.T for w, basis in zip(weights, bases, strict=True))
    return np.linalg.eigh(total)[1][:, : -k - 1 : -1]


def aligned(found, expected):
    return found * np.sign(np.sum(found * expected, axis=0))


@pytest.mark.parametrize(("d", "m"), [(40, 3), (12, 4), (12, 40), (7, 1), (12, 5)])
@pytest.mark.parametrize("k", [1, 3])
def test_the_basis_is_that_of_the_weighted_sum_of_projectors(d, m, k):
    rng = np.random.default_rng([d, m, k])
    truth = orthonormal(d, k, rng)
    bases = [near(truth, 0.4, rng) for _ in range(m)]
    weights = rng.dirichlet(np.full(m, 0.5))
    found, expected = leading_basis(bases, weights, k), naive(bases, weights, k)
    assert found.shape == (d, k)
    assert found.T @ found == pytest.approx(np.eye(k), abs=1e-13)
    # Gaps may be small: vectors where there is one basis only, spans everywhere.
    assert found @ found.T == pytest.approx(expected @ expected.T, abs=1e-9)
    if m > 1:
        assert aligned(found, expected) == pytest.approx(expected, abs=1e-7)


def test_weights_decide():
    one, other = np.eye(6)[:, :2], np.eye(6)[:, 2:4]
    for weights, expected in (([0.9, 0.1], one), ([0.1, 0.9], other)):
        found = leading_basis([one, other], np.array(weights), 2)
        assert found @ found.T == pytest.approx(expected @ expected.T)


def test_bases_of_different_widths_and_fewer_components():
    rng = np.random.default_rng(0)
    bases = [orthonormal(20, k, rng) for k in (2, 3, 5)]
    weights = np.array([0.2, 0.3, 0.5])
    found, expected = leading_basis(bases, weights, 4), naive(bases, weights, 4)
    assert aligned(found, expected) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("d", [9, 200])
def test_columns_stay_orthonormal_beside_a_thousand_owners_or_a_tiny_weight(d):
    """The components of the sum beyond its leading ones do not come in: see the module."""
    rng = np.random.default_rng(1)
    many = [orthonormal(d, 2, rng) for _ in range(90)]
    tiny = np.array([1 - 1e-12, 1e-12])
    for bases, weights in ((many, np.full(90, 1 / 90)), (many[:2], tiny)):
        found = leading_basis(bases, weights, 2)
        assert found.T @ found == pytest.approx(np.eye(2), abs=1e-13)
    assert found @ found.T == pytest.approx(many[0] @ many[0].T, abs=1e-9)


@pytest.mark.parametrize("d", [5, 50])
def test_signs_do_not_depend_on_those_of_the_owners(d):
    rng = np.random.default_rng(2)
    truth = orthonormal(d, 2, rng)
    bases = [near(truth, 0.2, rng) for _ in range(4)]
    turned = [basis @ orthonormal(2, 2, rng) for basis in bases]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    first, second = (leading_basis(one, weights, 2) for one in (bases, turned))
    assert first == pytest.approx(second, abs=1e-8)
    assert (first[np.argmax(np.abs(first), axis=0), [0, 1]] > 0).all()


@pytest.mark.parametrize(("d", "m", "k"), [(20_000, 5, 2), (50, 4000, 2)])
def test_memory_is_that_of_the_thin_side(d, m, k):
    """20,000 columns squared are 3.2 GB; the stack of 4,000 owners would be 64 times the sum."""
    rng = np.random.default_rng(3)
    basis = orthonormal(d, k, rng)
    weights = np.full(m, 1 / m)
    tracemalloc.start()
    leading_basis([basis] * m, weights, k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 8 * d * min(d, m * k)


def test_the_covariance_is_that_of_the_formula():
    rng = np.random.default_rng(4)
    basis = orthonormal(9, 3, rng)
    matrices = [np.diag([5.0, 3.0, 1.0]) + (e + e.T) for e in rng.standard_normal((4, 3, 3)) / 9]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    found = assembled(basis, matrices, weights, noise_variance=0.5)
    pooled = sum(v * one for v, one in zip(weights, matrices, strict=True))
    assert found.dense() == pytest.approx(basis @ pooled @ basis.T + 0.5 * np.eye(9))
    assert found.eigenvalues == pytest.approx(np.linalg.eigvalsh(pooled)[::-1])
    assert found.basis.T @ found.basis == pytest.approx(np.eye(3))
    assert found.dense() @ found.basis == pytest.approx(found.basis * (found.eigenvalues + 0.5))


def test_negative_eigenvalues_become_zero():
    basis = np.eye(4)[:, :2]
    found = assembled(basis, [np.diag([-2.0, 3.0]), np.diag([-4.0, 1.0])], np.array([0.5, 0.5]))
    assert found.eigenvalues.tolist() == [2.0, 0.0]
    assert found.dense() == pytest.approx(np.diag([0.0, 2.0, 0.0, 0.0]))
    assert np.abs(found.basis) == pytest.approx(np.eye(4)[:, [1, 0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: leading_basis([], np.array([]), 1),
        lambda: leading_basis([np.eye(3)[:, :1]], np.array([0.5, 0.5]), 1),
        lambda: leading_basis([np.eye(3)[:, :1]], np.array([1.0]), 2),
        lambda: leading_basis([np.eye(3)[:, :1]] * 9, np.full(9, 1 / 9), 4),
        lambda: leading_basis([np.eye(3)[:, :1]], np.array([1.0]), 0),
        lambda: assembled(np.eye(3)[:, :1], [], np.array([])),
        lambda: assembled(np.eye(3)[:, :1], [np.eye(1)], np.array([0.5, 0.5])),
    ],
)
def test_refused(call):
    with pytest.raises(InvalidParameterError):
        call()
