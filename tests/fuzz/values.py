"""Odd values: numbers, names, JSON, bytes."""

import copy
import json
import random
from typing import Any

__all__ = [
    "BEYOND",
    "NAMES",
    "NUMBERS",
    "any_json",
    "dumped",
    "mutated_bytes",
    "mutated_json",
    "mutated_text",
    "odd_text",
]

NUMBERS = (
    *("nan", "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e308", "-1e308", "1e300"),
    *("1e-400", "5e-324", "1e-300", "0", "-0", "-1", "0.5", "1", "2", "3", "1e-6", "1e16", "-0.0"),
    *("9" * 30, "9" * 400, "9" * 5000, "٣", "１２", "1_000", "0x10", "1e", "--", "", " ", "1,2"),
    *("1;2", " 1", "1 ", "+1", "1.", ".5", "1e5", "true", "None", "1e99", "1e101", "1e-101"),
    *("1000000000", "1000000000000000", "4294967296", "-9223372036854775809"),
)
NAMES = (
    *("", " ", " age", "age ", 'a"b', "a,b", "a=b", "=1+1", "@SUM(A1)", "a\nb", "a\rb", "a\tb"),
    *("\x1b[31mred", "\x7f", "\x85", "\u2028", "\u202eevil", "é", "e\u0301", "😀", "\udcff"),
    *("x" * 300, "x" * 5000, "-", "--k", "private", "nan", "1", "٣", "2024-01-01", "a;b", "a|b"),
    *("age", "hours", "gain", "AGE", "a:b", "age=1:2", "..", "/", "a/b", "\\", "%s", "{}", "'"),
)
BEYOND = (10**16, 10**400, -(10**16), 1e308, -1e308, 5e-324, 2**63, 2**64, -1, 0)
_DEEP, _NESTED = "@deep", "[" * 3000 + "]" * 3000  # which `json.dumps` itself cannot write
_WORDS = (
    "",
    "text",
    "x" * 3000,
    "\x00",
    "\n",
    "\u202e",
    "<b>",
    "\ud800",
    "nan",
    "1",
    "é",
    "a" * 64,
)


def any_json(rng: random.Random, deep: int = 2) -> Any:
    """Return a value of any type that JSON has, and of one that only Python's reader takes."""
    match rng.randrange(9 if deep else 6):
        case 0:
            return rng.choice((None, True, False))
        case 1:
            return rng.choice((0, 1, 2, 3, -1, 7, 1000))
        case 2:
            return rng.choice(BEYOND)
        case 3:
            return rng.choice((0.5, 1.5, -0.0, 1e-6, 1e300, float("nan"), float("inf")))
        case 4 | 5:
            return rng.choice(_WORDS)
        case 6:
            return [any_json(rng, deep - 1) for _ in range(rng.randrange(4))]
        case 7:
            return {rng.choice(_WORDS): any_json(rng, deep - 1) for _ in range(rng.randrange(3))}
    return _DEEP


def _places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members: Any = ()
    if isinstance(document, dict):
        members = document.items()
    elif isinstance(document, list):
        members = enumerate(document[:50])
    return [at, *(place for key, value in members for place in _places(value, (*at, key)))]


def mutated_json(rng: random.Random, document: Any, changes: int = 1) -> Any:
    """Return a document with values replaced, removed, added, doubled or exchanged."""
    document = copy.deepcopy(document)
    for _ in range(changes):
        places = [place for place in _places(document) if place]
        if not places:
            return any_json(rng)
        *path, key = rng.choice(places)
        parent = document
        for step in path:
            parent = parent[step]
        match rng.randrange(8):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(("extra", "", "kind", "format"))] = any_json(rng)
            case 1 | 2 if isinstance(parent, list):
                parent.insert(key, any_json(rng))
            case 3:
                parent[key] = _near(rng, parent[key])
            case 4:  # a value from elsewhere in the document
                *other, last = rng.choice(places)
                source = document
                try:
                    for step in other:
                        source = source[step]
                    parent[key] = copy.deepcopy(source[last])
                except (KeyError, IndexError, TypeError):
                    parent[key] = None
            case _:
                parent[key] = any_json(rng)
    return document


def _near(rng: random.Random, value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, value * 10**6, 0, 0.5))
    if isinstance(value, float):
        return rng.choice((-value, value * 2, 0.0, value * 1e200, 1))
    if isinstance(value, str):
        return rng.choice((value.upper(), value + " ", value[:-1], value + "\n", odd_text(rng)))
    if isinstance(value, list):
        return rng.choice((value + value, value[:-1], value[::-1], [value]))
    return any_json(rng)


def odd_text(rng: random.Random) -> str:
    """Return a name that somebody might choose to make trouble."""
    return rng.choice(NAMES)


def dumped(document: Any) -> bytes:
    """Return the JSON of a document, half characters and numbers that are none included."""
    return json.dumps(document).replace(f'"{_DEEP}"', _NESTED).encode()


def mutated_bytes(rng: random.Random, data: bytes, changes: int | None = None) -> bytes:
    """Return bytes with some flipped, cut, doubled, moved or added."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8)) if changes is None else changes):
        at = rng.randrange(len(changed) + 1)
        size = rng.choice((1, 1, 2, 4, 8, 64))
        match rng.randrange(8):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = rng.randbytes(size)
            case 3:
                changed[at:at] = changed[at : at + size]
            case 4:
                changed[at : at + size] = rng.choice((b"\0", b"\xff")) * len(
                    changed[at : at + size]
                )
            case _ if changed:
                place = min(at, len(changed) - 1)
                changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def mutated_text(rng: random.Random, text: str) -> bytes:
    """Return the bytes of a text with words and characters exchanged, doubled or cut."""
    match rng.randrange(4):
        case 0:
            return mutated_bytes(rng, text.encode())
        case 1:
            lines = text.splitlines(keepends=True)
            rng.shuffle(lines)
            return "".join(lines).encode()
        case 2:
            lines = text.splitlines(keepends=True)
            return "".join(rng.choice(lines) for _ in range(len(lines) + 2)).encode()
    at = rng.randrange(len(text) + 1)
    return (text[:at] + odd_text(rng) + text[at:]).encode("utf-8", "replace")
