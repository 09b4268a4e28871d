"""``eigenveil ledger init|show|history|export FILE``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import ADJACENCY, BUDGET, JSON, PATH, beware, with_options
from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import is_formula, printable

if TYPE_CHECKING:
    from eigenveil.privacy.ledger import Ledger


_PROTECTED = {"row": "one row", "person": "all rows of one id"}
_COUNTED = {
    None: "",
    "mu-squared": " by Gaussian noise (counted in mu^2: a pure release costs more here)",
    "epsilon": " of a pure release (counted in epsilon, as the first release was pure)",
    "rho": " (counted in rho)",
}


class _Protected(click.ParamType):  # type: ignore[type-arg]
    """What a ledger protects."""

    name = "unit"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Read one value; the column that tells persons apart is said by each release."""
        if value not in _PROTECTED:
            self.fail(
                "write row or person; a ledger of persons pays for releases that name the column, "
                "such as fit --unit COLUMN",
                param,
                ctx,
            )
        return str(value)


@click.group("ledger")
def ledger() -> None:
    """Create and read budget ledgers."""


@ledger.command("init")
@click.argument("file", type=PATH)
@with_options(
    *BUDGET,
    ADJACENCY,
    click.option(
        "--unit",
        type=_Protected(),
        metavar="row|person",
        help="Protect single rows, the default, or all rows of one person.",
    ),
    click.option(
        "--alone-epsilon",
        type=float,
        help="Cap on the cost of secure sums if no other owner is honest, at the same delta.",
    ),
)
def _init(file: Path, **terms: Any) -> None:
    """Start a ledger FILE with a total budget for one table."""
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.storage.paths import require_outside

    require_outside(file)
    given = {name: value for name, value in terms.items() if value is not None}
    ledger = Ledger.create(file, **given)
    beware(given)
    say(f"{file}: {ledger.summary()}, {_promise(ledger.unit, ledger.adjacency.value)}")


@ledger.command("show")
@click.argument("file", type=PATH)
@JSON
def _show(file: Path, as_json: bool) -> None:
    """Say what was spent of what, and what is left."""
    from eigenveil.cli.releasing import balance
    from eigenveil.privacy.ledger import Ledger

    state = balance(Ledger(file))
    if as_json:
        say_json(state)
        return
    ((notion, amount),) = state["left"].items()
    say(f"{file}: {state['summary']}, {_promise(state['unit'], state['adjacency'])}")
    counted = _COUNTED[state["currency"]] if amount else ""
    say(f"largest next release: {notion} = {amount:g}{counted}")
    if state["why"]:
        say(state["why"])
    if "alone" in state:
        say(f"if no other owner of its secure sums is honest: {state['alone']}")
    say(f"entries: {state['entries']}; newest hash {state['newest_hash'] or 'none'}")
    if state["unfinished"]:
        say(
            "beware: the last line was cut off while it was written; nothing was drawn for it, and "
            "the next charge is written over it",
            err=True,
        )


@ledger.command("history")
@click.argument("file", type=PATH)
@JSON
def _show_history(file: Path, as_json: bool) -> None:
    """List every charge, oldest first."""
    from eigenveil.privacy.ledger import Ledger

    entries = history(Ledger(file))
    if as_json:
        say_json(entries)
        return
    for entry in entries:
        line = "{number:>4}  {time}  {label:<18}  {spent}{alone}  {hash:.16}{failed}"
        told = f"; alone {entry['alone']}" if entry["alone"] else ""
        told += f"; {entry['groups']:,} groups" if entry["groups"] is not None else ""
        failed = "  failed: nothing was released for it" if entry["failed"] else ""
        say(line.format(**{**entry, "alone": told, "failed": failed}))


@ledger.command("export")
@click.argument("file", type=PATH)
@click.option(
    "-o", "--output", type=PATH, required=True, metavar="FILE.csv|.json", help="New file to write."
)
def _export(file: Path, output: Path) -> None:
    """Write every charge to a CSV or JSON file."""
    from eigenveil.cli.releasing import balance
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.storage.paths import require_new

    require_new(output, "choose a new file")
    ledger = Ledger(file)
    entries = history(ledger)
    match output.suffix.lower():
        case ".json":
            text = json.dumps({**balance(ledger), "history": entries}, indent=2) + "\n"
        case ".csv":
            text = as_csv(entries)
        case _:
            raise InvalidParameterError(f"{output.name}: give -o a name in .csv or .json")
    try:
        with output.open("x", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except OSError:
        raise InvalidParameterError(f"cannot write {output}: choose a writable place") from None
    say(f"{output}: {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}", err=True)


def _promise(unit: str, adjacency: str) -> str:
    return f"protecting {_PROTECTED[unit]} under {adjacency} neighbours"


def history(ledger: "Ledger") -> list[dict[str, Any]]:
    """Return every charge, oldest first, as plain JSON values."""
    from eigenveil.privacy.accounting import native

    entries = ledger.entries
    failed = {entry.failed for entry in entries}
    return [
        {
            "number": entry.number,
            "time": entry.time,
            "label": entry.label,
            "spent": native(entry.cost),
            "alone": None if entry.alone is None else native(entry.alone),
            "unit": " by ".join(filter(None, (entry.unit.name, entry.unit.column))),
            "groups": entry.groups,
            "hash": entry.hash,
            "failed": entry.number in failed,
        }
        for entry in entries
    ]


def as_csv(entries: list[dict[str, Any]]) -> str:
    """Return charges as a CSV table; refuse labels that a spreadsheet would compute."""
    import csv
    import io

    texts = ("label", "unit")
    if any(is_formula(entry[name]) for entry in entries for name in texts):
        raise InvalidParameterError(
            "a label starts with =, +, - or @, which a spreadsheet takes for a formula: give -o a "
            "name in .json"
        )
    text = io.StringIO()
    known = ("number", "time", "label", "spent", "alone", "unit", "groups", "hash", "failed")
    writer = csv.DictWriter(text, known)
    writer.writeheader()
    for entry in entries:
        writer.writerow({**entry, **{name: printable(entry[name]) for name in texts}})
    return text.getvalue()
