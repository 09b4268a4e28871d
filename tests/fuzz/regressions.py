"""Regressions: odd tables, targets and options, by the command line and from Python."""

import inspect
import random
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import Ledger, PrivateRegression, Release
from tests.fuzz.arguments import any_bounds, odd_argument
from tests.fuzz.case import Call, Case, Command, Outcome
from tests.fuzz.secrets import number_cell, text_cell
from tests.fuzz.stock import NAMES, rows
from tests.fuzz.tables import any_object, csv_table, published
from tests.fuzz.values import NUMBERS, odd_text

__all__ = ["regression_case"]

Random = random.Random
_BUDGETS: tuple[dict[str, Any], ...] = (
    {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 50.0, "delta": 1e-6},
    {"epsilon": 4.0},
    {"epsilon": 1000.0},
    {"rho": 100.0},
)
_TARGETS = ("gain", "gain", "age", "hours,gain", "gain,gain", "age,hours,gain", "job", "")
_RANGES = ("-1,1", "0,1e-9", "-1e50,1e50", "0,10", "-1000,1e-300")
_ODD_RANGES = (
    *("-1e308,1e308", "1,1", "1,0", "0,nan", "-inf,inf", "0", "a,b", "5e-324,1e-323"),
    *("gain=0:1", "age=0:1", "gain=1:0", "gain=0:1,hours=0:1", "gain=0:1:2", "gain"),
)
_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # good values, and odd ones
    "--target-bounds": (_RANGES, _ODD_RANGES),
    "--bounds": (_RANGES, _ODD_RANGES),
    "--scale": (("private", "1,2", "1e-50,1e50"), ("0,1", "-1,1", "age=1,hours=2", "inf,1", "1")),
    "--row-norm": (("1", "1e50", "1e-50"), ("0", "-1", "1e51", "nan", "private")),
    "--alpha": (("0", "0.1", "1e308"), ("-1", "nan", "inf", "auto")),
    "--centring": (("none", "located"), ("mean",)),
    "--adjacency": (("replace-one", "add-remove"), ("both",)),
    "--unit": (("hours",), ("gain", "job", "nobody")),
    "--columns": (("age", "age,hours"), ("gain", "age,gain", "job")),
    "--on-invalid": (("zero",), ("drop",)),
    "--on-missing": (("centre", "invalid"), ("mean",)),
    "--ledger": (("ledger",), ("nowhere",)),
}
_OFTEN = {"--target-bounds": 0.6, "--on-invalid": 0.3}
_WARNS = ("one person may make", "no scale was found")  # of large budgets, of columns left out


def regression_case(rng: Random, place: Path) -> Case:
    """A regression of an odd table, with odd options, or with odd arguments."""
    return _called(rng) if rng.random() < 0.4 else _commanded(rng, place)


def _commanded(rng: Random, place: Path) -> Case:
    """``eigenveil regress``, twice in a while: the second finds the place taken."""
    n: int | None = 60
    if rng.random() < 0.5:
        data, n = csv_table(rng)
        (place / "table.csv").write_bytes(data)
    else:
        table = _targets(rng, rows(60))
        lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in table.tolist())]
        (place / "table.csv").write_text("\n".join(lines) + "\n")
    Ledger.create(place / "ledger", epsilon=60.0, delta=1e-5)
    words = ["regress", "table.csv", "-o", rng.choice(("out", "out.zip"))]
    odd = rng.choice((0.0, 0.1, 0.4))
    words += ["--target", _value(rng, _TARGETS[:4], _TARGETS, odd)]
    for name, value in rng.choice(_BUDGETS).items():
        words += [f"--{name}", str(value)]
    for name, values in _OPTIONS.items():
        if rng.random() < _OFTEN.get(name, 0.15):
            words += [name, _value(rng, *values, odd)]
    if rng.random() < 0.6:
        words.append("--means-alone")
    if rng.random() < 0.2:
        words.append("--json")
    step = Command(tuple(words))
    exact = "--unit" not in words and "add-remove" not in words
    check = published(place / words[3], n if exact else None)
    ledger = "ledger" in words

    def whole(outcomes: list[Outcome]) -> str | None:
        return check(outcomes) or _paid(place, words[3], charged=ledger)

    return Case([step], check=whole)


def _value(rng: Random, good: tuple[str, ...], odd: tuple[str, ...], chance: float) -> str:
    if rng.random() > chance:
        return rng.choice(good)
    return rng.choice((rng.choice(odd), rng.choice(odd), rng.choice(NUMBERS), odd_text(rng)))


def _paid(place: Path, out: str, *, charged: bool) -> str | None:
    """Say whether a release stands without a charge, or coefficients without a feature."""
    if not (place / out).exists():
        return None
    released = Release.load(place / out)
    if charged and len(Ledger(place / "ledger").entries) != 1:
        return "a release that was not charged once"
    if released.arrays["coef"][:, np.isinf(released.arrays["scale"])].any():
        return "a coefficient of a column that was left out"
    return None


def _targets(rng: Random, table: Any) -> Any:
    """Return a table whose last column, or more of it, is degenerate or far away."""
    match rng.randrange(10):
        case 0:
            table[:, 2] = 0.0
        case 1:
            table[:, 2] = rng.choice((5.25, -1e-30, 1e30))  # no secret: it may be released
        case 2:
            table[:, 2] *= rng.choice((1e300, 1e-300, -1e40))
        case 3:
            table[:, 2] += 1e30
        case 4:
            table[rng.randrange(60), 2] = rng.choice((np.nan, np.inf, -np.inf, 1e308))
        case 5:
            table[:, 0] = table[:, 1]
        case 6:
            table[:, :2] = 0.0
        case 7:
            table[::2, rng.randrange(3)] = np.nan
        case 8:
            table[:, 2] = np.where(np.arange(60) % 3 == 0, table[:, 2], 0.0)
    return table


def _called(rng: Random) -> Case:
    """`PrivateRegression` with odd arguments, an odd table, or odd targets."""
    known = [n for n in inspect.signature(PrivateRegression).parameters if n != "ledger"]
    chosen: dict[str, Any] = {**rng.choice(_BUDGETS), "means_alone": rng.random() < 0.6}
    if rng.random() < 0.6:
        chosen["target_bounds"] = (-1.0, 1.0)
    for name in rng.sample(known, rng.choice((0, 0, 1, 2))):
        bounds = name.endswith("bounds") and rng.random() < 0.8
        chosen[name] = any_bounds(rng) if bounds else odd_argument(rng)
    table = any_object(rng) if rng.random() < 0.2 else _targets(rng, rows(60))[:, :2]
    target = _target(rng)
    groups = None if rng.random() < 0.7 else _groups(rng)

    def fit() -> Any:
        fitted = PrivateRegression(**chosen).fit(table, target, groups=groups)
        if not (np.isfinite(fitted.coef_).all() and np.isfinite(fitted.intercept_).all()):
            raise AssertionError("a coefficient that is no number")
        return fitted.predict(rows(5)[:, :2])

    name = (
        f"PrivateRegression({chosen}).fit({table!r:.100}, {target!r:.100}, groups={groups!r:.60})"
    )
    return Case([Call(name, fit, warns=_WARNS)])


def _target(rng: Random) -> Any:
    """Return what somebody may pass for the targets of 60 rows."""
    column = _targets(rng, rows(60))[:, 2]
    match rng.randrange(16):
        case 0:
            return np.column_stack([column, column[::-1]])
        case 1:
            return column[: rng.choice((0, 1, 59))]
        case 2:
            return column.reshape(60, 1)
        case 3:
            return column.reshape(60, 1, 1)
        case 4:
            return [text_cell(rng) for _ in range(60)]
        case 5:
            return [number_cell(rng) for _ in range(60)]
        case 6:
            return column.astype(rng.choice(("f4", "complex", "object", ">f8", "longdouble")))
        case 7:
            return np.arange(60) % 2 == 0
        case 8:
            return np.arange(60).astype("M8[D]")
        case 9:
            return np.empty((60, 0))
        case 10:
            return rng.choice((None, 1, "", "gain", ["gain"], {}, object(), np.array(3.0)))
    return column


def _groups(rng: Random) -> Any:
    return rng.choice(
        (
            [text_cell(rng) for _ in range(60)],
            (np.arange(60) // 2).tolist(),
            [0] * 60,
            [None] * 60,
            [0] * 59,
            "gain",
            np.arange(60.0) * np.nan,
        )
    )
