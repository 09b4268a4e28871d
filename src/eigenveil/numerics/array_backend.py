r"""Where arrays of floats lie: in numpy's memory, or on the device of another library.

What is written against a `Place` runs in both. Normal draws on a device come from ChaCha20 (RFC
8439) with a key of 256 bits from the noise source, a fresh one for each call, and the Box-Muller
transform: their law is that of `normals`, as far as the cipher cannot be told from chance.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.random import NoiseSource, normals

_DOUBLE_ROUNDS = 10
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<i4")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A namespace of the array API standard and one of its devices."""

    xp: Any = np
    device: Any = "cpu"

    def there(self, array: NDArray[Any]) -> Any:
        """Return an array of numpy as one of this place."""
        return array if self.xp is np else self.xp.asarray(array, device=self.device)

    def host(self, array: Any) -> NDArray[Any]:
        """Return an array of this place as one of numpy."""
        if self.xp is np:
            return np.asarray(array)
        return np.asarray(array.get() if hasattr(array, "get") else _on_cpu(array))

    def columns(self, d: int, count: int) -> Any:
        """Return room for long columns, each in one piece; numpy's cost nothing until written."""
        if self.xp is np:
            return np.empty((d, count), order="F")
        return self.xp.empty((count, d), dtype=self.xp.float64, device=self.device).T

    def qr(self, block: Any) -> tuple[Any, NDArray[np.float64]]:
        """Return orthonormal columns, and on the host the triangle that makes them ``block``.

        On a device by Cholesky, twice: products of long columns alone. Columns that depend on each
        other go the long way.
        """
        if self.xp is np:
            q, r = np.linalg.qr(block)
            return q, r
        triangle = np.eye(block.shape[1])
        for _ in range(2):
            gram = self.host(block.T @ block)
            try:
                factor = np.linalg.cholesky(gram).T
            except np.linalg.LinAlgError:
                factor = np.zeros_like(gram)
            if not np.diagonal(factor).min() > 1e-7 * np.diagonal(factor).max():
                q, r = self.xp.linalg.qr(block)
                return q, self.host(r) @ triangle
            block = block @ self.there(np.linalg.inv(factor))
            triangle = factor @ triangle
        return block, triangle

    def inner(self, first: Any, second: Any) -> float:
        """Return the sum of products of entries."""
        if self.xp is np:
            return float(np.einsum("ij,ij->", first, second))
        return float(self.xp.sum(first * second))

    def signed(self, rows: Any) -> NDArray[np.float64]:
        """Return rows on the host, each with its entry of largest magnitude made positive.

        The same signs everywhere.
        """
        xp = self.xp
        largest = self.host(xp.argmax(xp.abs(rows), axis=1))
        entries = np.array([float(rows[i, int(j)]) for i, j in enumerate(largest)])
        signs = self.there(np.where(entries < 0, -1.0, 1.0))
        return np.ascontiguousarray(self.host(rows * signs[:, None]))

    def normals(self, source: NoiseSource, shape: tuple[int, ...]) -> Any:
        """Return independent standard normal draws."""
        if self.xp is np:
            return normals(source, shape)
        xp, count = self.xp, math.prod(shape)
        pairs = -(-count // 2)
        key = source.words(4).view("<i4")
        words = chacha_words(self, key, -(-4 * pairs // 16))[: 4 * pairs]
        uniform = _uniforms(xp, words)
        radius = xp.sqrt(-2.0 * xp.log(uniform[:pairs]))
        angle = (2 * math.pi) * uniform[pairs:]
        both = xp.concat([radius * xp.cos(angle), radius * xp.sin(angle)])
        return xp.reshape(both[:count], shape)


HOST = Place()


def chacha_words(place: Place, key: NDArray[np.int32], blocks: int, first: int = 0) -> Any:
    """Return the 32-bit words, as int32, of so many blocks of ChaCha20 with a nonce of zeros.

    The counter has 64 bits, as in the cipher's first description: no key repeats itself.
    """
    xp = place.xp
    counter = first + xp.arange(blocks, dtype=xp.int64, device=place.device)
    count = xp.stack([_low_word(xp, counter), xp.astype(counter >> 32, xp.int32)])
    fixed = place.there(np.concatenate([_CONSTANTS, key]).astype(np.int32))
    zeros = xp.zeros((2, blocks), dtype=xp.int32, device=place.device)
    a, b, c = (fixed[i : i + 4, None] + zeros[:1, :] for i in (0, 4, 8))
    d = xp.concat([count, zeros])
    start = a, b, c, d
    for _ in range(_DOUBLE_ROUNDS):
        a, b, c, d = _quarter_rounds(a, b, c, d)
        b, c, d = (xp.roll(part, -turn, axis=0) for part, turn in ((b, 1), (c, 2), (d, 3)))
        a, b, c, d = _quarter_rounds(a, b, c, d)
        b, c, d = (xp.roll(part, turn, axis=0) for part, turn in ((b, 1), (c, 2), (d, 3)))
    final = [part + begun for part, begun in zip((a, b, c, d), start, strict=True)]
    return xp.reshape(xp.concat(final).T, (-1,))


def _low_word(xp: Any, numbers: Any) -> Any:
    """Return the lowest 32 bits, as int32."""
    low = numbers & 0xFFFFFFFF
    return xp.astype(xp.where(low >= 1 << 31, low - (1 << 32), low), xp.int32)


def _quarter_rounds(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Return what becomes of four columns at a time."""
    for first, second in ((16, 12), (8, 7)):
        a = a + b
        d = _rotated(d ^ a, first)
        c = c + d
        b = _rotated(b ^ c, second)
    return a, b, c, d


def _rotated(words: Any, bits: int) -> Any:
    """Return signed words with their bits turned to the left."""
    return (words << bits) | ((words >> (32 - bits)) & ((1 << bits) - 1))


def _uniforms(xp: Any, words: Any) -> Any:
    """Return numbers from the open interval (0, 1), in steps of 2**-52, from two words each."""
    half = words.shape[0] // 2
    high = xp.astype((words[:half] >> 6) & ((1 << 26) - 1), xp.float64)
    low = xp.astype((words[half:] >> 6) & ((1 << 26) - 1), xp.float64)
    return (high * 2.0**26 + low + 0.5) * 2.0**-52


def _on_cpu(array: Any) -> Any:
    return array.detach().cpu() if hasattr(array, "detach") else array
