"""Turn the bounds a caller states into clips, and into words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exceptions import BoundsRequiredError, InvalidDataError, InvalidParameterError
from eigenveil.messages import BOUNDS, Part, option
from eigenveil.privacy.budget import as_float
from eigenveil.privacy.clauses import (
    MODEL_CLAUSE,
    UNIT_LENGTH_CLAUSE,
    clamping_clause,
    clipping_clause,
    further_clipping_clause,
)

RowNorm = float | Literal["private"]
OnInvalid = Literal["raise", "zero"]
OnMissing = Literal["invalid", "centre"]
Box = tuple[NDArray[np.float64], NDArray[np.float64]]
_LARGEST = 1e50  # squares of bounds must not overflow


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
    stated : bool
        Whether ``clip`` has a length that rows are clipped at.
    private : bool
        Whether that length is chosen privately.
    box : pair of arrays, optional
        The stated range in the units of the columns; that of ``clip`` is in scaled ones.

    """

    start: Clip
    clip: Clip
    words: tuple[str, ...]
    stated: bool = True
    private: bool = False
    box: Box | None = None

    @classmethod
    def by_model(cls, on_invalid: OnInvalid) -> "StatedBounds":
        """Return the bounds of rows whose assumed law bounds them."""
        clip = Clip(row_norm=1.0, on_invalid=on_invalid)
        return cls(clip, clip, (MODEL_CLAUSE,), stated=False)

    @classmethod
    def unit_rows(
        cls, on_invalid: OnInvalid, on_missing: OnMissing, *, components: bool = True
    ) -> "StatedBounds":
        """Return the bounds of rows that are scaled to unit length: they need none.

        Those of a covariance are clipped as well, where a private search says.
        """
        norm = 1.0 if components else LARGEST_NORM
        clip = Clip(row_norm=norm, on_invalid=on_invalid, on_missing=on_missing)
        words = f"none needed: {UNIT_LENGTH_CLAUSE}"
        return cls(clip, clip, (words,), stated=False)

    @classmethod
    def resolve(
        cls,
        row_norm: RowNorm | None,
        stated: Box | None,
        *,
        scale: NDArray[np.float64] | None,
        centred: bool,
        on_invalid: OnInvalid,
        on_missing: OnMissing,
        subject: str,
        trace_bound: float | None = None,
    ) -> "StatedBounds":
        """Validate what the caller gave; refuse where nothing bounds a row.

        Without ``row_norm``, rows are clipped at the reach of the box. ``scale`` divides columns,
        and with them the box.
        """
        if row_norm is None and stated is None:
            raise BoundsRequiredError(
                f"{subject} needs a bound: give ",
                BOUNDS,
                " for the entries or ",
                option("row_norm", "R"),
                " for the length of a row, never taken from the data, or ",
                option("row_norm", "private"),
                " to pay for one",
            )
        box, centre = stated, None
        words = []
        if stated is not None:
            words.append(clamping_clause(*stated))
            box = stated if scale is None else _divided(stated, scale)
            centre = None if centred else (box[0] + box[1]) / 2
        private = isinstance(row_norm, str)
        if private:
            if row_norm != "private":
                raise InvalidParameterError(
                    option("row_norm"), " must be a positive number or 'private'"
                )
            norm = LARGEST_NORM if box is None else _reach(box, centre)
        elif row_norm is not None:
            norm = _number(option("row_norm"), row_norm)
            words.append(clipping_clause(norm, "stated by the caller"))
        else:
            norm = _reach(box, centre)
            words.append(clipping_clause(norm, "a public rule from the stated range"))
        if trace_bound is not None:
            most = _trace(trace_bound, norm)
            words.append(
                f"total variance held at {most:.6g} after the noise (stated by the caller)"
            )
        clip = Clip(row_norm=norm, box=box, on_invalid=on_invalid, on_missing=on_missing)
        # Before the centre is known, a row is bounded by the box or else by the same norm.
        reach = norm if box is None else _reach(box, centre)
        start = replace(clip, row_norm=reach, centre=centre)
        return cls(start, clip, tuple(words), not private, private, stated)

    def of_unit_rows(self) -> "StatedBounds":
        """Return the same for rows that are scaled to unit length, within the stated range."""
        return replace(self, words=(self.words[0], UNIT_LENGTH_CLAUSE), stated=False)

    def chosen(self, radius: float | None, words: tuple[str, ...]) -> "StatedBounds":
        """Return the same with the length that was chosen privately, where it was to be."""
        if not self.private or radius is None:
            return replace(self, words=words)
        clip = replace(self.clip, row_norm=radius)
        return replace(self, clip=clip, stated=True, words=words)

    def words_with(self, chosen: float | None) -> tuple[str, ...]:
        """Return the bounds with one that was chosen privately, within the stated one."""
        if chosen is None:
            return self.words
        if self.private or not self.stated:
            return (*self.words, clipping_clause(chosen, "chosen privately"))
        return (*self.words, further_clipping_clause(chosen))

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds as settings of a release."""
        box = self.box
        return {
            "row_norm": self.clip.row_norm if self.stated else None,
            "bounds": None if box is None else {"low": box[0].tolist(), "high": box[1].tolist()},
        }


def ranges_by_name(
    bounds: Mapping[Any, Any], names: Sequence[str] | NDArray[Any] | None
) -> tuple[list[Any], list[Any]]:
    """Lows and highs in the order of the columns, from ``{name: (low, high)}``."""
    if names is None:
        raise InvalidParameterError(
            "bounds by name need a table with names: pass a frame or a file, or give two arrays"
        )
    if unknown := [name for name in bounds if name not in names]:
        raise InvalidDataError(f"bounds name a column that is not there: {unknown[0]!r}")
    if missing := [name for name in names if name not in bounds]:
        raise InvalidDataError(f"bounds have no range for the column {missing[0]!r}: add one")
    try:
        low, high = zip(*(bounds[name] for name in names), strict=True)
    except (TypeError, ValueError):
        raise InvalidParameterError("bounds by name are {name: (low, high), ...}") from None
    return list(low), list(high)


def by_column(bounds: Any) -> bool:
    """Return whether ranges are stated column by column; no range is refused here."""
    try:
        return any(np.ndim(bound) > 0 for bound in bounds)
    except (TypeError, ValueError):
        return False


def _divided(box: Box, scale: NDArray[np.float64]) -> Box:
    with np.errstate(over="ignore"):
        low, high = box[0] / scale, box[1] / scale
    if not max(np.abs(low).max(), np.abs(high).max()) <= _LARGEST:
        raise InvalidParameterError(f"bounds divided by the scales must lie within {_LARGEST:g}")
    if not (high - low).max() > 1 / _LARGEST:
        raise InvalidParameterError("bounds divided by the scales leave no room")
    return low, high


def _number(name: Part, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameterError(name, " must be a positive number")
    number = as_float(value)
    if not number > 0:
        raise InvalidParameterError(name, " must be positive")
    return number


def _trace(trace_bound: Any, row_norm: float) -> float:
    number = _number("trace_bound", trace_bound)
    if number > row_norm**2:
        raise InvalidParameterError(
            f"trace_bound allows more than the bound on rows does: rows within {row_norm:g} have a "
            f"trace of at most {row_norm**2:g}; lower trace_bound or leave it out"
        )
    return number


def _are_pairs(bounds: Any) -> bool:
    """Return whether bounds are written column by column."""
    try:
        listed = isinstance(bounds, (list, np.ndarray)) and len(bounds) > 0
        return listed and np.ndim(bounds[0]) > 0
    except (TypeError, ValueError):  # what they are, is said later
        return False


def box_of(bounds: Any, n_columns: int) -> Box:
    """Lowest and highest values, one for each column."""
    if _are_pairs(bounds):
        raise InvalidParameterError(  # of two columns, pairs would be taken for lows and highs
            "write bounds as a tuple, ([low, ...], [high, ...]), or by name, {name: (low, high)}"
        )
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (n_columns,)) for b in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError(
            "bounds must be (low, high), each one number or one number per column, or "
            "{name: (low, high)}"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise InvalidParameterError("bounds must be finite, with low not above high")
    if max(np.abs(low).max(), np.abs(high).max()) > _LARGEST:
        raise InvalidParameterError(f"bounds must lie within {_LARGEST:g} of zero")
    if not (high - low).max() > 1 / _LARGEST:
        raise InvalidParameterError("bounds leave no room: low equals high in every column")
    return low, high


def reach_of(box: Box, scale: NDArray[np.float64] | None, *, centred: bool) -> float:
    """Return the distance from the public start to the farthest corner of a box, once scaled."""
    box = box if scale is None else _divided(box, scale)
    return _reach(box, None if centred else (box[0] + box[1]) / 2)


def _reach(box: Box | None, centre: NDArray[np.float64] | None) -> float:
    """Distance from the public start to the farthest corner of the box."""
    assert box is not None  # resolve() was given row_norm or bounds
    start = 0.0 if centre is None else centre
    corner = np.maximum(np.abs(box[0] - start), np.abs(box[1] - start))
    return math.sqrt(float(corner @ corner))
