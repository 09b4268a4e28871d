"""Ids that say whose a row is, numbered in the order in which they first appear.

Ids that are equal as numbers, or as text without space around it, are one person: a table that was
read in parts may hold 7, 7.0, "7" and "0007" for the same one. Merging ids only protects more. An
id that is missing, or of a kind that cannot tell persons apart, is refused and never shown.
"""

import math
import re
import unicodedata
from collections.abc import Hashable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError

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

_NUMERAL = re.compile(r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d{1,9})?")  # in linear time

_INFINITE = dict.fromkeys(["inf", "+inf", "infinity", "+infinity"], "inf") | dict.fromkeys(
    ["-inf", "-infinity"], "-inf"
)

_MAX_DIGITS = 400  # of a whole number that is written out: more than the largest float has
_MAX_PADDED_DIGITS = 20  # of a number with zeros in front, in states that kept spellings apart


class PersonNumbers(dict[Hashable, int]):
    """Numbers of persons in the order in which they first appear, by every spelling of an id."""

    def __init__(self) -> None:
        super().__init__()
        self._persons: dict[str, int] = {}

    def __missing__(self, label: Hashable) -> int:
        number = self._persons.setdefault(person_label(label), len(self._persons))
        self[label] = number
        return number

    @property
    def ids(self) -> list[str]:
        """The one spelling of the id of each person, by their numbers."""
        return list(self._persons)

    def of(self, labels: Iterable[Hashable]) -> NDArray[np.intp]:
        """Return the number of the person of each label."""
        try:
            return np.array([self[label] for label in labels], dtype=np.intp)
        except TypeError:  # an id that is no value, such as a list
            raise _missing() from None


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
    if array.dtype.kind in "iufM":  # all of one type: what is equal has one spelling
        if array.dtype.kind == "M":
            array = array.astype("M8[us]")
        elif array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        if array.dtype.kind in "fM" and (array != array).any():
            raise _missing()
        _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
        places = np.empty(len(first), dtype=np.intp)
        places[np.argsort(first)] = np.arange(len(first))
        return np.asarray(places[inverse])
    return PersonNumbers().of(array.tolist())


def person_label(label: Any) -> str:
    """Return the one spelling of an id; refuse an id that is missing or of another kind."""
    spelled = None
    try:
        match label:
            case str():
                spelled = _spelled_text(label)
            case bytes():
                spelled = _spelled_text(_decoded(label))
            case Decimal():
                spelled = _spelled_text(str(label))
            case np.bool_() | Real() if not isinstance(label, np.timedelta64):
                spelled = _spelled_number(label)
            case date() | np.datetime64():
                spelled = _spelled_moment(label)
    except (ArithmeticError, TypeError, ValueError):
        pass
    if spelled is None:
        raise _missing()
    return spelled


def earlier_spellings(label: str, spellings: Iterable[Hashable]) -> list[str]:
    """Return the spellings that states of earlier versions may have counted apart from this one.

    ``spellings`` are those that the id has now; zeros in front and the like are added.
    """
    earlier = {_earlier_text(each) for each in spellings if isinstance(each, (str, bytes))}
    if label.isascii() and label.lstrip("-").isdecimal():
        earlier |= {label.zfill(n) for n in range(len(label) + 1, _MAX_PADDED_DIGITS + 1)}
        earlier |= {f"{label}.0", f"+{label}"}
    return sorted(earlier - {label})


def _earlier_text(label: str | bytes) -> str:
    """Return the spelling by which earlier versions knew a person."""
    return _visible(label.decode("latin-1") if isinstance(label, bytes) else label)


def _visible(text: str) -> str:
    """Return text as it looks, without space around it."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return text.strip()


def _spelled_text(text: str) -> str | None:
    """Return text as it looks, and a number in one spelling; None for a missing id."""
    text = _visible(text)
    lower = text.lower()
    if lower in _MISSING:
        return None
    return _spelled_numeral(text) or _INFINITE.get(lower, text)


def _spelled_numeral(text: str) -> str | None:
    """Return the one spelling of a number that is written out; None for other text."""
    if text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= _MAX_DIGITS:
        return text  # as nearly all are
    if _NUMERAL.fullmatch(text) is None:
        return None
    negative, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)  # of a number that is finite
    written = "".join(map(str, digits)).lstrip("0")
    exponent += len(written) - len(written := written.rstrip("0"))
    if not written:
        return "0"
    if exponent < 0:
        return _spelled_float(float(text))
    sign = "-" if negative else ""
    if len(written) + exponent > _MAX_DIGITS:
        return f"{sign}{written}e{exponent}"
    return f"{sign}{written}{'0' * exponent}"


def _spelled_number(number: Any) -> str | None:
    if isinstance(number, (Integral, np.bool_)):
        return _spelled_numeral(str(int(number)))
    if number != number:
        return None
    value = float(number)
    if math.isfinite(value) and number == int(number):
        return _spelled_numeral(str(int(number)))
    return _spelled_float(value)


def _spelled_float(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _spelled_moment(moment: date | np.datetime64) -> str | None:
    """Return a day, or a moment in UTC, as text that is the same for every type."""
    if moment != moment:
        return None
    if isinstance(moment, datetime) and moment.utcoffset() is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    whole = np.array(moment, dtype="M8[us]")
    text = np.datetime_as_string(whole)
    return str(text).rstrip("0").rstrip(".").removesuffix("T00:00:00")


def _decoded(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError:
        return label.decode("latin-1")


def _missing() -> InvalidDataError:
    return InvalidDataError(
        "a row has no id that says whose it is: fill it in or drop the row; ids are text or numbers"
    )
