"""Ids that say whose a row is, numbered in the order in which they first appear.

An id that is missing, or of a kind that cannot tell persons apart, is refused and never shown.
"""

import unicodedata
from collections.abc import Hashable, Iterable
from datetime import date
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError

__all__ = ["PersonNumbers", "id_array", "kind_of", "numbered", "person_label"]

# Spellings of a missing id, as programs write it.
_MISSING = frozenset(
    [
        "nan",
        "-nan",
        "na",
        "n/a",
        "#n/a",
        "#na",
        "none",
        "null",
        "nil",
        "<na>",
        "nat",
        ".",
        "?",
        "-1.#ind",
        "1.#ind",
        "-1.#qnan",
        "1.#qnan",
    ]
) | {"", "#n/a n/a"}


class PersonNumbers(dict[Hashable, int]):
    """Numbers of persons in the order in which they first appear, by every spelling of an id."""

    def __init__(self) -> None:
        super().__init__()
        self._persons: dict[Hashable, int] = {}

    def __missing__(self, label: Hashable) -> int:
        number = self._persons.setdefault(person_label(label), len(self._persons))
        self[label] = number
        return number

    @property
    def ids(self) -> list[Hashable]:
        """The id of each person, by their numbers."""
        return list(self._persons)

    def of(self, labels: Iterable[Hashable]) -> NDArray[np.intp]:
        """Return the number of the person of each label."""
        return np.array([self[label] for label in labels], dtype=np.intp)


def id_array(ids: Any) -> NDArray[Any]:
    """Return ids as an array with one for each row."""
    if np.ma.isMaskedArray(ids) and np.ma.getmaskarray(ids).any():
        raise _missing()
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidParameterError("groups must hold one id for each row")
    # numpy would turn a list of text and numbers, or of missing values, into text.
    array = np.asarray(ids) if hasattr(ids, "__array__") else np.array([*ids, None], object)[:-1]
    if array.ndim != 1:
        raise InvalidParameterError("groups must hold one id for each row: pass a single column")
    return array


def numbered(array: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each row the number of its id, in the order in which ids first appear."""
    if array.dtype.kind in "iufmM":
        if array.dtype.kind in "fmM" and (array != array).any():
            raise _missing()
        _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
        places = np.empty(len(first), dtype=np.intp)
        places[np.argsort(first)] = np.arange(len(first))
        return np.asarray(places[inverse])
    labels = array.tolist()
    try:
        units = PersonNumbers().of(labels)
    except TypeError:  # an id that is no value, such as a list
        raise _missing() from None
    if len(set(map(kind_of, labels))) > 1:
        # Read in parts, a column may hold the same id as 7 here and as "7" there.
        raise InvalidDataError(
            "ids mix text and numbers, so that one person could have two: store them as one type"
        )
    return units


def kind_of(label: Any) -> type:
    """Return the type of a label; refuse composite ones, whose parts could be missing."""
    for kind in (str, bytes, Real, date):
        if isinstance(label, kind):
            return kind
    raise _missing()


def person_label(label: Any) -> Hashable:
    """Return an id that tells persons apart, without space around it; refuse a missing one."""
    try:
        if isinstance(label, (str, bytes)):
            text = label.decode("latin-1") if isinstance(label, bytes) else label
            text = unicodedata.normalize("NFC", text)
            label = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
            known = label.lower() not in _MISSING
        else:
            known = label is not None and bool(label == label)
        hash(label)
    except (TypeError, ValueError):
        known = False
    if not known:
        raise _missing()
    result: Hashable = label
    return result


def _missing() -> InvalidDataError:
    return InvalidDataError(
        "a row has no id that says whose it is: fill it in or drop the row; ids are text or numbers"
    )
