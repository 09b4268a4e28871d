"""A figure as a paper draws it: means along an axis, with the spread of the runs.

What the runs of a figure say: verdicts on claims, and ours over published.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.papers.claims import Results
from eigenveil.papers.figure import Method, Panel
from eigenveil.report.displays import GREY, INK, LINE, matplotlib

_DPI = 110
_WIDTH, _HEIGHT = 4.3, 3.6  # inches of one panel
_LEGEND = 2.6
_MOST_BESIDE = 3
_TICKS = 7

# Told apart by shape as well: ours are solid, what has been published is dashed.
_COLOURS = (
    *("#1f6f8b", "#bf4a30", "#6a994e", "#8e6c8a", "#d98e04", "#4c5b7a"),
    *("#a23e48", "#2a9d8f", "#7f5539", "#c77dff", "#111111"),
)

_MARKERS = "osD^vP*X<>h"
_STYLES = {"printed": "--", "published": "--", "ours": "-", "not private": ":", "reference": ":"}


def draw(results: Results, path: Path) -> None:
    """Write the picture of a figure."""
    figure = results.figure
    shown = [one for one in figure.methods if _answered(results, one)]
    high = -(-len(figure.panels) // _MOST_BESIDE)
    wide = -(-len(figure.panels) // high)
    size = (_WIDTH * wide + _LEGEND, _HEIGHT * high)
    picture = matplotlib("figure").Figure(figsize=size, layout="constrained")
    axes = picture.subplots(high, wide, squeeze=False)
    for ax in axes.flat[len(figure.panels) :]:
        ax.set_visible(False)
    for ax, panel in zip(axes.flat, figure.panels, strict=False):
        if len(panel.cells(results.scale)) > 1:
            _lines(ax, panel, results, shown)
        else:
            _bars(ax, panel, results, shown)
        ax.set_title(panel.name, color=INK, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
    if len(figure.panels[0].cells(results.scale)) > 1:
        for ax in axes[:, 0]:
            ax.set_ylabel(figure.measure)
        drawn: dict[str, Any] = {}  # a method that refuses some panels is in others
        for ax in axes.flat:
            handles, labels = ax.get_legend_handles_labels()
            drawn |= dict(zip(labels, handles, strict=True))
        labels = [one.label for one in shown if one.label in drawn]
        handles = [drawn[label] for label in labels]
        picture.legend(handles, labels, loc="outside right upper", frameon=False, fontsize="small")
    else:
        picture.supxlabel(figure.measure, fontsize="small")
    picture.suptitle(
        f"{figure.name}, scale {results.scale}; bars hold 8 of 10 runs; dashed: as published",
        fontsize="small",
        color=GREY,
    )
    try:
        picture.savefig(path, dpi=_DPI)
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None


def _answered(results: Results, method: Method) -> bool:
    return any(np.isfinite(runs[method.name]).any() for _, _, runs in results.cells())


def _look(results: Results, method: Method) -> dict[str, Any]:
    """Return a look that is the same in all panels."""
    place = results.figure.methods.index(method)
    reference = method.role in ("reference", "not private")
    return {
        "color": GREY if method.role == "reference" else _COLOURS[place % len(_COLOURS)],
        "linestyle": _STYLES[method.role],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markersize": 4,
        "linewidth": 1.0 if reference else 1.6,
        "label": method.label,
    }


def _lines(ax: Any, panel: Panel, results: Results, methods: list[Method]) -> None:
    cells = results.cells(panel.name)
    along = np.array([settings[panel.along] for _, settings, _ in cells], dtype=float)
    for method in methods:
        runs = [found[method.name] for _, _, found in cells]
        there = np.array([bool(np.isfinite(one).any()) for one in runs])
        if not there.any():
            continue
        kept = [one[np.isfinite(one)] for one in runs if np.isfinite(one).any()]
        means = np.array([one.mean() for one in kept])
        spread = np.array([np.quantile(one, (0.1, 0.9)) for one in kept]).T
        reach = np.maximum([means - spread[0], spread[1] - means], 0.0)
        ax.errorbar(along[there], means, yerr=reach, capsize=2, **_look(results, method))
    ax.set_xlabel(panel.along)
    if panel.log_x:
        ax.set_xscale("log")
    if len(along) <= _TICKS:  # the values themselves, and no others
        ax.set_xticks(along, [f"{value:g}" for value in along])
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    ax.set_yscale("linear" if results.figure.more_is_better else "log")
    ax.grid(axis="y", color=LINE)


def _bars(ax: Any, panel: Panel, results: Results, methods: list[Method]) -> None:
    ((_, _, runs),) = results.cells(panel.name)
    kept = {one: runs[one.name][np.isfinite(runs[one.name])] for one in methods}
    kept = {one: found for one, found in kept.items() if found.size}
    means = [float(found.mean()) for found in kept.values()]
    spread = np.array([np.quantile(found, (0.1, 0.9)) for found in kept.values()]).T
    reach = np.maximum([means - spread[0], spread[1] - means], 0.0)
    colours = [_look(results, one)["color"] for one in kept]
    ax.barh([one.label for one in kept], means, xerr=reach, capsize=2, color=colours)
    ax.invert_yaxis()
    ax.grid(axis="x", color=LINE)


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
