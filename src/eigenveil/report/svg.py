"""Drawings of the page as SVG, in the colours of its style sheet."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from eigenveil.report.views import Correlations, Loadings, Spectrum
from eigenveil.text import plural

_MOST_NUMBERED = 12  # columns of a map that leave room for their values
_NUMBERED_WIDTH, _COUNTED_WIDTH = 38.0, 17.0  # of a bar that has room for its value, its ordinal
LETTERS = 20  # of a name beside a drawing
_ROOM = 1.1  # of an axis, over its largest number
_LEVELS = 20  # shades on either side of no correlation


def svg(
    width: float, height: float, title: str, description: str, drawing: str, look: str = ""
) -> str:
    """Return a drawing with what it shows, for those who do not see it."""
    style = f' class="{look}"' if look else ""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img"{style}>'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{drawing}</svg>"
    )


def text(x: float, y: float, content: str, anchor: str = "start", more: str = "") -> str:
    """Return a line of text at a place."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{more}>{escape(content)}</text>'


def signed(value: float, form: str = "+.2f") -> str:
    """Return a number as it is printed, with a minus as wide as a plus."""
    return f"{value:{form}}".replace("-", "\N{MINUS SIGN}")


def shortened(name: str, most: int) -> str:
    """Return a name that has room beside a drawing."""
    return name if len(name) <= most else name[: most - 1] + "…"


def draw_scree(spectrum: Spectrum, most: int, *, narrow: bool = False) -> str:
    """Bars for the leading eigenvalues under the veil of noise, whose level is labelled."""
    values = spectrum.values[:most]
    floor, whole = spectrum.floor, spectrum.centre_floor
    width, height, left, right, bottom, top = 760, 300, 60, 118, 52, 24
    if narrow:
        width, height, left, right, bottom, top = 340, 260, 46, 8, 52, 40
    base, end = height - bottom, width - right
    largest = max(float(values.max()), floor)
    slot = (end - left) / len(values)

    def y(value: float) -> float:
        return base - (base - top) * (max(value, 0.0) / largest / _ROOM)

    parts = []
    for tick in _ticks(largest):
        parts.append(
            f'<path d="M{left} {y(tick):.1f}H{end}" class="grid"/>'
            + text(left - 8, y(tick) + 4, f"{tick:,.4g}", "end", ' class="ax"')
        )
    step = 1 if slot > _COUNTED_WIDTH else 5
    for i, value in enumerate(values.tolist()):
        middle = left + slot * (i + 0.5)
        thick = min(slot * 0.7, 64)
        parts.append(
            f'<rect x="{middle - thick / 2:.1f}" y="{y(value):.1f}" width="{thick:.1f}" '
            f'height="{base - y(value):.1f}" class="{"clear" if spectrum.clear[i] else "faint"}">'
            f"<title>{i + 1}: {value:.4g}</title></rect>"
        )
        if (i + 1) % step == 0 or i == 0:
            parts.append(text(middle, base + 18, f"{i + 1}", "middle", ' class="ax"'))
    parts.append(
        f'<rect x="{left}" y="{y(floor):.1f}" width="{end - left}" '
        f'height="{base - y(floor):.1f}" class="zone"/>'
        f'<path d="{hatching(left, y(floor), end - left, base - y(floor))}" class="hatch"/>'
    )
    edges = [(floor, "6 4", ("noise floor", f"{floor:.3g}"))]
    if floor < whole and whole / largest <= _ROOM:
        edges.append((whole, "2 4", ("with centre", f"{whole:.3g}")))
    lowest = math.inf
    for level, dashes, words in edges:
        at = min(y(level) - 2, lowest - 34)
        lowest = at
        parts.append(
            f'<path d="M{left} {y(level):.1f}H{end}" class="level" stroke-dasharray="{dashes}"/>'
        )
        if not narrow:
            parts += [
                text(end + 8, at + 16 * line, word, more=' class="warn"')
                for line, word in enumerate(words)
            ]
    if narrow:
        said = f"hatched: noise floor {floor:.3g}"
        parts.append(text(end, 14, said, "end", ' class="warn over"'))
    if slot > _NUMBERED_WIDTH:
        for i, value in enumerate(values.tolist()):
            at = y(value)
            for level, _, _ in edges:  # a number does not sit on a line
                at = y(level) if 0 <= at - y(level) < 22 else at
            parts.append(
                text(left + slot * (i + 0.5), at - 6, f"{value:.3g}", "middle", ' class="over"')
            )
    count = int(spectrum.clear[: len(values)].sum())
    bars = f"{len(values)} released {plural('eigenvalue', len(values))}"
    parts.append(
        f'<path d="M{left} {base}H{end}" class="axis"/>'
        + text(left, height - 10, "noisy eigenvalue, largest first", more=' class="ax"')
    )
    return svg(
        width,
        height,
        "Scree plot" + ", narrow" * narrow,
        f"Bar chart of the largest {bars}, from {values[0]:.4g} to {values[-1]:.4g}, in "
        f"{spectrum.unit}. Noise alone rarely exceeds {floor:.4g}. {count} of them "
        f"{'stands' if count == 1 else 'stand'} out.",
        "".join(parts),
        "narrow" if narrow else "wide",
    )


def hatching(x: float, y: float, width: float, height: float, step: float = 8) -> str:
    """Return a path of diagonal lines inside a rectangle."""
    lines = []
    for i in range(1, math.ceil((width + height) / step)):
        start = i * step  # of a line from the lower left to the upper right, along both sides
        left, up = max(0.0, start - height), min(height, start)
        right, down = min(width, start), max(0.0, start - width)
        lines.append(f"M{x + left:.1f} {y + up:.1f}L{x + right:.1f} {y + down:.1f}")
    return "".join(lines)


def draw_bar(share: float, clear: bool) -> str:
    """Draw a share of a whole, between 0 and 1; its number stands beside it."""
    drawn = f'<rect width="{400 * share:.1f}" height="14" class="clear"/>'
    if not clear:
        drawn = (
            '<rect width="400" height="14" class="zone"/>'
            f'<path d="{hatching(0, 0, 400, 14)}" class="hatch"/>'
        )
    return (
        '<svg viewBox="0 0 400 14" preserveAspectRatio="none" height="14" aria-hidden="true">'
        f'<rect width="400" height="14" class="track"/>{drawn}</svg>'
    )


def draw_loadings(shown: Loadings, low: float, high: float) -> str:
    """Horizontal bars for the heaviest columns of one component, on an axis from low to high.

    With standard errors as lines across their ends, or a zone that noise reaches.
    """
    line, top, width = 22, 8, 360
    gutter = 14 + 8.0 * min(LETTERS, max(len(name) for name in shown.names))
    base = top + line * len(shown.names)
    unit = (width - gutter - 52) / (high - low or 1.0)

    def x(value: float) -> float:
        return gutter + unit * (min(max(value, low), high) - low)

    parts = []
    if shown.errors is None:
        start, end = x(-shown.reach[0]), x(shown.reach[0])
        parts.append(
            f'<rect x="{start:.1f}" y="{top}" width="{end - start:.1f}" '
            f'height="{base - top}" class="zone"/>'
            f'<path d="{hatching(start, top, end - start, base - top)}" class="hatch"/>'
        )
    pairs = list(zip(shown.names, shown.values.tolist(), strict=True))
    for i, (name, value) in enumerate(pairs):
        look = "clear" if shown.certain[i] else "faint"
        y = top + line * i
        error = math.nan if shown.errors is None else float(shown.errors[i])
        told, across = "", ""
        if math.isfinite(error):
            told = f" ± {error:.2g}"
            across = (
                f'<path d="M{x(value - error):.1f} {y + line / 2:g}H{x(value + error):.1f}" '
                'class="arrow"/>'
            )
        parts.append(
            f"<g><title>{escape(name)}: {value:.4g}{told}</title>"
            f'<rect x="{x(min(value, 0.0)):.1f}" y="{y + 4}" width="{unit * abs(value):.1f}" '
            f'height="{line - 8}" '
            f'class="{look}"/>{across}'
            + text(gutter - 8, y + 16, shortened(name, LETTERS), "end")
            + text(width - 2, y + 16, signed(value), "end")
            + "</g>"
        )
    parts.append(f'<path d="M{x(0.0):.1f} {top}V{base}" class="axis"/>')
    told = ", ".join(f"{name} {value:+.2f}" for name, value in pairs[:3])
    return svg(
        width,
        base + 4,
        f"Loadings of component {shown.component + 1}",
        f"Bars for the {len(pairs)} heaviest of {shown.n_columns} "
        f"{plural('column', shown.n_columns)}; the heaviest: {told}.",
        "".join(parts),
    )


def draw_correlations(shown: Correlations) -> str:
    """Draw a map of correlations: one path per shade, so that wide tables stay small."""
    d = len(shown.names)
    cell = min(46.0, 520 / d)
    size = min(14.0, max(7.5, cell * 0.86))
    gutter = 10 + 0.58 * size * min(LETTERS, max(len(name) for name in shown.names))
    parts = [
        f'<g transform="translate({gutter:.1f} 4) scale({cell:.4g})" shape-rendering="crispEdges">'
        f'<rect width="{d}" height="{d}" class="void"/>{shades(shown.values)}</g>'
    ]
    side = d * cell
    style = f' style="font-size:{size:.1f}px"'
    for i, name in enumerate(shown.names):
        at = 4 + cell * (i + 0.5) + size * 0.35
        x = gutter - 4 + cell * (i + 0.5) + size * 0.35
        y = side + 12
        label = shortened(name, LETTERS)
        parts.append(
            f"<g{style}><title>{escape(name)}</title>"
            + text(gutter - 6, at, label, "end")
            + text(x, y, label, "end", f' transform="rotate(-90 {x:.1f} {y:.1f})"')
            + "</g>"
        )
    if d <= _MOST_NUMBERED:
        parts.append(_numbers(shown.values, gutter, cell))
    parts.append(_key(gutter + side + 24, min(side, 260.0)))
    told = "; ".join(
        f"{a} and {b} {value:+.2f} ± {noise:.2f}" for a, b, value, noise in shown.strongest(3)
    )
    return svg(
        gutter + side + 92,
        max(side + 14 + gutter, 300.0),
        "Map of released correlations",
        f"Correlations of {d} {plural('column', d)}, amber for -1 to blue for +1. "
        f"Strongest: {told or 'none'}.",
        "".join(parts),
    )


def shades(values: NDArray[np.float64]) -> str:
    """Return cells of one shade as one path of runs, on the colour of paper."""
    known = ~np.isnan(values)
    level = np.rint(np.clip(np.where(known, values, 0.0), -1, 1) * _LEVELS).astype(int)
    paper = f'<path d="{runs(known)}" class="paper"/>'
    shades = [
        f'<path d="{runs(known & (level == shade))}" class="{"clear" if shade > 0 else "minus"}" '
        f'fill-opacity="{abs(shade) / _LEVELS:g}"/>'
        for shade in np.unique(level[known]).tolist()
        if shade != 0
    ]
    return paper + "".join(shades)


def runs(mask: NDArray[np.bool_]) -> str:
    """Return a path around the horizontal runs of a mask."""
    path = []
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(int), [0]))))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            path.append(f"M{start} {row}h{end - start}v1h{start - end}z")
    return "".join(path)


def _numbers(values: NDArray[np.float64], left: float, cell: float) -> str:
    marks = []
    for (row, column), value in np.ndenumerate(values):
        if row != column and not np.isnan(value):
            strong = ' class="inverse"' if abs(value) > 0.75 else ""
            x, y = left + cell * (column + 0.5), 4 + cell * (row + 0.5) + 5
            marks.append(text(x, y, signed(value, ".2f"), "middle", strong))
    return "".join(marks)


def _key(left: float, height: float) -> str:
    """Draw the scale of colours."""
    step = height / (2 * _LEVELS + 1)
    parts = [
        f'<g transform="translate({left:.1f} 12) scale(16 {step:.4g})" '
        f'shape-rendering="crispEdges"><rect width="1" height="{2 * _LEVELS + 1}" class="paper"/>'
    ]
    for i, shade in enumerate(range(_LEVELS, -_LEVELS - 1, -1)):
        look = "clear" if shade > 0 else "minus"
        parts.append(
            f'<rect y="{i}" width="1" height="1" class="{look}" '
            f'fill-opacity="{abs(shade) / _LEVELS:g}"/>'
        )
    parts.append("</g>")
    for value in (1.0, 0.5, 0.0, -0.5, -1.0):
        y = 12 + step * (_LEVELS * (1 - value) + 0.5)
        parts.append(text(left + 24, y + 5, signed(value, "+g") if value else "0"))
    return "".join(parts)


def draw_spending(parts: Sequence[tuple[str, float]], granted: float, notion: str) -> str:
    """Draw a bar as long as the budget, cut into what was spent when and what was not."""
    looks = {"spent before": "spent", "this release": "clear", "spent since": "later"}
    width, x, drawing, keys = 760, 0.0, [], []
    for label, amount in parts:
        length = width * min(1.0, amount / granted)
        look = looks.get(label, "track")
        if label in looks and length > 0:
            drawing.append(
                f'<rect x="{x:.1f}" width="{length:.1f}" height="28" class="{look}">'
                f"<title>{label}: {amount:.4g}</title></rect>"
            )
        x += length
        key = f'<rect width="14" height="14" class="{look}"/>'
        keys.append(
            f'<span><svg viewBox="0 0 14 14" aria-hidden="true">{key}</svg>{label} {amount:.4g}'
            "</span>"
        )
    told = ", ".join(f"{label} {amount:.4g}" for label, amount in parts)
    title = f"Budget of the ledger, {notion} = {granted:g}"
    whole = f'<rect width="{width}" height="28" class="track"/>{"".join(drawing)}'
    return f'{svg(width, 28, title, f"{told}.", whole)}<p class="keys">{"".join(keys)}</p>'


def _ticks(largest: float) -> list[float]:
    """Round steps to the end of an axis, about five of them, for numbers of any size."""
    digits, exponent = f"{largest:e}".split("e")
    highest = float(digits) * _ROOM
    step = next(step for step in (0.2, 0.5, 1.0, 2.0) if highest / step <= 6)
    return [float(f"{i * step:.1f}e{exponent}") for i in range(math.floor(highest / step) + 1)]


def draw_images(components: NDArray[np.float64], which: Sequence[int], image: Sequence[int]) -> str:
    """Return a panel of components, each as an image of a height and a width."""
    panels = (draw_image(components[i], f"Component {i + 1}", image) for i in which)
    return f'<div class="panels images">{"".join(panels)}</div>'


def draw_image(values: NDArray[np.float64], name: str, image: Sequence[int]) -> str:
    """Return one number per pixel as an image, with its name."""
    height, width = image
    largest = float(np.abs(values).max()) or 1.0
    picture = svg(
        width,
        height,
        f"{name} as an image",
        f"{height} x {width} numbers, blue for positive and amber for negative; the largest is "
        f"{largest:.2g}.",
        f'<g shape-rendering="crispEdges"><rect width="{width}" height="{height}" class="void"/>'
        f"{shades((values / largest).reshape(height, width))}</g>",
    )
    return f"<figure><h3>{name}</h3>{picture}</figure>"
