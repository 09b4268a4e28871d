"""Whether what a released `PrivatePCA` states of its components is true of the table it saw.

That table is the rows about the released centre, in the released scales, either pulled in to a
radius or scaled to unit length as the release did. `CLAIMS` holds one small function for each
claim; each returns the share of its statements that hold, NaN where none is made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from benchmarks.seen import Limits

from tests.truth.judge import RELEASED

__all__ = ["CLEAR", "FLOOR", "SeenComponents", "judged_components"]

CLEAR = "clear components"
FLOOR = "eigenvalues above the floor"
PAIRINGS = 8  # at random, over which the matrix of pairs of rows is averaged


@dataclass(frozen=True)
class SeenComponents:
    """Eigenpairs of the matrix that a release was about, the largest first, before noise."""

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, fitted: Any, rows: np.ndarray) -> "SeenComponents":
        """Compute them from all rows, about the centre that was released."""
        kept = np.isfinite(fitted.scale_)
        moment = _moment(fitted, rows[:, kept], kept, fitted.mean_)
        return cls(*_eigenpairs(moment))

    @classmethod
    def about_the_mean(cls, fitted: Any, rows: np.ndarray) -> "SeenComponents":
        """Compute them about the mean of the table, which has no error of a centre."""
        kept = np.isfinite(fitted.scale_)
        limits = Limits(fitted.mean_[kept], fitted.scale_[kept])
        centre = fitted.mean_.copy()
        if not np.isnan(centre).any():
            centre[kept] += (limits.seen(rows[:, kept]) * fitted.scale_[kept]).mean(axis=0)
        return cls(*_eigenpairs(_moment(fitted, rows[:, kept], kept, centre)))


@dataclass(frozen=True)
class JudgedRelease:
    """A fitted estimator beside the truth, without the columns that were left out."""

    fitted: Any
    seen: SeenComponents

    @cached_property
    def components(self) -> np.ndarray:
        """Return the released directions of the columns that were kept."""
        return np.asarray(self.fitted.components_[:, np.isfinite(self.fitted.scale_)])

    @property
    def eigenvalues(self) -> np.ndarray:
        """Return the released eigenvalues, in the units of the floor."""
        return np.asarray(self.fitted.release_.arrays["eigenvalues"])


def _clear(judged: JudgedRelease) -> float:
    """Clear components lie in the span of as many leading eigenvectors as were released."""
    span = judged.seen.vectors[: len(judged.components)]
    inside = np.sum((judged.components @ span.T) ** 2, axis=1) > 0.5
    return _share(inside, judged.fitted.distinguishable_)


def _above_floor(judged: JudgedRelease) -> float:
    """Eigenvalues above the floor exceed those of the table by no more than the floor."""
    released, floor = judged.eigenvalues, judged.fitted.noise_floor_
    true = judged.seen.values[: released.size]
    return _share(released - true <= floor, released > floor)


CLAIMS: dict[str, Callable[[JudgedRelease], float]] = {CLEAR: _clear, FLOOR: _above_floor}


def judged_components(fitted: Any, rows: np.ndarray) -> dict[str, float]:
    """Return the share of true statements of each claim that is made."""
    if not np.isfinite(fitted.components_).all():
        return {RELEASED: 0.0}
    judged = JudgedRelease(fitted, SeenComponents.of(fitted, rows))
    shares = {name: holds(judged) for name, holds in CLAIMS.items()}
    made = {claim: share for claim, share in shares.items() if not math.isnan(share)}
    return {RELEASED: 1.0} | made


def _moment(fitted: Any, rows: np.ndarray, kept: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return the second moment of rows about a point, of unit trace for rows of unit length."""
    scale, point = fitted.scale_[kept], centre[kept]
    stated = getattr(fitted, "row_norm", None)
    radius = getattr(fitted, "row_norm_", stated if isinstance(stated, float) else math.inf)
    paired, normalise = bool(np.isnan(point).any()), fitted.plan_.normalise
    if not paired:
        return _of_rows((rows - point) / scale, fitted, normalise, radius)
    rng, moments = np.random.default_rng(1), []
    for _ in range(PAIRINGS):
        some = rng.permutation(len(rows))[: len(rows) // 2 * 2]
        pairs = (rows[some[::2]] - rows[some[1::2]]) / 2 / scale
        moments.append(_of_rows(pairs, fitted, normalise, radius))
    return np.mean(moments, axis=0) * (1 if normalise else 2)


def _of_rows(z: np.ndarray, fitted: Any, normalise: bool, radius: float) -> np.ndarray:
    lengths = np.maximum(np.linalg.norm(z, axis=1), 1e-145)
    if not normalise:
        z = z * np.minimum(1.0, radius / lengths)[:, None]
        return np.asarray(z.T @ z / len(z))
    nearest = getattr(fitted, "unit_distance_", 0.0)
    z = z / np.maximum(lengths, nearest)[:, None]
    return np.asarray(z.T @ z / max(np.sum(z**2), 1e-300))


def _eigenpairs(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(moment)
    return values[::-1], vectors.T[::-1]


def _share(holds: np.ndarray, made: np.ndarray) -> float:
    return float(holds[made].mean()) if made.any() else math.nan
