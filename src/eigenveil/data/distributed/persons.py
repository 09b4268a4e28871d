"""Which part a person's rows go to, the same on every machine."""

import hashlib
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.ids import kind_of, person_label
from eigenveil.data.sources.readings import Fingerprint
from eigenveil.data.sources.tables import as_table
from eigenveil.data.sources.units import LabelledRows
from eigenveil.exceptions import InvalidDataError

__all__ = ["gathered", "labelled_part", "scattered"]

Piece = tuple[NDArray[Any], list[Hashable], set[type]]  # rows, ids, kinds of ids of the part


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
    found.add(table, np.array(list(map(_place, labels)), dtype=np.int64))
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
    kinds = set(map(kind_of, map(person_label, labels)))
    targets = np.array([_place(label) % parts for label in labels], dtype=np.intp)
    return [
        (table[places], [labels[i] for i in places], kinds)
        for places in (np.flatnonzero(targets == part) for part in range(parts))
    ]


def gathered(pieces: Sequence[Piece]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a new part, with the ids of its rows."""
    if len(set().union(*(kinds for _, _, kinds in pieces))) > 1:
        raise InvalidDataError(
            "ids mix text and numbers, so that one person could have two: store them as one type"
        )
    ids = [label for _, labels, _ in pieces for label in labels]
    rows = np.concatenate([table for table, _, _ in pieces])
    return rows, np.array([*ids, None], dtype=object)[:-1]


def _place(label: Any) -> int:
    """Return a number that is the same for all spellings of an id, in every process.

    Python's own hash of text or of a date differs from process to process; that of a number does
    not, and is the same for 7 and 7.0.
    """
    label = person_label(label)
    if isinstance(label, date):
        label = _moment(label)
    if isinstance(label, str):
        return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=7).digest(), "big")
    return hash(label)


def _moment(label: date) -> str:
    """Return the same text for dates that are equal, such as one moment in two time zones."""
    if isinstance(label, datetime) and label.utcoffset() is not None:
        label = label.astimezone(UTC)
    return label.isoformat()
