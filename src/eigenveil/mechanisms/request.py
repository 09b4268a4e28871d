"""What a release is asked for: public numbers, checked once, before anything is read or charged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.bounds import (
    Box,
    OnInvalid,
    OnMissing,
    RowNorm,
    box_of,
    by_column,
    ranges_by_name,
)
from eigenveil.mechanisms.registry import ComponentEntry, Entry, Releases
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost
from eigenveil.text import did_you_mean, listed
from eigenveil.wording import REPLACE_ONE, SAME_UNIT, option

__all__ = [
    "MAX_PRIVATE_RANK",
    "Centring",
    "Request",
    "encoded_scale",
    "half_ranges",
    "public_scale",
]

Centring = Literal["none", "mean", "located", "paired"]

MAX_PRIVATE_RANK = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """What one release is asked for; all of it public.

    Attributes
    ----------
    releases : {"components", "covariance"}
        What is wanted.
    budget, adjacency, unit
        How it is protected.
    n_columns : int
        Number of columns.
    n_rows : int or None
        Number of rows, or of persons, where it is public; None where it is not, or where rows can
        be read once only.
    rereadable : bool
        Whether rows can be read more than once.
    entry : Entry, optional
        The mechanism; None before one is chosen.
    reason : str
        Why it was chosen; empty where the caller did.
    n_components : int, float or "private", optional
        How many components; by default all. A number below 1 is a share of variance: then all are
        planned for, and the fewest that hold it are kept.
    row_norm : float or "private", optional
        Where rows are clipped.
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

    releases: Releases
    budget: Budget
    adjacency: Adjacency
    unit: Unit
    n_columns: int
    n_rows: int | None
    rereadable: bool = True
    entry: Entry | None = None
    reason: str = ""
    n_components: int | float | Literal["private"] | None = None
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
        if self.private_scale and self.box is not None:
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
    def mechanism(self) -> Entry:
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
        if wanted is None and isinstance(self.entry, ComponentEntry):
            wanted = self.entry.n_components
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
