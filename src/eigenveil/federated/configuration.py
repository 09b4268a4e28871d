"""What the server and the owners of a federation are told, in TOML; paths are relative to the file.

Everything is checked before anything is done with it: an unknown key, a value of another kind and
a key that is missing are each one line that names the key.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated.agreement import Agreement, Limits
from eigenveil.federated.settings import OwnerSettings
from eigenveil.storage.paths import read_regular

__all__ = ["JOURNAL", "ClientConfiguration", "ServerConfiguration", "read_client", "read_server"]

JOURNAL = "journal.sqlite"  # in the server's folder
_PATIENCE = 600.0  # s
_LARGEST = 1 << 24  # bytes of a file
_DEEPEST = 200  # folders in a path

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfiguration:
    """What a server needs.

    Attributes
    ----------
    agreement : Agreement
        What the owners have agreed on.
    address : str
        ``host:port`` to listen on.
    folder : Path
        Of the journal.
    output : Path
        Where the release will lie.
    certificate, private_key : Path or None
        Files in PEM; None without encryption.
    keys : mapping of str to Path
        Public key files of the owners; empty without encryption.

    """

    agreement: Agreement
    address: str
    folder: Path
    output: Path
    certificate: Path | None
    private_key: Path | None
    keys: Mapping[str, Path]

    @property
    def journal(self) -> Path:
        """The file in the folder."""
        return self.folder / JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfiguration:
    """What an owner's process needs.

    Attributes
    ----------
    settings : OwnerSettings
        How the owner takes part.
    server : str
        ``host:port`` to connect to.
    certificate, key : Path or None
        By which the server is checked, and the owner's private key; None without encryption.
    data, ledger, folder : Path
        The table, the ledger to charge, and where answers are kept.
    patience : float
        Seconds to go on without a word from the server.

    """

    settings: OwnerSettings
    server: str
    certificate: Path | None
    key: Path | None
    data: Path
    ledger: Path
    folder: Path
    patience: float


class _Key(NamedTuple):
    """What a key holds: in words, and as a function that has None for anything else."""

    wanted: str
    read: Callable[[Any], Any]
    required: bool = False


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and "\0" not in value else None


def _path(value: Any) -> Path | None:
    text = _text(value)
    return None if text is None or len(Path(text).parts) > _DEEPEST else Path(text)


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
    named = isinstance(value, list) and value and all(_text(name) for name in value)
    return tuple(value) if named and len(set(value)) == len(value) else None


def _range(value: Any) -> tuple[float, ...] | None:
    found = _numbers(value)
    return found if found is not None and len(found) == 2 else None


def _ranges(value: Any) -> Any:
    if not isinstance(value, dict):
        return _range(value)
    found = {name: _range(each) for name, each in value.items()}
    return found if found and None not in found.values() else None


_TEXT = _Key("text", _text)
_PATH = _Key("the path of a file or folder, in quotes", _path)
_NUMBER = _Key("a number", _number)
_WHOLE = _Key("a whole number", lambda value: value if type(value) is int else None)
_FLAG = _Key("true or false", lambda value: value if type(value) is bool else None)
_NAMES = _Key('names in a list, each once, such as ["age", "height"]', _names)
_SCALE = _Key(
    "a number, or a list with one for each column",
    lambda value: _number(value) if _numbers(value) is None else _numbers(value),
)
_BOUNDS = _Key("[low, high], or a table such as { age = [0, 120], height = [40, 250] }", _ranges)
_NORM = _Key('a number or "private"', lambda value: value if value == "private" else _number(value))


def _needed(key: _Key) -> _Key:
    return key._replace(required=True)


_SERVER: dict[str, dict[str, _Key]] = {
    "federation": {
        "name": _needed(_TEXT),
        "columns": _NAMES,
        "n_columns": _WHOLE,
        "components": _needed(_WHOLE),
        "directions": _WHOLE,
        "share": _NUMBER,
        "scale": _SCALE,
        "kind": _TEXT,
        "values": _TEXT,
        "quorum": _WHOLE,
        "weights": _TEXT,
        "most_weight": _NUMBER,
        "join_seconds": _NUMBER,
        "answer_seconds": _NUMBER,
        "again_seconds": _NUMBER,
    },
    "server": {
        "address": _needed(_Key('"host:port"', _text)),
        "certificate": _PATH,
        "private_key": _PATH,
        "folder": _needed(_PATH),
        "output": _needed(_PATH),
    },
}
_OWNER = {
    "key": _PATH,
    "records": _WHOLE,
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "mechanism": _TEXT,
}
_CLIENT: dict[str, dict[str, _Key]] = {
    "federation": {
        "name": _needed(_TEXT),
        "server": _needed(_Key('"host:port"', _text)),
        "certificate": _PATH,
        "key": _PATH,
    },
    "owner": {
        "name": _needed(_TEXT),
        "data": _needed(_PATH),
        "columns": _NAMES,
        "epsilon": _needed(_NUMBER),
        "delta": _needed(_NUMBER),
        "share": _NUMBER,
        "mechanism": _TEXT,
        "ledger": _needed(_PATH),
        "folder": _needed(_PATH),
        "row_norm": _NORM,
        "bounds": _BOUNDS,
        "centring": _TEXT,
        "scale": _SCALE,
        "unit": _TEXT,
        "on_missing": _TEXT,
        "on_invalid": _TEXT,
        "patience": _NUMBER,
    },
}


def read_server(path: Path, *, insecure: bool = False) -> ServerConfiguration:
    """The file of a server; keys and certificates in it are needed unless it is insecure."""
    document = _parsed(path)
    owners = _tables(path, document.pop("owners", None))
    federation, server = _sections(path, document, _SERVER)
    agreed = {
        "federation": federation.pop("name"),
        "n_components": federation.pop("components"),
        **_columns(path, federation),
        **federation,
    }
    keys = {name: owner.pop("key", None) for name, owner in owners.items()}
    if insecure:
        server |= {"certificate": None, "private_key": None}
        keys = {}
    for key in ("certificate", "private_key"):
        if not insecure and key not in server:
            raise InvalidParameterError(
                f"{path.name} has no {key} in [server]: make one with "
                "eigenveil federate keys server, or try it on this machine alone, --insecure"
            )
    if lacking := [name for name, key in keys.items() if key is None]:
        raise InvalidParameterError(
            f"{path.name} has no key in [owners.{lacking[0]}]: ask the owner for the .pub file "
            "that eigenveil federate keys owner makes"
        )
    if server["output"] in (server["folder"], *server["folder"].parents):
        raise InvalidParameterError(
            f"{path.name} has the folder in the output of [server]: a release is alone in its "
            "folder, choose another"
        )
    return _built(
        path,
        lambda: ServerConfiguration(
            agreement=Agreement(
                owners={name: Limits(**limits) for name, limits in owners.items()}, **agreed
            ),
            keys=keys,
            **server,
        ),
    )


def read_client(path: Path, *, insecure: bool = False) -> ClientConfiguration:
    """The file of an owner; its key and the certificate are needed unless it is insecure."""
    federation, owner = _sections(path, _parsed(path), _CLIENT)
    for key, where in {
        "certificate": "the authority.pem of who runs the server",
        "key": "what eigenveil federate keys owner makes",
    }.items():
        if insecure:
            federation[key] = None
        elif key not in federation:
            raise InvalidParameterError(
                f"{path.name} has no {key} in [federation]: add the path of {where}"
            )
    files = {name: owner.pop(name) for name in ("data", "ledger", "folder")}
    patience = owner.pop("patience", _PATIENCE)
    if patience <= 0:
        raise InvalidParameterError(f"{path.name}: patience must be a positive number of seconds")
    named = {"owner": owner.pop("name"), "federation": federation.pop("name")}
    return _built(
        path,
        lambda: ClientConfiguration(
            settings=OwnerSettings(**named, **owner), patience=patience, **files, **federation
        ),
    )


def _columns(path: Path, federation: dict[str, Any]) -> dict[str, Any]:
    """How many there are, from their names or as it is."""
    names, number = federation.pop("columns", None), federation.pop("n_columns", None)
    if (names is None) == (number is None):
        raise InvalidParameterError(
            f"{path.name} needs either columns or n_columns in [federation]: give one of them"
        )
    count = number if names is None else len(names)
    scale = federation.pop("scale", None)
    if isinstance(scale, float):
        scale = (scale,) * count
    return {"columns": names, "n_columns": count, "scale": scale}


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, _LARGEST).decode())
    except OSError:
        raise InvalidDataError(f"no readable file at {path}: check the path") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, too many digits
        where = f" ({error})" if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise InvalidParameterError(
            f'{path.name} is not TOML{where}: write key = value below [sections], text in "quotes"'
        ) from None


def _sections(
    path: Path, document: dict[str, Any], known: Mapping[str, Mapping[str, _Key]]
) -> list[dict[str, Any]]:
    """Each section by its keys, with paths taken from the file's folder."""
    for name in document:
        if name not in known:
            raise InvalidParameterError(
                f"{path.name} holds the unknown section or key {name!r}: choose from "
                f"{', '.join(f'[{section}]' for section in known)}"
            )
    for name in known:
        if not isinstance(document.get(name), dict):
            raise InvalidParameterError(f"{path.name} has no section [{name}]: add it")
    return [_values(path, name, document[name], keys) for name, keys in known.items()]


def _tables(path: Path, owners: Any) -> dict[str, dict[str, Any]]:
    """The owners by name."""
    if not (isinstance(owners, dict) and owners):
        raise InvalidParameterError(f"{path.name} has no owners: add a section [owners.NAME] each")
    for name, owner in owners.items():
        if not isinstance(owner, dict):
            raise InvalidParameterError(
                f"{path.name} holds {name!r} in [owners]: add a section [owners.NAME] for each"
            )
    return {name: _values(path, f"owners.{name}", owner, _OWNER) for name, owner in owners.items()}


def _values(
    path: Path, section: str, table: Mapping[str, Any], known: Mapping[str, _Key]
) -> dict[str, Any]:
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


def _built(path: Path, build: Callable[[], Built]) -> Built:
    """What the values stand for, or what is impossible about them."""
    try:
        return build()
    except InvalidParameterError as error:
        raise type(error)(f"{path.name}: ", *error.args) from None
