"""Predicted error of every mechanism against epsilon or the number of rows."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.report.displays.canvas import INK, Display

__all__ = ["PlanDisplay"]

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
