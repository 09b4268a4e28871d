"""Scree plot with the noise floor."""

from typing import Any, Self

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.release.artefact import Release
from eigenveil.report.displays.canvas import (
    GREY,
    INK,
    NOISE,
    SIGNAL,
    ReleaseDisplay,
    matplotlib,
    unit_of,
)
from eigenveil.report.views import Spectrum, spectrum

__all__ = ["ScreeDisplay"]

_MOST_BARS = 40
_MOST_COUNTED = 20  # bars that leave room for every ordinal


class ScreeDisplay(ReleaseDisplay):
    """Released eigenvalues beside what noise alone produces.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvalues, which of them stand out, and the noise floor.
    title : str, optional
        Above the drawing.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The largest 40 eigenvalues.
    floor_ : matplotlib Line2D
        What noise alone rarely exceeds.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(self, spectrum: Spectrum, *, title: str | None = None) -> None:
        self.spectrum = spectrum
        self.title = title

    @classmethod
    def from_release(cls, release: Release, *, ax: Any = None) -> Self:
        """Draw the eigenvalues of a release."""
        found = spectrum(release.kind, release.settings, release.arrays)
        if found is None:
            raise InvalidParameterError(
                "this release has no eigenvalues with a noise floor: draw LoadingsDisplay instead"
            )
        title = cls._titled("What stands above the noise", release)
        return cls(found, title=title).plot(ax)

    def _draw(self, ax: Any) -> None:
        values = self.spectrum.values[:_MOST_BARS]
        clear = self.spectrum.clear[:_MOST_BARS]
        largest = max(float(values.max()), self.spectrum.floor)
        unit, words = unit_of(largest)
        values = np.maximum(values, -largest) / unit  # the axis starts at zero
        floor, whole = self.spectrum.floor / unit, self.spectrum.centre_floor / unit
        ordinals = range(1, len(values) + 1)
        colours = [SIGNAL if stands else GREY for stands in clear]
        self.bars_ = ax.bar(ordinals, values, color=colours, width=0.72)
        self.floor_ = ax.axhline(
            floor, color=NOISE, linestyle="--", label="what noise alone rarely exceeds"
        )
        ax.axhspan(0, floor, color=NOISE, alpha=0.1, linewidth=0, zorder=0)
        if floor < whole <= largest / unit * 1.1:
            ax.axhline(whole, color=NOISE, linestyle=":", label="with the error of the centre")
        ax.set_xlim(0.4, max(len(values), 3) + 0.6)
        ax.set_ylim(0, max(values.max() * 1.1, floor * 1.6))  # the legend stays clear of the line
        if len(values) <= _MOST_COUNTED:
            ax.set_xticks(list(ordinals))
        ax.set_xlabel("noisy eigenvalue, largest first")
        ax.set_ylabel(f"{self.spectrum.unit}{words}")
        if self.title:
            ax.set_title(self.title, color=INK)
        patch = matplotlib("patches").Patch
        handles = [
            patch(color=colour, label=label)
            for colour, label in ((SIGNAL, "clear of noise"), (GREY, "not clear"))
            if colour in colours
        ]
        lines, _ = ax.get_legend_handles_labels()
        ax.legend(handles=[*handles, *lines], frameon=False)
        self._frame(ax, "y")
