"""A reader of TOML that checks keys and types, for `configuration`.

An unknown key, a value of another kind and a key that is missing are each one line that names the
key. Paths are relative to the file.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.storage.paths import read_regular

_LARGEST = 1 << 24  # bytes of a file
_DEEPEST = 200  # folders in a path

Built = TypeVar("Built")


class Key(NamedTuple):
    """What a key holds: in words, and as a function that has None for anything else."""

    wanted: str
    read: Callable[[Any], Any]
    required: bool = False


def text(value: Any) -> str | None:
    """Return text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value and "\0" not in value else None


def _path(value: Any) -> Path | None:
    found = text(value)
    return None if found is None or len(Path(found).parts) > _DEEPEST else Path(found)


def _number(value: Any) -> float | None:
    if type(value) not in (int, float):  # true is an int to Python
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _numbers(value: Any) -> tuple[float, ...] | None:
    found = tuple(map(_number, value)) if isinstance(value, list) and value else (None,)
    return None if None in found else tuple(n for n in found if n is not None)


def _names(value: Any) -> tuple[str, ...] | None:
    named = isinstance(value, list) and value and all(text(name) for name in value)
    return tuple(value) if named and len(set(value)) == len(value) else None


def _range(value: Any) -> tuple[float, ...] | None:
    found = _numbers(value)
    return found if found is not None and len(found) == 2 else None


def _ranges(value: Any) -> Any:
    if not isinstance(value, dict):
        return _range(value)
    found = {name: _range(each) for name, each in value.items()}
    return found if found and None not in found.values() else None


TEXT = Key("text", text)
PATH = Key("the path of a file or folder, in quotes", _path)
NUMBER = Key("a number", _number)
WHOLE = Key("a whole number", lambda value: value if type(value) is int else None)
NAMES = Key('names in a list, each once, such as ["age", "height"]', _names)
SCALE = Key(
    "a number, or a list with one for each column",
    lambda value: _number(value) if _numbers(value) is None else _numbers(value),
)
BOUNDS = Key("[low, high], or a table such as { age = [0, 120], height = [40, 250] }", _ranges)
NORM = Key('a number or "private"', lambda value: value if value == "private" else _number(value))


def needed(key: Key) -> Key:
    """Return the same key, which must be there."""
    return key._replace(required=True)


def parsed(path: Path) -> dict[str, Any]:
    """Return the document in a file."""
    try:
        return tomllib.loads(read_regular(path, _LARGEST).decode())
    except OSError:
        raise InvalidDataError(f"no readable file at {path}: check the path") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, too many digits
        where = f" ({error})" if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise InvalidParameterError(
            f'{path.name} is not TOML{where}: write key = value below [sections], text in "quotes"'
        ) from None


def sections(
    path: Path, document: dict[str, Any], known: Mapping[str, Mapping[str, Key]]
) -> list[dict[str, Any]]:
    """Return each section by its keys, with paths taken from the file's folder."""
    for name in document:
        if name not in known:
            raise InvalidParameterError(
                f"{path.name} holds the unknown section or key {name!r}: choose from "
                f"{', '.join(f'[{section}]' for section in known)}"
            )
    for name in known:
        if not isinstance(document.get(name), dict):
            raise InvalidParameterError(f"{path.name} has no section [{name}]: add it")
    return [values_of(path, name, document[name], keys) for name, keys in known.items()]


def tables(path: Path, owners: Any, known: Mapping[str, Key]) -> dict[str, dict[str, Any]]:
    """Return the owners by name."""
    if not (isinstance(owners, dict) and owners):
        raise InvalidParameterError(f"{path.name} has no owners: add a section [owners.NAME] each")
    for name, owner in owners.items():
        if not isinstance(owner, dict):
            raise InvalidParameterError(
                f"{path.name} holds {name!r} in [owners]: add a section [owners.NAME] for each"
            )
    return {name: values_of(path, f"owners.{name}", owner, known) for name, owner in owners.items()}


def values_of(
    path: Path, section: str, table: Mapping[str, Any], known: Mapping[str, Key]
) -> dict[str, Any]:
    """Return the values of a section, with paths taken from the file's folder."""
    values = {}
    for name, value in table.items():
        if name not in known:
            raise InvalidParameterError(
                f"{path.name} holds the unknown key {name!r} in [{section}]: choose from "
                f"{', '.join(known)}"
            )
        found = known[name].read(value)
        if found is None:
            raise InvalidParameterError(
                f"{path.name} does not understand {name} in [{section}]: give {known[name].wanted}"
            )
        values[name] = path.parent / found if isinstance(found, Path) else found
    for name, key in known.items():
        if key.required and name not in values:
            raise InvalidParameterError(
                f"{path.name} has no {name} in [{section}]: add it, {key.wanted}"
            )
    return values


def built(path: Path, build: Callable[[], Built]) -> Built:
    """Return what the values stand for, or what is impossible about them."""
    try:
        return build()
    except InvalidParameterError as error:
        raise type(error)(f"{path.name}: ", *error.args) from None
