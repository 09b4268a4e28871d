"""Tables of documents that are laid out otherwise than the CSV files of their benchmarks."""

import csv
import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

import numpy as np

from eigenveil.exact import COEFFICIENT_BITS, answer_weights, contributions

ROOT = Path(__file__).parents[2]
TOLD = {
    "eigenveil, delta = 1e-6": ("**eigenveil**, δ = 1e-6", "digits: nothing; cancer: scales"),
    "eigenveil": ("**eigenveil**, pure ε", "digits: nothing; cancer: scales"),
    "diffprivlib": ("diffprivlib {}, pure ε", "ranges, longest row"),
    "opendp": ("OpenDP {}, pure ε", "longest row, centre"),
    "Kim, Jung 2025, as in R dppca, delta = 1e-6": (
        "Kim, Jung 2025, as R dppca has it, δ = 1e-6",
        "digits: nothing; cancer: scales",
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
    tables = {
        "digits, 1,797 x 64": "digits, 5 of 64",
        "breast cancer in public ranges, 569 x 30": "cancer, 3 of 30",
    }
    rows = []
    for library, (name, told) in TOLD.items():
        cells = [found[table, library] for table in tables]
        known = (row["version"] for (_, one), row in found.items() if one == library)
        version = next(filter(None, known), "")
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


COVERED = {
    "means": "means",
    "variances": "variances",
    "correlations": "correlations",
    "first eigenvalue": "first eigenvalue",
    "last eigenvalue": "last eigenvalue",
    "eigenvalues": "all eigenvalues",
    "first loadings": "first loadings",
    "loadings 3": "third loadings",
    "largest of loadings 3": "largest of them",
}
SINGLE = (
    "largest of loadings 3",
    "first eigenvalue",
    "last eigenvalue",
    "intercept",
    "largest coefficient",
)
RELEASES = {
    "gauss": "`gauss`",
    "gauss, near eigenvalues": "`gauss`, near eigenvalues",
    "gauss, equal eigenvalues": "`gauss`, equal eigenvalues",
    "gauss, 12 columns": "`gauss`, 12 columns",
    "cleaned": "`cleaned`",
    "continual": "`continual`, day 5 of 30",
    "default": "the default",
    "default, same units": 'the default, `scale="same"`',
    "default, t": "the default, rows of t₅",
    "default, skewed": "the default, skewed rows",
    "default, lognormal": "the default, lognormal rows",
    "default, zeros": "the default, 60 % zeros",
    "gauss, drowned": "`gauss`, 40 columns that drown",
    "gauss, t": "`gauss`, rows of t₅",
}
FEATURES = {
    "regression": "normal, correlated",
    "regression, independent": "normal, independent",
    "regression, skewed": "exponential, independent",
}


def _coverage(chosen: Iterable[str]) -> list[dict[str, str]]:
    chosen = set(chosen)
    return [row for row in kept("coverage") if row["release"] in chosen]


def _cell(row: dict[str, str]) -> tuple[str, str, str]:
    """Return what a line of a table is about."""
    name = RELEASES.get(row["release"]) or f"regression, {FEATURES[row['release']]}"
    return name, f"{int(row['rows']):,}", f"{float(row['epsilon']):g}"


def _errors(rows: list[dict[str, str]]) -> str:
    """Return the largest standard errors."""
    among = {one: [row for row in rows if (row["interval"] in SINGLE) == one] for one in (0, 1)}
    many, single = (max((r["standard_error"] for r in among[one]), key=float) for one in (0, 1))
    return (
        f"\nStandard errors are at most {short(many, 3)}, and {short(single, 3)} for a single "
        "number of a table.\n"
    )


def _by_interval(chosen: Iterable[str], shown: dict[str, str]) -> str:
    rows = [row for row in _coverage(chosen) if row["interval"] in shown]
    made = []
    for about, group in groupby(rows, _cell):
        found = list(group)
        covered = {row["interval"]: short(row["covered"]) for row in found}
        tables = max(int(row["tables"]) for row in found)
        made.append((*about, str(tables), *(covered.get(name, "–") for name in shown)))
    return lines(("release", "rows", "ε", "tables", *shown.values()), made) + _errors(rows)


def coverage() -> str:
    """Return how often intervals of covariances cover."""
    return _by_interval(RELEASES, COVERED)


def coverage_components() -> str:
    """Return how often intervals of the loadings of two released components cover."""
    told = {
        "first loadings": "of the first component",
        "loadings 2": "of the second",
        "loadings towards the next": "in the column that is most of the third, unreleased one",
    }
    rows = [row for row in _coverage(["components"]) if row["interval"] in told]
    parts = [f"{short(row['covered'])} {told[row['interval']]}" for row in rows]
    error = max((row["standard_error"] for row in rows), key=float)
    return (
        f"Loadings of `PrivatePCA(2)`, 2,000 rows, ε = 4, {rows[0]['tables']} tables: "
        f"{parts[0]}, {parts[1]}, {parts[2]} (standard error {short(error, 3)}).\n"
    )


def coverage_regression() -> str:
    """Return how often intervals of regressions cover."""
    shown = {name: name for name in ("coefficients", "largest coefficient", "intercept")}
    return _by_interval(FEATURES, shown)


def coverage_told() -> str:
    """Return the sentence of `docs/regression.md` on what intervals cover."""
    parts = []
    for name, features in FEATURES.items():
        rows = _coverage([name])
        found = {
            what: [f"{100 * float(r['covered']):.0f}" for r in rows if r["interval"] == what]
            for what in ("coefficients", "intercept")
        }
        both = (f"{a}, {b} and {c} %" for a, b, c in found.values())
        words = "{} of coefficients and {} of intercepts".format(*both)
        parts.append(f"{features.capitalize()} features: {words}.")
    return (
        "- What 90 % intervals covered on simulated tables of 5 features, at 5,000 rows and "
        "epsilon = 0.5, at 5,000 and 1, and at 20,000 and 1 ([more](intervals.md)). "
        f"{' '.join(parts)}\n"
    )


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


def reproducibility() -> str:
    """Return how often statements about single components are true, as the benchmark sums it up."""
    kinds = {
        "as they are": 'as they are, `row_norm="private"`',
        "unit rows": "unit rows, `tangent`",
        "pure": "unit rows, pure epsilon",
        "standardised": 'standardised, `scale="private"`',
    }
    rows = []
    for kind, called in kinds.items():
        cells = [row for row in kept("reproducibility") if row["kind"] == kind]
        cells = [row for row in cells if not math.isnan(float(row["stated"]))]
        true = np.mean([holds(row["actual"], row["stated"]) for row in cells])
        high = [float(row["median_stated"]) for row in cells if float(row["actual"]) > 0.97]
        groups = [row for row in cells if float(row["closed"]) > 0]
        held = np.mean([holds(row["group_actual"], row["group_stated"]) for row in groups])
        signs = sum(int(row["signs"]) for row in cells)
        right = sum(int(row["signs"]) * float(row["signs_right"] or 0) for row in cells) / signs
        rows.append(
            (
                called,
                str(len(cells)),
                short(str(true), 3),
                short(str(np.median(high)), 4),
                f"{short(str(held), 3)} of {len(groups)}",
                f"{short(str(right), 4)} of {signs:,}",
            )
        )
    names = ("cells", "true", "median stated where actual > .97", "groups that hold", "signs right")
    return lines(("", *names), rows)


def holds(actual: str, stated: str) -> bool:
    """Return whether a statement is true: off by .05 at most."""
    return float(actual) >= float(stated) - 0.05


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


def planner_real() -> str:
    """Return how near predictions of standardised components are to fits of real tables."""
    every = kept("planner_real")
    rows = []
    for epsilon, delta in dict.fromkeys((row["epsilon"], row["delta"]) for row in every):
        cells = [row for row in every if (row["epsilon"], row["delta"]) == (epsilon, delta)]
        inside = np.mean([row["mean inside the band"] == "True" for row in cells])
        releases = np.mean([float(row["inside the band"]) for row in cells])
        over = [float(row["measured"]) - float(row["predicted"]) for row in cells]
        budget = f"ε = {float(epsilon):g}" + (
            f", δ = {delta.replace('e-0', 'e-')}" if delta else ", pure"
        )
        shares = (inside, releases, np.mean([lost > 0.02 for lost in over]))
        rows.append((budget, str(len(cells)), *(percent(float(share)) for share in shares)))
    names = ("mean of ten fits in band", "releases in band", "more than .02 below the prediction")
    return lines(("budget", "cells", *names), rows)


def plan_regression() -> str:
    """Return how near predictions of regressions are to what was measured."""
    rows = []
    for features in dict.fromkeys(row["features"] for row in kept("plan_regression")):
        found = [
            column("plan_regression", name, features=features) for name in ("ratio", "stated ratio")
        ]
        near = (percent(np.mean([1 / 1.5 <= r <= 1.5 for r in ratios])) for ratios in found)
        rows.append((features, str(len(found[0])), *near))
    names = ("within 1.5 times, by default", "with their correlation stated")
    return lines(("features", "cells", *names), rows)


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


ABLATION_GAIN = 1.03  # ratio of errors from which a step pays, or costs, in a group


def ablation() -> str:
    """Return what each step of the default covariance is worth, by group of tables."""
    found: dict[str, dict[str, dict[tuple[str, str], dict[str, str]]]] = {}
    for row in kept("ablation"):
        group = found.setdefault(row["without"], {}).setdefault(row["group"], {})
        group[row["table"], row["budget"]] = row
    default = found.pop("as it is")
    rows = []
    for step, groups in found.items():
        cells, pays, costs, prevented = [], [], [], 0
        for name, before in default.items():
            pairs = [(row, before[cell]) for cell, row in groups.get(name, {}).items()]
            if not pairs:
                cells.append("–")
                continue
            times = [float(a["geometric mean"]) / float(b["geometric mean"]) for a, b in pairs]
            middle, error = geometric_mean(times), np.std(np.log(times), ddof=1)
            failures = sum(int(a["above"]) - int(b["above"]) for a, b in pairs)
            pays += [name] * (middle >= ABLATION_GAIN)
            costs += [name] * (1 / middle >= ABLATION_GAIN)
            prevented += max(0, failures)
            error /= math.sqrt(len(times))
            words = f"{middle:.2f} ± {middle * error:.2f}" if error > 0 else f"{middle:.2f}"
            cells.append(f"{words}, {failures:+d}" if failures else words)
        reasons = [f"pays in {', '.join(pays)}"] * bool(pays)
        reasons += [f"prevents {prevented}"] * (prevented > 0)
        judged = "; ".join(reasons) if reasons else "**fails**"
        rows.append((step, *cells, judged, ", ".join(costs)))
    own = ["as it is: fits above 1.2"]
    for group in default.values():
        fits, above = (sum(int(row[name]) for row in group.values()) for name in ("fits", "above"))
        own.append(f"{above} of {fits}")
    head = ("without", *default, "why it stays", "costs 3 % in")
    return lines(head, [*rows, (*own, "", "")])


def scales() -> str:
    """Return how many private scales of ten columns are good, and how many wrong."""
    rows = []
    for row in kept("scales"):
        if (row["d"], row["epsilon"], row["persons"]) == ("10", "1.0", "0"):
            sides = [f"{float(row[f'{side} good']):.0%}" for side in ("before", "now")]
            sides += [f"{float(row[f'{side} wrong']):.1%}" for side in ("before", "now")]
            refused = "refused" if row["refused"] == "1" else f"{float(row['now share']):.2g}"
            rows.append((row["columns"], f"{int(row['n']):,}", *sides, refused))
    head = ("columns", "rows", "good, before", "good, now", "wrong, before", "wrong, now")
    return lines((*head, "share of the budget"), rows)
