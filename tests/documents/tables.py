"""Tables of mechanisms in documents, from what each mechanism declares about itself.

``python -m tests.documents --write`` writes them between the marks of each document.
"""

import ast
import csv
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import eigenveil
from eigenveil.mechanisms import Mechanism, entries
from eigenveil.privacy import Kind, Numerics
from tests.documents import benchmarks, papers

ROOT = Path(__file__).parents[2]
SOURCE = Path(eigenveil.__file__).parent
BEGIN, END = "<!-- {name}: python -m tests.documents --write -->\n", "<!-- end -->"
NAME = re.compile(r'^    name: ClassVar\[str\] = "([^"]+)"', re.MULTILINE)
SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}


def symbols(words: str) -> str:
    """Return words with the letters of budgets."""
    for word, letter in SYMBOLS.items():
        words = words.replace(word, letter)
    return words


def file_of(one: Mechanism) -> str:
    """Return the file of a mechanism, inside the package."""
    return one.module.removeprefix("eigenveil.").replace(".", "/") + ".py"


def proof_of(one: Mechanism) -> str:
    """Return the page with the proof of a mechanism."""
    return f"proofs/{one.proof}.md"


def guarantee(one: Mechanism) -> str:
    """Return what a mechanism promises, in symbols."""
    words = [symbols(", ".join(one.notions))]
    if one.numerics is Numerics.IDEALISED:
        words.append("idealised")
    elif one.pure_numerics is Numerics.IDEALISED:
        words.append("idealised for a pure ε")
    if one.kind is Kind.MODEL_BASED:
        words.insert(0, "**model-based**")
    return "; ".join(words)


def overview() -> str:
    """Return the table of ``docs/mechanisms.md``."""
    lines = ["| name | releases | how | source | guarantee | proof |", "|---|---|---|---|---|---|"]
    for one in entries():
        auto = f", `auto` {symbols(one.auto)}" if one.auto else ""
        cells = (
            f"[`{one.name}`](../src/eigenveil/{file_of(one)}){auto}",
            one.releases,
            one.about,
            one.source,
            guarantee(one),
            f"[proof]({proof_of(one)})",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def by_file() -> str:
    """Return the table of ``mechanisms/README.md``."""
    lines = ["| name | file | source | guarantee |", "|---|---|---|---|"]
    for one in entries():
        cells = (f"`{one.name}`", f"`{file_of(one)}`", one.source, guarantee(one))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parts() -> str:
    """Return the table of mechanisms that users cannot name, by what their modules say first."""
    named = {file_of(one): one.name for one in entries()}
    lines = ["| name | file | what the file is about |", "|---|---|---|"]
    for path in sorted([*SOURCE.glob("mechanisms/*.py"), *SOURCE.glob("papers/*/*.py")]):
        text, file = path.read_text("utf-8"), path.relative_to(SOURCE).as_posix()
        names = [name for name in NAME.findall(text) if name != named.get(file)]
        if names:
            about = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
            shown = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
            lines.append(f"| {shown} | `{file}` | {about} |")
    return "\n".join(lines) + "\n"


def measured(name: str) -> str:
    """Return a table that a benchmark kept."""
    with (ROOT / "benchmarks" / "results" / f"{name}.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    lines = [head, ["---"] * len(head), *([_shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _shown(cell: str) -> str:
    return f"{float(cell):.3g}" if re.fullmatch(r"\d+\.\d+(e-?\d+)?", cell) else cell


INSIDE = SOURCE / "mechanisms" / "README.md"
COMPONENT_LAW = ROOT / "docs" / "proofs" / "component_law.md"
CONTINUAL = ROOT / "docs" / "continual.md"
DEVICES = ROOT / "docs" / "devices.md"
SCALING = ROOT / "docs" / "scaling.md"
PAPERS = ROOT / "docs" / "papers"
INTERVALS = ROOT / "docs" / "intervals.md"
MEASURED = ("scaling", "one_core", "wide", "csv", "dask", "dask_generated", "machine")
TABLES: dict[tuple[Path, str], Callable[[], str]] = {
    (ROOT / "docs" / "mechanisms.md", "mechanisms"): overview,
    (ROOT / "README.md", "peers"): benchmarks.peers,
    (ROOT / "docs" / "guide.md", "components_free"): benchmarks.components_free,
    (ROOT / "docs" / "guide.md", "covariance_free"): benchmarks.covariance_free,
    (ROOT / "docs" / "federation.md", "federated_owners"): benchmarks.federated_owners,
    (ROOT / "docs" / "federation.md", "secure"): benchmarks.secure,
    (INTERVALS, "coverage"): benchmarks.coverage,
    (INTERVALS, "coverage_components"): benchmarks.coverage_components,
    (INTERVALS, "coverage_regression"): benchmarks.coverage_regression,
    (ROOT / "docs" / "regression.md", "coverage_told"): benchmarks.coverage_told,
    (ROOT / "docs" / "planner.md", "planner"): benchmarks.planner,
    (ROOT / "docs" / "planner.md", "planner_real"): benchmarks.planner_real,
    (ROOT / "docs" / "planner.md", "plan_regression"): benchmarks.plan_regression,
    (ROOT / "docs" / "mechanisms.md", "covariance_ratios"): benchmarks.covariance_ratios,
    (ROOT / "docs" / "proofs" / "federated.md", "federated"): benchmarks.federated_printed,
    (ROOT / "docs" / "proofs" / "federated.md", "federated_lung"): benchmarks.federated_lung,
    **{(CONTINUAL, f"continual_{name}"): made for name, made in benchmarks.CONTINUAL.items()},
    (ROOT / "docs" / "comparison.md", "peers"): partial(measured, "peers"),
    (ROOT / "docs" / "proofs" / "column_scale.md", "scales"): benchmarks.scales,
    (ROOT / "docs" / "proofs" / "front.md", "ablation"): benchmarks.ablation,
    (COMPONENT_LAW, "reproducibility"): benchmarks.reproducibility,
    (INSIDE, "mechanisms"): by_file,
    (INSIDE, "parts"): parts,
    (DEVICES, "device_gram"): partial(measured, "device_gram"),
    (DEVICES, "device_fit"): partial(measured, "device_fit"),
    **{(SCALING, name): partial(measured, name) for name in MEASURED},
    (DEVICES, "device_lazy"): partial(measured, "device_lazy"),
    (PAPERS / "README.md", "results"): papers.results,
    **{(PAPERS / f"{name}.md", "figures"): partial(papers.figures, name) for name in papers.PAPERS},
}


def written(text: str, name: str, table: str) -> str:
    """Return a document with a table between the marks of its name."""
    begin = BEGIN.format(name=name)
    start = text.index(begin) + len(begin)
    return text[:start] + table + text[text.index(END, start) :]
