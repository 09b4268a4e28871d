"""Shared by commands that release: check and reserve first, then charge, then save.

Once the ledger is charged the release is all there is to show for it. So a command that cannot
write where it was told to writes elsewhere, and its error says where.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from eigenveil.cli.options import bewaring, default_scale, stated_budget
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.progress import reporting_charges, watched
from eigenveil.cli.rows import ROW_OPTIONS, open_table, read_by_workers
from eigenveil.cli.summary import (
    coefficients,
    components,
    distinguishable_components,
    headed,
    headline,
    target,
)
from eigenveil.cli.values import configured, per_column, single_numbers
from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import Phrase
from eigenveil.privacy.account import Account
from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release
from eigenveil.release.content import ABOUT, about_settings
from eigenveil.release.signature import private_key
from eigenveil.report.views import left_out
from eigenveil.rows.base import RowSource
from eigenveil.rows.file_guard import require_version
from eigenveil.storage.paths import require_new
from eigenveil.storage.reservation import Reservation, reserved
from eigenveil.text import typed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_ADVICE = Phrase(
    python="choose a new folder",
    shell="choose a new folder with -o",
    file="choose a new folder as output",
)

_PLACE = Phrase(python="another place", shell="another place with -o", file="another output")
_PAGE = 2**20  # bytes of everything that does not grow with the table
_OWNER = 2**14  # of one owner's statement, twice
_COLUMN = 64  # of a column in release.json, bounds included
_CHARACTER = 12  # of a name, as JSON may write it


@contextmanager
def place_for(folder: Path) -> Iterator[Reservation]:
    """Reserve a new name, which is free again if the block releases nothing."""
    require_new(folder, _ADVICE)
    if not folder.parent.is_dir():
        raise InvalidParameterError(
            f"no folder {folder.parent}: create it first, or choose ", _PLACE
        )
    with reserved(folder, _ADVICE) as place:
        yield place


def expected_size(
    kind: str, d: int, k: int, names: Sequence[str] | None = None, owners: int = 0
) -> int:
    """Return how many bytes a release takes at most, about, from public numbers alone."""
    numbers = d * d + 3 * d
    if kind == "pca":
        numbers = k * d + 2 * d + 6 * k
    elif kind == "regression":  # of k targets
        numbers = 4 * k * (d + 1) + 2 * d
    text = d * _COLUMN + _CHARACTER * sum(map(len, names or ()))
    return 8 * numbers + text + owners * _OWNER + _PAGE


def keep(
    released: Release, place: Reservation, key: "Ed25519PrivateKey | str | Path | None" = None
) -> None:
    """Save a release where it should lie, or elsewhere; then an error says where."""
    try:
        released.save(place, key=key)
    except InvalidParameterError as error:
        where = _elsewhere(lambda folder: released.save(folder / place.path.name, key=key))
        if where is None:
            raise
        place.elsewhere = where
        raise InvalidParameterError(*error.args, f"; the release is whole, in {where}") from None


def _elsewhere(save: Callable[[Path], Path]) -> Path | None:
    """Save to a new folder in the first place that takes it; None where none does."""
    for find in (Path.cwd, tempfile.gettempdir, Path.home):
        with suppress(OSError, RuntimeError, InvalidParameterError):
            folder = Path(tempfile.mkdtemp(prefix="eigenveil-", dir=find()))
            try:
                return save(folder)
            except BaseException:
                folder.rmdir()
                raise
    return None


def balance(ledger: Ledger) -> dict[str, Any]:
    """Return the state of a ledger as a JSON object."""
    entries = ledger.entries
    alone = _alone(ledger)
    state = ledger.balance()
    return {
        "file": str(ledger.path),
        "adjacency": ledger.adjacency.value,
        "unit": ledger.unit,
        "budget": ledger.budget.as_dict(),
        "summary": state.summary(),
        "left": {state.notion: state.largest_next},
        "why": state.why(),
        "currency": ledger.currency,
        "entries": len(entries),
        "newest_hash": entries[-1].hash if entries else None,
        "unfinished": ledger.unfinished,
        **({} if alone is None else {"alone": alone}),
    }


def _alone(ledger: Ledger) -> str | None:
    """Return what all entries cost if no other owner is honest; None where that makes no
    difference.
    """
    cap, delta = ledger.alone_budget, ledger.budget.delta
    if delta is None or (cap is None and all(entry.alone is None for entry in ledger.entries)):
        return None
    epsilon = epsilon_of(ledger.spent_alone, delta)
    limit = "" if cap is None else f" of {cap.epsilon:g}"
    return f"epsilon = {epsilon:.6g}{limit} at delta = {delta:g}"


_COUNTS = "a failed or interrupted release counts as spent"
_KEPT = "the state goes on without another charge: a call without DATA releases what it holds"
_NO_LEDGER = f"no ledger recorded this run: {_COUNTS}"


def release(
    estimator: type[PrivatePCA] | type[PrivateCovariance],
    ctx: click.Context,
    data: str,
    *,
    output: Path,
    ledger: Path | None,
    sign: Path | None,
    as_json: bool,
    cluster: str | None = None,
    progress: bool = False,
    table_version: str | None = None,
    **options: Any,
) -> None:
    """Fit an estimator on a file, save the release and say what happened."""
    with place_for(output) as place, ExitStack() as stack:
        key = None if sign is None else private_key(sign)
        account = None if ledger is None else Account(ledger)
        stack.enter_context(reporting_charges(account, as_lines=progress))
        private, source, about = prepared(estimator, ctx, data, account, **options)
        if table_version is not None:
            require_version(Path(data), table_version)
        if cluster is not None:
            source = stack.enter_context(read_by_workers(source, cluster))
        place.make_room(_size(private, source))
        with accounted(account, place):
            neighbours = Adjacency.parse(private.adjacency)
            # How many rows a unit has is private under any neighbours.
            public = neighbours.count_is_public and options["unit"] is None
            with watched(source, count_is_public=public, as_lines=progress) as rows:
                private.fit(rows)
            released = private.release_.described(**about)
            keep(released, place, key)
            tell(released, output, account, sign, as_json=as_json)


def put_budget(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Put the stated budget, and no other notion, into the options of an estimator; return it."""
    budget = Budget(**stated_budget(ctx)).as_dict()
    options.update(dict.fromkeys(("epsilon", "delta", "rho")), **budget)
    return budget


def prepared(
    estimator: type[PrivatePCA] | type[PrivateCovariance],
    ctx: click.Context,
    data: str,
    account: Ledger | None,
    **options: Any,
) -> tuple[PrivatePCA | PrivateCovariance, RowSource, dict[str, Any]]:
    """Return an estimator, the rows to fit it on, and what its owner says of the release.

    Everything that the options of a command can get wrong is refused here; nothing is charged.
    """
    put_budget(ctx, options)
    given = {name: value for name, value in options.items() if value is not None}
    text: Literal["refused", "invalid"] = "refused"
    if given.get("on_invalid") == "zero":
        text = "invalid"
    source = open_table(data, text=text, **{n: given.pop(n, None) for n in ROW_OPTIONS})
    if "bounds" in given:
        given["bounds"] = per_column("--bounds", given["bounds"], source.schema.feature_names)
    if "scale" in given:
        given["scale"] = single_numbers(given["scale"])
    elif estimator is PrivatePCA:
        named = source.schema.feature_names is not None
        given["scale"] = default_scale(source.n_columns, given, named=named)
    chosen = given.pop("mechanism_options", ())
    releases = "components" if estimator is PrivatePCA else "covariance"
    given["mechanism"] = configured(releases, given["mechanism"], chosen)
    about = {name: given.pop(name, None) for name in ABOUT}
    about_settings({}, **about)  # refused before anything is charged
    return estimator(**given, ledger=account), source, about


def _size(private: PrivatePCA | PrivateCovariance, source: RowSource) -> int:
    """Return the size of the release that an estimator would make, whatever the rows are."""
    d, names = source.n_columns, source.schema.feature_names
    if isinstance(private, PrivateCovariance):
        return expected_size("covariance", d, d, names)
    k = private.n_components
    return expected_size("pca", d, k if isinstance(k, int) and 0 < k <= d else d, names)


@contextmanager
def accounted(
    account: Account | None, place: Reservation | None, *, goes_on: bool = False
) -> Iterator[None]:
    """Whatever stops the run says where its release lies, if it is whole, and what was charged.

    Warnings are said in one line each. Charges that nothing was released for are marked as failed,
    unless a stream ``goes_on`` with what they paid for.
    """
    try:
        with bewaring():
            yield
    except BaseException as error:
        whole = None if place is None else place.whole
        told = _standing(account, place, _KEPT if goes_on else _COUNTS)
        if account is not None and whole is None and not goes_on:
            account.mark_all_failed()
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(told or "nothing was charged") from None
        if told is not None and (account is not None or whole is not None):
            error.add_note(told)
        raise


def _standing(account: Account | None, place: Reservation | None, lost: str) -> str | None:
    """Return where the release lies and what this run has charged; None where it is nothing.

    ``lost`` says what becomes of a charge without a release.
    """
    whole = None if place is None else place.whole
    told = []
    if place is not None and whole != place.elsewhere:  # an error that moved it says so itself
        told.append(f"the release is whole, in {whole}")
    charge = None if account is None else account.last_charge()
    if account is not None and charge is not None:
        spent = f"the ledger was charged for {charge.label} and now has {account.summary()}"
        told += [spent, *([lost] if whole is None else [])]
    if account is None and whole is None:
        told.append(_NO_LEDGER)
    return "; ".join(told) or None


def tell(
    released: Release,
    folder: Path,
    account: Ledger | None,
    sign: Path | None,
    *,
    as_json: bool,
    details: Sequence[str] = (),
) -> None:
    """Say what was released, where it lies, and what to do next."""
    facts = Release.inspect(folder)
    words = ["eigenveil", "verify", str(folder)]
    if sign is not None and (public := Path(f"{sign}.pub")).is_file():  # as `keygen` leaves it
        words += ["--key", str(public)]
    following = typed(words)
    if as_json:
        document: Mapping[str, Any] = {
            "folder": str(folder),
            "next": following,
            "stand_out": distinguishable_components(released),
            "left_out": list(left_out(released.settings, released.arrays)),
            "balance": None if account is None else balance(account),
            **facts,
        }
        say_json(document)
        return
    say(f"released     {headline(released)}", *target(released))
    if table := components(released) or coefficients(released):
        say("", *table, "")
    say(*headed("guarantee", released.guarantee.lines()), *details)
    say(f"folder       {folder}")
    say(f"fingerprint  {facts['fingerprint']}")
    if sign is not None:
        say(f"signature    by {facts['signer']}")
    if account is not None:
        say(f"ledger       {account.balance().reading()}")
    if folder.is_dir():
        say(f"open         {folder / 'report.html'}")
    say(f"next         {following}")
