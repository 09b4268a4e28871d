"""The one source of randomness, and floating-point draws from it.

A release draws from the operating system and keeps no state, so forks, threads and copies
cannot share or repeat a stream. The seeded source exists for simulations; whatever it touches
is marked as not private.

A float is not a real number: what is built on these draws has idealised numerics, and a
mechanism that uses them says so (``exact = False``).
"""

import hashlib
import itertools
import os
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.exceptions import InvalidParameterError


class NoiseSource(Protocol):
    """Uniform random bits."""

    @property
    def simulated(self) -> bool:
        """Whether someone could reproduce the bits."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        ...

    def bound_to(self, query: NDArray[Any]) -> "NoiseSource":
        """Return the source to use for one draw on ``query``."""
        ...


class SystemSource:
    """The operating system's generator, read afresh for every draw."""

    simulated = False

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def bound_to(self, query: NDArray[Any]) -> NoiseSource:
        """Return itself: the operating system never repeats itself, so no binding is needed."""
        return self


class SimulationSource:
    """Reproducible bits for experiments; never private.

    The stream of a draw depends on the seed, on how many draws came before, and on the query.
    The same experiment gives the same result; two tables, or two draws, never share noise.
    """

    simulated = True

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise InvalidParameterError("a simulation seed must be a non-negative integer")
        self._seed = int(seed)
        self._draws = itertools.count()
        self._bits = np.random.Philox(np.random.SeedSequence(self._seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def bound_to(self, query: NDArray[Any]) -> NoiseSource:
        """Return a stream of its own for this draw and this query."""
        digest = hashlib.sha256(f"{self._seed} {next(self._draws)} {query.shape}".encode())
        if query.dtype == object:  # integers beyond int64, whose bytes are addresses
            digest.update(repr(query.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(query).tobytes())
        return SimulationSource(int.from_bytes(digest.digest(), "big"))

    def __deepcopy__(self, memo: dict[int, Any]) -> "SimulationSource":
        return self  # copies share the count of draws, so they never repeat one


def uniforms(source: NoiseSource, count: int) -> NDArray[np.float64]:
    """Independent uniform draws from the open interval (0, 1), in steps of 2**-52."""
    words = source.words(count) >> np.uint64(12)
    return (words.astype(np.float64) + 0.5) * 2.0**-52


def normals(source: NoiseSource, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Independent standard normal draws."""
    return np.asarray(ndtri(uniforms(source, prod(shape)))).reshape(shape)
