"""Where rows lie on the plane of the first two components, as a map, with columns as arrows."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.report.page.tables import Arrays
from eigenveil.report.svg import runs, shortened, svg, text
from eigenveil.report.views import feature_names, standardised
from eigenveil.text import percent

_SHADES = 5
_MOST_ARROWS, _LETTERS = 6, 18
_MOST_PANELS, _PANEL_LETTERS = 12, 24
_SIDE, _LEFT, _TOP, _BOTTOM = 300, 56, 12, 44


def biplot_section(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the map, and how to read it; nothing where none was released."""
    if "score_counts" not in arrays:
        return ""
    counts, noise = arrays["score_counts"], float(settings["scores"]["noise"])
    level = noise * math.sqrt(2 * math.log(counts.size)) if counts.size > 1 else noise
    unit_rows = settings["row_norm"] is None and not standardised(settings)
    kind = "of unit rows" if unit_rows else "in the units of the components"
    if settings.get("centring") == "paired":  # as no centre was found
        kind += ", of half differences of pairs of rows"
    outside = max(0.0, float(settings["scores"]["outside"]))
    return (
        f'<p class="small soft">Private counts of rows by their scores, {kind}. Darker cells hold '
        f"more rows. Each count has noise of about {noise:.3g}. Cells below {level:.3g}, which "
        f"noise alone rarely exceeds, are blank. About {outside:,.0f} rows lie outside. Arrows are "
        "the columns that weigh most: rows that lie along an arrow have much of it.</p>"
        f'<figure class="biplot">{_draw(settings, arrays, level)}</figure>'
        f"{_panels(settings['scores'], arrays)}"
    )


def _panels(scores: Mapping[str, Any], arrays: Arrays) -> str:
    """Return a small map for each level of a column; nothing where all rows have one."""
    if "kind_score_counts" not in arrays:
        return ""
    counts = arrays["kind_score_counts"]
    noise = float(scores["noise"]) / math.sqrt(len(counts))
    level, bins = noise * math.sqrt(2 * math.log(counts.size)), counts.shape[1]
    names = [*scores["levels"], "all other rows"]
    totals = counts.sum(axis=(1, 2))
    shown = np.sort(np.argsort(-totals[:-1], kind="stable")[:_MOST_PANELS]).tolist()
    if totals[-1] > 3 * noise * bins:  # of the noise on so many cells together
        shown.append(len(names) - 1)
    left = len(names) - 1 - min(len(names) - 1, _MOST_PANELS)
    more = f" {left:,} smaller ones are not drawn." if left else ""
    figures = "".join(
        f"<figure><h3>{escape(shortened(names[i], _PANEL_LETTERS))}: about "
        f"{max(0.0, totals[i]):,.0f} rows</h3>{_panel(names[i], counts[i], level)}</figure>"
        for i in shown
    )
    return (
        f'<p class="small soft">A map for each level of {escape(scores["column"])}, on the same '
        f"axes. Each is shaded by its own largest count. A count has noise of about {noise:.3g}, a "
        f"number of rows {noise * bins:.3g}. Cells below {level:.3g} are blank."
        f'{more}</p><div class="panels">{figures}</div>'
    )


def _panel(name: str, counts: NDArray[np.float64], level: float) -> str:
    bins = len(counts)
    middle, thin = bins / 2, 'vector-effect="non-scaling-stroke"'
    return svg(
        bins,
        bins,
        f"Map of scores of {name}",
        f"{int((counts > level).sum())} of {counts.size} cells are clear of noise.",
        f'<g shape-rendering="crispEdges"><rect width="{bins}" height="{bins}" class="paper"/>'
        f"{_shaded(counts.T[::-1], level)}</g>"
        f'<path d="M0 {middle:g}H{bins}M{middle:g} 0V{bins}" class="grid" {thin}/>'
        f'<rect width="{bins}" height="{bins}" class="outline" {thin}/>',
    )


def _draw(settings: Mapping[str, Any], arrays: Arrays, level: float) -> str:
    counts, reach = arrays["score_counts"], arrays["score_reach"]
    bins = len(counts)
    upright = counts.T[::-1]  # the second component upwards
    cell = _SIDE / bins
    drawing = (
        f'<g transform="translate({_LEFT} {_TOP}) scale({cell:.4g})" shape-rendering="crispEdges">'
        f'<rect width="{bins}" height="{bins}" class="paper"/>{_shaded(upright, level)}</g>'
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" class="outline"/>'
    )
    middle_x, middle_y = _LEFT + _SIDE / 2, _TOP + _SIDE / 2
    drawing += (
        f'<path d="M{_LEFT} {middle_y:.1f}h{_SIDE}M{middle_x:.1f} {_TOP}v{_SIDE}" class="grid"/>'
    )
    shown = int((counts > level).sum())
    names = [
        f"component {i + 1}, {percent(float(arrays['explained_variance_ratio'][i]))} of variance"
        for i in (0, 1)
    ]
    base = _TOP + _SIDE
    drawing += (
        text(middle_x, base + 36, names[0], "middle")
        + text(16, middle_y, names[1], "middle", f' transform="rotate(-90 16 {middle_y:.1f})"')
        + text(_LEFT, base + 18, f"{-reach[0]:.3g}", "start", ' class="ax"')
        + text(_LEFT + _SIDE, base + 18, f"{reach[0]:.3g}", "end", ' class="ax"')
        + text(_LEFT - 6, base, f"{-reach[1]:.3g}", "end", ' class="ax"')
        + text(_LEFT - 6, _TOP + 10, f"{reach[1]:.3g}", "end", ' class="ax"')
    )
    arrows, told = _arrows(settings, arrays["components"][:2])
    return svg(
        _LEFT + _SIDE + 64,
        base + _BOTTOM,
        "Map of scores",
        f"{shown} of {counts.size} cells of rows by their scores are clear of noise. {told}",
        drawing + arrows,
    )


def _shaded(upright: NDArray[np.float64], level: float) -> str:
    """Return cells above a level, in shades; the rest is blank."""
    largest = max(float(upright.max()), level)
    shade = np.where(upright > level, np.ceil(_SHADES * np.sqrt(upright.clip(0) / largest)), 0)
    return "".join(
        f'<path d="{runs(shade == step)}" class="clear" fill-opacity="{step / _SHADES:g}"/>'
        for step in range(1, _SHADES + 1)
        if (shade == step).any()
    )


def _arrows(settings: Mapping[str, Any], plane: NDArray[np.float64]) -> tuple[str, str]:
    """Return arrows of the columns that weigh most on the plane, and their names."""
    lengths = np.hypot(*plane)
    heaviest = np.argsort(-lengths, kind="stable")[:_MOST_ARROWS]
    heaviest = heaviest[lengths[heaviest] > 0]
    names = feature_names(settings, heaviest)
    middle_x, middle_y = _LEFT + _SIDE / 2, _TOP + _SIDE / 2
    parts: list[str] = []
    taken: list[tuple[float, float]] = []  # by labels
    unit = 0.42 * _SIDE / (float(lengths[heaviest[0]]) if heaviest.size else 1.0)
    for j, name in zip(heaviest.tolist(), names, strict=True):
        x, y = middle_x + unit * float(plane[0, j]), middle_y - unit * float(plane[1, j])
        at = y + 4
        while any(abs(at - other) < 14 and abs(x - near) < 110 for near, other in taken):
            at += 14  # labels do not cover one another
        taken.append((x, at))
        right = x >= middle_x
        parts.append(
            f'<path d="M{middle_x:.1f} {middle_y:.1f}L{x:.1f} {y:.1f}" class="arrow"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="tip"/>'
            + text(
                x + (6 if right else -6),
                at,
                shortened(name, _LETTERS),
                "start" if right else "end",
                ' class="over"',
            )
        )
    return "".join(parts), f"Columns that weigh most: {', '.join(map(str, names))}."
