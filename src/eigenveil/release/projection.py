"""From rows to scores and back: the one formula of the estimator, of releases and of exports.

Scores are ``((rows - mean) / scale) @ components.T``. A column of infinite scale was left out of
the fit: its components are zero. Where no centre was released, the mean is NaN: scores are then
those of rows as they are, of which only differences mean anything, and none lead back to rows.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError
from eigenveil.messages import option
from eigenveil.rows.frames import as_table
from eigenveil.text import plural

NO_CENTRE = (
    "the release has no centre (pairs of rows have none): scores are those of rows as they are, "
    "and only their differences mean anything"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """Released directions about a released centre.

    Attributes
    ----------
    components : array of shape (k, d)
        Orthonormal rows, of scaled columns.
    mean, scale : arrays of shape (d,)
        The centre in the units of the data, and what its columns are divided by.
    on_invalid : {"raise", "zero"}
        Whether a row that holds no numbers is refused or has NaN scores.
    on_missing : {"invalid", "centre"}
        Whether an empty cell makes its row invalid or is filled by the mean.

    """

    components: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    on_invalid: str = "raise"
    on_missing: str = "invalid"

    @property
    def has_centre(self) -> bool:
        """Whether a centre was released."""
        return not bool(np.isnan(self.mean).any())

    @property
    def origin(self) -> NDArray[np.float64]:
        """What is taken off rows: the centre, or nothing where there is none."""
        return self.mean if self.has_centre else np.zeros_like(self.mean)

    @property
    def weights(self) -> NDArray[np.float64]:
        """What rows about the mean are multiplied by: ``components / scale``."""
        weights: NDArray[np.float64] = self.components / self.scale
        return weights

    def scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return a row of scores for each row."""
        rows = rows.astype(np.float64, copy=False)
        if self.on_missing == "centre":
            rows = np.where(np.isnan(rows), self.mean, rows)
        if self.on_invalid == "raise" and not np.isfinite(rows).all():
            raise InvalidDataError("a row holds NaN or inf: fill it or drop the row")
        if not self.has_centre:
            warnings.warn(NO_CENTRE, stacklevel=2)
        with np.errstate(invalid="ignore", over="ignore"):
            scores: NDArray[np.float64] = ((rows - self.origin) / self.scale) @ self.components.T
        scores[~np.isfinite(scores).all(axis=1)] = np.nan
        return scores

    def rows(self, scores: Any) -> NDArray[np.float64]:
        """Return rows with the given scores, in the units of the data."""
        table = as_table(scores)
        if table.shape[1] != len(self.components):
            k = len(self.components)
            raise InvalidDataError(f"scores must have {k} {plural('column', k)}")
        if not self.has_centre:
            raise InvalidDataError(
                "the release has no centre (pairs of rows have none), so scores do not lead back "
                "to rows: release with ",
                option("centring", "located"),
                ", or with more rows or a larger budget",
            )
        spread = np.where(np.isfinite(self.scale), self.scale, 0.0)  # the mean is zero there
        with np.errstate(over="ignore"):
            rows: NDArray[np.float64] = table @ self.components * spread + self.mean
        return rows
