"""Persons in streams and running releases: a stated number of records or days for each.

A person is known by a hash of the id, which in streams has a key. Key and hashes are part of the
private state, so that a person who comes back in another process is known again, and no id is
stored. Proof: docs/proofs/streaming.md, *Persons*.
"""

import hashlib
import secrets
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.gate import Gate
from eigenveil.privacy.adjacency import Unit
from eigenveil.rows.ids import earlier_spellings, person_label
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.units import GroupedSource

_HASH_BYTES, _KEY_BYTES, _PLAIN_BYTES = 16, 32, 32
_ARRAYS = ("persons_key", "persons_known", "persons_counts")


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Rows that arrive together, and their persons. Private.

    Attributes
    ----------
    rows : array of shape (n, d)
        All rows.
    owners : array of shape (n,)
        For each the number of its person, from 0 on.
    persons : list of bytes
        The hash of each person's id, by these numbers.

    """

    rows: NDArray[Any]
    owners: NDArray[np.intp]
    persons: list[bytes]

    def one_row_each(self, gate: Gate) -> tuple[NDArray[Any], list[bytes]]:
        """Return one row of each person and whose it is, by secret and uniform choice and order.

        Neither choice nor order depends on how the rows are sorted or how many others have.
        """
        order = gate.order(len(self.rows))
        _, first = np.unique(self.owners[order], return_index=True)
        places = gate.order(len(self.persons))
        return self.rows[order[first[places]]], [self.persons[place] for place in places]


@dataclass(slots=True, eq=False)
class Persons:
    """How often each person came. Private.

    Attributes
    ----------
    key : bytes
        Random key of the hashes; empty for plain ones, as states of running releases have them.
    counts : dict
        For every hash the number of records, or of days, that were taken.

    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES))
    counts: dict[bytes, int] = field(default_factory=dict)
    _earlier: dict[bytes, list[bytes]] = field(default_factory=dict)

    def hashed(
        self, ids: Sequence[Hashable], spellings: Sequence[Iterable[Hashable]] | None = None
    ) -> list[bytes]:
        """Return the hash of each id.

        ``spellings`` of each are given if counts began with an earlier version, which took 7 and
        0007 for two persons: those of other spellings then count as well.
        """
        labels = [person_label(label) for label in ids]
        persons = [self._hash(label) for label in labels]
        if spellings is not None:
            for label, person, known in zip(labels, persons, spellings, strict=True):
                earlier = earlier_spellings(label, known)
                self._earlier[person] = [self._hash(other) for other in earlier]
        return persons

    def _hash(self, label: str) -> bytes:
        text = label.encode("utf-8", "surrogatepass")
        if not self.key:
            return hashlib.sha256(text).digest()
        return hashlib.blake2b(text, key=self.key, digest_size=_HASH_BYTES).digest()

    def taken(self, person: bytes) -> int:
        """Return how often a person was taken, however spelled."""
        spellings = (person, *self._earlier.get(person, ()))
        return sum(self.counts.get(spelling, 0) for spelling in spellings)

    def admitted(self, persons: Sequence[bytes], most: int) -> NDArray[np.intp]:
        """Return the places of persons who were taken fewer than ``most`` times."""
        return np.flatnonzero([self.taken(person) < most for person in persons])

    def arrive(self, persons: Iterable[bytes]) -> None:
        """Count each once more."""
        for person in persons:
            self.counts[person] = self.counts.get(person, 0) + 1

    def document(self) -> dict[str, Any]:
        """Return plain hashes as the document of a state holds them."""
        if self.key:
            return {}
        return {"persons": {person.hex(): times for person, times in self.counts.items()}}

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return keyed hashes as the arrays of a state hold them."""
        if not self.key:
            return {}
        parts = (
            np.frombuffer(self.key, dtype=np.int64),
            np.frombuffer(b"".join(self.counts), dtype=np.int64),
            np.array(list(self.counts.values()), dtype=np.int64),
        )
        return dict(zip(_ARRAYS, parts, strict=True))

    @classmethod
    def read(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Return the persons of a state; None without any, `ValueError` for anything else."""
        if "persons" in document:
            key, size, noted = b"", _PLAIN_BYTES, document["persons"]
            hashes, times = [bytes.fromhex(each) for each in noted], list(noted.values())
        elif any(name in arrays for name in _ARRAYS):
            found = [arrays.get(name) for name in _ARRAYS]
            if any(a is None or a.dtype != np.int64 or a.ndim != 1 for a in found):
                raise ValueError
            key, data, _ = (np.asarray(a).tobytes() for a in found)
            if len(key) != _KEY_BYTES:
                raise ValueError
            size, times = _HASH_BYTES, arrays[_ARRAYS[2]].tolist()
            hashes = [data[i : i + size] for i in range(0, len(data), size)]
        else:
            return None
        counts = dict(zip(hashes, times, strict=True))
        if (
            len(counts) != len(hashes)
            or any(len(each) != size for each in hashes)
            or any(type(each) is not int or each < 1 for each in times)
        ):
            raise ValueError
        return cls(key, counts)


class CappedRows(GroupedSource):
    """The rows of a day whose persons have days left, each person's protected together."""

    def __init__(self, arrival: Arrival, admitted: NDArray[np.intp], unit: Unit) -> None:
        kept = np.isin(arrival.owners, admitted)
        hashes = [person.hex() for person in arrival.persons]
        ids = [hashes[owner] for owner in arrival.owners[kept].tolist()]
        super().__init__(ArraySource(arrival.rows[kept]), ids, unit)
