"""Which part a person's rows go to, the same on every machine."""

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.ids import PersonNumbers
from eigenveil.data.sources.readings import Fingerprint
from eigenveil.data.sources.tables import as_table
from eigenveil.data.sources.units import LabelledRows
from eigenveil.exceptions import InvalidDataError

__all__ = ["gathered", "labelled_part", "scattered"]

Piece = tuple[NDArray[Any], list[Hashable]]  # rows, and ids


def labelled_part(part: LabelledRows) -> tuple[NDArray[Any], list[Hashable]]:
    """Return the rows of a part of a file, and whose they are."""
    chunks: list[NDArray[Any]] = [np.empty((0, part.n_columns))]
    labels: list[Hashable] = []
    for chunk, some in part.labelled_chunks():
        chunks.append(chunk)
        labels += some
    return np.concatenate(chunks), labels


def mark(rows: Any, ids: Any) -> NDArray[np.int64]:
    """Return the fingerprint of the rows of one part and their ids."""
    table, labels = _labelled(rows, ids)
    found = Fingerprint()
    found.add(table, _places(labels))
    return found.numbers


def _labelled(rows: Any, ids: Any) -> tuple[NDArray[Any], list[Hashable]]:
    table = as_table(rows)
    labels = list(ids.tolist() if hasattr(ids, "tolist") else ids)
    if len(labels) != len(table):
        raise InvalidDataError("groups must hold one id for each row, in their order")
    return table, labels


def scattered(rows: Any, ids: Any, parts: int) -> list[Piece]:
    """Return the rows of one part and their ids, as a piece for each of ``parts`` new parts."""
    table, labels = _labelled(rows, ids)
    targets = _places(labels) % parts
    return [
        (table[places], [labels[i] for i in places])
        for places in (np.flatnonzero(targets == part) for part in range(parts))
    ]


def gathered(pieces: Sequence[Piece]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a new part, with the ids of its rows."""
    ids = [label for _, labels in pieces for label in labels]
    rows = np.concatenate([table for table, _ in pieces])
    return rows, np.array([*ids, None], dtype=object)[:-1]


def _places(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return a number for the person that each label names."""
    persons = PersonNumbers()
    numbers = persons.of(labels)
    return np.array([_place(label) for label in persons.ids], dtype=np.int64)[numbers]


def _place(label: str) -> int:
    """Return a number that is the same in every process, as Python's own hash is not."""
    text = label.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")
