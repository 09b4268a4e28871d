"""Tables of documents that are laid out otherwise than the CSV files of their benchmarks."""

import csv
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

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
            shown.append(f"{float(share):.0%}".replace("%", " %") if share else "")
            shown.append(f"{float(seconds):.2g}" if share else seconds)
        rows.append([name.format(version), told, *shown])
    head = [cell for name in tables.values() for cell in (f"{name}: kept", "seconds")]
    (place,) = kept("machine")
    packages = ", ".join(f"{name} {place[name]}" for name in ("python", "numpy", "scikit-learn"))
    where = f"{place['date']}, {place['processor']} ({place['cores']} cores)"
    return lines(["", "must be told", *head], rows) + f"\nMeasured on {where}, {packages}.\n"


def components_free() -> str:
    """Return the shares of variance that components without bounds capture."""
    rows = []
    for (table, k), group in groupby(kept("components_free"), lambda row: (row["table"], row["k"])):
        shares = [short(row["captured"]) for row in group]
        rows.append((f"{CALLED[table]}, {k} components", "none", *shares))
    return lines(("table", "bounds", "ε = 0.5", "ε = 1", "ε = 2"), rows)


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
