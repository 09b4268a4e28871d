"""Configuration files of federations, in TOML; paths are relative to the file.

Everything is checked before anything is done with it: an unknown key, a value of another kind and
a key that is missing are each one line that names the key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated.agreement import Agreement, Limits
from eigenveil.federated.secure.agreement import Member, SecureAgreement
from eigenveil.federated.settings import OwnerSettings
from eigenveil.federated.toml import (
    BOUNDS,
    NAMES,
    NORM,
    NUMBER,
    PATH,
    SCALE,
    TEXT,
    WHOLE,
    Key,
    built,
    needed,
    parsed,
    sections,
    tables,
    text,
    values_of,
)
from eigenveil.federated.toml import text as any_text
from eigenveil.planning.bounds import OnInvalid, OnMissing
from eigenveil.release.signature import public_key
from eigenveil.storage.paths import JOURNAL, read_regular

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement


_PATIENCE = 600.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfiguration:
    """What a server needs.

    Attributes
    ----------
    agreement : Agreement or SecureAgreement
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

    agreement: "Agreement | SecureAgreement"
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
class Connection:
    """What the process of every owner needs.

    Attributes
    ----------
    server : str
        ``host:port`` to connect to.
    certificate, key : Path or None
        By which the server is checked, and the owner's node key; None without encryption.
    data, ledger, folder : Path
        The table, the ledger to charge, and where answers are kept.
    patience : float
        Seconds to go on without a word from the server.

    """

    server: str
    certificate: Path | None
    key: Path | None
    data: Path
    ledger: Path
    folder: Path
    patience: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfiguration(Connection):
    """What an owner's process needs where its noise is its own: ``settings`` besides."""

    settings: OwnerSettings


_SERVER: dict[str, dict[str, Key]] = {
    "federation": {
        "name": needed(TEXT),
        "columns": NAMES,
        "n_columns": WHOLE,
        "components": needed(WHOLE),
        "directions": WHOLE,
        "share": NUMBER,
        "scale": SCALE,
        "kind": TEXT,
        "values": TEXT,
        "variance": TEXT,
        "quorum": WHOLE,
        "weights": TEXT,
        "most_weight": NUMBER,
        "join_seconds": NUMBER,
        "answer_seconds": NUMBER,
        "again_seconds": NUMBER,
    },
    "server": {
        "address": needed(Key('"host:port"', any_text)),
        "certificate": PATH,
        "private_key": PATH,
        "folder": needed(PATH),
        "output": needed(PATH),
    },
}

_OWNER = {
    "key": PATH,
    "records": WHOLE,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "mechanism": TEXT,
    "signing_key": PATH,
}

_CLIENT: dict[str, dict[str, Key]] = {
    "federation": {
        "name": needed(TEXT),
        "server": needed(Key('"host:port"', any_text)),
        "certificate": PATH,
        "key": PATH,
    },
    "owner": {
        "name": needed(TEXT),
        "data": needed(PATH),
        "columns": NAMES,
        "epsilon": needed(NUMBER),
        "delta": needed(NUMBER),
        "share": NUMBER,
        "mechanism": TEXT,
        "ledger": needed(PATH),
        "folder": needed(PATH),
        "row_norm": NORM,
        "bounds": BOUNDS,
        "centring": TEXT,
        "scale": SCALE,
        "unit": TEXT,
        "on_missing": TEXT,
        "on_invalid": TEXT,
        "patience": NUMBER,
    },
}


def read_server(path: Path, *, insecure: bool = False) -> ServerConfiguration:
    """Return the file of a server; keys and certificates in it are needed unless it is insecure.

    With a section [secure] owners add shares of one noise, and sums are masked.
    """
    document = parsed(path)
    owners = tables(path, document.pop("owners", None), _OWNER)
    secure = document.pop("secure", None)
    federation, server = sections(path, document, _SERVER)
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
    agreement: Agreement | SecureAgreement
    if secure is None:
        agreement = built(path, lambda: _agreement(path, agreed, owners))
    else:
        agreement = secure_agreement(path, agreed, owners, secure)
    return ServerConfiguration(agreement=agreement, keys=keys, **server)


def _agreement(
    path: Path, agreed: Mapping[str, Any], owners: Mapping[str, dict[str, Any]]
) -> Agreement:
    """Return what owners with noise of their own agree on."""
    for name, owner in owners.items():
        if "signing_key" in owner:
            raise InvalidParameterError(
                f"signing_key in [owners.{name}] is for secure sums: add a section [secure], or "
                "leave it out"
            )
    terms = dict(agreed)
    if terms.pop("variance", "within") != "within":
        raise InvalidParameterError(
            "owners with noise of their own find the variance within owners: leave variance out, "
            "or add a section [secure] for the total"
        )
    limits = {name: Limits(**owner) for name, owner in owners.items()}
    return Agreement(owners=limits, **terms)


def read_client(
    path: Path, *, insecure: bool = False
) -> "ClientConfiguration | SecureClientConfiguration":
    """Return the file of an owner; its key and the certificate are needed unless it is insecure."""
    document = parsed(path)
    if "secure" in document:
        return read_secure_client(path, document, insecure=insecure)
    federation, owner = sections(path, document, _CLIENT)
    require_connection(path, federation, insecure=insecure)
    files = {name: owner.pop(name) for name in ("data", "ledger", "folder")}
    patience = patience_of(path, owner)
    named = {"owner": owner.pop("name"), "federation": federation.pop("name")}
    return built(
        path,
        lambda: ClientConfiguration(
            settings=OwnerSettings(**named, **owner), patience=patience, **files, **federation
        ),
    )


def require_connection(path: Path, federation: dict[str, Any], *, insecure: bool) -> None:
    """Require the certificate and the key of an owner, or take both away."""
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


def patience_of(path: Path, owner: dict[str, Any]) -> float:
    """Take out how long an owner goes on without a word from the server."""
    patience = float(owner.pop("patience", _PATIENCE))
    if patience <= 0:
        raise InvalidParameterError(f"{path.name}: patience must be a positive number of seconds")
    return patience


def _columns(path: Path, federation: dict[str, Any]) -> dict[str, Any]:
    """Return how many there are, from their names or as it is."""
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


_LARGEST = 1 << 24  # bytes of an agreement

_SECURE = {
    "honest": needed(WHOLE),
    "epsilon": needed(NUMBER),
    "delta": needed(NUMBER),
    "bounds": BOUNDS,
    "unit": TEXT,
}

_USELESS = ("directions", "share", "values", "weights", "most_weight")

_SECURE_CLIENT: dict[str, dict[str, Key]] = {
    "federation": {
        "server": needed(Key('"host:port"', text)),
        "certificate": PATH,
        "key": PATH,
    },
    "secure": {
        "agreement": needed(PATH),
        "key": needed(PATH),
        "agreed": needed(PATH),
    },
    "owner": {
        "name": needed(TEXT),
        "data": needed(PATH),
        "ledger": needed(PATH),
        "folder": needed(PATH),
        "on_missing": TEXT,
        "on_invalid": TEXT,
        "patience": NUMBER,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureClientConfiguration(Connection):
    """What the process of an owner in secure sums needs besides.

    Attributes
    ----------
    agreement : SecureAgreement
        What it has agreed on.
    name : str
        Which of the owners it is.
    signing_key : Path
        Its Ed25519 key, made for this purpose alone.
    signature : str
        Under the agreement.
    on_invalid, on_missing
        As in `PrivatePCA`.

    """

    agreement: SecureAgreement
    name: str
    signing_key: Path
    signature: str
    on_invalid: OnInvalid = "raise"
    on_missing: OnMissing = "invalid"


def secure_agreement(
    path: Path,
    agreed: dict[str, Any],
    owners: Mapping[str, dict[str, Any]],
    section: Any,
) -> SecureAgreement:
    """Return what the file of a server has owners agree on."""
    if not isinstance(section, dict):
        raise InvalidParameterError(f"{path.name} has no section [secure]: write it in brackets")
    terms = values_of(path, "secure", section, _SECURE)
    for name in _USELESS:
        if name in agreed:
            raise InvalidParameterError(
                f"{path.name} has {name} in [federation], which secure sums do not use: leave it "
                "out"
            )
    agreed.setdefault("quorum", len(owners))
    bounds = terms.pop("bounds", None)
    return built(
        path,
        lambda: SecureAgreement(
            owners={name: _member(name, owner) for name, owner in owners.items()},
            bounds=None if bounds is None else _ends(bounds, agreed),
            **agreed,
            **terms,
        ),
    )


def _member(name: str, owner: Mapping[str, Any]) -> Member:
    for key, remedy in {
        "signing_key": "ask the owner for the .pub file that eigenveil federate keys sums makes",
        "records": "ask the owner for its number of records, or of persons, which is public",
    }.items():
        if key not in owner:
            raise InvalidParameterError(f"no {key} in [owners.{name}]: {remedy}")
    more = [key for key in owner if key not in ("signing_key", "records")]
    if more:
        raise InvalidParameterError(
            f"{more[0]} in [owners.{name}] has no use in secure sums, where all have one budget: "
            "leave it out"
        )
    return Member(public_key(owner["signing_key"]).public_bytes_raw().hex(), owner["records"])


def _ends(bounds: Any, agreed: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return lows and highs of all columns."""
    if not isinstance(bounds, dict):
        low, high = bounds
        return (low,) * agreed["n_columns"], (high,) * agreed["n_columns"]
    names = agreed["columns"]
    if names is None or set(bounds) != set(names):
        raise InvalidParameterError("give bounds for every column by its name, or one pair for all")
    return tuple(bounds[name][0] for name in names), tuple(bounds[name][1] for name in names)


def read_secure_client(
    path: Path, document: dict[str, Any], *, insecure: bool
) -> SecureClientConfiguration:
    """Return what the file of an owner says."""
    federation, secure, owner = sections(path, document, _SECURE_CLIENT)
    require_connection(path, federation, insecure=insecure)
    patience = patience_of(path, owner)
    agreement = read_agreement(secure["agreement"])
    for name, choices in {
        "on_invalid": ("raise", "zero"),
        "on_missing": ("invalid", "centre"),
    }.items():
        if owner.get(name, choices[0]) not in choices:
            raise InvalidParameterError(
                f"{path.name}: {name} must be {' or '.join(map(repr, choices))}"
            )
    return SecureClientConfiguration(
        agreement=agreement,
        signing_key=secure["key"],
        signature=read_agreed(secure["agreed"], agreement, owner["name"]),
        patience=patience,
        **owner,
        **federation,
    )


def read_agreement(path: Path) -> SecureAgreement:
    """Return the agreement in a file that `eigenveil federate agreement` wrote."""
    try:
        data = read_regular(path, _LARGEST)
    except (OSError, ValueError):
        raise InvalidDataError(f"no readable agreement at {path}: check the path") from None
    return SecureAgreement.decode(data)


def read_agreed(path: Path, agreement: SecureAgreement, owner: str) -> str:
    """Return the signature of an owner in a file that `eigenveil federate agree` wrote."""
    try:
        document = json.loads(read_regular(path, _LARGEST))
        same = (document["agreement"], document["owner"]) == (agreement.digest.hex(), owner)
        signature = document["signature"]
        if same and isinstance(signature, str):
            return signature
    except OSError:
        raise InvalidDataError(
            f"no readable file at {path}: make it with eigenveil federate agree"
        ) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise InvalidDataError(
        f"{path.name} is not {owner}'s word on this agreement: compare the agreement, then sign it "
        "with eigenveil federate agree"
    )
