"""Persons in streams and continual releases: a stated number of records or days for each.

A person is known by a keyed hash of the id. The key and the hashes are part of the private state,
so that a person who comes back in another process is known again, and no id is stored.
Proof: docs/proofs/streaming.md, *Persons*.
"""

import hashlib
import secrets
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Gate
from eigenveil.rows.base import RowSource
from eigenveil.rows.ids import earlier_spellings, person_label
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.units import GroupedSource, grouped

_HASH_BYTES, _KEY_BYTES = 16, 32
_ARRAYS = ("persons_key", "persons_known", "persons_counts")


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Rows that arrive together, and whose they are. Private.

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
class StreamPersons:
    """How many records of each person a stream has taken. Private.

    Attributes
    ----------
    key : bytes
        Of the hashes; random.
    counts : dict
        For every hash the number of records that were taken.

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
        return hashlib.blake2b(text, key=self.key, digest_size=_HASH_BYTES).digest()

    def taken(self, person: bytes) -> int:
        """Return the number of records that were taken of a person, however spelled."""
        spellings = (person, *self._earlier.get(person, ()))
        return sum(self.counts.get(spelling, 0) for spelling in spellings)

    def admitted(self, persons: Sequence[bytes], most: int) -> NDArray[np.intp]:
        """Return the places of persons of whom fewer than ``most`` records were taken."""
        return np.flatnonzero([self.taken(person) < most for person in persons])

    def arrive(self, persons: Sequence[bytes]) -> None:
        """Note one more record of each."""
        for person in persons:
            self.counts[person] = self.counts.get(person, 0) + 1

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return the arrays that a state keeps."""
        parts = (
            np.frombuffer(self.key, dtype=np.int64),
            np.frombuffer(b"".join(self.counts), dtype=np.int64),
            np.array(list(self.counts.values()), dtype=np.int64),
        )
        return dict(zip(_ARRAYS, parts, strict=True))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self | None:
        """Return what `arrays` made; None without, `ValueError` for anything else."""
        if not any(name in arrays for name in _ARRAYS):
            return None
        found = [arrays.get(name) for name in _ARRAYS]
        if any(a is None or a.dtype != np.int64 or a.ndim != 1 for a in found):
            raise ValueError
        key, known, counts = (np.asarray(a) for a in found)
        data = known.tobytes()
        hashes = [data[i : i + _HASH_BYTES] for i in range(0, len(data), _HASH_BYTES)]
        times = dict(zip(hashes, counts.tolist(), strict=True))
        if (
            len(key.tobytes()) != _KEY_BYTES
            or len(data) % _HASH_BYTES
            or len(times) != len(hashes)
            or (counts < 1).any()
        ):
            raise ValueError
        return cls(key.tobytes(), times)


def capped(
    source: RowSource,
    groups: Any,
    came: Mapping[str, int],
    most: int,
    *,
    merged_ids: bool = True,
) -> tuple[GroupedSource, dict[str, int]]:
    """Return the rows of persons who came on fewer than ``most`` days, and who came how often now.

    What becomes of a row depends on its own person alone. ``came`` goes by hashes of ids.
    ``merged_ids`` says whether 7 and 0007 were one person from the start; if not, days of other
    spellings count as well.
    """
    if groups is not None:
        source = grouped(source, groups)
    if not source.units.protects.owns_many:
        raise InvalidParameterError("say whose each row is: pass groups, one id for each row")
    rows, owners = source.whole_units()
    labels = [person_label(label) for label in source.units.ids()]
    hashes = [_hash(label) for label in labels]
    days = [came.get(each, 0) for each in hashes]
    if not merged_ids:
        for i, known in enumerate(source.units.spellings()):
            earlier = earlier_spellings(labels[i], known)
            days[i] += sum(came.get(_hash(other), 0) for other in earlier)
    left = np.array(days, dtype=np.int64) < most
    now = dict(came)
    for each in {each for each, stays in zip(hashes, left, strict=True) if stays}:
        now[each] = now.get(each, 0) + 1
    kept = left[owners]
    ids = [hashes[owner] for owner in owners[kept].tolist()]
    return GroupedSource(ArraySource(rows[kept]), ids, source.units.protects), now


def _hash(label: str) -> str:
    return hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()
