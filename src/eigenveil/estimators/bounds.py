"""Turn the bounds a caller states into clips, and into words."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.exceptions import BoundsRequiredError, InvalidParameterError

__all__ = ["StatedBounds"]

Box = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class StatedBounds:
    """Public bounds on rows, resolved for a number of columns.

    Attributes
    ----------
    start : Clip
        How rows are bounded before a centre is known.
    clip : Clip
        How rows are bounded about the origin, once they are assumed centred.
    words : tuple of str
        The bounds and their origin, for the guarantee.

    """

    start: Clip
    clip: Clip
    words: tuple[str, ...]

    @classmethod
    def resolve(
        cls,
        row_norm: float | None,
        bounds: Any,
        *,
        n_columns: int,
        assume_centered: bool,
        on_invalid: Literal["raise", "zero"],
        mechanism: str,
    ) -> "StatedBounds":
        """Validate what the caller gave; refuse where nothing bounds a row."""
        if row_norm is None and bounds is None:
            raise BoundsRequiredError(
                f"{mechanism!r} needs a public bound: give bounds=(low, high) for the entries, "
                "or row_norm=R for the length of a row; never take it from the data"
            )
        box = None if bounds is None else _box(bounds, n_columns)
        centre = None
        words = []
        if box is not None:
            words.append(f"entries within {_interval(box)} (stated by the caller)")
            centre = None if assume_centered else (box[0] + box[1]) / 2
        reach = _reach(box, centre)
        if row_norm is not None:
            if isinstance(row_norm, bool) or not isinstance(row_norm, (int, float, np.number)):
                raise InvalidParameterError("row_norm must be a positive number")
            norm, origin = float(row_norm), "stated by the caller"
        else:
            norm, origin = _typical_norm(box, centre), "from the stated range by a public rule"
        words.append(f"rows clipped at distance {norm:.6g} from the centre ({origin})")
        # Before the centre is known, a row is bounded by the box or else by the same norm.
        clip = Clip(row_norm=norm, box=box, on_invalid=on_invalid)
        start = replace(clip, row_norm=norm if reach is None else reach, centre=centre)
        return cls(start, clip, tuple(words))


def _box(bounds: Any, n_columns: int) -> Box:
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (n_columns,)) for b in bounds)
    except (TypeError, ValueError):
        raise InvalidParameterError(
            "bounds must be (low, high), each one number or one number per column"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise InvalidParameterError("bounds must be finite, with low not above high")
    if (low == high).all():
        raise InvalidParameterError("bounds leave no room: low equals high in every column")
    return low, high


def _interval(box: Box) -> str:
    low, high = box
    if (low == low[0]).all() and (high == high[0]).all():
        return f"[{low[0]:g}, {high[0]:g}]"
    return "one interval per column"


def _reach(box: Box | None, centre: NDArray[np.float64] | None) -> float | None:
    """Largest distance of a point of the box from the public start."""
    if box is None:
        return None
    start = 0.0 if centre is None else centre
    return float(np.linalg.norm(np.maximum(np.abs(box[0] - start), np.abs(box[1] - start))))


def _typical_norm(box: Box | None, centre: NDArray[np.float64] | None) -> float:
    """Root mean square distance from the start of a point uniform on the box.

    A public rule. The noise grows with the square of the bound, so clipping at the farthest
    corner (sqrt(3) times this) would cost three times the noise for rows that do not occur.
    """
    assert box is not None  # resolve() was given row_norm or bounds
    low, high = (b if centre is None else b - centre for b in box)
    return math.sqrt(float(np.sum(low * low + low * high + high * high)) / 3)
