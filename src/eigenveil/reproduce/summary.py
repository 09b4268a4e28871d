"""What the runs of a figure say: verdicts on claims, and ours over published."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigenveil.reproduce.claims import Results

__all__ = ["document", "lines", "total"]

PRINTED, OURS = "as printed", "ours"
_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not judged"}


def document(results: Results) -> dict[str, Any]:
    """Return means, verdicts and ratios of a figure, as JSON has them."""
    figure = results.figure
    repeats = len(next(iter(next(iter(results.values.values())).values())))
    return {
        "figure": figure.name,
        "source": figure.source,
        "measure": figure.measure,
        "scale": results.scale,
        "repeats": repeats,
        "notes": list(figure.notes),
        "methods": {one.label: one.detail for one in figure.methods},
        "cells": [
            {
                "panel": panel.name,
                "settings": dict(settings),
                "mean": {
                    one.label: _number(results.mean(runs, one.name)) for one in figure.methods
                },
            }
            for panel, settings, runs in results.cells()
        ],
        "claims": [
            {
                "claim": claim.text,
                "verdicts": {
                    reading: {
                        "method": figure.method(claim.subjects[reading]).label,
                        "holds": None if one.holds is None else bool(one.holds),
                        "numbers": one.numbers,
                    }
                    for reading, one in claim.verdicts(results).items()
                },
            }
            for claim in figure.claims
        ],
        "ratios": [one for pair in _ratios(results) for one in pair],
    }


def _ratios(results: Results) -> list[list[dict[str, Any]]]:
    """Return ours over the best published error, in every cell in which both answered."""
    found = []
    for pair in results.figure.compared:
        some = []
        for panel, settings, runs in results.cells():
            ours = results.mean(runs, pair.ours)
            published = {name: results.mean(runs, name) for name in pair.published}
            published = {name: x for name, x in published.items() if not math.isnan(x)}
            if math.isnan(ours) or not published:
                continue
            best = min(published, key=lambda name: published[name])
            some.append(
                {
                    "panel": panel.name,
                    "at": settings[panel.along],
                    "guarantee": pair.guarantee,
                    "ours": pair.ours,
                    "published": best,
                    "ratio": ours / published[best],
                }
            )
        found.append(some)
    return found


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return the verdicts of a figure for people."""
    shown = [f"{found['figure']}: {found['source']}; {found['repeats']} runs of each cell"]
    for claim in found["claims"]:
        shown.append(f"  {claim['claim']}")
        for reading, one in claim["verdicts"].items():
            word = _WORDS[one["holds"]]
            shown.append(f"    {reading + ':':<14} {word} ({one['method']}: {one['numbers']})")
    for name, ratios in _grouped(found["ratios"]).items():
        middle, worst = _geometric(ratios), max(ratios)
        shown.append(
            f"  {name}: geometric mean {middle:.2f}, largest {worst:.2f}, {len(ratios)} cells"
        )
    return shown


def total(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the share of claims that hold, and ours over published, over several figures."""
    shown = []
    for reading in (PRINTED, OURS):
        verdicts = [
            claim["verdicts"][reading]["holds"]
            for one in documents
            for claim in one["claims"]
            if claim["verdicts"].get(reading, {}).get("holds") is not None
        ]
        if verdicts:
            share = sum(verdicts) / len(verdicts)
            shown.append(
                f"claims that hold {reading}: {sum(verdicts)} of {len(verdicts)} ({share:.0%})"
            )
    ratios = [one["ratio"] for figure in documents for one in figure["ratios"]]
    if ratios:
        shown.append(
            f"ours over the best published method with the same guarantee: geometric mean "
            f"{_geometric(ratios):.2f} in {len(ratios)} cells"
        )
    return shown


def _grouped(ratios: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in ratios:
        name = f"{one['ours']} over the best published ({one['guarantee']})"
        found.setdefault(name, []).append(one["ratio"])
    return found


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(ratios))))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")
