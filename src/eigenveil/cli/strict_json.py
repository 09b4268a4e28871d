"""JSON objects from elsewhere, with finite numbers and proper text only."""

import json
import math
from typing import Any, NoReturn

__all__ = ["strict_json"]

_LARGEST_INTEGER = 2**53  # beyond, JSON written by a browser means a float


def strict_json(data: bytes) -> dict[str, Any]:
    """Return a JSON object in UTF-8; raise `ValueError` or `RecursionError` for anything else.

    Python's parser also reads infinities, integers of any size, UTF-16 and half characters, which
    fail later wherever they are used.
    """
    found = json.loads(
        data.decode("utf-8"), parse_int=_integer, parse_float=_finite, parse_constant=_refuse
    )
    if not isinstance(found, dict):
        raise ValueError("not an object")
    json.dumps(found, ensure_ascii=False).encode("utf-8")  # refuses half characters
    return found


def _integer(digits: str) -> int | float:
    number = _finite(digits)
    return int(digits) if abs(number) <= _LARGEST_INTEGER else number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number too large")
    return number


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
