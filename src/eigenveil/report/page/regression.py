"""Sections on a regression: its coefficients on their intervals, and what these are about."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from eigenveil.report import charts
from eigenveil.report.page.tables import RIGHT, Arrays
from eigenveil.report.svg import signed, svg
from eigenveil.report.views import Coefficients, coefficients, means_alone, target_name
from eigenveil.text import percent, plural

_MOST_TARGETS = 6  # whose coefficients are drawn
_MOST_MEANS = 120  # targets that are listed


def coefficient_tile(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return how many coefficients are told from zero, or that there are none."""
    if means_alone(settings):
        return "<b>Coefficients were not estimated</b>."
    kept = np.isfinite(arrays["scale"])
    low, high = arrays["interval"][:, :-1][:, kept, 0], arrays["interval"][:, :-1][:, kept, 1]
    clear = (low > 0) | (high < 0)
    return f"<b>{int(clear.sum())} of {clear.size} coefficients told from zero</b>."


def interval_section(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return what the intervals cover, and how much of them is noise."""
    if means_alone(settings):
        return (
            "<p>Public numbers allowed no coefficients at this budget: they were not estimated. A "
            "private mean, or median of means, of each target alone was released. Every "
            "prediction is that number.</p>"
        )
    share = float(np.median(arrays["noise_share"]))
    return (
        "<p>Each interval is to cover the coefficient of the population in "
        f"{settings['interval_level']:.0%} of releases, if rows are many, the mean of the target "
        "is linear in the features and few rows were pulled in. It counts what sampling and what "
        "noise leave, and not what clipping takes: on tables with long tails, not enough. Noise is "
        f"responsible for {share:.0%} of the squared width of the median interval.</p>"
    )


def regression_section(settings: Mapping[str, Any], arrays: Arrays) -> tuple[str, str]:
    """Return the title and the content of the section with what was released."""
    if means_alone(settings):
        return "What was released of each target", _means(settings, arrays)
    return "What goes with the target", _coefficients(settings, arrays)


def _means(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the one number of each target, with its interval where its error is known."""
    count, columns = len(arrays["intercept"]), settings["n_features"]
    rows = []
    for i in range(min(count, _MOST_MEANS)):
        low, high = arrays["interval"][i, -1].tolist()
        known = np.isfinite([low, high]).all()
        told = f"{signed(low, '.4g')} to {signed(high, '.4g')}" if known else "not known"
        rows.append(
            f'<tr><th scope="row">{escape(target_name(settings, i))}</th>'
            f"<td{RIGHT}>{signed(float(arrays['intercept'][i]), '.4g')}</td>"
            f"<td{RIGHT}>{told}</td></tr>"
        )
    rest = f"<p>The first {_MOST_MEANS} of {count:,}.</p>" * (count > _MOST_MEANS)
    level = escape(percent(settings["interval_level"]))
    return (
        "<p>A private mean, or median of means: what is promised says which. Nothing was "
        f"estimated of the other {columns:,} {plural('column', columns)}.</p>"
        f'<table><thead><tr><th scope="col">target</th><th scope="col"{RIGHT}>mean or median</th>'
        f'<th scope="col"{RIGHT}>{level} interval</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>{rest}"
    )


def _coefficients(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return intervals of the coefficients that stand out most, for each target."""
    if not arrays["coef"].any():
        return "<p>All coefficients are zero: nothing stands out from the noise.</p>"
    targets = range(min(_MOST_TARGETS, len(arrays["coef"])))
    drawn = [coefficients(settings, arrays, i) for i in targets]
    first = next((one for one in drawn if one.names), drawn[0])
    fewer = len(first.names) < first.n_columns
    which = f"The {len(first.names)} that stand out most" if fewer else "All"
    panels = "".join(_panel(one) for one in drawn)
    return (
        f"<p>{which}, each times the scale of its column: what one such scale more goes with. "
        "Grey ones cannot be told from zero.</p>"
        f'<div class="panels single">{panels}</div>'
    )


def _panel(shown: Coefficients) -> str:
    """Return the picture of one target, which may have no coefficient that was measured."""
    inside = (
        svg(charts.coefficients(shown)) if shown.names else "<p>No coefficient was measured.</p>"
    )
    return f"<figure><h3>{escape(shown.target)}</h3>{inside}</figure>"
