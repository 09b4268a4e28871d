"""Files of secure sums: a server's, an owner's, the agreement, an owner's word on it."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import Ledger
from eigenveil.federated import read_client, read_server
from eigenveil.federated.secure import Member, SecureAgreement
from tests.fuzz.case import Call, Case, Command
from tests.fuzz.federations import no_network, toml
from tests.fuzz.stock import private_pem, public_pem, rows, secret_key
from tests.fuzz.values import dumped, mutated_bytes, mutated_json

__all__ = ["secure_case"]

Random = random.Random
_OWNERS = {"east": 1, "north": 2, "south": 3}  # with the seeds of their keys
_SERVER: dict[str, Any] = {
    "federation": {"name": "test", "n_columns": 3, "components": 1, "join_seconds": 1},
    "secure": {"honest": 2, "epsilon": 1.0, "delta": 1e-6, "bounds": [-10, 10]},
    "server": {"address": "127.0.0.1:0", "folder": "journal", "output": "release"},
    "owners": {name: {"signing_key": f"{name}.sums.pub", "records": 40} for name in _OWNERS},
}
_CLIENT: dict[str, Any] = {
    "federation": {"server": "127.0.0.1:9"},
    "secure": {"agreement": "agreement.json", "key": "east.sums", "agreed": "east.agreed"},
    "owner": {
        "name": "east",
        "data": "rows.npy",
        "ledger": "ledger",
        "folder": "answers",
        "on_invalid": "zero",
        "patience": 1,
    },
}


@cache
def _agreement() -> SecureAgreement:
    keys = {name: secret_key(seed).public_key() for name, seed in _OWNERS.items()}
    owners = {name: Member(key.public_bytes_raw().hex(), 40) for name, key in keys.items()}
    terms: dict[str, Any] = {"n_columns": 3, "n_components": 1, "epsilon": 1.0, "delta": 1e-6}
    return SecureAgreement(federation="test", owners=owners, honest=2, quorum=3, **terms)


def _files() -> dict[str, bytes]:
    """Return files that are all right, by name."""
    agreed = _agreement()
    word = {
        "agreement": agreed.digest.hex(),
        "owner": "east",
        "signature": agreed.agreed("east").sign(secret_key(1)),
    }
    files = {f"{name}.sums.pub": public_pem(seed) for name, seed in _OWNERS.items()}
    return {
        **files,
        "east.sums": private_pem(1),
        "agreement.json": agreed.encode(),
        "east.agreed": json.dumps(word).encode(),
        "server.toml": toml(_SERVER).encode(),
        "client.toml": toml(_CLIENT).encode(),
    }


def secure_case(rng: Random, place: Path) -> Case:
    """Files of secure sums of which one was altered."""
    files = _files()
    name = rng.choice(("server.toml", "client.toml", "agreement.json", "east.agreed", "east.sums"))
    if rng.random() < 0.9:
        files[name] = _altered(rng, name, files[name])
    for each, data in files.items():
        (place / each).write_bytes(data)
    np.save(place / "rows.npy", rows(40))
    Ledger.create(place / "ledger", epsilon=5.0, delta=1e-6)
    used = {"server.toml": (0, 1, 4), "client.toml": (2, 5)}.get(name, (2, 3, 5))
    server, client = place / "server.toml", place / "client.toml"
    words = {
        "agreement": ("federate", "agreement", "server.toml", "-o", "new.json"),
        "server": ("federate", "server", "server.toml", "--insecure"),
        "client": ("federate", "client", "client.toml", "--insecure"),
        "agree": ("federate", "agree", "agreement.json", "--key", "east.sums"),
    }
    uses: tuple[Command | Call, ...] = (
        *(Command(each, within=no_network) for each in words.values()),
        Call("read_server", lambda: read_server(server, insecure=True)),
        Call("read_client", lambda: read_client(client, insecure=True)),
    )
    return Case([uses[rng.choice(used)]], ("answers",))


def _altered(rng: Random, name: str, data: bytes) -> bytes:
    if rng.random() < 0.15 or name == "east.sums":
        return mutated_bytes(rng, data)
    if name.endswith(".toml"):
        document = _SERVER if name == "server.toml" else _CLIENT
        changed = mutated_json(rng, document, rng.choice((1, 1, 2)))
        return toml(changed).encode("utf-8", "replace")
    return dumped(mutated_json(rng, json.loads(data), rng.choice((1, 1, 2))))
