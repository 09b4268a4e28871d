"""Displays of releases, plans and ledgers, drawn with matplotlib.

matplotlib is imported at the first drawing, and none of its settings is changed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenveil.exceptions import InvalidParameterError, MissingExtraError
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release
from eigenveil.report import charts, views
from eigenveil.report.charts import Band, Bars, Cells, Chart, Level
from eigenveil.text import printable

# Told apart in grey and by readers who do not see red or green.
SIGNAL, NOISE, GREY = "#1f6f8b", "#bf4a30", "#8593a0"
INK, LINE = "#1b2733", "#dde3e8"
_MOST_LETTERS = 28  # of a column's name
_FARTHEST = 100  # exponent of numbers that matplotlib still places


def matplotlib(module: str) -> Any:
    """Return a module of matplotlib, or word of what to install."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError:
        raise MissingExtraError("figures need matplotlib: pip install 'eigenveil[plot]'") from None


class Display(ABC):
    """A drawing of public numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        What that belongs to.

    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
        if ax is None:
            _, ax = matplotlib("pyplot").subplots(figsize=self.size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    @property
    def size(self) -> tuple[float, float]:
        """Inches; small, so that text is large beside the drawing."""
        return 5.6, 3.6

    @abstractmethod
    def _draw(self, ax: Any) -> None: ...

    @staticmethod
    def _frame(ax: Any, grid: str | None) -> None:
        """Draw two axes instead of a box, and faint lines behind the data."""
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
        if grid is not None:
            ax.grid(axis=grid, color=LINE)


class ReleaseDisplay(Display):
    """A chart of one release.

    Parameters
    ----------
    chart : Chart
        What is drawn.
    title : str, optional
        Above the drawing.

    """

    def __init__(self, chart: Chart, *, title: str | None = None) -> None:
        self.chart = chart
        self.title = title

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or on a new figure."""
        super().plot(ax)
        if self.title is not None:
            self.ax_.set_title(self.title, color=INK)
        return self

    @classmethod
    @abstractmethod
    def from_release(cls, release: Release, *, ax: Any = None) -> Self:
        """Draw a release, saved or new."""

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw the release of a fitted estimator; ``options`` as for `from_release`."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        return cls.from_release(estimator.release_, ax=ax, **options)

    @staticmethod
    def _titled(title: str, release: Release) -> str:
        """Whoever sees the picture of a simulation is told."""
        return f"{title} (simulation, not private)" if release.guarantee.simulated else title


def names_on(axis: Any, names: Iterable[str], **style: Any) -> None:
    """Label an axis with columns, whatever characters their names hold."""
    short = [
        name if len(name) <= _MOST_LETTERS else name[: _MOST_LETTERS - 1] + "…" for name in names
    ]
    axis.set_ticks(range(len(short)), short, **style)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)  # a dollar sign is a dollar sign
    axis.set_tick_params(length=0)


def unit_of(largest: float) -> tuple[float, str]:
    """Return what numbers up to ``largest`` are divided by to be drawn, and words for it.

    That is 1, and no words, but for numbers beyond all proportion.
    """
    exponent = math.floor(math.log10(largest))
    if abs(exponent) <= _FARTHEST:
        return 1.0, ""
    return float(f"1e{max(exponent, -320)}"), f", in units of 1e{exponent}"


_MOST_NUMBERED = 10  # columns that leave room for numbers in their cells


class CovarianceDisplay(ReleaseDisplay):
    """Released correlations from -1 to 1; blank where a released variance is not positive.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The map.
    colorbar_ : matplotlib Colorbar
        Its scale.
    ax_, figure_
        Where it was drawn.

    """

    @classmethod
    def from_release(cls, release: Release, *, max_columns: int = 60, ax: Any = None) -> Self:
        """Draw all columns, or the ``max_columns`` with the largest released variance."""
        if release.kind != "covariance":
            raise InvalidParameterError(
                "a release of components holds no covariance: draw LoadingsDisplay"
            )
        view = views.correlations(release.settings, release.arrays, max_columns)
        title = cls._titled("Released correlations", release)
        return cls(charts.correlations(view), title=title).plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        side = min(9.0, 3.6 + 0.2 * len(self.chart.x.names))
        return side + 0.7, side

    def _draw(self, ax: Any) -> None:
        (cells,), names = self.chart.of(Cells), self.chart.x.names
        colours = matplotlib("colors").LinearSegmentedColormap.from_list(
            "correlation", [NOISE, "white", SIGNAL]
        )
        ax.set_facecolor(LINE)  # shows where there is no value
        self.image_ = ax.imshow(cells.values, cmap=colours, vmin=-1, vmax=1)
        small = 10 if len(names) <= 20 else max(5.5, 240 / len(names))
        names_on(ax.yaxis, names, fontsize=small)
        names_on(ax.xaxis, names, fontsize=small, rotation=90)
        if len(names) <= _MOST_NUMBERED:
            for (row, column), value in np.ndenumerate(cells.values):
                if row != column and not np.isnan(value):
                    ink = "white" if abs(value) > 0.75 else INK
                    style = {"ha": "center", "va": "center", "color": ink, "fontsize": 8}
                    ax.text(column, row, f"{value:.2f}", **style)
        self.colorbar_ = ax.figure.colorbar(
            self.image_, ax=ax, shrink=0.75, label="correlation", ticks=[-1, -0.5, 0, 0.5, 1]
        )
        self.colorbar_.outline.set_visible(False)
        ax.spines[:].set_visible(False)


class LoadingsDisplay(ReleaseDisplay):
    """Loadings of one component, the heaviest on top.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        One bar per column.
    ax_, figure_
        Where it was drawn.

    """

    @classmethod
    def from_release(
        cls, release: Release, *, component: int = 0, max_columns: int = 12, ax: Any = None
    ) -> Self:
        """Draw the ``max_columns`` heaviest loadings of a component, counted from 0."""
        if release.kind != "pca":
            raise InvalidParameterError("a covariance has no loadings: draw CovarianceDisplay")
        if not 0 <= component < len(release.arrays["components"]):
            most = len(release.arrays["components"]) - 1
            raise InvalidParameterError(f"component must lie between 0 and {most}")
        view = views.loadings(release.settings, release.arrays, component, max_columns)
        told = "" if release.arrays["distinguishable"][component] else ", not told from noise"
        title = cls._titled(f"Component {component + 1}{told}", release)
        return cls(charts.loadings(view), title=title).plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        return 5.0, 1.2 + 0.24 * len(self.chart.y.names)

    def _draw(self, ax: Any) -> None:
        (bars,), told = self.chart.of(Bars), "lines: standard errors"
        colours = np.where(bars.clear, np.where(bars.values < 0, NOISE, SIGNAL), GREY)
        places, style = range(len(bars.values)), {"color": colours, "ecolor": INK, "height": 0.7}
        self.bars_ = ax.barh(places, bars.values, xerr=bars.errors, **style)
        for band in self.chart.of(Band):
            told = "shaded: how far noise reaches"
            ax.axvspan(band.low, band.high, color=NOISE, alpha=0.1, linewidth=0, zorder=0)
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.invert_yaxis()
        names_on(ax.yaxis, self.chart.y.names)
        ax.set_xlabel(f"{self.chart.x.label} ({told})")
        self._frame(ax, "x")
        ax.spines["left"].set_visible(False)


# Okabe and Ito 2008, less yellow, which is faint on white; then again with other strokes.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5d6b78")
_STROKES = ("-", "--", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
_MOST_TICKS = 8  # points that leave room for their numbers
_AXES = {"epsilon": "epsilon", "rho": "rho", "rows": "number of rows"}


class PlanDisplay(Display):
    """Lines of predicted error with bands, and the slope that no mechanism can beat.

    Parameters
    ----------
    x : array-like
        Budgets or numbers of rows, increasing.
    curves : mapping of str to array
        By mechanism, three rows: error, lower and upper end of its band; NaN where it has none.
    against : {"epsilon", "rho", "rows"}
        What ``x`` is.
    reference : array-like, optional
        A minimax rate at each ``x``. Its constant is unknown, so it is drawn where it touches the
        best prediction from below: compare slopes, not heights.
    reference_label : str
        What the legend calls it.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        By mechanism.
    bands_ : dict of str to matplotlib PolyCollection
        By mechanism.
    reference_ : matplotlib Line2D or None
        The rate.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(
        self,
        x: ArrayLike,
        curves: dict[str, NDArray[np.float64]],
        *,
        against: Literal["epsilon", "rho", "rows"] = "epsilon",
        reference: ArrayLike | None = None,
        reference_label: str = "minimax rate (slope only)",
    ) -> None:
        if against not in _AXES:
            raise InvalidParameterError("against must be 'epsilon', 'rho' or 'rows'")
        self.x = np.asarray(x, dtype=np.float64)
        self.curves = curves
        self.against = against
        self.reference = None if reference is None else np.asarray(reference, dtype=np.float64)
        self.reference_label = reference_label

    @classmethod
    def from_predictions(
        cls,
        x: Sequence[float],
        predictions: Sequence[Sequence[Any]],
        *,
        against: Literal["epsilon", "rho", "rows"] = "epsilon",
        reference: ArrayLike | None = None,
        reference_label: str = "minimax rate (slope only)",
        ax: Any = None,
    ) -> Self:
        """Draw what a planner predicts.

        ``predictions`` holds for each ``x`` objects with ``mechanism``, ``error``, ``low`` and
        ``high``, or tuples of these four.
        """
        if not len(x) == len(predictions) > 0:
            raise InvalidParameterError("give one list of predictions per point, and a point")
        curves: dict[str, NDArray[np.float64]] = {}
        for i, table in enumerate(predictions):
            for one in table:
                if not isinstance(one, tuple):
                    one = (one.mechanism, one.error, one.low, one.high)
                empty = np.full((3, len(x)), np.nan)
                curves.setdefault(one[0], empty)[:, i] = one[1:4]
        if not curves:
            raise InvalidParameterError("there are no predictions to draw")
        shown = cls(
            x, curves, against=against, reference=reference, reference_label=reference_label
        )
        return shown.plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        return 6.8, 4.0

    def _draw(self, ax: Any) -> None:
        self.lines_, self.bands_ = {}, {}
        ranked = sorted(self.curves, key=lambda name: float(np.nanmean(self.curves[name][0])))
        for i, name in enumerate(ranked):
            error, low, high = self.curves[name]
            colour = _COLOURS[i % len(_COLOURS)]
            stroke = _STROKES[i // len(_COLOURS) % len(_STROKES)]
            marker = _MARKERS[i % len(_MARKERS)]  # for eyes and printers without colours
            style = {"color": colour, "linestyle": stroke, "marker": marker, "markersize": 4}
            (self.lines_[name],) = ax.plot(self.x, error, **style, label=name)
            self.bands_[name] = ax.fill_between(
                self.x, low, high, color=colour, alpha=0.14, linewidth=0
            )
        self.reference_ = None
        if self.reference is not None:
            best = np.fmin.reduce([curve[0] for curve in self.curves.values()])
            level = np.nanmin(best / self.reference)
            (self.reference_,) = ax.plot(
                self.x, level * self.reference, ":", color=INK, label=self.reference_label
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        if len(self.x) <= _MOST_TICKS:
            ax.set_xticks(self.x, [f"{value:,g}" for value in self.x])
            ax.set_xticks([], minor=True)
        ax.set_xlabel(_AXES[self.against])
        ax.set_ylabel("predicted error")
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), title="best first")
        self._frame(ax, "both")


_MOST_BARS = 40
_MOST_COUNTED = 20  # bars that leave room for every ordinal


class ScreeDisplay(ReleaseDisplay):
    """Released eigenvalues beside what noise alone produces.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The largest 40 eigenvalues.
    levels_ : list of matplotlib Line2D
        What noise alone rarely exceeds, and that with the error of the centre.
    ax_, figure_
        Where it was drawn.

    """

    @classmethod
    def from_release(cls, release: Release, *, ax: Any = None) -> Self:
        """Draw the eigenvalues of a release."""
        found = views.spectrum(release.kind, release.settings, release.arrays)
        if found is None:
            raise InvalidParameterError(
                "this release has no eigenvalues with a noise floor: draw LoadingsDisplay instead"
            )
        title = cls._titled("What stands above the noise", release)
        return cls(charts.scree(found, _MOST_BARS), title=title).plot(ax)

    def _draw(self, ax: Any) -> None:
        (bars,), (band,), largest = self.chart.of(Bars), self.chart.of(Band), self.chart.y.high
        unit, words = unit_of(largest)
        values = np.maximum(bars.values, -largest) / unit  # the axis starts at zero
        floor = band.high / unit
        ordinals = range(1, len(values) + 1)
        colours = [SIGNAL if stands else GREY for stands in bars.clear]
        self.bars_ = ax.bar(ordinals, values, color=colours, width=0.72)
        ax.axhspan(0, floor, color=NOISE, alpha=0.1, linewidth=0, zorder=0)
        self.levels_ = [
            ax.axhline(level.value / unit, color=NOISE, linestyle=stroke, label=level.label)
            for level, stroke in zip(self.chart.of(Level), ("--", ":"), strict=False)
        ]
        ax.set_xlim(0.4, max(len(values), 3) + 0.6)
        ax.set_ylim(0, max(values.max() * 1.1, floor * 1.6))  # the legend stays clear of the line
        if len(values) <= _MOST_COUNTED:
            ax.set_xticks(list(ordinals))
        ax.set_xlabel(self.chart.x.label)
        ax.set_ylabel(f"{self.chart.y.label}{words}")
        patch = matplotlib("patches").Patch
        handles = [
            patch(color=colour, label=label)
            for colour, label in ((SIGNAL, "clear of noise"), (GREY, "not clear"))
            if colour in colours
        ]
        lines, _ = ax.get_legend_handles_labels()
        ax.legend(handles=[*handles, *lines], frameon=False)
        self._frame(ax, "y")


_MOST_NAMED = 6  # entries that leave room for their labels


class SpendDisplay(Display):
    """Total after each charge of a ledger; what a charge added stands out.

    Costs compose to less than their sum, so later releases add less than earlier ones.

    Parameters
    ----------
    balances : sequence of Balance
        One per entry, in order.
    labels : sequence of str
        What each entry paid for.
    days : sequence of str
        When.

    Attributes
    ----------
    before_, added_ : matplotlib BarContainer
        The two parts of each bar.
    budget_ : matplotlib Line2D
        What the ledger grants.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(
        self, balances: Sequence[Balance], *, labels: Sequence[str], days: Sequence[str]
    ) -> None:
        self.balances = balances
        self.labels = labels
        self.days = days

    @classmethod
    def from_ledger(cls, ledger: Ledger, *, ax: Any = None) -> Self:
        """Draw every charge of a ledger."""
        # Another process may charge meanwhile; a ledger without charges has a balance all the same.
        charged = [
            (entry, balance)
            for entry, balance in zip(ledger.entries, ledger.balances(), strict=False)
            if not entry.is_note
        ]
        entries = [entry for entry, _ in charged]
        balances = [balance for _, balance in charged] or [ledger.balance()]
        labels = [printable(entry.label) for entry in entries] or ["nothing spent"]
        days = [entry.time[:10] for entry in entries]
        return cls(balances, labels=labels, days=days).plot(ax)

    def _draw(self, ax: Any) -> None:
        last = self.balances[-1]
        ordinals = range(1, len(self.balances) + 1)
        before = np.array([balance.spent_before for balance in self.balances])
        added = np.array([balance.spent for balance in self.balances]) - before
        self.before_ = ax.bar(ordinals, before, color=GREY, width=0.72, label="spent before")
        self.added_ = ax.bar(
            ordinals, added, bottom=before, color=SIGNAL, width=0.72, label="added by the release"
        )
        self.budget_ = ax.axhline(last.granted, color=NOISE, linestyle="--", label="budget")
        ax.set_ylim(0, last.granted * 1.35)
        ax.set_xlim(0.4, max(len(self.balances), 3) + 0.6)
        if len(self.labels) <= _MOST_NAMED:
            names = [f"{i}\n{label}" for i, label in zip(ordinals, self.labels, strict=True)]
            ax.set_xticks(list(ordinals), names)
            for name in ax.get_xticklabels():
                name.set_parse_math(False)
        else:
            ax.locator_params(axis="x", integer=True)
        when = sorted({*self.days[:1], *self.days[-1:]})
        ax.set_xlabel(f"release ({' to '.join(when)})" if when else "release")
        ax.set_ylabel(f"{last.notion} spent")
        delta = "" if last.delta is None else f" at delta = {last.delta:g}"
        ax.set_title(
            f"Spent {last.notion} = {last.spent:.3g} of {last.granted:g}{delta}", color=INK
        )
        ax.legend(frameon=False, ncols=3, loc="upper left")
        self._frame(ax, "y")
