"""What `fit` and `covariance` share: everything is checked before anything is charged."""

import json
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from eigenveil.cli.balance import balance, left
from eigenveil.cli.options import beware, stated_budget
from eigenveil.cli.progress import watched
from eigenveil.cli.rows import open_table
from eigenveil.cli.summary import headline, promise, standing_out
from eigenveil.cli.values import per_column
from eigenveil.estimators import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidParameterError, NothingFoundError
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import NOTHING
from eigenveil.privacy.ledger import Ledger
from eigenveil.release import Release, private_key
from eigenveil.release.storage import require_new

__all__ = ["accounted", "release", "require_place", "tell"]

_ROWS = ("columns", "unit")
_NO_LEDGER = "no ledger recorded this run: a failed or interrupted release counts as spent"


def release(
    estimator: type[PrivatePCA] | type[PrivateCovariance],
    ctx: click.Context,
    data: str,
    *,
    output: Path,
    ledger: Path | None,
    sign: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit an estimator on a file, save the release and say what happened."""
    require_place(output)
    key = None if sign is None else private_key(sign)
    account = None if ledger is None else Ledger(ledger)
    budget = Budget(**stated_budget(ctx)).as_dict()
    options.update(dict.fromkeys(("epsilon", "delta", "rho")), **budget)
    given = {name: value for name, value in options.items() if value is not None}
    source = open_table(data, *(given.pop(name, None) for name in _ROWS))
    for name in ("bounds", "scale"):
        if name in given:
            given[name] = per_column(f"--{name}", given[name], source.feature_names)
    private = estimator(**given, ledger=account)
    beware(budget)
    with accounted(account):
        neighbours = Adjacency.parse(private.adjacency)
        # How many rows a unit has is private under any neighbours.
        public = neighbours.count_is_public and options["unit"] is None
        with watched(source, count_is_public=public) as rows:
            private.fit(rows)
        private.release_.save(output, key=key)
        tell(private.release_, output, account, sign, as_json=as_json)


def require_place(folder: Path) -> None:
    """A place to write to, tried out before budget is spent on what goes there."""
    require_new(folder, "choose a new folder with -o")
    if not folder.parent.is_dir():
        raise InvalidParameterError(
            f"no folder {folder.parent}: create it first, or choose another place with -o"
        )
    try:
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".release-").cleanup()
    except OSError:
        raise InvalidParameterError(
            f"cannot write to {folder.parent}: choose a writable place with -o"
        ) from None


@contextmanager
def accounted(account: Ledger | None) -> Iterator[None]:
    """Whatever stops the run says whether it was charged."""
    before = 0 if account is None else len(account.entries)
    try:
        yield
    except KeyboardInterrupt:
        told = _NO_LEDGER if account is None else _spent(account, before)
        raise KeyboardInterrupt(told or "nothing was charged") from None
    except NothingFoundError:
        raise  # says so itself
    except Exception as error:
        if account is not None and (told := _spent(account, before)) is not None:
            error.add_note(told)
        raise


def _spent(account: Ledger, before: int) -> str | None:
    """What was charged since; None where nothing was."""
    charges = [entry for entry in account.entries[before:] if entry.cost != NOTHING]
    if not charges:
        return None
    return (
        f"the ledger was charged for {charges[-1].label} and now has {account.summary()}; a failed "
        "or interrupted release counts as spent"
    )


def tell(
    released: Release,
    folder: Path,
    account: Ledger | None,
    sign: Path | None,
    *,
    as_json: bool,
    details: Sequence[str] = (),
) -> None:
    """What was released, where it lies, and what to do next."""
    facts = Release.inspect(folder)
    words = ["eigenveil", "verify", str(folder)]
    if sign is not None and (public := Path(f"{sign}.pub")).is_file():  # as `keygen` leaves it
        words += ["--key", str(public)]
    following = shlex.join(words)
    if as_json:
        document: Mapping[str, Any] = {
            "folder": str(folder),
            "next": following,
            "stand_out": standing_out(released),
            "balance": None if account is None else balance(account),
            **facts,
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"released     {headline(released)}")
    for line in (promise(released), *details):
        click.echo(line)
    click.echo(f"folder       {folder}")
    click.echo(f"fingerprint  {facts['fingerprint']}")
    if sign is not None:
        click.echo(f"signature    by {facts['signer']}")
    if account is not None:
        notion, amount = left(account)
        click.echo(f"ledger       {account.summary()}; left for another: {notion} = {amount:g}")
    click.echo(f"next         {following}")
