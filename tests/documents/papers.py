"""What the reproduced figures of the papers say, from the verdicts that were kept of a run.

``eigenveil reproduce all --data FOLDER`` writes pictures and verdicts (JSON) into its ``small``
folder; those of docs/papers/figures are what the pages show.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[2] / "docs" / "papers" / "figures"
PAPERS = {
    "spiked": "Cai, Xia, Zha 2024",
    "covrev": "Dong, Liang, Yi 2022",
    "kpca": "Düngler, Sanyal",
    "fed": "Li, Cai, Xia, Zhang 2024",
}
PRINTED, OURS = "as printed", "ours"
VERDICTS = {True: "holds", False: "**does not hold**", None: "not judged"}


def kept(paper: str) -> list[dict[str, Any]]:
    """Return the verdicts on the figures of a paper, in order."""
    files = sorted(FIGURES.glob(f"{paper}-*.json"))
    return [json.loads(file.read_text("utf-8")) for file in files]


def figures(paper: str) -> str:
    """Return the figures of a paper with the verdict on each of its claims."""
    return "\n".join(_figure(one) for one in kept(paper))


def _figure(one: Mapping[str, Any]) -> str:
    name = one["figure"]
    lines = [
        f"### `{name}`\n",
        f"{one['source']}; {one['repeats']} runs of each cell.\n",
        f"![{name}](figures/{name.replace(':', '-')}.png)\n",
        "| the paper says | reading | verdict | numbers |",
        "|---|---|---|---|",
    ]
    for claim in one["claims"]:
        said = _escaped(claim["claim"])
        for reading, found in claim["verdicts"].items():
            who, numbers = f"{reading} ({found['method']})", found["numbers"]
            verdict = VERDICTS[found["holds"]]
            lines.append(f"| {said} | {_escaped(who)} | {verdict} | {_escaped(numbers)} |")
            said = ""
    for (guarantee, ours), ratios in _grouped(one["ratios"]).items():
        lines.append(
            f"\nOurs over the best published, {guarantee}: `{ours}` has {_middle(ratios):.2f} of "
            f"its error (geometric mean of {len(ratios)} cells, at most {max(ratios):.2f})."
        )
    lines += [f"\nNote: {_escaped(note)}." for note in one["notes"]]
    return "\n".join(lines) + "\n"


def results() -> str:
    """Return how many claims hold, and ours over published, paper by paper and in all."""
    lines = [
        "| paper | claims that hold as printed | by the second reading | for ours "
        "| ours over the best published error, geometric mean |",
        "|---|---|---|---|---|",
    ]
    found = {paper: kept(paper) for paper in PAPERS}
    for paper, title in PAPERS.items():
        lines.append(_result(f"[{title}]({paper}.md)", found[paper]))
    lines.append(_result("all", [one for some in found.values() for one in some]))
    return "\n".join(lines) + "\n"


def _result(title: str, documents: Iterable[Mapping[str, Any]]) -> str:
    documents = list(documents)
    printed, second, ours = [], [], []
    for claim in (claim for one in documents for claim in one["claims"]):
        verdicts = {reading: one["holds"] for reading, one in claim["verdicts"].items()}
        others = [holds for reading, holds in verdicts.items() if reading not in (PRINTED, OURS)]
        if verdicts.get(PRINTED) is not None:
            printed.append(verdicts[PRINTED])
            second.append(verdicts[PRINTED] if not others or others[0] is None else others[0])
        if verdicts.get(OURS) is not None:
            ours.append(verdicts[OURS])
    ratios = [one["ratio"] for figure in documents for one in figure["ratios"]]
    held = (f"{sum(some)} of {len(some)}" for some in (printed, second, ours))
    cells = (title, *held, f"{_middle(ratios):.2f} in {len(ratios)} cells")
    return f"| {' | '.join(cells)} |"


def _grouped(ratios: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for one in ratios:
        found.setdefault((one["guarantee"], one["ours"]), []).append(one["ratio"])
    return found


def _middle(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


def _escaped(text: str) -> str:
    return text.replace("*", "\\*").replace("|", "\\|")
