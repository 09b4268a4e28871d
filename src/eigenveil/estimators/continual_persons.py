"""Persons who come on several days: those who came on as many as stated bring nothing more."""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from eigenveil.data.sources import ArraySource, GroupedSource, LabelledSource, RowSource, UnitSource
from eigenveil.data.sources.ids import numbered, person_label
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy.adjacency import Unit

__all__ = ["CappedRows", "capped"]


class CappedRows(GroupedSource):
    """The rows of a day whose persons have days left, each person's protected together."""

    def __init__(self, rows: np.ndarray[Any, Any], ids: list[str], unit: Unit) -> None:
        super().__init__(ArraySource(rows), ids)
        self._unit = unit


def capped(
    source: RowSource, groups: Any, came: Mapping[str, int], most: int
) -> tuple[CappedRows, dict[str, int]]:
    """Return the rows of persons who came on fewer than ``most`` days, and who came how often now.

    What becomes of a row depends on its own person alone. ``came`` goes by hashes of ids.
    """
    if isinstance(source, LabelledSource):
        if groups is not None:
            raise InvalidParameterError(
                "these rows say already whose they are: leave one of groups and unit out"
            )
        parts = list(source.labelled_tables())
        rows = np.concatenate([np.empty((0, source.n_columns)), *(chunk for chunk, _ in parts)])
        labels: Iterable[Hashable] = [label for _, some in parts for label in some]
    elif groups is None or isinstance(source, UnitSource):
        raise InvalidParameterError("say whose each row is: pass groups, one id for each row")
    else:
        rows = source.whole()
        numbered(groups)  # refuses ids that tell nobody apart
        labels = np.asarray(groups, dtype=object).tolist()
    hashes = [_hashed(label) for label in labels]
    if len(hashes) != len(rows):
        raise InvalidDataError("groups must hold one id for each row, in their order")
    kept = [came.get(each, 0) < most for each in hashes]
    now = dict(came)
    for each in {each for each, keeps in zip(hashes, kept, strict=True) if keeps}:
        now[each] = now.get(each, 0) + 1
    ids = [each for each, keeps in zip(hashes, kept, strict=True) if keeps]
    return CappedRows(rows[np.array(kept, dtype=bool)], ids, _unit(source)), now


def _unit(source: RowSource) -> Unit:
    return source.protects if source.protects.owns_many else Unit("group")


def _hashed(label: Hashable) -> str:
    """Return the hash of an id: 7, 7.0 and "7" are one, on whichever day they are read how."""
    known = person_label(label)
    if isinstance(known, Real):
        known = int(known) if float(known).is_integer() else float(known)
    return hashlib.sha256(str(known).encode()).hexdigest()
