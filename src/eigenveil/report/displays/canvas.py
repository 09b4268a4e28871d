"""What displays share: colours, axes, and the road from an estimator to its release.

matplotlib is imported at the first drawing, and none of its settings is changed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Self

from eigenveil.exceptions import MissingExtraError
from eigenveil.release.artefact import Release

__all__ = [
    "GREY",
    "INK",
    "LINE",
    "NOISE",
    "SIGNAL",
    "Display",
    "ReleaseDisplay",
    "matplotlib",
    "names_on",
    "unit_of",
]

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
    """A drawing of one release."""

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
