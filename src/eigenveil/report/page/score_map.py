"""Where rows lie on the plane of the first two components, as a map, with columns as arrows."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from eigenveil.report.charts import score_map, score_panel
from eigenveil.report.page.tables import Arrays
from eigenveil.report.svg import shortened, svg
from eigenveil.report.views import standardised

_MOST_PANELS, _PANEL_LETTERS = 12, 24


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
        f'<figure class="biplot">{svg(score_map(settings, arrays, level))}</figure>'
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
        f"{max(0.0, totals[i]):,.0f} rows</h3>"
        f"{svg(score_panel(names[i], counts[i], level))}</figure>"
        for i in shown
    )
    return (
        f'<p class="small soft">A map for each level of {escape(scores["column"])}, on the same '
        f"axes. Each is shaded by its own largest count. A count has noise of about {noise:.3g}, a "
        f"number of rows {noise * bins:.3g}. Cells below {level:.3g} are blank."
        f'{more}</p><div class="panels">{figures}</div>'
    )
