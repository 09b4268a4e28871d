"""Every command of the command line: odd values of its options, odd paths."""

import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np

from eigenveil import Ledger
from eigenveil.cli import main
from tests.fuzz.case import Case, Command
from tests.fuzz.stock import BUDGET, NAMES, private_pem, public_pem, releases, rows
from tests.fuzz.values import NUMBERS, odd_text

__all__ = ["option_case", "path_case"]

Random = random.Random
# Commands without an end, or that start servers: their configuration is read elsewhere.
_LEFT_OUT = (
    *("demo", "studio", "federate demo", "federate server", "federate client"),
    "federate keys server",
)
_SETS = (
    *("a=1", "age=1:2", "age=1:2,hours=0:9,gain=-1:1", "age=1,hours=2,gain=3", "0,1", "1,0", "1,1"),
    *("age=nan:1", "-1e308,1e308", "1,2,3", ",", "=", ":", "age=", "private", "0,0,0", "1e400,1"),
    *("age=1:2,age=1:2", "1e-320,1e-310", "inf,inf", "age,hours", "age,age", '"age', "gain", "x,y"),
)


_LINE = ("--target", "gain", "--target-bounds", "-1,1", *BUDGET)


def _inputs(place: Path) -> None:
    """Files that are all right."""
    table = rows(40)
    np.save(place / "rows.npy", table)
    lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in table.tolist())]
    (place / "rows.csv").write_text("\n".join(lines) + "\n")
    Ledger.create(place / "ledger", epsilon=5.0, delta=1e-6)
    (place / "key.pem").write_bytes(private_pem())
    (place / "key.pem.pub").write_bytes(public_pem())
    (place / "file.toml").write_text("epsilon = 1\n")
    for name in ("pca", "covariance", "regression"):
        (place / name).mkdir()
        for each, data in releases()[name].items():
            (place / name / each).write_bytes(data)


@cache
def _commands() -> tuple[tuple[tuple[str, ...], click.Command], ...]:
    return tuple(_walk((), main))


def _walk(words: tuple[str, ...], command: click.Command) -> Iterator[Any]:
    if " ".join(words) in _LEFT_OUT:
        return
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        assert inner is not None  # it was listed
        yield from _walk((*words, name), inner)


_ARGUMENTS = {
    "data": ("rows.csv", "rows.csv", "rows.npy"),
    "folder": ("pca", "pca", "covariance", "regression"),
    "file": ("ledger", "new.csv", "new"),
    "mechanism": ("spherical", "tangent", "wishart", "cleaned", "gauss"),
    "name": ("east",),
    "place": ("journal",),
    "config": ("file.toml",),
    "names": ("nowhere", "spiked:none"),  # figures take minutes
}
_GOOD = {
    "output": "out",
    "state": "state",
    "ledger": "ledger",
    "sign": "key.pem",
    "key": "key.pem",
    "config": "file.toml",
    "trials": "2",
    "figure": "figure.svg",
    "rows": "1000",
    "columns_count": "3",
    "k": "1",
    "epsilon": "1",
    "delta": "1e-6",
    "row_norm": "2",
    "bounds": "-10,10",
    "columns": "age,hours",
    "error": "0.2",
    "batch_size": "10",
    "spread": "0.3",
    "target": "gain",
    "target_bounds": "-10,10",
    "scale": "private",
}


def _words(rng: Random, odd: float) -> tuple[str, ...]:
    """Return a command with most of what it needs, some of it odd."""
    words, command = rng.choice(_commands())
    arguments: list[str] = []
    for each in command.params:
        if isinstance(each, click.Argument):
            if each.required or rng.random() < 0.7:
                arguments.append(rng.choice(_ARGUMENTS[each.name or ""]))
                if rng.random() < odd / 3:
                    arguments[-1] = odd_text(rng)
            continue
        needed = each.required or each.name in ("epsilon", "delta", "output")
        chance = 0.9 if needed else 0.2
        if rng.random() > chance and each.name != "trials":  # of which there are many by default
            continue
        if each.name in ("figure", "help") and rng.random() < 0.9:  # slow, or of click
            continue
        arguments.append(each.opts[-1])
        if not each.is_flag:  # type: ignore[attr-defined]
            arguments.append(_value(rng, each, odd))
    return (*words, *arguments)


def _value(rng: Random, option: click.Parameter, odd: float) -> str:
    if rng.random() > odd:
        if isinstance(option.type, click.Choice):
            return str(rng.choice(list(option.type.choices)))
        return _GOOD.get(option.name or "", "1")
    if option.name == "trials":  # each is a release: a million of them is no mistake
        return rng.choice(("0", "-1", "1", "x", "", "1e3", "nan"))
    return rng.choice((rng.choice(NUMBERS), rng.choice(_SETS), odd_text(rng)))


def option_case(rng: Random, place: Path) -> Case:
    """A command on good files, with options of odd values."""
    _inputs(place)
    words = _words(rng, rng.choice((0.0, 0.2, 0.5)))
    return Case([_command(words)], ("state", "out", "rows", "new"))


def _command(words: tuple[str, ...]) -> Command:
    return Command(words, b",".join(name.encode() for name in NAMES) + b"\n1,2,3\n" * 40)


def path_case(rng: Random, place: Path) -> Case:
    """A command with a path that leads to something else than it should."""
    _inputs(place)
    odd = _odd_path(rng, place)
    budget = ("--k", "1", *BUDGET)
    words: tuple[str, ...] = rng.choice(
        (
            ("fit", odd, *budget, "-o", "out"),
            ("fit", "rows.npy", *budget, "-o", odd),
            ("fit", "rows.npy", *budget, "-o", "out", "--ledger", odd),
            ("fit", "rows.npy", *budget, "-o", "out", "--config", odd),
            ("fit", "rows.npy", *budget, "-o", "out", "--sign", odd),
            ("covariance", odd, *BUDGET, "--row-norm", "1", "-o", "out"),
            ("regress", odd, *_LINE, "-o", "out"),
            ("regress", "rows.csv", *_LINE, "-o", odd),
            ("regress", "rows.csv", *_LINE, "-o", "out", "--ledger", odd),
            ("plan", odd, *BUDGET),
            ("plan", "rows.npy", *budget, "--figure", f"{odd}.svg"),
            ("stream", odd, "--state", "state", "--k", "1", "--rho", "1"),
            ("stream", "rows.npy", "--state", odd, "--k", "1", "--rho", "1"),
            ("transform", odd, "rows.npy"),
            ("transform", "pca", odd),
            ("transform", "pca", "rows.npy", "-o", odd),
            ("transform", "pca", "rows.npy", "-o", f"{odd}.csv"),
            ("verify", odd),
            ("verify", "pca", "--key", odd),
            ("inspect", odd),
            ("report", odd),
            ("report", "pca", "-o", odd),
            ("report", "pca", "-o", "page.html", "--ledger", odd),
            ("export", odd, "new.csv"),
            ("export", "pca", odd, "--format", "csv"),
            ("sign", odd, "--key", "key.pem"),
            ("sign", "pca", "--key", odd),
            ("keygen", odd),
            ("sample", odd, "--rows", "5"),
            ("sample", f"{odd}.csv", "--rows", "5"),
            ("ledger", "init", odd, *BUDGET),
            ("ledger", "show", odd),
            ("ledger", "history", odd),
            ("ledger", "export", odd, "-o", "new.csv"),
            ("ledger", "export", "ledger", "-o", f"{odd}.json"),
            ("federate", "status", odd),
            ("federate", "keys", "owner", "east", "-o", odd),
        )
    )
    return Case([Command(words, scores=words[0] == "transform")], ("state", "new", "scores"))


def _odd_path(rng: Random, place: Path) -> str:
    ends = rng.choice((".csv", ".npy", ".parquet", ".zip", ".toml", ""))
    name = f"odd{ends}"
    path = place / name
    match rng.randrange(14):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(path)
        case 3:
            path.symlink_to("nowhere")
        case 4:
            path.touch()
        case 5:
            return "x" * 300 + ends
        case 6:
            return f"none/{name}"
        case 7:
            return f"pca/{name}"
        case 8:
            return f"rows.npy/{name}"
        case 9:
            return rng.choice(("/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem"))
        case 10:
            return rng.choice(("", ".", "..", "/", "~", "./", "pca/", "pca/../pca", "//"))
        case 11:
            path = place / ("\x1b[2Ka\nb" + ends)
            path.write_bytes(b"\0\1")
            return path.name
        case 12:
            return rng.choice(("\udcff", "\u202e", "a\nb", "-", "x/" * 2000)) + ends
        case 13:
            path.symlink_to("/dev/zero")
    return name
