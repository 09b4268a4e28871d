"""Floating-point draws, for laws that the lattice sampler does not cover.

A float is not a real number: what is built on these draws has idealised numerics, and a
mechanism that uses them says so (``exact = False``).
"""

from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.numerics.random import NoiseSource

__all__ = ["normals", "uniforms"]


def uniforms(source: NoiseSource, count: int) -> NDArray[np.float64]:
    """Independent uniform draws from the open interval (0, 1), in steps of 2**-52."""
    words = source.words(count) >> np.uint64(12)
    return (words.astype(np.float64) + 0.5) * 2.0**-52


def normals(source: NoiseSource, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Independent standard normal draws."""
    return np.asarray(ndtri(uniforms(source, prod(shape)))).reshape(shape)
