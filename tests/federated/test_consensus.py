"""Agreement of owners: chance is called chance, and reliability is what it says."""

import numpy as np
import pytest

from eigenveil.federated import chance, in_common, reliability


def haar(rng: np.random.Generator, d: int, k: int) -> np.ndarray:
    basis, triangle = np.linalg.qr(rng.standard_normal((d, k)))
    return basis * np.sign(np.diag(triangle))  # LAPACK's signs depend on the first entries


@pytest.mark.parametrize(
    ("d", "k", "weights"),
    [
        (6, 2, [1, 1, 1]),
        (50, 1, [1] * 10),
        (50, 5, [1] * 10),
        (50, 1, [1, 1, 1]),
        (64, 3, [6, 3, 1]),
        (10, 1, [1] * 100),
    ],
)
def test_unrelated_bases_rarely_agree_by_more_than_chance(
    d: int, k: int, weights: list[float]
) -> None:
    """Of 200 draws at most 8 exceed the level: of a true half a percent more do with 1e-6.

    The level is drawn too; with that it is 3e-4.
    """
    rng = np.random.default_rng(d + k)
    shares = np.array(weights) / sum(weights)
    tops = []
    for _ in range(200):
        stack = np.hstack([np.sqrt(w) * haar(rng, d, k) for w in shares])
        tops.append(np.linalg.norm(stack, 2) ** 2)
    level = chance(shares, d, k).largest
    assert np.sum(np.array(tops) > level) <= 8
    if d >= 50 and len(weights) >= 10:  # and the level is no empty one
        assert level < 1.2 * np.max(tops)


def shared_by(
    rng: np.random.Generator, d: int, k: int, r: int, weights: np.ndarray, share: float
) -> np.ndarray:
    """Eigenvalues of the sum of projectors, on r columns that have ``share`` of their length in
    directions of all owners, and on k - r random ones.
    """
    total = np.zeros((d, d))
    for weight in weights:
        own = np.vstack([np.zeros((r, k)), haar(rng, d - r, k)])
        own[:, :r] *= np.sqrt(1 - share)
        own[:r, :r] = np.sqrt(share) * np.eye(r)
        total += weight * own @ own.T
    return np.linalg.eigvalsh(total)[::-1][:k]


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize(
    ("d", "k", "r", "share"),
    [
        (4, 2, 0, 1.0),
        (6, 3, 0, 1.0),
        (20, 3, 0, 1.0),
        (50, 5, 0, 1.0),
        (4, 2, 1, 1.0),
        (6, 3, 2, 1.0),
        (20, 3, 1, 1.0),
        (20, 3, 1, 0.8),
        (6, 3, 1, 0.8),
    ],
)
def test_no_more_directions_are_found_than_are_shared(
    d: int, k: int, r: int, share: float, m: int
) -> None:
    """But in at most 10 of 200 draws: of a true 1 % more do with probability 7e-6.

    The levels are drawn too; with that it is 6e-4.
    """
    rng = np.random.default_rng(10 * d + k + m)
    weights = np.full(m, 1 / m)
    found = [in_common(shared_by(rng, d, k, r, weights, share), weights, d) for _ in range(200)]
    assert np.sum(np.array(found) > r) <= 10


@pytest.mark.parametrize(("d", "k"), [(4, 2), (5, 3), (6, 3), (8, 4), (8, 7), (20, 3)])
def test_what_two_owners_agree_on_can_stand_out_whatever_the_number_of_components(
    d: int, k: int
) -> None:
    assert in_common(np.full(k, 1 - 1e-7), np.array([0.5, 0.5]), d) == k


@pytest.mark.parametrize(
    ("d", "k", "m", "share"),
    [(50, 1, 10, 0.5), (100, 3, 5, 0.7), (200, 5, 20, 0.3), (50, 1, 3, 0.8), (40, 2, 200, 0.15)],
)
def test_reliability_is_the_expected_squared_cosine(d: int, k: int, m: int, share: float) -> None:
    """Means of 40 draws; over other seeds the two differ by 0.02 at most."""
    rng = np.random.default_rng(m)
    weights = np.full(m, 1 / m)
    said, true = [], []
    for _ in range(40):
        bases = []
        for _ in range(m):
            basis = np.zeros((d, k))
            basis[:k] = np.sqrt(share) * haar(rng, k, k)
            basis[k:] = np.sqrt(1 - share) * haar(rng, d - k, k)
            bases.append(basis)
        vectors, sizes, _ = np.linalg.svd(np.hstack(bases) / np.sqrt(m), full_matrices=False)
        said.append(reliability(sizes[:k] ** 2, weights, d).mean())
        true.append(np.sum(vectors[:k, :k] ** 2) / k)
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.03)


def test_one_owner_cannot_agree_with_itself() -> None:
    np.testing.assert_array_equal(reliability(np.ones(2), np.ones(1), 9), [0.0, 0.0])
    assert chance(np.ones(1), 10, 2) == (1.0, 2.0)
    assert in_common(np.ones(2), np.ones(1), 10) == 0
