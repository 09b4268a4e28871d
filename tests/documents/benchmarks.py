"""Tables of documents that are laid out otherwise than the CSV files of their benchmarks."""

import csv
import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

import numpy as np

from eigenveil.numerics.prefix_sums import COEFFICIENT_BITS, answer_weights, contributions

ROOT = Path(__file__).parents[2]
TOLD = {
    "eigenveil, delta = 1e-6": ("**eigenveil**, δ = 1e-6", "nothing"),
    "eigenveil": ("**eigenveil**, pure ε", "nothing"),
    "diffprivlib": ("diffprivlib {}, pure ε", "ranges, longest row"),
    "opendp": ("OpenDP {}, pure ε", "longest row, centre"),
    "Kim, Jung 2025, as in R dppca, delta = 1e-6": (
        "Kim, Jung 2025, as R dppca has it, δ = 1e-6",
        "nothing",
    ),
}
CALLED = {
    "digits": "digits, 1,797 x 64",
    "breast cancer, shifted": "breast cancer, 569 x 30, shifted by 3 standard deviations",
    "mnist": "MNIST, 10,000 x 784",
    "breast cancer": "breast cancer in public ranges, 569 x 30",
    "normal": "normal rows, 20,000 x 50",
    "t5": "the same with t₅ lengths",
    "mnist, middle": "MNIST, middle pixels, 10,000 x 256",
    "hapmap": "HapMap, 279 x 20",
    "adult": "adult, 32,561 x 6",
}


def kept(name: str) -> list[dict[str, str]]:
    """Return the rows that a benchmark kept."""
    with (ROOT / "benchmarks" / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def lines(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    head = list(head)
    made = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in made) + "\n"


def short(value: str, digits: int = 2) -> str:
    """Return a number between 0 and 1 without its first zero."""
    return f"{float(value):.{digits}f}".removeprefix("0")


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent."""
    return f"{share:.{digits}%}".replace("%", " %")


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of ratios."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def column(table: str, name: str, /, **where: str) -> list[float]:
    """Return a column of what a benchmark kept, of the rows that have the given cells."""
    return [
        float(row[name])
        for row in kept(table)
        if row[name] not in ("", "nan") and all(row[key] == cell for key, cell in where.items())
    ]


def repeats(rows: Iterable[Mapping[str, str]]) -> str:
    """Return how often cells were measured."""
    found = sorted({int(row["repeats"]) for row in rows})
    return " to ".join(dict.fromkeys(str(number) for number in (found[0], found[-1])))


def peers() -> str:
    """Return the table of peers of the README, and where it was measured."""
    found = {(row["table"], row["library"]): row for row in kept("peers")}
    tables = {"digits, 1,797 x 64": "digits, 5 of 64", "breast cancer, 569 x 30": "cancer, 3 of 30"}
    rows = []
    for library, (name, told) in TOLD.items():
        cells = [found[table, library] for table in tables]
        version = next((cell["version"] for cell in cells if cell["version"]), "")
        shown = []
        for cell in cells:
            share, seconds = cell["captured"], cell["seconds"]
            shown.append(percent(float(share)) if share else "")
            shown.append(f"{float(seconds):.2g}" if share else seconds)
        rows.append([name.format(version), told, *shown])
    head = [cell for name in tables.values() for cell in (f"{name}: kept", "seconds")]
    (place,) = kept("machine")
    packages = ", ".join(f"{name} {place[name]}" for name in ("python", "numpy", "scikit-learn"))
    where = f"{place['date']}, {place['processor']} ({place['cores']} cores)"
    releases = repeats(row for (table, _), row in found.items() if table in tables)
    measured = f"Means of {releases} fits. Measured on {where}, {packages}."
    return lines(["", "must be told", *head], rows) + f"\n{measured}\n"


def components_free() -> str:
    """Return the shares of variance that components without bounds capture."""
    rows = []
    for (table, k), group in groupby(kept("components_free"), lambda row: (row["table"], row["k"])):
        cells = list(group)
        shares = [short(row["captured"]) for row in cells]
        rows.append((f"{CALLED[table]}, {k} components", repeats(cells), *shares))
    return lines(("table", "releases", "ε = 0.5", "ε = 1", "ε = 2"), rows)


def covariance_free() -> str:
    """Return the errors of covariances without bounds, beside those with stated ranges."""
    rows = []
    for table, group in groupby(kept("covariance_free"), lambda row: row["table"]):
        cells = list(group)
        rows.append(
            (
                CALLED[table],
                *(", ".join(short(c[side]) for c in cells) for side in ("before", "free")),
            )
        )
    return lines(("table", "before, told ranges: ε = 0.5, 1, 2, 4", "now, told nothing"), rows)


def federated_owners() -> str:
    """Return what owners reach alone and together."""
    rows = (
        (
            *(row[name] for name in ("table", "owners", "components", "epsilon")),
            *(f"{float(row[side]):.3g}" for side in ("alone", "k", "4k")),
        )
        for row in kept("federated_owners")
    )
    more = "together, `directions` = 4 x components"
    return lines(("table", "owners", "components", "epsilon", "alone", "together", more), rows)


def secure() -> str:
    """Return what secure sums reach, beside noise of one's own and one table."""
    sides = {
        "own noise, centre known": "own noise, mean known",
        "secure": "secure sums",
        "pooled": "one pooled table",
        "no privacy": "no privacy",
    }
    rows = (
        (row["cell"], *(f"{short(row[s], 4)} ± {short(row[f'{s}, error'], 4)}" for s in sides))
        for row in kept("secure")
    )
    head = "owners x rows, columns, components, epsilon, delta"
    return lines((head, *sides.values()), rows)


def planner() -> str:
    """Return how near predictions are to what was measured."""
    rows = []
    for name, called in (
        ("planner", "`bench_planner.py`, without the zero matrix"),
        ("planner_one_pass", "`bench_planner.py --one-pass`"),
    ):
        cells = [row for row in kept(name) if row["mechanism"] != "zero"]
        off = [max(float(row["ratio"]), 1 / float(row["ratio"])) for row in cells]
        far = cells[off.index(max(off))]
        where = f"`{far['mechanism']}`, {int(far['n']):,} rows, ε = {float(far['epsilon']):g}"
        inside = np.mean([float(row["inside the band"]) for row in cells])
        near = percent(float(np.mean(np.less_equal(off, 1.5))))
        farthest = f"{max(off):.1f} times: {where}"
        rows.append((called, f"{len(cells):,}", near, farthest, percent(float(inside))))
    return lines(("benchmark", "cells", "within 1.5 times", "farthest", "releases in band"), rows)


def plan_regression() -> str:
    """Return how near predictions of regressions are to what was measured."""
    rows = []
    for features in dict.fromkeys(row["features"] for row in kept("plan_regression")):
        found = column("plan_regression", "ratio", features=features)
        near = [1 / 1.5 <= ratio <= 1.5 for ratio in found]
        larger = [ratio < 1 / 1.5 for ratio in found]
        rows.append(
            (features, str(len(found)), percent(float(np.mean(near))), percent(np.mean(larger)))
        )
    return lines(("features", "cells", "within 1.5 times", "error larger than that"), rows)


def covariance_ratios() -> str:
    """Return errors of covariances over those of other ways."""
    every, images = kept("covariance"), [r for r in kept("covariance") if r["table"] == "mnist"]
    best = "the best of GaussCov, SeparateCov and AdaptiveCov, as published"
    tuned = "AdaptiveCov with the changes of its authors' program, on MNIST"
    compared = (
        ("`cleaned`", best, every, "cleaned / published"),
        ("`cleaned`", tuned, images, "cleaned / tuned adaptive"),
        ("`cleaned`", "the best eigenvalues for its noisy basis", every, "cleaned / oracle"),
        ("`cleaned`", "the zero matrix", every, "cleaned / zero"),
        ("`adaptive-cleaned`", best, every, "adaptive-cleaned / published"),
        (
            "`wishart`, pure ε",
            "the better of LapCov and pure SeparateCov, as published",
            kept("pure"),
            "wishart / published",
        ),
        ("`wishart`, pure ε", "the zero matrix", kept("pure"), "wishart / zero"),
    )
    rows = []
    for name, other, cells, ratio in compared:
        found = [float(row[ratio]) for row in cells]
        worst = f"{max(found):.2f}"
        rows.append((name, other, str(len(found)), f"{geometric_mean(found):.2f}", worst))
    return lines(("error of", "over that of", "cells", "geometric mean", "worst"), rows)


FEDERATED = {
    "clients": "number of owners",
    "epsilon": "ε",
    "fixed_total": "records in all fixed",
    "heterogeneous": "owners of two sizes",
    "components": "three components",
}


def federated_printed() -> str:
    """Return errors of federations over those of Algorithm 1 of [Fed] as printed."""
    sides = {
        "exact / printed": "exact calibration",
        "exact, 4 / printed": "exact, constant 4",
        "spherical / printed": "`spherical` owners",
    }
    parts = {called: [f"federated_{name}"] for name, called in FEDERATED.items()}
    parts["all"] = [name for names in parts.values() for name in names]
    rows = []
    for called, names in parts.items():
        found = {side: [r for n in names for r in column(n, side)] for side in sides}
        cells = str(len(next(iter(found.values()))))
        shown = (f"{geometric_mean(some):.2f}, {max(some):.2f}" for some in found.values())
        rows.append((called, cells, *shown))
    head = (f"{side}: mean, worst" for side in sides.values())
    return lines(("what varies", "settings", *head), rows)


def federated_lung() -> str:
    """Return the shares of variance that federations capture on the lung cancer data."""
    sides = {
        "printed": "as printed",
        "printed, equal": "equal weights",
        "spherical": "`spherical`",
        "spherical, equal": "`spherical`, equal weights",
    }
    rows = (
        (row["columns"], row["sigma^2"], *(short(row[side]) for side in sides))
        for row in kept("federated_lung")
    )
    return lines(("columns", "sigma^2", *sides.values()), rows)


def running_noise(horizon: int, days: int = 1) -> float:
    """Return the noise of the last day over that of one release, for units that come so often."""
    _, root = contributions(horizon, days)
    return math.ldexp(root, -COEFFICIENT_BITS) * float(np.linalg.norm(answer_weights(horizon)))


def continual_noise() -> str:
    """Return the noise of the last day by other ways and by ours: closed forms."""
    rows = []
    for horizon in (30, 365, 3650):
        levels = math.ceil(math.log2(horizon)) + 1
        tree = math.sqrt(levels * (levels - 1))
        found = (math.sqrt(horizon), tree, running_noise(horizon))
        rows.append((f"{horizon:,} days", *(f"{times:.3g} times" for times in found)))
    head = ("horizon", "a release every day, summed up", "binary tree", "`ContinualCovariance`")
    return lines(head, rows)


def continual_persons() -> str:
    """Return the noise where a person may come on several of 365 days, over that of one day."""
    days = (2, 7, 30)
    shown = [f"{running_noise(365, m) / running_noise(365):.2g} times" for m in days]
    return lines(("`days_per_group`", *map(str, days)), [("noise", *shown)])


def continual_days() -> str:
    """Return the noise of days as it was measured."""
    cells = kept("continual")
    of = {"over_single": "over that of a single release", "measured_over_stated": "over the stated"}
    rows = [
        (called, *(f"{float(cell[name]):.2f}" for cell in cells)) for name, called in of.items()
    ]
    return lines(
        (f"noise of day, of {cells[0]['horizon']}", *(cell["day"] for cell in cells)), rows
    )


def continual_costs() -> str:
    """Return what a day costs in time, memory and room."""
    cells = [cell for cell in kept("continual_costs") if cell["day"] != "2"]
    of = {"seconds": "seconds", "peak_mb": "memory at most, MiB", "state_mb": "state, MiB"}
    rows = [
        (called, *(f"{float(f'{float(cell[name]):.2g}'):g}" for cell in cells))
        for name, called in of.items()
    ]
    what = f"{cells[0]['columns']} columns, {int(cells[0]['rows_a_day']):,} rows a day: day"
    return lines((what, *(cell["day"] for cell in cells)), rows)


CONTINUAL = {
    "noise": continual_noise,
    "persons": continual_persons,
    "days": continual_days,
    "costs": continual_costs,
}


def scales() -> str:
    """Return how many private scales of ten columns are good, and how many wrong."""
    rows = []
    for row in kept("scales"):
        if (row["d"], row["epsilon"], row["persons"]) == ("10", "1.0", "0"):
            sides = [f"{float(row[f'{side} good']):.0%}" for side in ("before", "now")]
            sides += [f"{float(row[f'{side} wrong']):.1%}" for side in ("before", "now")]
            refused = "refused" if row["now refused"] == "1" else f"{float(row['now share']):.2g}"
            rows.append((row["columns"], f"{int(row['n']):,}", *sides, refused))
    head = ("columns", "rows", "good, before", "good, now", "wrong, before", "wrong, now")
    return lines((*head, "share of the budget"), rows)
