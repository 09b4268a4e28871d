"""Sections on a regression: its coefficients on their intervals, and what these are about."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from eigenveil.report.page.drawings import LETTERS, shortened, signed, svg, text
from eigenveil.report.page.tables import Arrays
from eigenveil.report.views import Coefficients, coefficients
from eigenveil.text import plural

__all__ = ["coefficient_tile", "coefficients_section", "interval_section"]

_MOST_TARGETS = 6  # whose coefficients are drawn


def coefficient_tile(arrays: Arrays) -> tuple[str, str]:
    """Return how many coefficients are told from zero."""
    kept = np.isfinite(arrays["scale"])
    low, high = arrays["interval"][:, :-1][:, kept, 0], arrays["interval"][:, :-1][:, kept, 1]
    clear = (low > 0) | (high < 0)
    return f"{int(clear.sum())} of {clear.size}", "coefficients told from zero"


def interval_section(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return what the intervals cover, and how much of them is noise."""
    if "gram" not in settings.get("shares", {}):
        return (
            "<p>Public numbers allowed no coefficients at this budget: the private mean of each "
            "target was released, and every prediction is that mean.</p>"
        )
    share = float(np.median(arrays["noise_share"]))
    return (
        "<p>Each interval is to cover the coefficient of the population in "
        f"{settings['interval_level']:.0%} of releases, if rows are many and the mean of the "
        "target is linear in the features. It counts what sampling and what noise leave. Noise is "
        f"responsible for {share:.0%} of the squared width of the median interval.</p>"
    )


def coefficients_section(settings: Mapping[str, Any], arrays: Arrays) -> str:
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
    inside = _draw(shown) if shown.names else "<p>No coefficient was measured.</p>"
    return f"<figure><h3>{escape(shown.target)}</h3>{inside}</figure>"


def _draw(shown: Coefficients) -> str:
    """Coefficients as points on their intervals, one line each, beside zero."""
    line, top, width = 22, 8, 520
    gutter = 14 + 8.0 * min(LETTERS, max(len(name) for name in shown.names))
    base = top + line * len(shown.names)
    most = max(float(np.abs(shown.low).max()), float(np.abs(shown.high).max())) or 1.0
    half = (width - gutter - 76) / 2

    def x(value: float) -> float:
        return gutter + half * (1 + value / most)

    parts = [f'<path d="M{x(0.0):.1f} {top}V{base}" class="axis"/>']
    clear = shown.clear.tolist()
    rows = zip(shown.names, shown.values, shown.low, shown.high, strict=True)
    for i, (name, value, low, high) in enumerate(rows):
        look = "clear" if clear[i] else "faint"
        y = top + line * i
        start, end = x(float(low)), x(float(high))
        parts.append(
            f"<g><title>{escape(name)}: {value:.4g}, {low:.4g} to {high:.4g}</title>"
            f'<rect x="{start:.1f}" y="{y + 9}" width="{max(1.0, end - start):.1f}" height="4" '
            f'class="{look}"/>'
            f'<rect x="{x(float(value)) - 3:.1f}" y="{y + 6}" width="6" height="10" '
            f'class="{look}"/>'
            + text(gutter - 8, y + 16, shortened(name, LETTERS), "end")
            + text(width - 2, y + 16, signed(float(value), "+.3g"), "end")
            + "</g>"
        )
    told = ", ".join(
        f"{name} {value:+.3g}"
        for name, value in zip(shown.names[:3], shown.values[:3], strict=True)
    )
    return svg(
        width,
        base + 4,
        f"Coefficients of {shown.target}",
        f"Intervals of {len(shown.names)} of {shown.n_columns} "
        f"{plural('column', shown.n_columns)}; those that stand out most: {told}.",
        "".join(parts),
    )
