"""What the server and the owners of a federation are told, in TOML; paths are relative to the file.

Everything is checked before anything is done with it: an unknown key, a value of another kind and
a key that is missing are each one line that names the key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.agreement import Agreement, Limits
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
)
from eigenveil.federated.toml import text as any_text
from eigenveil.storage.paths import JOURNAL

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement
    from eigenveil.federated.secure.configuration import SecureClientConfiguration

__all__ = [
    "JOURNAL",
    "ClientConfiguration",
    "ServerConfiguration",
    "patience_of",
    "read_client",
    "read_server",
    "require_connection",
]

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
        from eigenveil.federated.secure.configuration import secure_agreement

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
        from eigenveil.federated.secure.configuration import read_secure_client

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
