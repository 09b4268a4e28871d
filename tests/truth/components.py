"""Whether what a fitted `PrivatePCA` states of its components is true of the table it saw.

That table is the rows about the released centre, in the released scales, pulled in to a radius or
scaled to unit length as the release says. `CLAIMS` holds one small function for each claim, which
returns the share of its statements that hold, NaN where none is made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from benchmarks.seen import Limits

from tests.truth.judge import (
    ABOVE_FLOOR,
    CAPTURED,
    CLEAR,
    NOT_THE_CENTRE,
    RELEASED,
    REPRODUCIBLE,
    share_of,
)

__all__ = ["CLAIMS", "Seen", "SeenMoment", "judged_components", "judged_stream"]

PAIRINGS = 8  # at random, over which the matrix of pairs of rows is averaged
NO_LENGTH = 1e-145  # as in `Clip`
NO_DEVIATION = 0.02  # in released scales: that of a constant column whose centre is a little off


@dataclass(frozen=True)
class SeenMoment:
    """Eigenpairs of the matrix that a release was about before noise, the largest first.

    Of unit rows the matrix has trace 1, as released eigenvalues are shares.
    """

    values: np.ndarray
    vectors: np.ndarray  # one in each row

    @classmethod
    def of(cls, moment: np.ndarray) -> "SeenMoment":
        """Decompose a matrix."""
        values, vectors = np.linalg.eigh(moment)
        return cls(values[::-1], vectors.T[::-1])

    @classmethod
    def about(cls, fitted: Any, rows: np.ndarray, centre: np.ndarray) -> "SeenMoment":
        """Compute them from all rows about a point, or from pairs of rows where it is NaN."""
        if fitted.mechanism_ == "correlation":
            z = _limited(fitted, rows)
            z = z - (z.mean(axis=0) if (centre != fitted.mean_).any() else 0.0)
            return cls.of(z.T @ z / len(z) / np.outer(*2 * [_deviations(fitted)]))
        kept = np.isfinite(fitted.scale_)
        rows, scale, centre = rows[:, kept], fitted.scale_[kept], centre[kept]
        if np.isnan(centre).any():
            pairs = (_pairs(rows, seed) for seed in range(PAIRINGS))
            moment = np.mean([_moment(fitted, z / scale, half=True) for z in pairs], axis=0)
        else:
            moment = _moment(fitted, (rows - centre) / scale)
        return cls.of(moment)


@dataclass(frozen=True)
class Seen:
    """A fitted estimator beside its table."""

    fitted: Any
    rows: np.ndarray

    @cached_property
    def moment(self) -> SeenMoment:
        """The matrix about the released centre."""
        return SeenMoment.about(self.fitted, self.rows, self.fitted.mean_)

    @cached_property
    def moment_about_mean(self) -> SeenMoment:
        """The matrix about the mean of the table, which no error of a centre is a part of."""
        mean = self.rows.mean(axis=0)
        centre = np.where(np.isnan(self.fitted.mean_), np.nan, mean)
        return SeenMoment.about(self.fitted, self.rows, centre)

    @cached_property
    def held(self) -> SeenMoment:
        """The matrix of the rows that `captured_` is about."""
        fitted = self.fitted
        if fitted.mechanism_ != "correlation":
            return self.moment
        z = _limited(fitted, self.rows, pulls_in=False) / _deviations(fitted)
        norm = fitted.release_.settings["captured"]["row_norm"]
        z = z * np.minimum(1.0, norm / np.maximum(np.linalg.norm(z, axis=1), NO_LENGTH))[:, None]
        return SeenMoment.of(z.T @ z / len(z))

    @cached_property
    def components(self) -> np.ndarray:
        """The released directions of the columns that were not left out."""
        return np.asarray(self.fitted.components_[:, np.isfinite(self.fitted.scale_)])

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """The released eigenvalues, in the units of the floors."""
        return np.asarray(self.fitted.release_.arrays["eigenvalues"])


def _clear(seen: Seen) -> float:
    """Clear components lie in the span of as many leading eigenvectors as were released."""
    return share_of(_inside(seen, seen.moment), seen.fitted.distinguishable_)


def _not_the_centre(seen: Seen) -> float:
    """Clear components lie in that span for the matrix about the mean of the table, too."""
    return share_of(_inside(seen, seen.moment_about_mean), seen.fitted.distinguishable_)


def _above_floor(seen: Seen) -> float:
    """Eigenvalues above the floor exceed those of the table by no more than the floor."""
    floor, values = seen.fitted.noise_floor_, seen.eigenvalues
    return share_of(values - seen.moment.values[: values.size] <= floor, values > floor)


def _reproducible(seen: Seen) -> float:
    """Squared cosines with components of the same rank are as large as stated, on average.

    Returned is 1 more than their mean excess.
    """
    stated = seen.fitted.reproducibility_
    some = np.flatnonzero(~np.isnan(stated))
    same = seen.moment.vectors[: len(stated)]
    actual = np.sum(seen.components * same, axis=1) ** 2
    return 1 + float(np.mean((actual - stated)[some])) if some.size else math.nan


def _captured(seen: Seen) -> float:
    """What components hold lies within two standard errors of what they hold of the rows."""
    found = seen.fitted.captured_
    if found is None:
        return math.nan
    values, vectors = seen.held.values, seen.held.vectors
    k = len(seen.components)
    inside = float(np.sum((seen.components @ vectors.T) ** 2 @ values))
    share, best = inside / float(values.sum()), inside / float(values[:k].sum())
    holds = [
        abs(found.share - share) <= 2 * found.share_noise,
        abs(found.of_best - best) <= 2 * found.of_best_noise,
    ]
    return float(np.mean(holds))


CLAIMS: dict[str, Callable[[Seen], float]] = {
    CLEAR: _clear,
    NOT_THE_CENTRE: _not_the_centre,
    ABOVE_FLOOR: _above_floor,
    REPRODUCIBLE: _reproducible,
    CAPTURED: _captured,
}


def judged_components(fitted: Any, rows: np.ndarray) -> dict[str, float]:
    """Return the share of true statements of each claim that is made."""
    if not np.isfinite(fitted.components_).all():
        return {RELEASED: 0.0}
    seen = Seen(fitted, rows)
    shares = {claim: holds(seen) for claim, holds in CLAIMS.items()}
    return {RELEASED: 1.0} | {c: share for c, share in shares.items() if not math.isnan(share)}


def judged_stream(fitted: Any, rows: np.ndarray) -> dict[str, float]:
    """Return the share of true statements of a fitted `StreamingPCA` with private scales.

    The truth are correlations of the rows in the released scales, pulled in as those of the last
    batch were. Only what noise has done to them is stated.
    """
    z = (rows - fitted.mean_) / fitted.scale_
    z = Limits(np.zeros(z.shape[1]), np.ones(z.shape[1]), fitted.row_norm_).seen(z)
    deviations = np.sqrt(np.mean(z**2, axis=0))
    constant = deviations < NO_DEVIATION
    moment = z.T @ z / len(z) / np.outer(*2 * [np.where(constant, np.inf, deviations)])
    seen = Seen(fitted, rows)
    seen.__dict__["moment"] = SeenMoment.of(moment)  # a cached property
    shares = {claim: CLAIMS[claim](seen) for claim in (CLEAR, ABOVE_FLOOR)}
    return {RELEASED: 1.0} | {c: share for c, share in shares.items() if not math.isnan(share)}


def _deviations(fitted: Any) -> np.ndarray:
    """Return what limited columns were divided by, in units of the scales that limited them."""
    return np.asarray(fitted.scale_ / fitted.release_.arrays["clipping_scale"])


def _limited(fitted: Any, rows: np.ndarray, *, pulls_in: bool = True) -> np.ndarray:
    """Return scaled rows about the centre, within the limits of columns, pulled in or not."""
    return Limits(
        centre=fitted.mean_,
        scale=fitted.release_.arrays["clipping_scale"],
        row_norm=fitted.row_norm_ if pulls_in else math.inf,
        column_limit=fitted.release_.settings.get("column_limit", math.inf),
        turn=getattr(fitted, "turn_", math.inf),
    ).seen(rows)


def _inside(seen: Seen, moment: SeenMoment) -> np.ndarray:
    """Return which released components lie in the leading span, by their squared cosines."""
    span = moment.vectors[: len(seen.components)]
    return np.asarray(np.sum((seen.components @ span.T) ** 2, axis=1) > 0.5)


def _moment(fitted: Any, z: np.ndarray, *, half: bool = False) -> np.ndarray:
    """Return the second moment of scaled rows about their centre, or of ``half`` differences."""
    d = z.shape[1]
    if not fitted.plan_.normalise:
        radius = getattr(fitted, "row_norm_", fitted.row_norm)
        radius = radius if isinstance(radius, float) else math.inf
        z = Limits(np.zeros(d), np.ones(d), radius).seen(z)
        return np.asarray(z.T @ z / len(z)) * (2 if half else 1)
    nearest = max(NO_LENGTH, getattr(fitted, "unit_distance_", 0.0))
    z = z / np.maximum(np.linalg.norm(z, axis=1), nearest)[:, None]
    return np.asarray(z.T @ z / max(float(np.sum(z**2)), NO_LENGTH))


def _pairs(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return half differences of rows paired at random."""
    some = np.random.default_rng(seed).permutation(len(rows))[: len(rows) // 2 * 2]
    return np.asarray((rows[some[::2]] - rows[some[1::2]]) / 2)
