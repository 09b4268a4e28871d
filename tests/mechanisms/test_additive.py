"""Noise on vectors: cases."""

import math

import numpy as np

from eigenveil.mechanisms import GaussianNoise, LaplaceNoise
from tests.conformance import case


def _laplace_vector_sigma(epsilon, d, adjacency):
    if adjacency is case.REPLACE:
        return np.full(d, math.sqrt(2) * 2 * math.sqrt(d) / epsilon)
    return np.full(d + 1, math.sqrt(2) * (math.sqrt(d) + 1) / epsilon)


CASES = [
    case.Case(
        "gaussian",
        lambda mu, d, k: GaussianNoise(mu=mu),
        read=lambda released: released.values,
        deviation=case.vector_sigma,
        **case.VECTOR,
    ),
    case.Case(
        "laplace vector",
        lambda epsilon, d, k: LaplaceNoise(epsilon=epsilon),
        read=lambda released: released.values,
        deviation=_laplace_vector_sigma,
        **(case.VECTOR | case.VECTOR_L1 | case.PURE),
    ),
]
