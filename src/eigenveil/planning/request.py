"""Requests and planning inputs: public numbers, checked once before anything is read or charged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM
from eigenveil.exact.gram import most_rows
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.correlation import MAX_COLUMNS, WIDE_COLUMNS, drowned_rows
from eigenveil.mechanisms.rank import MAX_PRIVATE_RANK
from eigenveil.mechanisms.registry import ComponentMechanism, Mechanism, Releases
from eigenveil.messages import REPLACE_ONE, SAME_UNIT, Part, Phrase, option
from eigenveil.planning.bounds import (
    Box,
    OnInvalid,
    OnMissing,
    RowNorm,
    box_of,
    by_column,
    ranges_by_name,
    reach_of,
)
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget, as_float
from eigenveil.privacy.cost import Cost
from eigenveil.text import did_you_mean, listed, plural

Centring = Literal["none", "mean", "located", "paired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What a regression is about beside its features.

    Attributes
    ----------
    count : int
        Number of targets.
    boxes : tuple of pairs of float, optional
        Range of each.
    alpha : float, optional
        Stated penalty, as a share of the mean squared length of records; by default found.
    accepts_means : bool
        Whether their means are worth the budget where no coefficients are possible.

    """

    count: int
    boxes: tuple[tuple[float, float], ...] | None = None
    alpha: float | None = None
    accepts_means: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """What one release is asked for; all of it public.

    Attributes
    ----------
    releases : {"components", "covariance", "regression"}
        What is wanted.
    budget, adjacency, unit
        How it is protected.
    n_columns : int
        Number of columns; of a regression those of its features, which come before its targets.
    n_rows : int or None
        Number of rows, or of persons, where it is public; None where it is not, or where rows can
        be read once only.
    rereadable : bool
        Whether rows can be read more than once.
    entry : Mechanism, optional
        The mechanism; None before one is chosen.
    reason : str
        Why it was chosen; empty where the caller did.
    n_components : int, float or "private", optional
        How many components; by default all. A number below 1 is a share of variance: then all are
        planned for, and the fewest that hold it are kept.
    targets : Targets, optional
        Those of a regression.
    row_norm : float or "private", optional
        Where rows are clipped; of a regression in scales of the features.
    box : pair of arrays, optional
        Ranges of the columns as they are.
    box_by_column : bool
        Whether they were stated one by one.
    scale : array, optional
        What columns are divided by, stated.
    private_scale : bool
        Whether scales are to be found.
    known_scale : array, optional
        Where they are: the scales of all columns that are public, and NaN for the others.
    same_units : bool
        Whether columns are stated to share one unit, so that a default looks for no scales.
    centring : Centring, optional
        How the centre is found; by default it follows from public numbers.
    variances : bool
        Whether variances in the units of the data are bought.
    captured : bool
        Whether the variance that components hold is bought, where public numbers say that it pays.
    show_scores : bool
        Whether counts of rows on the plane of two components are bought.
    score_kinds : int
        Number of kinds of rows that they are counted by.
    on_invalid, on_missing
        What happens to rows and cells that hold no numbers.
    spent : Cost, optional
        Of the budget, by an earlier release of the same rows.
    left : Budget, optional
        Of the budget, by a search for levels that is charged before.
    every_direction : bool
        Whether more components than rows may be asked for: with noise there are as many directions
        as columns.

    """

    releases: Releases | Literal["regression"]
    budget: Budget
    adjacency: Adjacency
    unit: Unit
    n_columns: int
    n_rows: int | None
    rereadable: bool = True
    entry: Mechanism | None = None
    reason: str = ""
    n_components: int | float | Literal["private"] | None = None
    targets: Targets | None = None
    row_norm: RowNorm | None = None
    box: Box | None = None
    box_by_column: bool = False
    scale: NDArray[np.float64] | None = None
    private_scale: bool = False
    known_scale: NDArray[np.float64] | None = None
    same_units: bool = False
    centring: Centring | None = None
    variances: bool = False
    captured: bool = False
    show_scores: bool = False
    score_kinds: int = 1
    on_invalid: OnInvalid = "raise"
    on_missing: OnMissing = "invalid"
    spent: Cost | None = None
    left: Budget | None = None
    every_direction: bool = False

    def __post_init__(self) -> None:
        if self.centring not in (None, "none", "mean", "located", "paired"):
            raise InvalidParameterError("centring must be 'none', 'mean', 'located' or 'paired'")
        if self.private_scale and self.box is not None and self.targets is None:
            raise InvalidParameterError("private scales need no bounds: leave one of them out")

    @classmethod
    def ranges(
        cls, bounds: Any, names: Sequence[str] | NDArray[Any] | None, n_columns: int
    ) -> tuple[Box | None, bool]:
        """Return the stated ranges in the order of columns, and whether they are one for each."""
        if isinstance(bounds, Mapping):
            bounds = ranges_by_name(bounds, names)
        if bounds is None:
            return None, False
        return box_of(bounds, n_columns), by_column(bounds)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, once one is chosen."""
        assert self.entry is not None  # `choose` comes first
        return self.entry

    @property
    def of_matrix(self) -> bool:
        """Whether a covariance is released, as it is or as components of its correlations."""
        return self.releases == "covariance" or self.mechanism.standardises

    @property
    def centred(self) -> bool:
        """Whether the origin is the centre."""
        return self.centring == "none"

    @property
    def private_rank(self) -> bool:
        """Whether the number of components is to be found."""
        return isinstance(self.n_components, str)

    @property
    def variance_share(self) -> float | None:
        """The share of variance that components are to hold; None where their number is stated."""
        wanted = self.n_components
        return wanted if isinstance(wanted, float) and 0 < wanted < 1 else None

    @property
    def normalises(self) -> bool:
        """Whether rows are scaled to unit length."""
        if self.of_matrix or self.row_norm is not None:
            return False
        if self.mechanism.assumption is not None:
            return False
        return self.mechanism.unit_rows or self.box is None

    @property
    def clips(self) -> bool:
        """Whether rows are clipped at a length, so that a stated one means something."""
        if self.mechanism.assumption is not None or self.normalises:
            return False
        return not (self.of_matrix and self.mechanism.unit_rows and not self.budget.is_pure)

    @property
    def divides_by_ranges(self) -> bool:
        """Whether columns are divided by half their ranges, so that a wide one drowns no other.

        A stated length or trace is one of columns as they are.
        """
        trace_bound = getattr(self.entry, "trace_bound", None)
        as_they_are = trace_bound is not None or isinstance(self.row_norm, Real)
        free = self.scale is None and not self.private_scale and not as_they_are
        return self.of_matrix and free and self.box_by_column

    @property
    def column_scale(self) -> NDArray[np.float64] | None:
        """What columns are divided by, where that is public."""
        return half_ranges(self.box) if self.divides_by_ranges else self.scale

    @property
    def any_units(self) -> bool:
        """Whether columns may be in any units and nothing bounds them: see `front`.

        A table with more columns than rows shows no scales, so its columns are taken as they are.
        """
        free = self.unstated and self.centring in (None, "located")
        public = self.adjacency.count_is_public and self.rereadable and self.n_rows is not None
        wide = self.n_rows is None or self.n_columns > self.n_rows
        return free and public and not wide and not self.budget.is_pure

    @property
    def counted(self) -> bool:
        """Whether a private number of rows is counted first, for columns in any units.

        Not for persons, whose rows are not drawn one by one.
        """
        free = self.unstated and self.centring in (None, "located") and self.n_columns > 1
        private = not self.adjacency.count_is_public and not self.unit.owns_many
        return free and private and self.rereadable and not self.budget.is_pure

    @property
    def unstated(self) -> bool:
        """Whether a covariance needs no bound, and neither units nor bounds are stated."""
        stated = self.scale is not None or self.same_units or self.n_sought == 0
        bounded = self.box is not None or self.row_norm is not None
        suits = self.of_matrix and self.mechanism.unit_rows
        return suits and not (stated or bounded)

    @property
    def n_sought(self) -> int:
        """Number of columns whose scale is to be found, where some are."""
        known = self.known_scale
        return self.n_columns if known is None else int(np.isnan(known).sum())

    def wanted_components(self) -> int:
        """Return the number of components, the largest where it is to be found privately."""
        d = self.n_columns
        if self.private_rank:
            return self._largest_rank()
        # One person's rows may have as many directions as there are columns.
        n = None if self.unit.owns_many or self.every_direction else self.n_rows
        wanted: Any = None if self.variance_share is not None else self.n_components
        if wanted is None and isinstance(self.entry, ComponentMechanism):
            wanted = self.entry.own_components
        if wanted is None:
            wanted = min(d, d if n is None else n)
        if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)):
            raise self._no_count()
        if not 1 <= wanted <= d:
            raise InvalidParameterError(
                option("n_components"), f" must be between 1 and the number of columns, {d}"
            )
        if n is not None and wanted > n:
            raise InvalidParameterError(
                option("n_components"), " exceeds the number of rows: ask for fewer components"
            )
        return int(wanted)

    @staticmethod
    def _no_count() -> InvalidParameterError:
        return InvalidParameterError(
            option("n_components"),
            " must be a positive integer, a share of variance between 0 and 1, or 'private'",
        )

    def _largest_rank(self) -> int:
        if self.n_components != "private":
            raise self._no_count()
        if self.n_columns < 2:
            raise InvalidParameterError("a private rank needs at least two columns")
        if not self.adjacency.count_is_public:
            raise UnsupportedNotionError(
                "a private rank needs a public number of rows: state ",
                option("n_components"),
                ", or choose ",
                REPLACE_ONE,
            )
        return min(MAX_PRIVATE_RANK, self.n_columns - 1)

    def private_count(self) -> UnsupportedNotionError:
        """Return the error about private scales where the number of rows is private too."""
        pure, persons = self.budget.is_pure, self.unit.owns_many
        countable = self.of_matrix and self.rereadable and not (pure or persons)
        leave_out = ("leave ", option("scale"), " and ", option("centring"), " out, or ")
        return UnsupportedNotionError(
            "with epsilon alone, " * pure,
            f"columns in mixed units need a public number of {self.unit.name}s: ",
            *(leave_out if countable else ()),
            "state ",
            SAME_UNIT,
            ", or state ",
            option("scale"),
            " or ",
            option("bounds"),
            ", or choose ",
            REPLACE_ONE,
        )

    def read_once(self, otherwise: str) -> InvalidDataError:
        """Return the error about rows that would have to be read again."""
        streams = "; StreamingPCA needs one pass only" if self.releases == "components" else ""
        return InvalidDataError(
            "this release reads the rows several times, and these can be read once only: pass a "
            "file or an array, or ",
            option("mechanism", otherwise),
            " with ",
            option("centring", "none"),
            " and ",
            REPLACE_ONE,
            streams,
        )


def half_ranges(box: Box | None) -> NDArray[np.float64]:
    """Return half the range of every column; that of the narrowest for one that has none."""
    assert box is not None  # ranges were stated
    half = (box[1] - box[0]) / 2
    return np.asarray(np.maximum(half, half[half > 0].min()))


def public_scale(
    scale: Any,
    n_columns: int,
    names: Sequence[str] | NDArray[Any] | None = None,
    encoding: Mapping[str, Any] | None = None,
) -> NDArray[np.float64] | None:
    """Return one positive number per column, where the caller stated any.

    Scales may be stated by name: those of all columns but of categories, whose levels have 1 unless
    the category itself is named.
    """
    if scale is None or (isinstance(scale, str) and scale in ("private", "same")):
        return None
    if isinstance(scale, Mapping):
        scale = _scale_by_name(scale, names, encoding or {})
    wrong = InvalidParameterError(
        "scale must be 'private', 'same' or one positive number per column (1e-50 to 1e50), in "
        "order or by name; never take it from the data"
    )
    try:
        numbers = np.array(np.broadcast_to(scale, (n_columns,)), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not ((numbers >= SMALLEST_NORM) & (numbers <= LARGEST_NORM)).all():
        raise wrong
    return numbers


def encoded_scale(
    names: Sequence[str] | NDArray[Any] | None, encoding: Mapping[str, Any]
) -> NDArray[np.float64] | None:
    """Return 1 for columns that are 0 or 1 for a level, NaN for others; None without levels."""
    levels = _level_columns(encoding)
    if names is None or not levels:
        return None
    return np.array([1.0 if name in levels else np.nan for name in names])


def _level_columns(encoding: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of single levels, each with the column that it is a level of."""
    return {
        f"{column}={level}": column
        for column, noted in encoding.items()
        for level in noted.get("levels", ())
    }


def _scale_by_name(
    scale: Mapping[str, Any],
    names: Sequence[str] | NDArray[Any] | None,
    encoding: Mapping[str, Any],
) -> list[Any]:
    """Return stated scales in the order of the columns."""
    if names is None:
        raise InvalidParameterError(
            "the columns of this table have no names: state scales as numbers, in their order"
        )
    owners = _level_columns(encoding)
    known = [*dict.fromkeys([*names, *encoding])]
    for name in scale:
        if name not in known:
            raise InvalidDataError(option("scale"), f" names {name!r}: {did_you_mean(name, known)}")
    if missing := [name for name in names if name not in scale and name not in owners]:
        raise InvalidParameterError(
            option("scale"), f" leaves out {listed(missing)}: add them, or leave out the columns"
        )
    return [scale[n] if n in scale else scale.get(owners[n], 1.0) for n in names]


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

    def request(self, entry: Mechanism) -> Request:
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
