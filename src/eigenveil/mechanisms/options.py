"""Values that the options of a mechanism may have, as their types declare."""

import math
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from eigenveil.exceptions import InvalidParameterError

__all__ = ["check_options"]

_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
_WORDS = {int: "a positive integer", float: "a positive number", bool: "True or False"}


def check_options(mechanism: Any) -> None:
    """Refuse an option of a dataclass whose value is none of its type; numbers are positive."""
    kinds = get_type_hints(type(mechanism))
    for option in fields(mechanism):
        kind = kinds[option.name]
        if not _accepts(kind, getattr(mechanism, option.name)):
            raise InvalidParameterError(f"{option.name} must be {' or '.join(_words(kind))}")


def _accepts(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if parts := get_args(kind):  # a union
        return any(_accepts(part, value) for part in parts)
    if kind in _NUMBERS:
        number = isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
        return number and 0 < value < math.inf
    return isinstance(value, kind)


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return list(map(repr, get_args(kind)))
    if parts := get_args(kind):
        return [word for part in parts if part is not type(None) for word in _words(part)]
    return [_WORDS.get(kind) or f"a {kind.__name__}"]
