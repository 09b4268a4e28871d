"""``eigenveil federate init``, and the agreements and clients of secure sums."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.federate_run import Told, answer_all, ledger_standing
from eigenveil.cli.federate_status import asked_for
from eigenveil.cli.options import beware
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.progress import stoppable
from eigenveil.cli.releasing import balance
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.configuration import SecureClientConfiguration, read_agreement
from eigenveil.federated.messages import check_name, decode
from eigenveil.federated.secure.agreement import SecureAgreement
from eigenveil.federated.secure.messages import (
    Agreed,
    Ready,
    Roll,
    SumInvitation,
    SumQuestion,
    Upload,
)
from eigenveil.federated.secure.owner import SecureOwner
from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.budget import stated
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.release.signature import private_key
from eigenveil.storage.durable import alone
from eigenveil.storage.paths import require_new
from eigenveil.text import plural, typed

if TYPE_CHECKING:
    from eigenveil.federated.agreement import Agreement


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


_SHORTEST = 16  # hexadecimal digits of a fingerprint


def write_agreement(agreement: "Agreement | SecureAgreement", output: Path) -> None:
    """Write an agreement to a new file, and say what it holds."""
    if not isinstance(agreement, SecureAgreement):
        raise InvalidParameterError(
            "only secure sums are agreed on in a file: add a section [secure] with honest, epsilon "
            "and delta"
        )
    _write(output, agreement.encode())
    _show(agreement)
    say(
        f"next: every owner runs eigenveil federate agree {output.name} --key NAME.sums",
        err=True,
    )


def agree(file: Path, key: Path, fingerprint: str | None, output: Path | None) -> None:
    """Show an agreement; sign it where the fingerprint is the one that the others have."""
    agreement = read_agreement(file)
    secret = private_key(key)
    own = secret.public_key().public_bytes_raw()
    names = [name for name in agreement.owners if agreement.key(name) == own]
    if not names:
        raise InvalidParameterError(
            f"{key.name} is none of the keys in the agreement: ask for one that has it"
        )
    (name,) = names
    if fingerprint is None:
        _show(agreement)
        say(
            "not signed: compare the fingerprint with every other owner by voice or on paper, then "
            "give it with --fingerprint",
            err=True,
        )
        return
    digits = "".join(fingerprint.split()).lower()
    if len(digits) < _SHORTEST:
        raise InvalidParameterError(f"give at least {_SHORTEST} digits of the fingerprint")
    if not agreement.digest.hex().startswith(digits):
        raise InvalidParameterError(
            "this is not the agreement with that fingerprint: nothing is signed; ask for the file "
            "that the others have"
        )
    word = {
        "agreement": agreement.digest.hex(),
        "owner": name,
        "signature": agreement.agreed(name).sign(secret),
    }
    place = key.with_name(f"{name}.agreed") if output is None else output
    _write(place, json.dumps(word, indent=1).encode() + b"\n")
    _show(agreement)
    say(f"signed       {place}, by {name}")
    say(f'next: agreed = "{place.name}" in [secure] of the owner\'s file', err=True)


def _write(place: Path, data: bytes) -> None:
    require_new(place, "choose a new file with -o")
    try:
        with place.open("xb") as file:
            file.write(data)
    except OSError:
        raise InvalidParameterError(f"cannot write {place}: choose a writable place") from None


def _show(agreement: SecureAgreement) -> None:
    """Say everything that somebody who agrees should know, one thing a line."""
    columns, k = agreement.n_columns, agreement.n_components
    what = f"{k} {plural('component', k)}" if agreement.kind == "pca" else "the covariance"
    spare = agreement.quorum - agreement.honest
    say(f"federation   {agreement.federation}: {what} of {columns} {plural('column', columns)}")
    say(f"describes    {agreement.variance} variance, in {len(agreement.steps)} sums")
    say(
        f"promise      {agreement.budget} for every record, if {agreement.honest} owners are "
        f"honest (sure if at most {spare} of {len(agreement.owners)} collude)"
    )
    say(f"with fewer   {agreement.promise.otherwise(agreement.delta)}")
    say(f"quorum       {agreement.quorum} of {len(agreement.owners)} owners in every sum")
    wide = max(map(len, agreement.owners))
    for name, member in agreement.owners.items():
        records = f"{member.records:,} {plural('record', member.records)}"
        say(f"  {name:<{wide}}  key {member.key}, {records}")
    say(f"fingerprint  {agreement.fingerprint}")


class _ToldOwner(Told):
    """An owner whose sums are masked."""

    kinds = (Agreed, Ready, Upload)

    def __init__(self, owner: SecureOwner, ledger: Ledger) -> None:
        super().__init__(owner, ledger)
        self._steps = owner.agreement.steps
        self.uploads = 0

    def _outcome(self, sent: Any, paid: bool) -> str:
        if isinstance(sent, Upload) and not paid:
            return "sent the stored sum again"
        self.uploads += isinstance(sent, Upload)
        return _OUTCOMES[type(sent)]

    def _charge(self, spent: Sequence[Entry]) -> str:
        return f"charged; {self._ledger.summary()}"

    def _asked(self, question: bytes) -> str:
        try:
            asked: Any = decode(question, SumInvitation, SumQuestion, Roll)
            if isinstance(asked, SumInvitation):
                return asked_for("join")
            step = self._steps[asked.step]
        except (ProtocolError, IndexError):
            return "something unreadable"
        return asked_for(f"{'upload' if isinstance(asked, Roll) else 'ready'}-{step.name}")


_OUTCOMES: dict[type, str] = {
    Agreed: "agreed",
    Ready: "ready",
    Upload: "sent a masked sum",
}


def run_secure_client(chosen: SecureClientConfiguration, *, insecure: bool, as_json: bool) -> None:
    """Answer until the server says that it is done, and say what was spent."""
    agreement, ledger = chosen.agreement, Ledger(chosen.ledger)
    with stoppable(ledger_standing(ledger)), alone(chosen.folder, "client", mode=0o700):
        owner = SecureOwner(
            agreement,
            chosen.name,
            chosen.data,
            private_key(chosen.signing_key),
            ledger,
            chosen.folder,
            signature=chosen.signature,
            on_invalid=chosen.on_invalid,
            on_missing=chosen.on_missing,
            log=_say,
            face="file",
        )
        beware(agreement.budget.as_dict())
        say(f"agreement    {agreement.fingerprint}", err=True)
        told = _ToldOwner(owner, ledger)
        answer_all(
            told,
            chosen.name,
            chosen,
            insecure=insecure,
            n_columns=agreement.n_columns,
        )
        _close(chosen, told, ledger, as_json=as_json)
        if told.refused is not None:
            click.get_current_context().exit(4 if told.refused is Code.BUDGET else 3)


def _say(line: str) -> None:
    say(line, err=True)


def _close(
    chosen: SecureClientConfiguration, told: _ToldOwner, ledger: Ledger, *, as_json: bool
) -> None:
    """Say what the owner has sent, what it refused, and what its ledger has left."""
    agreement, refused = chosen.agreement, told.refused
    if as_json:
        say_json(
            {
                "owner": chosen.name,
                "federation": agreement.federation,
                "agreement": agreement.digest.hex(),
                "sums": told.uploads,
                "refused": refused,
                "balance": balance(ledger),
            }
        )
        return
    say(f"answered     {told.uploads} {plural('sum', told.uploads)} in this run")
    say(f"promise      {agreement.budget}, only if {agreement.promise.condition()}")
    say(f"alone        epsilon = {stated(epsilon_of(ledger.spent_alone, agreement.delta))} by now")
    if refused is not None:
        say(f"refused      the last question: {refused.explanation} ({refused})")
    say(f"ledger       {ledger.balance().reading()}")
