"""The columns that weigh most in one component."""

from typing import Any, Self

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.release.artefact import Release
from eigenveil.report.displays.canvas import GREY, INK, NOISE, SIGNAL, ReleaseDisplay, names_on
from eigenveil.report.views import Loadings, loadings

__all__ = ["LoadingsDisplay"]


class LoadingsDisplay(ReleaseDisplay):
    """Loadings of one component, the heaviest on top.

    Parameters
    ----------
    loadings : Loadings
        Names, values, and how far noise alone reaches.
    title : str, optional
        Above the drawing.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        One bar per column.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(self, loadings: Loadings, *, title: str | None = None) -> None:
        self.loadings = loadings
        self.title = title

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
        shown = loadings(release.settings, release.arrays, component, max_columns)
        told = "" if release.arrays["distinguishable"][component] else ", not told from noise"
        return cls(shown, title=cls._titled(f"Component {component + 1}{told}", release)).plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        return 5.0, 1.2 + 0.24 * len(self.loadings.names)

    def _draw(self, ax: Any) -> None:
        values, errors = self.loadings.values, self.loadings.errors
        signs = np.where(values < 0, NOISE, SIGNAL)
        colours = np.where(self.loadings.certain, signs, GREY)
        self.bars_ = ax.barh(
            range(len(values)), values, xerr=errors, color=colours, ecolor=INK, height=0.7
        )
        told = "lines: standard errors"
        if errors is None:
            reach, told = self.loadings.reach[0], "shaded: how far noise reaches"
            ax.axvspan(-reach, reach, color=NOISE, alpha=0.1, linewidth=0, zorder=0)
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.invert_yaxis()
        names_on(ax.yaxis, self.loadings.names)
        ax.set_xlabel(f"loading ({told})")
        if self.title:
            ax.set_title(self.title, color=INK)
        self._frame(ax, "x")
        ax.spines["left"].set_visible(False)
