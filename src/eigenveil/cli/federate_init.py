"""``eigenveil federate init``: the configuration files of a federation, to be filled in."""

import json
from collections.abc import Sequence
from pathlib import Path

from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.messages import check_name
from eigenveil.storage.paths import require_new
from eigenveil.text import typed

__all__ = ["write_files"]

_SERVER = """\
# Of who runs the server; paths are relative to this file.
[federation]
name = {name}
{columns}
components = {k}

[server]
address = {address}
certificate = "server/server.pem"
private_key = "server/server.key"
folder = "journal" # private: what owners have sent
output = "release"
"""
_LIMITS = """
[owners.{owner}]
key = "{owner}.key.pub" # from the owner, over a channel that both trust
# records = 1000 # how many it may claim; without it, no more than half of the weight
epsilon = {epsilon:g}
delta = {delta:g}
"""
_OWNER = """\
# Of the owner {owner}; paths are relative to this file. It never travels.
[federation]
name = {name}
server = {address}
certificate = "authority.pem" # from who runs the server
key = "{owner}.key" # private

[owner]
name = "{owner}"
data = "{owner}.csv" # the table, which stays here
{columns}epsilon = {epsilon:g}
delta = {delta:g}
ledger = "{owner}.ledger"
folder = "{owner}-answers"
# unit = "patient_id" # protect all rows of one id together
# bounds = [0, 100] # public ranges of the columns, where there are any
"""


def write_files(
    folder: Path,
    *,
    name: str,
    owners: Sequence[str],
    columns: Sequence[str] | None,
    n_columns: int | None,
    k: int,
    epsilon: float,
    delta: float,
    address: str,
) -> None:
    """Write the file of the server and of every owner, and say who does what next."""
    if (columns is None) == (n_columns is None):
        raise InvalidParameterError("give either --columns A,B,... or --columns-count")
    if len(set(owners)) < len(owners):
        raise InvalidParameterError("an owner is named twice: give each --owner its own name")
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit()):
        raise InvalidParameterError("give --address as host:port, such as sums.example.org:8443")
    named = None if columns is None else f"columns = {json.dumps(list(columns))}"
    said = {"name": json.dumps(check_name("--name", name)), "address": json.dumps(address)}
    budget = {"epsilon": epsilon, "delta": delta}
    text = _SERVER.format(columns=named or f"n_columns = {n_columns}", k=k, **said)
    files = {}
    for owner in (check_name("--owner", owner) for owner in owners):
        text += _LIMITS.format(owner=owner, **budget)
        table = f"{named}\n" if named else ""
        files[f"{owner}.toml"] = _OWNER.format(owner=owner, columns=table, **said, **budget)
    require_new(folder, "choose a new folder")
    folder.mkdir(parents=True)
    for file, content in {"server.toml": text, **files}.items():
        (folder / file).write_text(content, "utf-8")
        say(f"{'server' if file == 'server.toml' else 'owner':<13}{folder / file}")
    _say_next(folder, host, owners[0], budget)


def _say_next(folder: Path, host: str, owner: str, budget: dict[str, float]) -> None:
    terms = [word for notion, size in budget.items() for word in (f"--{notion}", f"{size:g}")]
    ledger = ["ledger", "init", str(folder / f"{owner}.ledger"), *terms]
    steps = {
        "the server": ["federate", "keys", "server", "--host", host, "-o", str(folder / "server")],
        "every owner": ["federate", "keys", "owner", owner, "-o", str(folder)],
        "every owner, once": ledger,
        "then the server": ["federate", "server", str(folder / "server.toml")],
        "and every owner": ["federate", "client", str(folder / f"{owner}.toml")],
    }
    for who, words in steps.items():
        say(f"next         {typed(['eigenveil', *words])}  # {who}", err=True)
