"""A table as a release saw it: about the released centre, in its scales and within its limits.

What lies beyond the limits is not a part of what a release is about.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Limits", "Truth"]


@dataclass(frozen=True)
class Limits:
    """What a release made of rows before it added noise, as it states it itself.

    Attributes
    ----------
    centre : array of shape (d,)
        NaN where pairs of rows were released, which have no centre.
    scale : array of shape (d,)
        Infinite for columns that were left out.
    row_norm, column_limit : float
        Largest length of a scaled row about the centre, and largest entry of one.
    turn : array of shape (d,)
        Entries about the centre were folded at plus and minus half of it, in units of the data.

    """

    centre: np.ndarray
    scale: np.ndarray
    row_norm: float = math.inf
    column_limit: float = math.inf
    turn: Any = math.inf

    @classmethod
    def of(cls, fitted: Any) -> "Limits":
        """Read them from a fitted `PrivateCovariance`; limits that it does not have are none."""
        stated = {
            name: getattr(fitted, f"{name}_", math.inf)
            for name in ("row_norm", "column_limit", "turn")
        }
        return cls(centre=fitted.location_, scale=fitted.scale_, **stated)

    def seen(self, rows: np.ndarray) -> np.ndarray:
        """Return scaled rows about the centre, as far as the release saw them."""
        centre = np.where(np.isnan(self.centre), np.nanmean(rows, axis=0), self.centre)
        z = rows - centre
        if np.isfinite(self.turn).all():
            z = (z + self.turn / 2) % self.turn - self.turn / 2
        z = z / self.scale
        z = np.clip(z, -self.column_limit, self.column_limit)
        lengths = np.sqrt(np.nansum(z**2, axis=1))
        return z * np.minimum(1.0, self.row_norm / np.maximum(lengths, 1e-300))[:, None]


@dataclass(frozen=True)
class Truth:
    """Moments of a table as a release saw it, about the released centre, in units of the data."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, limits: Limits) -> "Truth":
        """Compute the moments over present cells, and over pairs of them."""
        z = limits.seen(rows)
        present = (~np.isnan(z)).astype(float)
        filled = np.nan_to_num(z)
        scale = np.where(np.isfinite(limits.scale), limits.scale, 0.0)
        pairs = np.maximum(1.0, present.T @ present)
        covariance = filled.T @ filled / pairs * np.outer(scale, scale)
        centre = np.where(np.isnan(limits.centre), np.nanmean(rows, axis=0), limits.centre)
        return cls(centre + np.nanmean(z, axis=0) * scale, covariance)

    @property
    def deviations(self) -> np.ndarray:
        """Return standard deviations of the columns."""
        return np.sqrt(self.covariance.diagonal())

    @property
    def correlation(self) -> np.ndarray:
        """Return correlations; NaN beside a column that does not vary."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.covariance / np.outer(self.deviations, self.deviations)
