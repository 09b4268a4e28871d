"""What is known before a release: public numbers, and assumptions about the table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.gram import most_rows
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.bounds import RowNorm, reach_of
from eigenveil.mechanisms.pca.correlation import MAX_COLUMNS, WIDE_COLUMNS, drowned_rows
from eigenveil.mechanisms.registry import Entry, Releases
from eigenveil.mechanisms.request import Request
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency
from eigenveil.privacy.budget import Budget, as_float
from eigenveil.text import plural
from eigenveil.wording import Part, Phrase, option

__all__ = ["Situation", "Spiked", "spiked"]

_MOST_COLUMNS = 2**27  # of a release that can be stored

_N = Phrase(python="n", shell="--rows", file="records")
_D = Phrase(python="d", shell="--columns-count", file="n_columns")
_K = Phrase(python="k", shell="--k", file="components")
_LENGTHS: dict[str, Part] = {"row_norm": option("row_norm"), "reach": "reach"}
_SPREAD = Phrase(python="spread", shell="--spread", file="the spread")
_SMALLEST_RATIO, _LARGEST_RATIO = 1e-9, 1e9  # of two lengths; beyond, predictions do not change

_POWERS = {"flat": 0.0, "decaying": 1.0, "steep": 2.0}

# Where nothing is said. One range for all columns (pixels, answers, genotypes) is mostly one that
# values fill, which would be 0.5, but may be generous; ranges stated column by column have to hold
# the outliers of each; a length stated as such is chosen a little above the typical one.
_SPREAD_IN_RANGE, _SPREAD_IN_RANGES, _SPREAD_IN_BALL = 0.4, 0.2, 0.7


@dataclass(frozen=True, slots=True)
class Spiked:
    """``k`` eigenvalues of 1 + ``signal_to_noise`` above others of 1."""

    k: int
    signal_to_noise: float

    def __post_init__(self) -> None:
        if not (isinstance(self.k, int) and self.k >= 1 and 0 < self.signal_to_noise < math.inf):
            raise InvalidParameterError(
                "spiked(k, signal_to_noise) needs a positive number of spikes and a positive ratio"
            )


def spiked(k: int, signal_to_noise: float) -> Spiked:
    """Return the spectrum of k strong directions of equal variance beside many of variance 1."""
    return Spiked(k, float(signal_to_noise))


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Public numbers of a release that is planned, and what is assumed about its table.

    Parameters
    ----------
    task : {"pca", "covariance"}
        Components, or a covariance matrix.
    n : int, optional
        Number of rows. Where it is private (add/remove neighbours), a guess that is
        public, or None, which leaves a choice but no prediction.
    d : int
        Number of columns.
    k : int, optional
        Number of components.
    budget : Budget
        ``(epsilon, delta)``, ``rho``, or ``epsilon`` alone for a pure guarantee.
    adjacency : Adjacency or str
        Which tables count as neighbours.
    row_norm : float, optional
        Public bound on the distance of a row from the centre.
    private_radius : bool
        Whether that bound is to be found privately.
    bounded, per_column : bool
        Whether public ranges of the columns are stated, and whether column by column.
    reach : float, optional
        Where both ``row_norm`` and ranges are stated: the distance from the middle of the ranges
        to their corners.
    spread : float, optional
        Assumed root mean square distance of a row from the centre as a share of the bound:
        ``row_norm``, or else the reach of the ranges. By default 0.7 of the first, 0.4 of the
        reach of one range for all columns, and 0.2 of that of ranges column by column. Above 1,
        rows are clipped. Between 1e-9 and 1e9.
    assume_centered : bool
        Whether the origin is the centre.
    centring : {"mean", "located", "paired"}, optional
        How the centre is to be found; by default as public numbers say.
    private_scale : bool
        Whether scales of columns are to be found, with a part of the budget. The spectrum is then
        that of scaled columns.
    known_scales : int
        Number of columns whose scale is public in any case, as of those that are 0 or 1.
    same_units : bool
        Whether columns share one unit, as they are or divided by stated scales: a covariance then
        looks for no scales.
    variances : bool
        Whether variances in the units of the data are bought.
    show_scores : bool
        Whether a map of scores is bought.
    one_pass : bool
        Whether the rows can be read once only.
    missing : bool
        Whether cells may be empty, and are allowed for.
    unit : {"row", "group", "person"}
        What ``n`` counts.
    spectrum : str, Spiked or sequence of float
        Assumed eigenvalues of the covariance, on any scale: ``"flat"``, ``"decaying"`` (1/j),
        ``"steep"`` (1/j^2), ``spiked(k, ratio)``, or ``d`` numbers.

    """

    task: Literal["pca", "covariance"]
    n: int | None
    d: int
    budget: Budget
    k: int | None = None
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    row_norm: float | None = None
    private_radius: bool = False
    bounded: bool = False
    per_column: bool = False
    reach: float | None = None
    spread: float | None = None
    assume_centered: bool = False
    centring: Literal["mean", "located", "paired"] | None = None
    private_scale: bool = False
    known_scales: int = 0
    same_units: bool = False
    variances: bool = False
    show_scores: bool = False
    one_pass: bool = False
    missing: bool = False
    unit: Literal["row", "group", "person"] = "row"
    spectrum: "str | Spiked | Sequence[float] | NDArray[np.float64]" = "decaying"

    def __post_init__(self) -> None:
        if self.task not in ("pca", "covariance"):
            raise InvalidParameterError("task must be 'pca' or 'covariance'")
        if not isinstance(self.budget, Budget):
            raise InvalidParameterError(
                "budget must be a Budget: Budget(epsilon=..., delta=...), Budget(rho=...)"
            )
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        object.__setattr__(self, "d", _count(_D, self.d))
        if self.d > _MOST_COLUMNS:
            raise InvalidParameterError(
                _D,
                f" must be at most {_MOST_COLUMNS:,}: a release of more columns cannot be stored",
            )
        if self.n is not None:
            object.__setattr__(self, "n", _count(_N, self.n))
            most = most_rows(self.d)
            if self.n > most:
                raise InvalidParameterError(
                    _N, f" must be at most {most:,}: a table of {self.d:,} columns has no more"
                )
        if self.task == "pca":
            k = _count(_K, self.d if self.k is None else self.k)
            if k > self.d:
                raise InvalidParameterError(_K, " must be at most the number of columns")
            object.__setattr__(self, "k", k)
        elif self.k is not None:
            raise InvalidParameterError(
                "a covariance has no number of components: leave ", _K, " out"
            )
        for name in _LENGTHS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _positive(_LENGTHS[name], value))
        if self.spread is not None:
            spread = _positive(_SPREAD, self.spread)
            if not _SMALLEST_RATIO <= spread <= _LARGEST_RATIO:
                raise InvalidParameterError(
                    _SPREAD, f" must lie between {_SMALLEST_RATIO:g} and {_LARGEST_RATIO:g}"
                )
            object.__setattr__(self, "spread", spread)
        object.__setattr__(self, "spectrum", _spectrum(self.spectrum, self.d))

    @classmethod
    def of(cls, request: Request) -> "Situation":
        """Return the public numbers of a request, with nothing assumed but the defaults."""
        private = isinstance(request.row_norm, str)
        norm = None if private else request.row_norm
        common: dict[str, Any] = {
            "n": request.n_rows,
            "d": request.n_columns,
            "budget": request.budget,
            "adjacency": request.adjacency,
            "row_norm": norm,
            "private_radius": private,
            "assume_centered": request.centred,
            "known_scales": request.n_columns - request.n_sought,
            "same_units": request.same_units or request.scale is not None,
            "one_pass": not request.rereadable,
            "missing": request.on_missing == "centre",
            "unit": request.unit.name,
        }
        if request.releases == "covariance":
            reach = None
            if norm is not None and request.box is not None:
                reach = reach_of(request.box, request.column_scale, centred=request.centred)
            return cls(
                task="covariance",
                bounded=request.box is not None,
                per_column=request.box_by_column,
                reach=reach,
                **common,
            )
        # Directions are what these ways to a centre are for.
        clips = request.box is not None and request.centring not in ("located", "paired")
        return cls(
            task="pca",
            k=request.wanted_components(),
            private_scale=request.private_scale,
            bounded=clips,
            per_column=clips and request.box_by_column,
            **common,
        )

    def request(self, entry: Entry) -> Request:
        """Return what one mechanism is asked for, with the bound on rows as the unit of length."""
        box = None
        if self.bounded:
            half = (self.start if self.row_norm is not None else 1.0) / math.sqrt(self.d)
            box = (np.full(self.d, -half), np.full(self.d, half))
        norm: RowNorm | None = None if self.row_norm is None else 1.0
        return Request(
            releases=self.releases,
            budget=self.budget,
            adjacency=self.adjacency,
            unit=ROW if self.unit == "row" else GROUP,
            n_columns=self.d,
            n_rows=self.n if self.adjacency.count_is_public else None,
            entry=entry,
            n_components=self.k,
            row_norm="private" if self.private_radius else norm,
            box=box,
            private_scale=self.private_scale,
            known_scale=self._known_scale(),
            same_units=self.same_units,
            centring="none" if self.assume_centered else self.centring,
            variances=self.variances,
            captured=self.task == "pca" and not self.one_pass,
            show_scores=self.show_scores,
            on_missing="centre" if self.missing else "invalid",
        )

    @property
    def standardises(self) -> bool:
        """Whether components are those of the correlations of a released covariance.

        A wide table has to have enough rows for a matrix; a narrower one is refused without them.
        """
        if self.task != "pca" or not self.private_scale or self.one_pass:
            return False
        if self.d < WIDE_COLUMNS:
            return self.n is None or self.d <= self.n
        rows = self.n if self.adjacency.count_is_public else None
        enough = rows is not None and drowned_rows(self.budget, self.d) <= rows
        return self.d <= MAX_COLUMNS and enough and not self.budget.is_pure

    def _known_scale(self) -> NDArray[np.float64] | None:
        """Return the scales that are public, where the others are to be found."""
        if self.same_units or not self.known_scales:
            return None
        return np.where(np.arange(self.d) < self.known_scales, 1.0, np.nan)

    @property
    def releases(self) -> Releases:
        """What is released."""
        return "components" if self.task == "pca" else "covariance"

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Assumed eigenvalues, descending, of sum 1."""
        shape = self.spectrum
        if isinstance(shape, str):
            values = np.arange(1.0, self.d + 1) ** -_POWERS[shape]
        elif isinstance(shape, Spiked):
            values = np.where(np.arange(self.d) < shape.k, 1 + shape.signal_to_noise, 1.0)
        else:
            values = np.array(shape)
        values = values / values.max()  # whose sum might be no number
        return np.asarray(values / values.sum())

    @property
    def assumed_spread(self) -> float:
        """The spread, or what is assumed where none is stated."""
        if self.spread is not None:
            return self.spread
        if self.row_norm is not None:
            return _SPREAD_IN_BALL
        return _SPREAD_IN_RANGES if self.per_column else _SPREAD_IN_RANGE

    @property
    def start(self) -> float:
        """How far rows may lie from the public start, in units of the bound on them."""
        if self.row_norm is None or self.reach is None:
            return 1.0
        return min(max(self.reach / self.row_norm, _SMALLEST_RATIO), _LARGEST_RATIO)

    @property
    def measure(self) -> str:
        """What an error is."""
        if self.task == "pca":
            return "share of the variance within reach that is lost"
        return "relative Frobenius error"

    def __str__(self) -> str:
        rows = f"an unknown number of {self.unit}s"
        if self.n is not None:
            rows = f"{self.n:,} {plural(self.unit, self.n)}"
        parts = [rows, f"{self.d:,} {plural('column', self.d)}"]
        if self.task == "pca":
            assert self.k is not None  # checked above
            parts.append(f"{self.k} {plural('component', self.k)} wanted")
        parts.append(f"{self.budget}, {self.adjacency.value}")
        return ", ".join(parts)


def _count(name: Part, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidParameterError(name, " must be a positive integer")
    return int(value)


def _positive(name: Part, value: Any) -> float:
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not (number and 0 < as_float(value) < math.inf):
        raise InvalidParameterError(name, " must be a positive number")
    return float(value)


def _spectrum(shape: Any, d: int) -> str | Spiked | tuple[float, ...]:
    """Return a shape that can be hashed, so that choices can be remembered."""
    if isinstance(shape, Spiked):
        if shape.k > d:
            raise InvalidParameterError("there are more spikes than columns")
        return shape
    if isinstance(shape, str):
        if shape not in _POWERS:
            known = ", ".join(map(repr, _POWERS))
            raise InvalidParameterError(
                f"spectrum must be {known}, spiked(k, ratio) or one eigenvalue per column"
            )
        return shape
    try:
        values = np.sort(np.array(shape, dtype=np.float64))[::-1]
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (d,) or not (np.isfinite(values).all() and values[-1] >= 0 < values[0]):
        raise InvalidParameterError(
            "a spectrum of numbers needs one eigenvalue per column, none negative, not all zero"
        )
    return tuple(values.tolist())
