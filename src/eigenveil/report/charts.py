"""Charts: what a drawing shows and its words, made from views, for every renderer.

`report.svg` draws them on the page, `report.displays` with matplotlib.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.privacy.balance import Balance
from eigenveil.report import views
from eigenveil.report.views import (
    Arrays,
    Coefficients,
    Correlations,
    Loadings,
    Spectrum,
    feature_names,
)
from eigenveil.text import percent, plural

ROOM = 1.1  # of an axis, over its largest number
_CORRELATION_SHADES, _COUNT_SHADES = 20, 5  # on either side of zero
_MOST_ARROWS = 6
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bars:
    """Bars from zero, with standard errors if known; faint where noise may reach as far."""

    values: Numbers
    clear: NDArray[np.bool_]
    errors: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Points on their intervals; faint where these hold zero."""

    values: Numbers
    low: Numbers
    high: Numbers
    clear: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A line across a chart, with a name for little room and one for a legend."""

    value: float
    name: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The zone that noise alone reaches."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """A map of numbers from ``low`` to 1; NaN is blank. One shade is 1 / ``shades``."""

    values: Numbers
    shades: int
    low: float = -1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrows:
    """Arrows from the middle of a map, the longest first."""

    names: tuple[str, ...]
    x: Numbers
    y: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One bar as long as ``whole``, cut into parts with labels."""

    parts: tuple[tuple[str, float], ...]
    whole: float


Mark = Bars | Intervals | Level | Band | Cells | Arrows | Stack
M = TypeVar("M", bound=Mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis measures and its ends, or the names along it."""

    label: str = ""
    low: float = 0.0
    high: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """A drawing as numbers and words.

    Attributes
    ----------
    title, summary : str
        A name, and what those learn who do not see the drawing.
    x, y : Axis
        The axes; names run downwards.
    marks : tuple of Mark
        What is drawn, the first at the back.

    """

    title: str
    summary: str
    x: Axis = Axis()
    y: Axis = Axis()
    marks: tuple[Mark, ...]

    def of(self, kind: type[M]) -> list[M]:
        """Return the marks of one kind."""
        return [mark for mark in self.marks if isinstance(mark, kind)]


def scree(view: Spectrum, most: int) -> Chart:
    """Chart the ``most`` largest eigenvalues beside the level of noise."""
    values, clear = view.values[:most], view.clear[:most]
    floor, whole = view.floor, view.centre_floor
    largest = max(float(values.max()), floor)
    levels = [Level(value=floor, name="noise floor", label="what noise alone rarely exceeds")]
    if floor < whole and whole / largest <= ROOM:
        levels.append(Level(value=whole, name="with centre", label="with the error of the centre"))
    count = int(clear.sum())
    return Chart(
        title="Scree plot",
        summary=f"Bar chart of the largest {len(values)} released "
        f"{plural('eigenvalue', len(values))}, from {values[0]:.4g} to {values[-1]:.4g}, in "
        f"{view.unit}. Noise alone rarely exceeds {floor:.4g}. {count} of them "
        f"{'stands' if count == 1 else 'stand'} out.",
        x=Axis(label="noisy eigenvalue, largest first"),
        y=Axis(label=view.unit, high=largest),
        marks=(Bars(values=values, clear=clear), Band(low=0.0, high=floor), *levels),
    )


def loadings(view: Loadings, low: float = -1.0, high: float = 1.0) -> Chart:
    """Chart the heaviest columns of one component on an axis from ``low`` to ``high``."""
    bars = Bars(values=view.values, clear=view.certain, errors=view.errors)
    reach = float(view.reach[0])
    heaviest = zip(view.names[:3], view.values[:3].tolist(), strict=True)
    return Chart(
        title=f"Loadings of component {view.component + 1}",
        summary=f"Bars for the {len(view.names)} heaviest of {view.n_columns} "
        f"{plural('column', view.n_columns)}; the heaviest: "
        f"{', '.join(f'{name} {value:+.2f}' for name, value in heaviest)}.",
        x=Axis(label="loading", low=low, high=high),
        y=Axis(names=view.names),
        marks=(bars,) if view.errors is not None else (Band(low=-reach, high=reach), bars),
    )


def correlations(view: Correlations) -> Chart:
    """Chart correlations as a map."""
    d, axis = len(view.names), Axis(names=view.names)
    told = "; ".join(
        f"{a} and {b} {value:+.2f} ± {noise:.2f}" for a, b, value, noise in view.strongest(3)
    )
    return Chart(
        title="Map of released correlations",
        summary=f"Correlations of {d} {plural('column', d)}, amber for -1 to blue for +1. "
        f"Strongest: {told or 'none'}.",
        x=axis,
        y=axis,
        marks=(Cells(values=view.values, shades=_CORRELATION_SHADES),),
    )


def coefficients(view: Coefficients) -> Chart:
    """Chart the coefficients of one target on their intervals."""
    most = max(float(np.abs(view.low).max()), float(np.abs(view.high).max())) or 1.0
    first = zip(view.names[:3], view.values[:3], strict=True)
    return Chart(
        title=f"Coefficients of {view.target}",
        summary=f"Intervals of {len(view.names)} of {view.n_columns} "
        f"{plural('column', view.n_columns)}; those that stand out most: "
        f"{', '.join(f'{name} {value:+.3g}' for name, value in first)}.",
        x=Axis(low=-most, high=most),
        y=Axis(names=view.names),
        marks=(Intervals(values=view.values, low=view.low, high=view.high, clear=view.clear),),
    )


def image(values: Numbers, name: str, shape: Sequence[int]) -> Chart:
    """Chart one number per pixel."""
    height, width = shape
    largest = float(np.abs(values).max()) or 1.0
    return Chart(
        title=f"{name} as an image",
        summary=f"{height} x {width} numbers, blue for positive and amber for negative; the "
        f"largest is {largest:.2g}.",
        marks=(
            Cells(values=(values / largest).reshape(height, width), shades=_CORRELATION_SHADES),
        ),
    )


def spending(balance: Balance, now: Balance | None = None) -> Chart:
    """Chart a ledger's budget, cut into what was spent when and what was not."""
    parts, granted = tuple(views.spending(balance, now)), (now or balance).granted
    return Chart(
        title=f"Budget of the ledger, {balance.notion} = {granted:g}",
        summary=f"{', '.join(f'{label} {amount:.4g}' for label, amount in parts)}.",
        marks=(Stack(parts=parts, whole=granted),),
    )


def score_map(settings: Mapping[str, Any], arrays: Arrays, level: float) -> Chart:
    """Chart where rows lie on the plane of two components, with the heaviest columns as arrows."""
    counts, plane = arrays["score_counts"], arrays["components"][:2]
    lengths = np.hypot(*plane)
    heaviest = np.argsort(-lengths, kind="stable")[:_MOST_ARROWS]
    heaviest = heaviest[lengths[heaviest] > 0]
    names = feature_names(settings, heaviest)
    x, y = (
        Axis(
            label=f"component {i + 1}, {percent(float(arrays['explained_variance_ratio'][i]))} of "
            "variance",
            low=-reach,
            high=reach,
        )
        for i, reach in enumerate(arrays["score_reach"].tolist())
    )
    return Chart(
        title="Map of scores",
        summary=f"{int((counts > level).sum())} of {counts.size} cells of rows by their scores are "
        f"clear of noise. Columns that weigh most: {', '.join(names)}.",
        x=x,
        y=y,
        marks=(
            _counts(counts, level),
            Arrows(names=names, x=plane[0, heaviest], y=plane[1, heaviest]),
        ),
    )


def score_panel(name: str, counts: Numbers, level: float) -> Chart:
    """Chart where the rows of one level lie."""
    half = len(counts) / 2
    return Chart(
        title=f"Map of scores of {name}",
        summary=f"{int((counts > level).sum())} of {counts.size} cells are clear of noise.",
        x=Axis(low=-half, high=half),
        y=Axis(low=-half, high=half),
        marks=(_counts(counts, level),),
    )


def _counts(counts: Numbers, level: float) -> Cells:
    """Return counts above a level as cells, the second component upwards; the rest is zero."""
    upright = counts.T[::-1]
    largest = max(float(upright.max()), level)
    shade = np.ceil(_COUNT_SHADES * np.sqrt(upright.clip(0) / largest))
    values = np.where(upright > level, shade, 0) / _COUNT_SHADES
    return Cells(values=values, shades=_COUNT_SHADES, low=0.0)
