"""``eigenveil reproduce [FIGURE]...``: the papers' figures, run again."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import JSON, PATH
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.progress import stoppable
from eigenveil.exceptions import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from eigenveil.papers.figure import Figure
    from eigenveil.papers.runner import Stored


_AT_LEAST_ONE = click.IntRange(1)
_KEPT = "finished runs are kept, and the same command goes on with the others"


@click.command("reproduce")
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@click.option("--list", "listed", is_flag=True, help="List all figures and run nothing.")
@click.option(
    "--scale",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="Run fewer and smaller settings, or those of the paper.",
)
@click.option(
    "--repeats",
    type=_AT_LEAST_ONE,
    help="Number of runs of every cell, instead of that of the scale.",
)
@click.option(
    "--jobs", type=_AT_LEAST_ONE, default=1, show_default=True, help="Number of processes."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of tables and noise."
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("reproduced"),
    show_default=True,
    help="Folder for runs (CSV), pictures (PNG) and verdicts (JSON).",
)
@click.option("--data", type=PATH, help="Folder with the data sets of docs/papers.")
@click.option("--online", is_flag=True, help="Allow scikit-learn to fetch MNIST from OpenML.")
@JSON
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    scale: Any,
    repeats: int | None,
    jobs: int,
    seed: int,
    output: Path,
    data: Path | None,
    online: bool,
    as_json: bool,
) -> None:
    """Run figures of the papers again, draw them, and judge what the papers say of them.

    FIGURE is a name of --list, a paper (spiked, covrev, ...), or all. An interrupted figure goes
    on where it stopped. Everything here is a simulation: nothing is released, no ledger is
    charged, and methods that read records without noise are called "not private".
    """
    from eigenveil.papers import figures
    from eigenveil.papers.runner import Stored

    if listed or not names:
        _list(figures(), as_json)
        return
    chosen = _chosen(figures(), names)
    stored = Stored(data, online)
    folder = output / scale
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InvalidParameterError(f"cannot write to {folder}: choose another --output") from None
    documents = []
    with stoppable(_KEPT):
        for one in chosen:
            lacking = [name for name in one.data if not stored.has(name)]
            if lacking:
                if len(chosen) == 1:
                    raise InvalidDataError(
                        f"{one.name} needs {', '.join(lacking)}: say with --data in which folder"
                    )
                say(f"{one.name}: left out, as it needs {', '.join(lacking)} (--data)", err=True)
                continue
            documents.append(_reproduced(one, folder, scale, repeats, jobs, seed, stored, as_json))
    _finish(documents, as_json)


def _reproduced(
    one: "Figure",
    folder: Path,
    scale: Any,
    repeats: int | None,
    jobs: int,
    seed: int,
    stored: "Stored",
    as_json: bool,
) -> dict[str, Any]:
    """Run one figure and write its files."""
    from eigenveil.cli.progress import counted
    from eigenveil.papers.drawing import document, draw, lines
    from eigenveil.papers.runner import run

    start = time.monotonic()
    path = folder / f"{one.file}.csv"
    with counted(one.name) as progress:
        results = run(
            one,
            path,
            scale=scale,
            repeats=repeats or one.repeats[scale],
            seed=seed,
            jobs=jobs,
            data=stored,
            progress=progress,
        )
    found = document(results)
    draw(results, path.with_suffix(".png"))
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if not as_json:
        say(*lines(found))
        say(f"  files: {path} and .png, .json; {time.monotonic() - start:.0f} s", "")
    return found


def _finish(documents: list[dict[str, Any]], as_json: bool) -> None:
    from eigenveil.papers.drawing import total

    if as_json:
        say_json(documents)
    elif len(documents) > 1:
        say(*total(documents))


def _chosen(known: "dict[str, Figure]", names: tuple[str, ...]) -> "list[Figure]":
    """Return figures of names, of papers, or all, each once."""
    found: dict[str, Figure] = {}
    for name in names:
        some = {
            key: one for key, one in known.items() if name in ("all", key, key.partition(":")[0])
        }
        if not some:
            raise InvalidParameterError(f"no figure {name}: eigenveil reproduce --list names them")
        found |= some
    return list(found.values())


def _list(known: "dict[str, Figure]", as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"name": one.name, "source": one.source, "claims": len(one.claims), "data": list(one.data)}
        for one in known.values()
    ]
    if as_json:
        say_json(rows)
        return
    for row in rows:
        needs = f"; needs {', '.join(row['data'])}" if row["data"] else ""
        say(f"{row['name']:<12} {row['source']}; {row['claims']} claims{needs}")
