"""The page for people: one self-contained HTML file, no script, no network."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.privacy.guarantee import SIMULATION, Guarantee

__all__ = ["promise", "render"]

_MOST_BARS = 40
_ROUNDING = 1e-9  # of the largest eigenvalue: below it a sign means nothing
_CENTRES = {
    "none": "the origin, as stated",
    "mean": "a private mean of clipped rows",
    "located": "private, found in two steps",
    "paired": "none: differences of pairs of rows",
}
_UNITS = {
    "one row": "rows",
    "all rows of one group": "groups",
    "all rows of one person": "persons",
}
_TITLES = {"pca": "Private principal components", "covariance": "Private covariance"}

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2733; --soft: #5d6b78; --line: #d7dde3;
  --paper: #ffffff; --signal: #1f6f8b; --noise: #c8553d; --card: #f4f7f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf1; --soft: #9fb0bd; --line: #34434f;
  --paper: #131b22; --signal: #62b6cb; --noise: #f08a6f; --card: #1b262f; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.soft { color: var(--soft); } .promise { background: var(--card); padding: .6rem 1.2rem;
  border-left: 4px solid var(--signal); border-radius: 4px; }
.warning { border-left-color: var(--noise); font-weight: 600; }
table { border-collapse: collapse; width: 100%; } td { padding: .35rem .4rem;
  border-bottom: 1px solid var(--line); vertical-align: top; } td:first-child { color: var(--soft);
  width: 12rem; } .promise tr:last-child td { border-bottom: none; } .promise td:first-child {
  width: 8rem; } .bars td { vertical-align: middle; border-bottom: none; } .bars td:last-child {
  width: 4rem; text-align: right; } svg { width: 100%; height: auto; } svg text {
  font: 13px system-ui, sans-serif; fill: var(--ink); }
"""


def render(
    guarantee: Guarantee,
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[np.float64]],
) -> str:
    """The report of one release."""
    name = _TITLES[document["kind"]]
    warning = (
        f'<p class="promise warning">{SIMULATION} Do not publish.</p>'
        if guarantee.simulated
        else ""
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title><style>{_STYLE}</style></head><body>
<h1>{name}</h1>
<p class="soft">Released {escape(document["created"])} by eigenveil {escape(document["library"])},
mechanism <b>{escape(document["mechanism"])}</b></p>
{warning}
<h2>What is promised</h2>
{promise(guarantee)}
<h2>What was released</h2>
{_table(_facts(document, arrays))}
<h2>How far to trust it</h2>
{_trust(document, arrays)}
</body></html>
"""


def promise(guarantee: Guarantee) -> str:
    """The guarantee's own words, clause by clause."""
    return f'<div class="promise">{_table(guarantee.statements())}</div>'


def _facts(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]
) -> list[tuple[str, str]]:
    settings = document["settings"]
    rows = settings["n_rows"]
    count = "private" if rows is None else f"{rows:,}"
    contents = []
    hidden = {"distinguishable"} | ({"mean"} if settings.get("centring") == "paired" else set())
    for name, array in arrays.items():
        if name in hidden:
            continue
        size = " x ".join(f"{length:,}" for length in array.shape)
        noun = "number" if array.size == 1 else "numbers"
        contents.append((name.replace("_", " "), f"{size} {noun}"))
    return [
        *contents,
        (f"{_UNITS[document['guarantee']['unit']]} of the table", count),
        (_noise_on(document["mechanism"]), f"standard deviation {settings['noise_scale']:.4g}"),
        *_stages(settings),
    ]


def _stages(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a release of components went about it."""
    if "shares" not in settings:
        return []
    spent = ", ".join(f"{stage} {share:.3g}" for stage, share in settings["shares"].items())
    return [
        ("centre", _CENTRES[settings["centring"]]),
        ("budget", f"{spent} (shares; searches for a distance come on top)"),
    ]


def _noise_on(mechanism: str) -> str:
    apart = mechanism in ("separate", "exponential")
    return "noise on an eigenvalue" if apart else "noise on a diagonal entry"


def _table(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table>{rows}</table>"


def _trust(document: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]) -> str:
    if document["kind"] == "pca":
        clear = arrays["distinguishable"] > 0
        return _levels(document, arrays["eigenvalues"], clear) + _reliability(arrays, clear)
    if document["settings"]["noise_floor"] == 0:
        return (
            "<p>The zero matrix, which holds nothing of the records. If a location was released "
            "with it, that has noise and was paid for.</p>"
        )
    if "noisy_eigenvalues" in arrays:  # what noise alone exceeds is known of these
        values = arrays["noisy_eigenvalues"]
    else:
        values = np.asarray(np.linalg.eigvalsh(arrays["covariance"])[::-1], dtype=np.float64)
    return _levels(document, values, values > document["settings"]["noise_floor"])


def _levels(
    document: Mapping[str, Any], values: NDArray[np.float64], clear: NDArray[np.bool_]
) -> str:
    """The eigenvalues beside what noise alone produces, in words and drawn."""
    settings = document["settings"]
    whole = settings["noise_floor"]
    floor = settings.get("matrix_floor", whole)
    if floor == 0:
        return (
            "<p>This mechanism releases directions, not a noisy second moment, so there is no "
            "eigenvalue that noise alone would reach.</p>"
        )
    above = int(np.sum(values > floor))
    if above == len(values):
        verdict = "Every one released lies above that."
    elif above == 0:
        verdict = f"None of the {len(values)} released does: they cannot be told from noise."
    else:
        verdict = f"{above} of the {len(values)} released do; the others cannot be told from noise."
    shown = values[:_MOST_BARS]
    rest = f" The largest {_MOST_BARS} are drawn." if len(values) > _MOST_BARS else ""
    if negative := int(np.sum(values < -_ROUNDING * values[0])):
        rest += f" {negative} are negative, which only noise can cause."
    source = "in the matrix and in its centre"
    if whole > floor:
        source = "in the matrix"
        verdict += f" The error of the centre may add one component of up to {whole:.4g}"
        taken = np.flatnonzero((values > floor) & (values <= whole) & ~clear)
        verdict += f": number {taken[0] + 1} is taken for it." if taken.size else "."
    shares = document["kind"] == "pca" and settings["row_norm"] is None
    unit = "share of variance of unit rows" if shares else "variance (squared column units)"
    return (
        f"<p>Noise alone, {source}, produces an eigenvalue above {floor:.4g} about once in a "
        f"hundred releases. {verdict}{rest}</p>{_scree(shown, clear, floor, unit)}"
    )


def _reliability(arrays: Mapping[str, NDArray[np.float64]], clear: NDArray[np.bool_]) -> str:
    """How much of each component is left, in words and as bars."""
    values = arrays["reliability"]
    shown = values[:_MOST_BARS]
    rest = f" The first {_MOST_BARS} are shown." if len(values) > _MOST_BARS else ""
    bars = "".join(
        f"<tr><td>component {i + 1}</td><td><svg viewBox='0 0 400 14' role='img' "
        f"aria-label='{value:.0%}'><rect width='400' height='14' fill='var(--line)'/>"
        f"<rect width='{400 * value:.1f}' height='14' "
        f"fill='var(--{'signal' if clear[i] else 'soft'})'/></svg></td><td>{value:.1%}</td></tr>"
        for i, value in enumerate(shown.tolist())
    )
    return (
        "<p>Noise turns directions. Shown is the expected share of each component that lies in the "
        "span of those that the same rows would give about the same centre without noise; "
        "directions of similar variance mix, among themselves and with those not released, which "
        f"is not counted. Grey ones cannot be told from noise.{rest}</p>"
        f"<table class='bars'>{bars}</table>"
    )


def _scree(values: NDArray[np.float64], clear: NDArray[np.bool_], floor: float, unit: str) -> str:
    """Bars for the leading eigenvalues and a line at the noise floor."""
    width, height, left, bottom, top = 720, 320, 72, 44, 36
    highest = max(float(values[0]), floor) * 1.08
    slot = (width - left - 8) / len(values)

    def y(value: float) -> float:
        return top + (height - top - bottom) * (1 - max(value, 0.0) / highest)

    parts = [_legend(left)]
    for tick in _ticks(highest):
        level = y(tick)
        parts.append(
            f'<line x1="{left}" x2="{width}" y1="{level:.1f}" y2="{level:.1f}" '
            f'stroke="var(--line)"/>'
            f'<text x="{left - 8}" y="{level + 4:.1f}" text-anchor="end">{tick:,.4g}</text>'
        )
    for i, value in enumerate(values.tolist()):
        colour = "var(--signal)" if clear[i] else "var(--soft)"
        parts.append(
            f'<rect x="{left + slot * (i + 0.15):.1f}" y="{y(value):.1f}" '
            f'width="{slot * 0.7:.1f}" height="{height - bottom - y(value):.1f}" fill="{colour}"/>'
        )
        if len(values) <= 12 or i % 5 == 0:
            parts.append(
                f'<text x="{left + slot * (i + 0.5):.1f}" y="{height - bottom + 18}" '
                f'text-anchor="middle">{i + 1}</text>'
            )
    middle = (height - bottom + top) / 2
    parts.append(
        f'<line x1="{left}" x2="{width}" y1="{y(floor):.1f}" y2="{y(floor):.1f}" '
        f'stroke="var(--noise)" stroke-width="2" stroke-dasharray="6 4"/>'
        f'<text x="{(width + left) / 2}" y="{height - 6}" text-anchor="middle">'
        f"noisy eigenvalue, largest first</text>"
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{unit}</text>"
    )
    label = "Bar chart of the released eigenvalues with the level that noise alone rarely exceeds"
    drawing = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{drawing}</svg>'


def _legend(left: int) -> str:
    return (
        f'<rect x="{left}" y="6" width="12" height="12" fill="var(--signal)"/>'
        f'<text x="{left + 18}" y="16">above the noise</text>'
        f'<rect x="{left + 150}" y="6" width="12" height="12" fill="var(--soft)"/>'
        f'<text x="{left + 168}" y="16">not above it</text>'
        f'<line x1="{left + 280}" x2="{left + 310}" y1="12" y2="12" stroke="var(--noise)" '
        f'stroke-width="2" stroke-dasharray="6 4"/>'
        f'<text x="{left + 318}" y="16">what noise alone rarely exceeds</text>'
    )


def _ticks(highest: float) -> list[float]:
    """Round steps, about five of them."""
    power: float = 10 ** math.floor(math.log10(highest))
    step = next(power * m for m in (0.2, 0.5, 1.0, 2.0) if highest / (power * m) <= 6)
    return [i * step for i in range(math.floor(highest / step) + 1)]
