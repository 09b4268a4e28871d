"""The tab *Plan and release*: what to expect, what will be promised, and the run.

Nothing is spent before `start`, which is the command that the page has shown.
"""

import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from eigenveil.cli.demo import write_sample
from eigenveil.cli.next_command import command_line, release_command
from eigenveil.cli.plan import plan as plan_command
from eigenveil.cli.plan import situation_of
from eigenveil.cli.releases import covariance as covariance_command
from eigenveil.cli.releases import fit as fit_command
from eigenveil.cli.releasing import balance, prepared
from eigenveil.cli.rows import by_levels
from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import BudgetExceededError, EigenveilError, InvalidParameterError
from eigenveil.planning.choice import Choice
from eigenveil.planning.prediction import Prediction, foresee
from eigenveil.planning.request import Situation
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.file_guard import table_version
from eigenveil.rows.open import columns_of
from eigenveil.storage.paths import require_new
from eigenveil.studio.commands import (
    Options,
    notebook,
    number,
    one_of,
    release_options,
    script,
    table_of,
)
from eigenveil.studio.ledgers import cost_of
from eigenveil.studio.server import Asked, Studio
from eigenveil.text import listed

_COMMANDS = {"fit": fit_command, "covariance": covariance_command}
_ESTIMATORS = {"fit": PrivatePCA, "covariance": PrivateCovariance}
_SAMPLE_ROWS = 20_000
_MOST_COLUMNS = 5000  # that a page can list
_PREDICTING = threading.Lock()  # a prediction takes a whole core


def table(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return names and kinds of the columns of a table, and where its ledger and releases go."""
    path = table_of(studio, {"table": asked.get("name")})
    columns = columns_of(path)
    if len(columns) > _MOST_COLUMNS:
        raise InvalidParameterError(
            f"{len(columns):,} columns are too many for this page: use eigenveil fit"
        )
    stem = path.name.split(".")[0]
    ledger = f"{stem}.ledger"
    return {
        "name": studio.folder.name(path),
        "columns": [{"name": column.name, "kind": column.kind} for column in columns],
        "ledger": ledger,
        "has_ledger": (studio.folder.root / ledger).exists(),
        "output": studio.folder.new_name(f"{stem}-release"),
    }


def sample(studio: Studio, asked: Asked) -> dict[str, str]:
    """Write the made-up hospital table, as `eigenveil sample` does, and return its name."""
    names = (f"sample{'' if i == 1 else f'-{i}'}.csv" for i in range(1, 1000))
    name = next(name for name in names if not (studio.folder.root / name).exists())
    write_sample(studio.folder.place(name), _SAMPLE_ROWS, seed=1)
    return {"name": name}


def plan(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return what to expect of a release, from public numbers; nothing is spent."""
    situation, ctx = _situation(studio, asked)
    try:
        choice, found = _foreseen(situation)
    except InvalidParameterError as error:
        return {
            "refused": error.said("page"),
            **_public(situation),
            "ledger": _ledger(studio, asked),
        }
    command = release_command(ctx, ctx.params["data"], situation, choice)
    return {
        **_public(situation),
        "prediction": _predicted(found),
        "mechanism": choice.mechanism,
        "reason": choice.reason,
        "promise": _odds(situation, asked),
        "weaknesses": situation.budget.weaknesses(situation.n),
        "ledger": _ledger(studio, asked),
        "command": command,
    }


def curve(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return the prediction at another epsilon, for the curve above the slider."""
    situation, _ = _situation(studio, asked)
    try:
        _, found = _foreseen(situation)
    except InvalidParameterError as error:
        return {"refused": error.said("page")}
    return {"prediction": _predicted(found)}


def promise(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return what will be promised, in the words of the guarantee; refuse what a run would."""
    version = table_version(table_of(studio, asked))  # before anything is read
    options, ctx, promised, account = _promised(studio, asked)
    situation, _ = _situation(studio, asked)
    choice, found = _foreseen(situation)
    return {
        "promise": {
            "lead": promised.odds(),
            "statements": [list(pair) for pair in promised.statements()],
            "simulated": False,
            "budget": promised.budget.as_dict(),
            "unit": promised.unit,
        },
        "prediction": _predicted(found),
        "mechanism": choice.mechanism,
        "reason": choice.reason,
        "rows": situation.n if situation.adjacency.count_is_public else None,
        "encoded": [list(pair) for pair in _encoded(options)],
        "ledger": {"name": asked["ledger"], **_balance(account.balance_with(promised.cost))},
        "command": command_line(
            _COMMANDS[options.command],
            options.table,
            {**_given(ctx, options), "scale": ctx.params["scale"]},
        ),
        "script": script(options.command, ctx.params),
        "notebook": notebook(options.command, ctx.params),
        "receipt": _receipt(studio, options, version),
    }


def _promised(studio: Studio, asked: Asked) -> tuple[Options, click.Context, Guarantee, Ledger]:
    """Return the options of a release, as parsed, its promise, and the ledger that covers it."""
    options = release_options(studio, asked, complete=True)
    require_new(studio.folder.place(asked.get("output")), "choose another name")
    ctx = _context(_COMMANDS[options.command], options.table, options.all)
    params = dict(ctx.params)
    account = Ledger(params.pop("ledger"))
    data = params.pop("data")
    for unused in ("output", "sign", "as_json", "cluster", "progress", "table_version"):
        params.pop(unused)
    if options.command == "fit":
        params["n_components"] = params.pop("k")
        params = by_levels(params)
    private, source, _ = prepared(_ESTIMATORS[options.command], ctx, data, account, **params)
    ctx.params["scale"] = private.scale  # as commands choose it where it is not stated
    return options, ctx, private.promise(source), account


def _encoded(options: Options) -> Iterator[tuple[str, str]]:
    """Yield columns of text, with what becomes of each in words."""
    for name, how in options.terms.get("encode", ()):
        if how == "private":
            yield name, "levels found privately, with a part of the budget"
        elif isinstance(how, str):
            yield name, f"days since {how}"
        else:
            levels = listed([repr(level) for level in how], len(how))
            yield name, f"0 or 1 for each of {levels}; 0 in all for any other value"


def _receipt(studio: Studio, options: Options, version: str) -> str:
    """Return a code that ties a promise to its choices and to one version of the table."""
    shown = json.dumps([options.command, options.table, options.terms, version], sort_keys=True)
    return hmac.new(studio.seal, shown.encode(), "sha256").hexdigest()


def _given(ctx: click.Context, options: Options) -> dict[str, Any]:
    """Return the options that were given, as they were parsed."""
    return {name: ctx.params[name] for name in options.all}


def start(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Start a release that was confirmed, in a process of its own, and return its name."""
    if asked.get("confirmed") is not True:
        raise InvalidParameterError("confirm first that this cannot be undone")
    version = table_version(table_of(studio, asked))
    options, _, _, account = _promised(studio, asked)  # what would be refused is not started
    shown = asked.get("receipt")
    expected = _receipt(studio, options, version)
    same = isinstance(shown, str) and hmac.compare_digest(shown.encode(), expected.encode())
    if not same:
        raise InvalidParameterError(
            "the table or a choice changed since the promise was shown: look at it again"
        )
    about = {name: asked[name] for name in ("table", "output", "ledger", "epsilon")}
    run = studio.runs.start(
        (options.command, options.table),
        {**options.all, "table-version": version},
        studio.folder.root,
        about,
        account,
    )
    return {"id": run.id}


def stop(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Ask a run to end; it says itself whether it was charged."""
    run = studio.runs.get(asked.get("id"))
    run.stop()
    return run.status()


def progress(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return how far a run is, or how it ended."""
    return studio.runs.get(asked.get("id")).status()


def _context(command: click.Command, table: str, options: Mapping[str, Any]) -> click.Context:
    """Parse options as those of a file; what click refuses is said in one line."""
    try:
        return command.make_context(command.name, [table], default_map=dict(options))
    except click.ClickException as error:
        raise InvalidParameterError(" ".join(error.format_message().split())) from None


def _situation(studio: Studio, asked: Asked) -> tuple[Situation, click.Context]:
    """Return the public numbers of a release, as `eigenveil plan` finds them."""
    options = release_options(studio, asked, complete=False)
    of = "components" if options.command == "fit" else "covariance"
    terms: dict[str, Any] = {**options.terms, "of": of}
    rows = asked.get("rows")
    if rows is not None:
        terms["rows"] = number(asked, "rows")
    elif asked.get("adjacency") != "add-remove":
        version = table_version(table_of(studio, asked))
        terms["rows"] = _rows(options.table, terms, version)
    if spectrum := one_of(asked, "spectrum", ("flat", "decaying", "steep")):
        terms["spectrum"] = spectrum
    ctx = _context(plan_command, options.table, terms)
    params = dict(ctx.params)
    return situation_of(ctx, params.pop("data"), **params), ctx


_COUNTED: dict[tuple[str, str | None, str], int] = {}


def _rows(table: str, terms: Mapping[str, Any], version: str) -> int:
    """Return the public number of rows, or of persons; counted once for each state of a file."""
    key = (table, terms.get("unit"), version)
    if key not in _COUNTED:
        ctx = _context(plan_command, table, terms)
        params = dict(ctx.params)
        found = situation_of(ctx, params.pop("data"), **params).n
        assert found is not None  # public, or a guess was asked for
        _COUNTED[key] = found
    return _COUNTED[key]


def _foreseen(situation: Situation) -> tuple[Choice, Prediction]:
    with _PREDICTING:
        return foresee(situation)


def _public(situation: Situation) -> dict[str, Any]:
    return {
        "situation": str(situation),
        "rows": situation.n,
        "unit": situation.unit,
        "columns": situation.d,
        "k": situation.k,
        "epsilon": situation.budget.epsilon,
    }


def _predicted(found: Prediction) -> dict[str, Any]:
    return {
        "error": found.error,
        "low": found.low,
        "high": found.high,
        "measure": found.measure,
        "why": found.why,
        "shares": [list(share) for share in found.shares],
        "reliability": [list(one) for one in found.reliability],
    }


def _odds(situation: Situation, asked: Asked) -> str:
    """Return what the budget means for somebody who guesses, in the guarantee's words."""
    promised = Guarantee(
        budget=situation.budget,
        cost=cost_of(situation.budget),
        adjacency=situation.adjacency,
        bounds=(),
        protects=_unit(asked),
    )
    return promised.odds()


def _unit(asked: Asked) -> Unit:
    """Return what is protected."""
    column = asked.get("unit")
    return Unit("person", column) if column else ROW


def _ledger(studio: Studio, asked: Asked) -> dict[str, Any] | None:
    """Return what the ledger has now, and would have after; None where there is none yet."""
    path = studio.folder.place(asked.get("ledger"))
    if not path.exists():
        return None
    ledger = Ledger(path)
    budget = Budget(epsilon=asked["epsilon"], delta=asked.get("delta"))
    now = ledger.balance()
    cost = cost_of(budget)
    name = studio.folder.name(path)
    state = {"name": name, **balance(ledger), "file": name, "largest": now.largest_next}
    try:
        state |= _balance(ledger.balance_with(cost))
        ledger.check(
            cost,
            adjacency=Adjacency.parse(asked.get("adjacency") or Adjacency.REPLACE_ONE),
            unit=_unit(asked),
        )
    except EigenveilError as error:
        over = isinstance(error, BudgetExceededError) and "after" in state
        state |= {} if over else _balance(replace(now, spent_before=now.spent))
        state |= {"refused": error.said("page"), "covered": False}
    return state


def _balance(found: Balance) -> dict[str, Any]:
    return {
        "notion": found.notion,
        "before": found.spent_before,
        "after": found.spent,
        "granted": found.granted,
        "delta": found.delta,
        "largest_after": found.largest_next,
        "covered": found.spent <= found.granted * (1 + 1e-9),
    }
