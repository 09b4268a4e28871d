"""Numbers inside sentences of documents, from what benchmarks kept or the code computes.

A sentence has ``<!--=NAME-->1.3<!---->``: readers see the number alone, on GitHub and on the site.
``python -m tests.documents --write`` writes what ``FIGURES[NAME]`` returns. A mark never begins a
line, as Markdown would take the rest of that line for HTML.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from tests.documents.benchmarks import (
    FEDERATED,
    ROOT,
    column,
    geometric_mean,
    kept,
    percent,
    running_noise,
    short,
)

MARK = re.compile(r"<!--=([\w.-]+)-->(.*?)<!---->")
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "src" / "eigenveil" / "mechanisms" / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts),
]


def one(table: str, name: str, /, **where: str) -> float:
    """Return the number that a benchmark kept under these cells."""
    found, *others = column(table, name, **where)
    assert np.allclose(others, found), f"{table}.csv has several {name} of {where}"
    return found


def significant(value: float, digits: int = 2) -> str:
    """Return a number with so many significant digits, and commas between thousands."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def spread(name: str, values: Sequence[float], digits: int) -> dict[str, Callable[[], str]]:
    """Return figures of a list of ratios: how many, geometric mean, least and most."""
    return {
        f"{name}.cells": lambda: f"{len(values):,}",
        f"{name}.mean": lambda: f"{geometric_mean(values):.{digits}f}",
        f"{name}.least": lambda: f"{min(values):.{digits}f}",
        f"{name}.most": lambda: f"{max(values):.{digits}f}",
    }


def spiked_matrices(other: str) -> list[float]:
    """Return the error of `adaptive-oja` over another one, of five components."""
    pairs = (column("kpca_compared", name, k="5") for name in ("adaptive-oja", other))
    return [ours / theirs for ours, theirs in zip(*pairs, strict=True)]


def winners() -> list[float]:
    """Return the error of the mechanism of least predicted error over the least error."""
    alike = ("n", "d", "k", "spectrum", "spread")
    situations: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in kept("planner_one_pass"):
        situations.setdefault(tuple(row[name] for name in alike), []).append(row)
    found = []
    for rows in situations.values():
        expected = min(rows, key=lambda row: float(row["predicted"]))
        found.append(float(expected["measured"]) / min(float(row["measured"]) for row in rows))
    return found


def price_of_a_row() -> float:
    """Return microseconds of one core for a row of 50 columns, of the longest table measured."""
    rows = [row for row in kept("scaling") if row["curve"] == "rows"]
    return float(max(rows, key=lambda row: int(row["rows"]))["microseconds_per_row"])


def unit_rows(table: str) -> str:
    """Return the share of the variance within reach that unit rows have without noise."""
    return percent(one("pca_captured", "spherical without noise", table=table), 1)


def pure_components(epsilon: str) -> str:
    """Return the share of variance that `wishart` captures on the table of its proof page."""
    table = {"n": "10000", "d": "50", "k": "5", "tail": "0.002", "rows": "clipped"}
    return short(str(one("pure_pca", "wishart", epsilon=epsilon, **table)), 3)


def over_the_mean() -> list[float]:
    """Return errors of regressions over those of the mean, up to the epsilon that is counted."""
    return [float(r["ours / mean"]) for r in kept("regression") if float(r["epsilon"]) <= 4]


AUTO = column("auto", "ratio", cell="grid")
PRINTED = [r for name in FEDERATED for r in column(f"federated_{name}", "spherical / printed")]

FIGURES: dict[str, Callable[[], str]] = {
    **spread("one_pass", column("one_pass", "one pass / whole table"), 1),
    **spread("kpca.gauss", spiked_matrices("DP-Gauss-1"), 2),
    **spread("kpca.plain", spiked_matrices("non-private"), 1),
    **spread("kpca.tangent", column("kpca_tangent", "tangent / adaptive", k="5"), 2),
    **spread("federated", PRINTED, 2),
    **spread("winners", winners(), 1),
    "winners.right": lambda: str(winners().count(1.0)),
    "auto.cells": lambda: str(len(AUTO)),
    "auto.near": lambda: percent(float(np.mean(np.less_equal(AUTO, 1.15)))),
    "auto.exponential": lambda: (
        f"{max(column('auto', 'ratio', cell='grid', best='exponential')):.1f}"
    ),
    "cleaned.cancer": lambda: (
        f"{one('accuracy', 'error, cleaned', table='breast cancer', epsilon='1.0'):.2f}"
    ),
    "free.cancer": lambda: (
        f"{one('covariance_free', 'free', table='breast cancer', epsilon='1.0'):.2f}"
    ),
    "regression.cells": lambda: str(len(over_the_mean())),
    "regression.worse": lambda: str(sum(ratio > 1.02 for ratio in over_the_mean())),
    "regression.most": lambda: f"{max(over_the_mean()):.2f}",
    "unit_rows.digits": lambda: unit_rows("digits"),
    "unit_rows.cancer": lambda: unit_rows("breast cancer, shifted"),
    "unit_rows.mnist": lambda: unit_rows("mnist"),
    "pure.half": lambda: pure_components("0.5"),
    "pure.one": lambda: pure_components("1.0"),
    "pure.two": lambda: pure_components("2.0"),
    "secure.seconds": lambda: significant(
        one("secure_time", "processor", what="100 owners, d = 200, in all")
    ),
    "running.365": lambda: f"{running_noise(365):.3f}",
    "running.3650": lambda: f"{running_noise(3650):.3f}",
    "row.microseconds": lambda: f"{price_of_a_row():.2f}",
    "row.hundred_million": lambda: significant(price_of_a_row() * 1e8 / 1e6),
    "row.ten_billion": lambda: significant(price_of_a_row() * 1e10 / 1e6),
    "row.on_32_cores": lambda: significant(price_of_a_row() * 1e10 / 1e6 / 32),
}


def marked(text: str) -> str:
    """Return a document with the newest number in each of its marks."""
    return MARK.sub(lambda mark: f"<!--={mark[1]}-->{FIGURES[mark[1]]()}<!---->", text)
