"""Persons who come on several days: those who came on as many as stated bring nothing more."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.adjacency import Unit
from eigenveil.rows.base import RowSource
from eigenveil.rows.ids import earlier_spellings, person_label
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.units import GroupedSource, grouped

__all__ = ["CappedRows", "capped"]


class CappedRows(GroupedSource):
    """The rows of a day whose persons have days left, each person's protected together."""

    def __init__(self, rows: np.ndarray[Any, Any], ids: list[str], unit: Unit) -> None:
        super().__init__(ArraySource(rows), ids)
        self._unit = unit


def capped(
    source: RowSource,
    groups: Any,
    came: Mapping[str, int],
    most: int,
    *,
    merged_ids: bool = True,
) -> tuple[CappedRows, dict[str, int]]:
    """Return the rows of persons who came on fewer than ``most`` days, and who came how often now.

    What becomes of a row depends on its own person alone. ``came`` goes by hashes of ids.
    ``merged_ids`` says whether 7 and 0007 were one person from the start; if not, days of other
    spellings count as well.
    """
    if groups is not None:
        source = grouped(source, groups)
    if not source.protects.owns_many:
        raise InvalidParameterError("say whose each row is: pass groups, one id for each row")
    rows, owners = source.whole_units()
    labels = [person_label(label) for label in source.unit_ids()]
    hashes = [_hash(label) for label in labels]
    days = [came.get(each, 0) for each in hashes]
    if not merged_ids:
        for i, known in enumerate(source.unit_spellings()):
            earlier = earlier_spellings(labels[i], known)
            days[i] += sum(came.get(_hash(other), 0) for other in earlier)
    left = np.array(days, dtype=np.int64) < most
    now = dict(came)
    for each in {each for each, stays in zip(hashes, left, strict=True) if stays}:
        now[each] = now.get(each, 0) + 1
    kept = left[owners]
    ids = [hashes[owner] for owner in owners[kept].tolist()]
    return CappedRows(rows[kept], ids, source.protects), now


def _hash(label: str) -> str:
    return hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()
