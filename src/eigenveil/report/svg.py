"""Drawings of the page as SVG, in the colours of its style sheet."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from eigenveil.report.charts import (
    ROOM,
    Arrows,
    Band,
    Bars,
    Cells,
    Chart,
    Intervals,
    Level,
    Stack,
)

_MOST_NUMBERED = 12  # columns of a map that leave room for their values
_NUMBERED_WIDTH, _COUNTED_WIDTH = 38.0, 17.0  # of a bar that has room for its value, its ordinal
_LETTERS, _ARROW_LETTERS = 20, 18  # of a name beside a drawing, and beside an arrow
_ROW, _TOP_OF_ROWS, _BARS_WIDTH, _INTERVALS_WIDTH = 22, 8, 360, 520
_SIDE, _LEFT, _TOP, _BOTTOM = 300, 56, 12, 44  # of a map of scores, and the room about it


def svg(chart: Chart, *, narrow: bool = False) -> str:
    """Return a chart as the page shows it; ``narrow`` is for bars on small screens."""
    marks = {type(mark) for mark in chart.marks}
    if Level in marks:
        return _upright_bars(chart, narrow)
    if Stack in marks:
        return _stack(chart)
    if Cells not in marks:
        return _intervals(chart) if Intervals in marks else _bars(chart)
    if chart.x.names:
        return _named_map(chart)
    return _plane(chart) if Arrows in marks else _bare_map(chart)


def _picture(
    chart: Chart, width: float, height: float, drawing: str, look: str = "", more: str = ""
) -> str:
    """Return a drawing with what it shows, for those who do not see it."""
    style = f' class="{look}"' if look else ""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img"{style}>'
        f"<title>{escape(chart.title + more)}</title><desc>{escape(chart.summary)}</desc>{drawing}"
        "</svg>"
    )


def _text(x: float, y: float, content: str, anchor: str = "start", more: str = "") -> str:
    """Return a line of text at a place."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{more}>{escape(content)}</text>'


def signed(value: float, form: str = "+.2f") -> str:
    """Return a number as it is printed, with a minus as wide as a plus."""
    return f"{value:{form}}".replace("-", "\N{MINUS SIGN}")


def shortened(name: str, most: int) -> str:
    """Return a name that has room beside a drawing."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _upright_bars(chart: Chart, narrow: bool) -> str:
    """Bars for the leading eigenvalues under the veil of noise, whose level is labelled."""
    (bars,), levels = chart.of(Bars), chart.of(Level)
    values, floor, largest = bars.values, levels[0].value, chart.y.high
    width, height, left, right, bottom, top = 760, 300, 60, 118, 52, 24
    if narrow:
        width, height, left, right, bottom, top = 340, 260, 46, 8, 52, 40
    base, end = height - bottom, width - right
    slot = (end - left) / len(values)

    def y(value: float) -> float:
        return base - (base - top) * (max(value, 0.0) / largest / ROOM)

    parts = []
    for tick in _ticks(largest):
        parts.append(
            f'<path d="M{left} {y(tick):.1f}H{end}" class="grid"/>'
            + _text(left - 8, y(tick) + 4, f"{tick:,.4g}", "end", ' class="ax"')
        )
    step = 1 if slot > _COUNTED_WIDTH else 5
    for i, value in enumerate(values.tolist()):
        middle = left + slot * (i + 0.5)
        thick = min(slot * 0.7, 64)
        parts.append(
            f'<rect x="{middle - thick / 2:.1f}" y="{y(value):.1f}" width="{thick:.1f}" '
            f'height="{base - y(value):.1f}" class="{"clear" if bars.clear[i] else "faint"}">'
            f"<title>{i + 1}: {value:.4g}</title></rect>"
        )
        if (i + 1) % step == 0 or i == 0:
            parts.append(_text(middle, base + 18, f"{i + 1}", "middle", ' class="ax"'))
    parts.append(
        f'<rect x="{left}" y="{y(floor):.1f}" width="{end - left}" '
        f'height="{base - y(floor):.1f}" class="zone"/>'
        f'<path d="{_hatching(left, y(floor), end - left, base - y(floor))}" class="hatch"/>'
    )
    lowest = math.inf
    for level, dashes in zip(levels, ("6 4", "2 4"), strict=False):
        lowest = min(y(level.value) - 2, lowest - 34)
        parts.append(
            f'<path d="M{left} {y(level.value):.1f}H{end}" class="level" '
            f'stroke-dasharray="{dashes}"/>'
        )
        if not narrow:
            parts += [
                _text(end + 8, lowest + 16 * line, word, more=' class="warn"')
                for line, word in enumerate((level.name, f"{level.value:.3g}"))
            ]
    if narrow:
        said = f"hatched: noise floor {floor:.3g}"
        parts.append(_text(end, 14, said, "end", ' class="warn over"'))
    if slot > _NUMBERED_WIDTH:
        for i, value in enumerate(values.tolist()):
            at = y(value)
            for level in levels:  # a number does not sit on a line
                at = y(level.value) if 0 <= at - y(level.value) < 22 else at
            parts.append(
                _text(left + slot * (i + 0.5), at - 6, f"{value:.3g}", "middle", ' class="over"')
            )
    parts.append(
        f'<path d="M{left} {base}H{end}" class="axis"/>'
        + _text(left, height - 10, chart.x.label, more=' class="ax"')
    )
    look, more = ("narrow", ", narrow") if narrow else ("wide", "")
    return _picture(chart, width, height, "".join(parts), look, more)


def _hatching(x: float, y: float, width: float, height: float, step: float = 8) -> str:
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
            f'<path d="{_hatching(0, 0, 400, 14)}" class="hatch"/>'
        )
    return (
        '<svg viewBox="0 0 400 14" preserveAspectRatio="none" height="14" aria-hidden="true">'
        f'<rect width="400" height="14" class="track"/>{drawn}</svg>'
    )


def _bars(chart: Chart) -> str:
    """Horizontal bars, with standard errors as lines across their ends, or a zone of noise."""
    (bars,), names, low, high = chart.of(Bars), chart.y.names, chart.x.low, chart.x.high
    gutter, base = _gutter(names), _TOP_OF_ROWS + _ROW * len(names)
    unit = (_BARS_WIDTH - gutter - 52) / (high - low or 1.0)

    def x(value: float) -> float:
        return gutter + unit * (min(max(value, low), high) - low)

    drawing, rows = "", []
    for band in chart.of(Band):
        start, width, height = x(band.low), x(band.high) - x(band.low), base - _TOP_OF_ROWS
        drawing += (
            f'<rect x="{start:.1f}" y="{_TOP_OF_ROWS}" width="{width:.1f}" '
            f'height="{height}" class="zone"/>'
            f'<path d="{_hatching(start, _TOP_OF_ROWS, width, height)}" class="hatch"/>'
        )
    for i, value in enumerate(bars.values.tolist()):
        y = _TOP_OF_ROWS + _ROW * i
        error = math.nan if bars.errors is None else float(bars.errors[i])
        told, across = "", ""
        if math.isfinite(error):
            told = f" ± {error:.2g}"
            across = (
                f'<path d="M{x(value - error):.1f} {y + _ROW / 2:g}H{x(value + error):.1f}" '
                'class="arrow"/>'
            )
        bar = (
            f'<rect x="{x(min(value, 0.0)):.1f}" y="{y + 4}" width="{unit * abs(value):.1f}" '
            f'height="{_ROW - 8}" class="{"clear" if bars.clear[i] else "faint"}"/>{across}'
        )
        rows.append((f"{value:.4g}{told}", bar, signed(value)))
    drawing += _rows(names, rows, _BARS_WIDTH)
    drawing += f'<path d="M{x(0.0):.1f} {_TOP_OF_ROWS}V{base}" class="axis"/>'
    return _picture(chart, _BARS_WIDTH, base + 4, drawing)


def _intervals(chart: Chart) -> str:
    """Points on their intervals, one line each, beside zero."""
    (shown,), names, most = chart.of(Intervals), chart.y.names, chart.x.high
    gutter, base = _gutter(names), _TOP_OF_ROWS + _ROW * len(names)
    half = (_INTERVALS_WIDTH - gutter - 76) / 2

    def x(value: float) -> float:
        return gutter + half * (1 + value / most)

    rows = []
    ends = zip(shown.values.tolist(), shown.low.tolist(), shown.high.tolist(), strict=True)
    for i, (value, low, high) in enumerate(ends):
        look, y = "clear" if shown.clear[i] else "faint", _TOP_OF_ROWS + _ROW * i
        mark = (
            f'<rect x="{x(low):.1f}" y="{y + 9}" width="{max(1.0, x(high) - x(low)):.1f}" '
            f'height="4" class="{look}"/>'
            f'<rect x="{x(value) - 3:.1f}" y="{y + 6}" width="6" height="10" class="{look}"/>'
        )
        rows.append((f"{value:.4g}, {low:.4g} to {high:.4g}", mark, signed(value, "+.3g")))
    drawing = f'<path d="M{x(0.0):.1f} {_TOP_OF_ROWS}V{base}" class="axis"/>'
    drawing += _rows(names, rows, _INTERVALS_WIDTH)
    return _picture(chart, _INTERVALS_WIDTH, base + 4, drawing)


def _gutter(names: Sequence[str]) -> float:
    """Return the room for names to the left."""
    return 14 + 8.0 * min(_LETTERS, max(len(name) for name in names))


def _rows(names: Sequence[str], rows: Sequence[tuple[str, str, str]], width: int) -> str:
    """Return lines of a name, a mark and a number; what the pointer tells comes first."""
    left, parts = _gutter(names) - 8, []
    for i, (name, (told, mark, number)) in enumerate(zip(names, rows, strict=True)):
        y = _TOP_OF_ROWS + _ROW * i + 16
        parts.append(
            f"<g><title>{escape(name)}: {told}</title>{mark}"
            + _text(left, y, shortened(name, _LETTERS), "end")
            + _text(width - 2, y, number, "end")
            + "</g>"
        )
    return "".join(parts)


def _named_map(chart: Chart) -> str:
    """Draw a map of columns by columns: one path per shade, so that wide tables stay small."""
    (cells,), names = chart.of(Cells), chart.x.names
    d = len(names)
    cell = min(46.0, 520 / d)
    size = min(14.0, max(7.5, cell * 0.86))
    gutter = 10 + 0.58 * size * min(_LETTERS, max(len(name) for name in names))
    parts = [
        f'<g transform="translate({gutter:.1f} 4) scale({cell:.4g})" shape-rendering="crispEdges">'
        f"{_shades(cells)}</g>"
    ]
    side = d * cell
    style = f' style="font-size:{size:.1f}px"'
    for i, name in enumerate(names):
        at = 4 + cell * (i + 0.5) + size * 0.35
        x = gutter - 4 + cell * (i + 0.5) + size * 0.35
        y = side + 12
        label = shortened(name, _LETTERS)
        parts.append(
            f"<g{style}><title>{escape(name)}</title>"
            + _text(gutter - 6, at, label, "end")
            + _text(x, y, label, "end", f' transform="rotate(-90 {x:.1f} {y:.1f})"')
            + "</g>"
        )
    if d <= _MOST_NUMBERED:
        parts.append(_numbers(cells.values, gutter, cell))
    parts.append(_key(gutter + side + 24, min(side, 260.0), cells.shades))
    return _picture(chart, gutter + side + 92, max(side + 14 + gutter, 300.0), "".join(parts))


def _bare_map(chart: Chart) -> str:
    """Draw a map without words, with a cross where its axes have a middle."""
    (cells,) = chart.of(Cells)
    height, width = cells.values.shape
    drawing = f'<g shape-rendering="crispEdges">{_shades(cells)}</g>'
    if chart.x.high:
        middle, thin = chart.x.high, 'vector-effect="non-scaling-stroke"'
        drawing += (
            f'<path d="M0 {middle:g}H{width}M{middle:g} 0V{height}" class="grid" {thin}/>'
            f'<rect width="{width}" height="{height}" class="outline" {thin}/>'
        )
    return _picture(chart, width, height, drawing)


def _plane(chart: Chart) -> str:
    """Draw a map with its axes through the middle, and arrows with their names."""
    (cells,) = chart.of(Cells)
    middle_x, middle_y, base = _LEFT + _SIDE / 2, _TOP + _SIDE / 2, _TOP + _SIDE
    drawing = (
        f'<g transform="translate({_LEFT} {_TOP}) scale({_SIDE / len(cells.values):.4g})" '
        f'shape-rendering="crispEdges">{_shades(cells)}</g>'
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" class="outline"/>'
        f'<path d="M{_LEFT} {middle_y:.1f}h{_SIDE}M{middle_x:.1f} {_TOP}v{_SIDE}" class="grid"/>'
        + _text(middle_x, base + 36, chart.x.label, "middle")
        + _text(
            16, middle_y, chart.y.label, "middle", f' transform="rotate(-90 16 {middle_y:.1f})"'
        )
        + _text(_LEFT, base + 18, f"{chart.x.low:.3g}", "start", ' class="ax"')
        + _text(_LEFT + _SIDE, base + 18, f"{chart.x.high:.3g}", "end", ' class="ax"')
        + _text(_LEFT - 6, base, f"{chart.y.low:.3g}", "end", ' class="ax"')
        + _text(_LEFT - 6, _TOP + 10, f"{chart.y.high:.3g}", "end", ' class="ax"')
        + "".join(_arrows(arrows) for arrows in chart.of(Arrows))
    )
    return _picture(chart, _LEFT + _SIDE + 64, base + _BOTTOM, drawing)


def _arrows(arrows: Arrows) -> str:
    """Return arrows from the middle with their names, which do not cover one another."""
    middle_x, middle_y = _LEFT + _SIDE / 2, _TOP + _SIDE / 2
    parts: list[str] = []
    taken: list[tuple[float, float]] = []  # by labels
    longest = float(np.hypot(arrows.x[0], arrows.y[0])) if arrows.names else 1.0
    unit = 0.42 * _SIDE / longest
    for name, across, up in zip(arrows.names, arrows.x.tolist(), arrows.y.tolist(), strict=True):
        x, y = middle_x + unit * across, middle_y - unit * up
        at = y + 4
        while any(abs(at - other) < 14 and abs(x - near) < 110 for near, other in taken):
            at += 14
        taken.append((x, at))
        side, anchor = (6, "start") if x >= middle_x else (-6, "end")
        label = shortened(name, _ARROW_LETTERS)
        parts.append(
            f'<path d="M{middle_x:.1f} {middle_y:.1f}L{x:.1f} {y:.1f}" class="arrow"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="tip"/>'
            + _text(x + side, at, label, anchor, ' class="over"')
        )
    return "".join(parts)


def _shades(cells: Cells) -> str:
    """Return cells as one path of runs per shade, on paper where they are known."""
    height, width = cells.values.shape
    known = ~np.isnan(cells.values)
    shares = np.clip(np.where(known, cells.values, 0.0), cells.low, 1)
    level = np.rint(shares * cells.shades).astype(int)
    whole = f'<rect width="{width}" height="{height}" class="'
    ground = f'{whole}void"/><path d="{_runs(known)}" class="paper"/>'
    return (f'{whole}paper"/>' if cells.low == 0 else ground) + "".join(
        f'<path d="{_runs(known & (level == shade))}" class="{"clear" if shade > 0 else "minus"}" '
        f'fill-opacity="{abs(shade) / cells.shades:g}"/>'
        for shade in np.unique(level[known]).tolist()
        if shade != 0
    )


def _runs(mask: NDArray[np.bool_]) -> str:
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
            marks.append(_text(x, y, signed(value, ".2f"), "middle", strong))
    return "".join(marks)


def _key(left: float, height: float, shades: int) -> str:
    """Draw the scale of colours."""
    step = height / (2 * shades + 1)
    parts = [
        f'<g transform="translate({left:.1f} 12) scale(16 {step:.4g})" '
        f'shape-rendering="crispEdges"><rect width="1" height="{2 * shades + 1}" class="paper"/>'
    ]
    for i, shade in enumerate(range(shades, -shades - 1, -1)):
        look = "clear" if shade > 0 else "minus"
        parts.append(
            f'<rect y="{i}" width="1" height="1" class="{look}" '
            f'fill-opacity="{abs(shade) / shades:g}"/>'
        )
    parts.append("</g>")
    for value in (1.0, 0.5, 0.0, -0.5, -1.0):
        y = 12 + step * (shades * (1 - value) + 0.5)
        parts.append(_text(left + 24, y + 5, signed(value, "+g") if value else "0"))
    return "".join(parts)


def _stack(chart: Chart) -> str:
    """Draw a bar cut into parts, and a key of their colours below."""
    (stack,) = chart.of(Stack)
    looks = {"spent before": "spent", "this release": "clear", "spent since": "later"}
    width, x, drawing, keys = 760, 0.0, [], []
    for label, amount in stack.parts:
        length = width * min(1.0, amount / stack.whole)
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
    whole = f'<rect width="{width}" height="28" class="track"/>{"".join(drawing)}'
    return f'{_picture(chart, width, 28, whole)}<p class="keys">{"".join(keys)}</p>'


def _ticks(largest: float) -> list[float]:
    """Round steps to the end of an axis, about five of them, for numbers of any size."""
    digits, exponent = f"{largest:e}".split("e")
    highest = float(digits) * ROOM
    step = next(step for step in (0.2, 0.5, 1.0, 2.0) if highest / step <= 6)
    return [float(f"{i * step:.1f}e{exponent}") for i in range(math.floor(highest / step) + 1)]
