"""A released covariance as a map of correlations."""

from typing import Any, Self

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.release.artefact import Release
from eigenveil.report.displays.canvas import (
    INK,
    LINE,
    NOISE,
    SIGNAL,
    ReleaseDisplay,
    matplotlib,
    names_on,
)
from eigenveil.report.views import Correlations, correlations

__all__ = ["CovarianceDisplay"]

_MOST_NUMBERED = 10  # columns that leave room for numbers in their cells


class CovarianceDisplay(ReleaseDisplay):
    """Released correlations from -1 to 1; blank where a released variance is not positive.

    Parameters
    ----------
    correlations : Correlations
        Names and values.
    title : str, optional
        Above the drawing.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The map.
    colorbar_ : matplotlib Colorbar
        Its scale.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(self, correlations: Correlations, *, title: str | None = None) -> None:
        self.correlations = correlations
        self.title = title

    @classmethod
    def from_release(cls, release: Release, *, max_columns: int = 60, ax: Any = None) -> Self:
        """Draw all columns, or the ``max_columns`` with the largest released variance."""
        if release.kind != "covariance":
            raise InvalidParameterError(
                "a release of components holds no covariance: draw LoadingsDisplay"
            )
        shown = correlations(release.settings, release.arrays, max_columns)
        return cls(shown, title=cls._titled("Released correlations", release)).plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        side = min(9.0, 3.6 + 0.2 * len(self.correlations.names))
        return side + 0.7, side

    def _draw(self, ax: Any) -> None:
        shown = self.correlations
        colours = matplotlib("colors").LinearSegmentedColormap.from_list(
            "correlation", [NOISE, "white", SIGNAL]
        )
        ax.set_facecolor(LINE)  # shows where there is no value
        self.image_ = ax.imshow(shown.values, cmap=colours, vmin=-1, vmax=1)
        small = 10 if len(shown.names) <= 20 else max(5.5, 240 / len(shown.names))
        names_on(ax.yaxis, shown.names, fontsize=small)
        names_on(ax.xaxis, shown.names, fontsize=small, rotation=90)
        if len(shown.names) <= _MOST_NUMBERED:
            for (row, column), value in np.ndenumerate(shown.values):
                if row != column and not np.isnan(value):
                    ink = "white" if abs(value) > 0.75 else INK
                    style = {"ha": "center", "va": "center", "color": ink, "fontsize": 8}
                    ax.text(column, row, f"{value:.2f}", **style)
        self.colorbar_ = ax.figure.colorbar(
            self.image_, ax=ax, shrink=0.75, label="correlation", ticks=[-1, -0.5, 0, 0.5, 1]
        )
        self.colorbar_.outline.set_visible(False)
        if self.title:
            ax.set_title(self.title, color=INK)
        ax.spines[:].set_visible(False)
