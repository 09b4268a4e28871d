"""What released numbers say of columns in any units: their scales, and which have a variance.

All of it is post-processing of private scales and of a first matrix: see `front`. Where all columns
seem to share one unit they keep it, with one scale for all. A column whose variance cannot be told
from noise has none, unless its scale was found beyond doubt: an estimate would be of the noise.
Proof: docs/proofs/front.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.column_scale import FoundScales
from eigenveil.mechanisms.elliptical import CLEAR_VARIANCE

# One unit for all columns: found scales within this factor of their median for most of them.
_UNIT_FACTOR, _UNIT_COLUMNS, _UNIT_FOUND = 3.0, 0.75, 0.3
_MOVE_FACTOR = 4.0  # of variances in one unit, within which columns keep one scale
_PRECISE = 0.15  # noise of a first variance below which it corrects any scale
# Deviations of the noise, of a column that counts show in the common unit, where the noise is small
# in that unit: otherwise noise alone would pass for a variance of it. The second limit is in
# squared scales that columns have of their own.
_SHARED_VARIANCE, _SHARED_NOISE, _OWN_NOISE = 1.5, 0.3, 0.5
# Least variance to divide by, in deviations of the noise: with a known scale, and without one.
_KNOWN_FLOOR, _UNKNOWN_FLOOR = 0.5, 5.0
_FOUND_VARIANCE = 5.0  # deviations of the noise, of a column whose scale is not sure


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Scales of columns, and how sure they are.

    Attributes
    ----------
    scale : array
        What each is divided by at first.
    known : array of bool
        Whether a scale was found for it.
    sure : array of bool
        Whether one was found beyond doubt.
    one_unit : bool
        Whether all seem to share one unit.
    shared : array of bool
        Whether its own counts show it in that unit.
    own : array
        Scale that was found for it alone, in that unit; zero where there is none.

    """

    scale: NDArray[np.float64]
    known: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    one_unit: bool
    shared: NDArray[np.bool_]
    own: NDArray[np.float64]

    @classmethod
    def of(cls, found: FoundScales, apart: int = 0, *, common_unit: bool = True) -> "Columns":
        """Give columns without a scale the median, and all the same one if most are near it.

        The scales of the last ``apart`` columns stay as they are and count for no other column.
        ``common_unit`` says whether columns may keep one unit for all of them.
        """
        joins = np.arange(found.scale.size) < found.scale.size - apart
        known = np.isfinite(found.scale)
        if not found.sure.any():  # what was found may be a false alarm
            known = known & (known.mean() >= _UNIT_FOUND)
        seen = known & joins
        median = float(np.exp(np.median(np.log(found.scale[seen])))) if seen.any() else 1.0
        scale = np.where(known, found.scale, median)
        one_unit, shared = found.one_unit, found.shown
        if seen.any() and common_unit and not one_unit:
            share = scale / median
            shared = seen & (share > 1 / _UNIT_FACTOR) & (share < _UNIT_FACTOR)
            most = shared.sum() >= _UNIT_COLUMNS * seen.sum()
            one_unit = bool(most and seen[joins].mean() >= _UNIT_FOUND)
        found_own = np.zeros(found.scale.size)
        if one_unit:
            if not found.one_unit:
                found_own = np.where(seen, found.scale / median, 0.0)
            # Only a column that is surely far beyond the others keeps a unit of its own.
            own = ~joins | (found.sure & (found.bulk > _UNIT_FACTOR * median))
            scale = np.where(own, scale, median)
        return cls(
            scale=scale,
            known=known,
            sure=found.sure,
            one_unit=one_unit,
            shared=shared,
            own=found_own,
        )

    def factors(
        self, variances: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what columns are divided by further, from a first matrix.

        A clear variance is taken at its word. Where none shows the scale is too large, if it was
        not found or the noise leaves no doubt.
        """
        clear = variances > CLEAR_VARIANCE * noise
        factor = np.where(clear, np.sqrt(np.maximum(variances, noise)), 1.0)
        unclear = ~clear & (~self.known | (noise < _PRECISE))
        factor[unclear] = np.sqrt(np.clip(variances, np.minimum(noise, 1.0), 1.0))[unclear]
        if self.one_unit and clear.any():
            median = float(np.median(variances[clear]))
            near = clear & (variances < _MOVE_FACTOR * median)
            near &= variances > median / _MOVE_FACTOR
            factor[near] = math.sqrt(median)
        return factor

    def softened(
        self, variances: NDArray[np.float64], clearness: NDArray[np.float64], noise: float
    ) -> NDArray[np.float64]:
        """Return variances to divide by, as large as noise could make what it hides.

        A column of which neither scale nor variance is known shrinks until its variance shows.
        """
        known = self.known | (clearness > CLEAR_VARIANCE)
        least = np.where(known, _KNOWN_FLOOR, _UNKNOWN_FLOOR)
        return np.asarray(np.maximum(variances, least * noise))

    def kept(
        self, clearness: NDArray[np.float64], noise: float, *, refined: bool
    ) -> NDArray[np.bool_]:
        """Return which columns have a variance: clear ones, whose scale is no accident.

        ``noise`` is that of a variance, in units of the squared scales.
        """
        if not self.known.any():  # equal rows: what is clear about them is where the centre is off
            return np.zeros(self.known.size, dtype=bool)
        if self.one_unit:
            small = noise < _SHARED_NOISE
            # A column whose own scale was found is compared with that.
            easy = self.shared & (small | (noise < _OWN_NOISE * self.own**2))
            others = CLEAR_VARIANCE if small else _FOUND_VARIANCE
            least = np.where(self.shared, CLEAR_VARIANCE, others)
            return np.asarray(clearness > np.where(easy, _SHARED_VARIANCE, least))
        believed = self.sure
        if refined:
            believed = believed | (clearness > _FOUND_VARIANCE)
        return np.asarray(believed & (clearness > CLEAR_VARIANCE))
