r"""Records of a regression: features and targets of one row, lifted, weighed and made residuals.

A row of the table is (x, y). Its record is

.. math:: z = (\gamma,\; (x - c)/s), \qquad t = y - m

with a constant for the intercept, and a public or released centre c, scales s and offset m. It
weighs :math:`w = 1/|z|`, or :math:`\min(1, R/|z|)/R` for a length R: a function of x alone, so that
weighing does not move the coefficients of a linear model. Then

.. math:: u = w z, \quad |u| \le 1, \qquad r = w (t - z'b), \qquad u \cdot \mathrm{clip}_\tau(r)

are a row of the Gram matrix, a residual, and a row of the sum that improves b. Each is a function
of one row and of public or released numbers, to the last bit, so that neighbouring tables stay
neighbours: products are those of `Clip.coordinates`, which no other row enters.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics.kernels import squared_norms
from eigenveil.rows.base import RowMap, RowSource
from eigenveil.rows.maps import TakeColumns
from eigenveil.text import did_you_mean

_FARTHEST = 1e140  # of an entry, so that lengths of records are finite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """How rows become records; public or released numbers alone.

    Attributes
    ----------
    centre, scale : arrays of shape (n_features,)
        Of the features; a feature of infinite scale is left out.
    target : int
        Position of the target among the columns.
    offset : float
        What the target is taken about.
    lift : float
        The constant coordinate.
    length : float, optional
        Records beyond it are pulled in to it; by default all are scaled to unit length.
    on_invalid, on_missing
        What happens to rows and cells that hold no numbers; a row without its target is invalid.

    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    target: int
    offset: float
    lift: float
    length: float | None = None
    on_invalid: Literal["raise", "zero"] = "raise"
    on_missing: Literal["invalid", "centre"] = "invalid"

    @property
    def width(self) -> int:
        """Number of coordinates of z."""
        return 1 + int(np.isfinite(self.scale).sum())

    @property
    def clip(self) -> Clip:
        """What bounds z in the Gram matrix."""
        if self.length is None:
            return Clip(row_norm=1.0, normalise=True, on_invalid=self.on_invalid)
        return Clip(row_norm=self.length, on_invalid=self.on_invalid)

    def design(self, chunk: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return z and t of rows; both NaN for an invalid row."""
        kept = np.flatnonzero(np.isfinite(self.scale))
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = np.asarray(chunk, dtype=np.float64)
            features = (rows[:, : self.scale.size][:, kept] - self.centre[kept]) / self.scale[kept]
            raw = rows[:, : self.scale.size][:, kept]
            if self.on_missing == "centre":
                empty = np.isnan(raw)
                features[empty] = 0.0
                raw = np.where(empty, 0.0, raw)
            target = rows[:, self.target] - self.offset
            invalid = ~(
                np.isfinite(raw).all(axis=1) & np.isfinite(rows[:, self.scale.size :]).all(axis=1)
            )
            np.clip(features, -_FARTHEST, _FARTHEST, out=features)
            np.clip(target, -_FARTHEST, _FARTHEST, out=target)
        z = np.empty((len(rows), self.width))
        z[:, 0] = self.lift
        z[:, 1:] = features
        z[invalid], target[invalid] = np.nan, np.nan
        return z, target

    def weights(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what records weigh, by their lengths alone."""
        lengths = np.sqrt(squared_norms(z))
        if self.length is None:
            return np.asarray(1 / lengths)
        return np.asarray(np.minimum(1.0, self.length / lengths) / self.length)

    def residuals(
        self, z: NDArray[np.float64], target: NDArray[np.float64], b: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return w (t - z'b)."""
        direction = np.append(-b, 1.0)
        length = float(np.linalg.norm(direction))
        whole = np.column_stack([z, target])
        raw = Clip(row_norm=1.0, on_invalid="zero").coordinates(whole, direction[None] / length)
        return np.asarray(self.weights(z) * raw[:, 0] * length)


@dataclass(frozen=True, eq=False)
class Design(RowMap):
    """Records z of rows."""

    records: Records

    def width(self, n_columns: int) -> int:
        """Return the number of coordinates of z."""
        return self.records.width

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return z."""
        return self.records.design(rows)[0]


@dataclass(frozen=True, eq=False)
class Residuals(RowMap):
    """One column: weighed residuals about coefficients ``b`` of z."""

    records: Records
    b: NDArray[np.float64]

    def width(self, n_columns: int) -> int:
        """Return one."""
        return 1

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return r as one column."""
        z, target = self.records.design(rows)
        return self.records.residuals(z, target, self.b)[:, None]


@dataclass(frozen=True, eq=False)
class Gradients(RowMap):
    """Products u r of records with their residuals, these clipped at ``most``."""

    records: Records
    b: NDArray[np.float64]
    most: float

    def width(self, n_columns: int) -> int:
        """Return the number of coordinates of z."""
        return self.records.width

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return u r."""
        z, target = self.records.design(rows)
        r = np.clip(self.records.residuals(z, target, self.b), -self.most, self.most)
        return np.asarray(z * (self.records.weights(z) * r)[:, None])


def reordered(source: RowSource, targets: tuple[str, ...]) -> RowSource:
    """Return a source with its target columns last, by name."""
    names = named_targets(source.schema.feature_names, targets)
    last = [names.index(name) for name in targets]
    features = [j for j in range(len(names)) if j not in last]
    if not features:
        raise InvalidDataError("a regression needs a column apart from its targets")
    return source.map(TakeColumns([*features, *last]))


def named_targets(names: tuple[str, ...] | None, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of columns, with targets among them; refuse others."""
    if names is None:
        raise InvalidParameterError(
            "targets by name need a table with names: pass a CSV or parquet file, or arrays X and y"
        )
    for name in targets:
        if name not in names:
            raise InvalidDataError(
                f"the target names a column that is not there: {name!r}; "
                + did_you_mean(name, names)
            )
    if len(set(targets)) < len(targets):
        raise InvalidParameterError("a target is named twice: name each once")
    return names
