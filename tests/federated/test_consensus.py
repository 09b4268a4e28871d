"""Agreement of owners: chance is called chance, and reliability is what it says."""

import numpy as np
import pytest

from eigenveil.federated.consensus import chance, reliability


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
    """Of 200 draws at most 8 exceed the level: of a true 1 % more do with probability 4e-4."""
    rng = np.random.default_rng(d + k)
    shares = np.array(weights) / sum(weights)
    tops = []
    for _ in range(200):
        stack = np.hstack([np.sqrt(w) * haar(rng, d, k) for w in shares])
        tops.append(np.linalg.norm(stack, 2) ** 2)
    level = chance(shares, d, k)
    assert np.sum(np.array(tops) > level) <= 8
    if d >= 50 and len(weights) >= 10:  # and the level is no empty one
        assert level < 1.2 * np.max(tops)


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
    assert chance(np.ones(1), 10, 2) == 1.0
