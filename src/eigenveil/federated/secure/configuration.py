"""What the server and the owners of secure sums are told, in TOML."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated.configuration import patience_of, require_connection
from eigenveil.federated.secure.agreement import Member, SecureAgreement
from eigenveil.federated.toml import (
    BOUNDS,
    NUMBER,
    PATH,
    TEXT,
    WHOLE,
    Key,
    built,
    needed,
    sections,
    text,
    values_of,
)
from eigenveil.planning.bounds import OnInvalid, OnMissing
from eigenveil.release.signature import public_key
from eigenveil.storage.paths import read_regular

__all__ = [
    "SecureClientConfiguration",
    "read_agreed",
    "read_agreement",
    "read_secure_client",
    "secure_agreement",
]

_LARGEST = 1 << 24  # bytes of an agreement
_SECURE = {
    "honest": needed(WHOLE),
    "epsilon": needed(NUMBER),
    "delta": needed(NUMBER),
    "bounds": BOUNDS,
    "unit": TEXT,
}
_USELESS = ("directions", "share", "values", "weights", "most_weight")
_CLIENT: dict[str, dict[str, Key]] = {
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
class SecureClientConfiguration:
    """What the process of an owner in secure sums needs.

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
    server : str
        ``host:port`` to connect to.
    certificate, key : Path or None
        By which the server is checked, and the owner's node key; None without encryption.
    data, ledger, folder : Path
        The table, the ledger to charge, and where answers are kept.
    patience : float
        Seconds to go on without a word from the server.
    on_invalid, on_missing
        As in `PrivatePCA`.

    """

    agreement: SecureAgreement
    name: str
    signing_key: Path
    signature: str
    server: str
    certificate: Path | None
    key: Path | None
    data: Path
    ledger: Path
    folder: Path
    patience: float
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
    federation, secure, owner = sections(path, document, _CLIENT)
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
