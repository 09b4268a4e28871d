"""What noise leaves of components where columns have different amounts of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.mechanisms import ImageNoise

D = 8


def uneven(hidden=0, share=30.0, variance=1e-4):
    """Return noise that is larger in so many hidden columns."""
    places = np.arange(D) >= D - hidden
    return replace(ImageNoise.even(variance, D), spread=np.where(places, share, 1.0))


def drawn(noise, random):
    """Return symmetric noise with the stated deviations."""
    square = random.standard_normal((D, D))
    root = np.sqrt(noise.variance * np.outer(noise.spread, noise.spread))
    return (square + square.T) / math.sqrt(2) * root


def pairs(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("hidden", [0, 1, 4])
def test_noise_alone_rarely_exceeds_the_floor(hidden):
    """Of 1,000 draws ten may exceed what 1 % do; a third of the noise is exceeded often."""
    noise, random = uneven(hidden), np.random.default_rng(hidden)
    largest = np.array([pairs(drawn(noise, random))[0][0] for _ in range(1000)])
    assert (largest > noise.floor(D)).sum() <= 10
    assert (largest > replace(noise, variance=noise.variance / 9).floor(D)).sum() > 100


def test_one_noisy_column_does_not_raise_the_floor_of_all_as_if_they_were():
    assert uneven(1).floor(D) < 0.6 * replace(uneven(1), spread=np.full(D, 30.0)).floor(D)


@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_noise_of_hidden_columns_is_no_clear_component(hidden):
    """The others have variances of one, and no component of their own."""
    noise, random = uneven(hidden), np.random.default_rng(hidden)
    moment = np.diag(np.where(noise.spread > 1, 0.0, 1.0))
    for _ in range(200):
        values, vectors = pairs(moment + drawn(noise, random))
        found = noise.reliability(vectors, values, 2, float(values.sum()))
        assert not found.any()


def test_clear_components_beside_hidden_columns_are_as_reliable_as_seen():
    noise, random = uneven(2), np.random.default_rng(0)
    moment = np.diag([3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    stated, seen = [], []
    for _ in range(200):
        values, vectors = pairs(moment + drawn(noise, random))
        stated.append(noise.reliability(vectors, values, 1, float(values.sum()))[0])
        seen.append(vectors[0, 0] ** 2)
    assert np.mean(stated) == pytest.approx(np.mean(seen), abs=0.0005)
    assert np.mean(seen) < 0.9995
    even = replace(noise, spread=np.full(D, 30.0))
    assert even.reliability(vectors, values, 1, float(values.sum()))[0] < 0.95


def test_one_of_many_like_it_is_not_clear():
    """Neither beside columns of no variance, whose mean all others exceed, nor beside a slope."""
    noise = uneven(2)
    for values in ([1.02, 1.01, 1.0, 1.0, 0.99, 0.98, 0, 0], [1.7, 1.66, 1.1, 1, 0.9, 0.7, 0.6, 0]):
        found = np.array(values)
        assert not noise.reliability(np.eye(D), found, 1, float(found.sum())).any()
    first = np.array([1.7, 1.4, 1.1, 1.0, 0.9, 0.7, 0.6, 0.0])
    assert noise.reliability(np.eye(D), first, 1, 7.4)[0] > 0.9
