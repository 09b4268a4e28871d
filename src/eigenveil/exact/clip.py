r"""What happens to one row before anything is summed.

A row x becomes integers k with :math:`\sum_j k_j^2 \le 2^{2b}`: it is clamped to the public
box, taken about the public centre c, divided by the public bound R, clipped to the unit ball
and rounded to multiples of 2^-b. Every step is a function of that row and of public numbers,
so the sums over rows have exactly the sensitivities of the unit ball. Rows that share a unit
share its ball: see `Clip.to_shares`.

A normalised row is scaled to the unit sphere whatever its length, so that its direction alone
counts and no bound R is needed; a row at the centre, or within 1e-145 of it, has no direction and
stays there. It is the limit of clipping at a radius of zero. With a released unit distance, rows
nearer than it are divided by it instead, so that the centre's error does not decide their
direction: that is clipping at this distance, in units of it.

An empty entry makes its row invalid, or lies at the centre: then it is zero in the row about the
centre, whatever happens to that row next. Proof: docs/proofs/missing.md.

A lifted row has one more coordinate, the constant :math:`\gamma R`, and the ball the radius
:math:`R\sqrt{1 + \gamma^2}`: the second moment then holds the sum and the count as well.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.messages import THOUSANDS, option
from eigenveil.numerics.kernels import Scaling, row_integers, row_squares, row_sum, squared_norms
from eigenveil.numerics.pair_shares import PairShares

FRACTION_BITS = 18  # b: 2**17 rows per exact BLAS sum, 2**27 rows per sum in int64
SHARE_BITS = 16  # more, of the shares of rows in a sum: exact for as many
NO_EXPONENT = 2044  # norms below R 2^-1022, the smallest normal float, count as zero
BLOCK_BYTES = 1 << 21  # rows prepared at a time, so that they stay in cache
_STRETCH_BITS = 26  # products of two unit vectors then stay below 2**53
NO_LENGTH = 1e-290  # squared norms below it have lost their digits
SMALLEST_NORM, LARGEST_NORM = 1e-50, 1e50  # others would overflow or vanish when squared
_FARTHEST = 1e150  # of an entry whose square is finite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """The public numbers that bound a row.

    Attributes
    ----------
    row_norm : float
        Rows further than this from the centre are pulled back to it.
    centre : array, optional
        Public or already released; the origin where absent.
    box : pair of arrays, optional
        Lowest and highest value of each column; entries outside are clamped.
    on_invalid : {"raise", "zero"}
        Whether a row with a non-finite entry stops the run or contributes nothing.
    on_missing : {"invalid", "centre"}
        Whether an empty entry (NaN) makes its row invalid or is taken as the centre's; an infinite
        one is invalid in either case.
    lift : float
        The constant coordinate of every valid row as a share of ``row_norm``; none if zero.
    centre_error : float
        What the error of a released centre is expected to add to the second moment, as a term of
        rank one in the caller's units.
    transform : array, optional
        Released matrix that rows about the centre are multiplied by before they are clipped.
    stretch : (array, float), optional
        Released directions, orthonormal rows, along which rows about the centre are stretched by
        the factor before they are clipped.
    present : array, optional
        Released share of the cells of each column that are not empty; what is made of sums then
        allows for those that are.
    pairs_present : PairShares, optional
        Released shares of rows that hold the cells of two columns; products then allow for others.
    normalise : bool
        Scale every row about the centre to length ``row_norm``, not only those beyond it.
    unit_distance : float
        Released distance from the centre that ends up as ``row_norm`` where rows are normalised;
        nearer rows stay shorter. Zero scales all of them.
    found_norm : float, optional
        Released distance at which rows were clipped on the way to the centre, for a search about it
        that finds none.

    """

    row_norm: float
    centre: NDArray[np.float64] | None = None
    box: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    on_invalid: Literal["raise", "zero"] = "raise"
    on_missing: Literal["invalid", "centre"] = "invalid"
    lift: float = 0.0
    centre_error: float = 0.0
    transform: NDArray[np.float64] | None = None
    stretch: tuple[NDArray[np.float64], float] | None = None
    present: NDArray[np.float64] | None = None
    pairs_present: PairShares | None = None
    normalise: bool = False
    unit_distance: float = 0.0
    found_norm: float | None = None

    def __post_init__(self) -> None:
        if not SMALLEST_NORM <= self.row_norm <= LARGEST_NORM:
            raise InvalidParameterError(
                option("row_norm"), " must be positive (between 1e-50 and 1e50)"
            )
        if self.on_invalid not in ("raise", "zero"):
            raise InvalidParameterError(option("on_invalid"), " must be 'raise' or 'zero'")
        if self.on_missing not in ("invalid", "centre"):
            raise InvalidParameterError(option("on_missing"), " must be 'invalid' or 'centre'")

    @property
    def leaves_out(self) -> bool:
        """Whether rows with empty cells are left out, rather than refused or filled."""
        return self.on_invalid == "zero" and self.on_missing == "invalid"

    @property
    def radius(self) -> float:
        """Radius of the ball that holds every row, lifted or not."""
        return self.row_norm * math.hypot(1.0, self.lift)

    @property
    def scales_all(self) -> bool:
        """Whether every row is scaled to the same length, the shortest one too."""
        return self.normalise and not self.unit_distance

    @property
    def known_trace(self) -> float:
        """Trace of the second moment of rows, if all have the same length; else not a number."""
        return self.row_norm**2 if self.scales_all else math.nan

    @property
    def reach(self) -> float:
        """Distance from the centre that longer rows are pulled in to: it becomes ``row_norm``."""
        return self.unit_distance if self.normalise and self.unit_distance else self.row_norm

    def width(self, n_columns: int) -> int:
        """Return the number of columns of an integer row."""
        return n_columns + (self.lift > 0)

    def to_integers(self, rows: NDArray[Any], out: NDArray[np.float64]) -> int:
        """Write integer rows, scaled by 2**b, to ``out`` and return how many rows were valid."""
        return int(rows.shape[0]) - len(self.to_shares(rows, out))

    def to_shares(
        self,
        rows: NDArray[Any],
        out: NDArray[np.float64],
        sizes: NDArray[np.int64] | None = None,
        *,
        linear: bool = False,
    ) -> NDArray[np.intp]:
        """Write what each row adds to a sum, scaled by 2**b, to ``out``; return the invalid ones.

        ``sizes`` holds for each row the number m of rows of its unit; 1 where absent. For a second
        moment: integers with a squared norm of at most 2**2b/m. For ``linear`` sums, where m > 1:
        multiples of 2**-SHARE_BITS with a norm of at most (2**b - sqrt(d))/m, so that rounding the
        whole sum to integers moves it no further than 2**b per unit.
        """
        with np.errstate(all="ignore"):  # a warning would depend on the records
            if sizes is None:
                return self._to_integers(rows, out)
            return self._to_shares(rows, out, sizes, linear)

    def sum_of_integers(self, rows: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return the sum of integer rows, all of them valid; None where `to_integers` has to look.

        Exact for up to 2^35 rows.
        """
        scaling = self.scaling(rows.shape[1])
        return None if scaling is None else row_sum(rows, scaling)

    def scaling(self, d: int) -> Scaling | None:
        """Return how rows become integers, where they are but moved and scaled."""
        if self.lift or not self._only_moves:
            return None
        return Scaling(
            self.centre,
            ball=ball_radius(d) * self.reach,
            scale=float(1 << FRACTION_BITS) / self.reach,
            normalise=self.scales_all,
            most=float(1 << 2 * FRACTION_BITS),
        )

    def _to_integers(self, rows: NDArray[Any], out: NDArray[np.float64]) -> NDArray[np.intp]:
        """`_to_shares` of rows that are units of their own, to the bit and with less to do."""
        d = rows.shape[1]
        one = float(1 << FRACTION_BITS) / math.hypot(1.0, self.lift)
        radius = ball_radius(out.shape[1])
        moved = out[:, :d]
        scaling = self.scaling(d)
        if scaling is not None and row_integers(rows, scaling, out):
            return np.empty(0, dtype=np.intp)
        invalid, squares = self._about_centre(rows, moved)
        if not np.isfinite(squares).all():
            return self._to_shares(rows, out, np.ones(len(rows), dtype=np.int64), False)
        factor = radius * self.reach / np.sqrt(squares)
        if self.scales_all:
            factor[squares < NO_LENGTH] = 0.0
        else:
            np.minimum(1.0, factor, out=factor)
        factor *= one / self.reach
        moved *= factor[:, None]
        if self.lift:
            out[:, d] = radius * self.lift * one
            out[invalid, d] = 0.0
        np.rint(out, out=out)
        # The entries are integers: a sum within 2**53 is exact, and one beyond it is not rounded
        # down to so little. Not a number fails too.
        inside = np.vecdot(out, out) <= float(1 << 2 * FRACTION_BITS)
        if not inside.all():
            out[~inside] = 0.0
        return invalid

    def _to_shares(
        self, rows: NDArray[Any], out: NDArray[np.float64], sizes: NDArray[np.int64], linear: bool
    ) -> NDArray[np.intp]:
        d = rows.shape[1]
        shared = np.flatnonzero(sizes > 1) if linear else np.empty(0, dtype=np.intp)
        roots = sizes.astype(np.float64) if linear else np.sqrt(sizes)
        one = float(1 << FRACTION_BITS) / roots
        scaled_one = one / math.hypot(1.0, self.lift)
        rounding = _rounding(out.shape[1])
        taken = (roots - 1) * rounding  # in a smaller ball, rounding takes a larger share
        taken[shared] = (roots[shared] * 2.0**-SHARE_BITS + 1) * rounding
        radius = np.maximum(0.0, ball_radius(out.shape[1]) - taken)
        moved = out[:, :d]
        invalid, squares = self._about_centre(rows, moved)
        huge = np.flatnonzero(~np.isfinite(squares))
        moved[huge] /= np.abs(moved[huge]).max(axis=1, initial=1.0, keepdims=True)
        # A row at the centre divides by zero: the minimum is then 1.
        shrink = radius * self.reach / np.sqrt(squares)
        if self.scales_all:
            shrink[squares < NO_LENGTH] = 0.0
        else:
            np.minimum(1.0, shrink, out=shrink)
        factor = shrink * (scaled_one / self.reach)
        # A row whose squared norm overflows lies outside the ball: only its direction counts.
        factor[huge] = radius[huge] * scaled_one[huge] / np.sqrt(squared_norms(moved[huge]))
        moved *= factor[:, None]
        if self.lift:
            out[:, d] = radius * self.lift * scaled_one
            out[invalid, d] = 0.0
        finer = np.rint(out[shared] * 2.0**SHARE_BITS) * 2.0**-SHARE_BITS
        np.rint(out, out=out)
        out[shared] = finer
        # The entries are integers: a sum within 2**53 is exact, and one beyond it is not rounded
        # down to so little. Not a number fails too.
        most = ((1 << 2 * FRACTION_BITS) // sizes).astype(np.float64)
        # That of finer entries is not: 2**-30 covers its rounding.
        most[shared] = ((1 - 2 * rounding) * one[shared]) ** 2 * (1 - 2.0**-30)
        squares = squared_norms(out) if len(shared) else np.vecdot(out, out)
        inside = squares <= most
        out[~inside] = 0.0
        return invalid

    def _about_centre(
        self, rows: NDArray[Any], moved: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Write clamped rows about the centre to ``moved``; invalid ones are zero.

        Returns the invalid ones and the squared norms of all, which may have overflowed.
        """
        # To float64 first: a wider float may only now become infinite.
        rows = rows.astype(np.float64) if rows.dtype.itemsize > 8 else rows
        if self.box is not None:
            moved[...] = rows
            invalid = self._invalid(rows, moved.sum(axis=1))
            np.clip(moved, *self.box, out=moved)
            if self.centre is not None:
                moved -= self.centre
            self._fill(rows, moved)
            moved[invalid] = 0.0
            squares = squared_norms(moved)
        else:
            if self.centre is None:
                moved[...] = rows
            else:
                np.subtract(rows, self.centre, out=moved)
            self._fill(rows, moved)
            squares = squared_norms(moved)
            invalid = self._invalid(rows, squares)
            moved[invalid] = 0.0
            squares[invalid] = 0.0
        if self.transform is not None:
            moved[...] = moved @ self.transform
        if self.stretch is not None:
            _stretch(moved, squares, *self.stretch)
        if self.transform is not None or self.stretch is not None:
            squares = squared_norms(moved)
        return invalid, squares

    def _fill(self, rows: NDArray[Any], moved: NDArray[np.float64]) -> None:
        """Empty entries of rows lie at the centre, which is zero in ``moved``."""
        if self.on_missing == "centre":
            moved[np.isnan(rows)] = 0.0

    def check(self, rows: NDArray[Any]) -> None:
        """Stop at a row that stops a run, before anything is charged."""
        with np.errstate(all="ignore"):
            rows = rows.astype(np.float64) if rows.dtype.itemsize > 8 else rows  # as they are read
            if not np.isfinite(rows.sum(dtype=np.float64)):  # of all: one that is not shows
                self._invalid(rows, rows.sum(axis=1, dtype=np.float64))

    def about_centre(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows about the centre before they are clipped; invalid ones are zero."""
        moved = np.empty(rows.shape)
        with np.errstate(all="ignore"):
            self._about_centre(rows, moved)
        return moved

    def coordinates(
        self, rows: NDArray[Any], directions: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return coordinates of rows along ``directions``: orthonormal, public or released.

        Those of an invalid row are NaN. Others are finite whatever the row, to 2^-26 of its length,
        and depend on no other row, to the last bit. With ``normalise`` the length is 1, or less
        within ``unit_distance`` of the centre, and 0 there.
        """
        moved = np.empty(rows.shape)
        with np.errstate(all="ignore"):
            invalid, _ = self._about_centre(rows, moved)
            np.clip(moved, -_FARTHEST, _FARTHEST, out=moved)
            products, lengths, _ = _products(moved, squared_norms(moved), directions)
            products /= float(1 << 2 * _STRETCH_BITS)
            if not self.normalise:
                products *= lengths[:, None]
            elif self.unit_distance:
                products *= np.minimum(1.0, lengths / self.unit_distance)[:, None]
        products[invalid] = np.nan
        return products

    def beside(self, rows: NDArray[Any], directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lengths of what rows about the centre have beside ``directions``, as `coordinates`."""
        unit = replace(self, row_norm=1.0, normalise=True, unit_distance=0.0)
        inside = unit.coordinates(rows, directions)
        moved = np.empty(rows.shape)
        with np.errstate(all="ignore"):
            self._about_centre(rows, moved)
            np.clip(moved, -_FARTHEST, _FARTHEST, out=moved)
            _, lengths, _ = _products(moved, squared_norms(moved), directions[:1])
            share = np.clip(1 - squared_norms(inside), 0.0, 1.0)
            return np.asarray(lengths * np.sqrt(share))

    def norm_exponents(self, rows: NDArray[Any], per_octave: int = 2) -> NDArray[np.int64]:
        """Return for each row the largest j >= 0 with |x| < R 2^(-j/per_octave), as floats decide.

        Rows beyond R have 0; rows at the centre and invalid ones have the last exponent, which is
        ``NO_EXPONENT`` for two per octave.
        """
        with np.errstate(all="ignore"):
            return octave_brackets(self.relative_norms(rows), per_octave)

    def invalid(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        """Return which rows are invalid; stop at one where these stop a run."""
        with np.errstate(all="ignore"):
            return self._invalid(rows, rows.sum(axis=1, dtype=np.float64))

    def relative_norms(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Norms about the centre as shares of R, zero for invalid rows."""
        return self._relative(rows, self._squares(rows))

    def relative_rows(
        self, rows: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
        """Return rows about the centre, their `relative_norms`, and which are invalid."""
        moved = np.empty(rows.shape)
        with np.errstate(all="ignore"):
            invalid, squares = self._about_centre(rows, moved)
            return moved, self._relative(rows, squares), invalid

    def _relative(self, rows: NDArray[Any], squares: NDArray[np.float64]) -> NDArray[np.float64]:
        norms = np.sqrt(squares)
        norms /= self.row_norm
        # Squares that lost their digits or overflowed are taken again, of a scaled row.
        far = np.flatnonzero(~((squares > NO_LENGTH) & np.isfinite(squares)))
        if len(far):
            moved = self.about_centre(rows[far])
            largest = np.abs(moved).max(axis=1, initial=0.0)
            scaled = moved / np.where(largest > 0, largest, 1.0)[:, None]
            norms[far] = largest / self.row_norm * np.sqrt(squared_norms(scaled))
        return norms

    def _squares(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Squared norms about the centre, zero for invalid rows."""
        squares = row_squares(rows, self.centre) if self._only_moves else None
        unmoved = self.centre is None or not self.centre.any()
        in_order = rows.dtype == np.float64 and rows.flags.c_contiguous  # of additions
        if squares is None and self._only_moves and unmoved and in_order:
            squares = squared_norms(rows)  # which need no copy
        if squares is None or not np.isfinite(squares).all():
            squares = np.empty(rows.shape[0])
            size = max(1, BLOCK_BYTES // (8 * rows.shape[1]))
            for start in range(0, rows.shape[0], size):
                block = rows[start : start + size]
                _, squares[start : start + size] = self._about_centre(block, np.empty(block.shape))
        return squares

    @property
    def _only_moves(self) -> bool:
        """Whether rows are taken about the centre, and nothing else is done to them."""
        return all(change is None for change in (self.box, self.transform, self.stretch))

    def _invalid(self, rows: NDArray[Any], sums: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return rows with a non-finite entry, which are among those with a non-finite sum."""
        finite = np.isfinite(sums)
        if finite.all():
            return np.empty(0, dtype=np.intp)
        suspects = np.flatnonzero(~finite)
        entries = rows[suspects]
        fills = self.on_missing == "centre"
        broken = np.isinf(entries) if fills else ~np.isfinite(entries)
        invalid = suspects[broken.any(axis=1)]
        if len(invalid) and self.on_invalid == "raise":
            if fills:
                raise InvalidDataError(
                    "a row holds an infinite value, or too few or too many cells, which ",
                    option("on_missing"),
                    " does not fill: clean the data, or pass ",
                    option("on_invalid", "zero"),
                    " to let such rows contribute nothing",
                )
            raise InvalidDataError(
                "a row holds a missing or infinite value, or text, or has too many cells: clean "
                "the data, choose numeric columns, ",
                THOUSANDS,
                ", pass ",
                option("on_missing", "centre"),
                " to take empty cells as the centre's, or ",
                option("on_invalid", "zero"),
                " to let such rows contribute nothing",
            )
        return np.asarray(invalid)


def octave_brackets(relative: NDArray[np.float64], per_octave: int = 2) -> NDArray[np.int64]:
    """Return the largest j >= 0 with r < 2^(-j/per_octave); 0 from 1 on, the last one for zero.

    The last one is `NO_EXPONENT` for two per octave.
    """
    last = NO_EXPONENT // 2 * per_octave
    fraction, exponents = np.frexp(relative)
    bins = -per_octave * exponents.astype(np.int64)
    for part in range(1, per_octave):
        bins += fraction < 2.0 ** (-part / per_octave)
    np.clip(bins, 0, last - 1, out=bins)
    bins[~(relative < 1.0)] = 0  # not a number: the row is beyond every bound
    bins[relative < np.finfo(np.float64).tiny] = last
    return bins


def ball_radius(d: int) -> float:
    """Return the radius, inside the ball, at which rows are clipped so that rounding stays in it.

    2**-30 covers the floating-point norm. A smaller ball without room for rounding holds zero.
    """
    radius = 1 - _rounding(d) - 2.0**-30
    if radius <= 0:
        raise InvalidParameterError("too many columns for exact sums")
    return radius


def _rounding(d: int) -> float:
    """Return what rounding adds to a norm at most: sqrt(d)/2 units."""
    return math.sqrt(d) * 2.0 ** -(FRACTION_BITS + 1)


def _stretch(
    rows: NDArray[np.float64],
    squares: NDArray[np.float64],
    directions: NDArray[np.float64],
    factor: float,
) -> None:
    """Rescale in place. A row keeps its digits; only its coordinates inside are rounded."""
    unit = float(1 << _STRETCH_BITS)
    products, lengths, basis = _products(rows, squares, directions)
    beside = np.matmul(np.rint(products / unit), basis)
    beside *= (lengths * ((factor - 1) / unit**2))[:, None]
    rows += beside


def _products(
    rows: NDArray[np.float64], squares: NDArray[np.float64], directions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return products of rows with directions, both rounded to 2^-26, and the directions.

    Products are of integers, of unit vectors: exact, so no row feels the others.
    """
    unit = float(1 << _STRETCH_BITS)
    lengths = np.sqrt(squares)
    huge = np.flatnonzero(~np.isfinite(squares))
    largest = np.abs(rows[huge]).max(axis=1, initial=1.0)
    lengths[huge] = largest * np.sqrt(squared_norms(rows[huge] / largest[:, None]))
    scale = unit / lengths
    scale[squares < NO_LENGTH] = 0.0  # such rows have no direction
    integers = rows * scale[:, None]
    np.rint(integers, out=integers)
    basis = np.rint(directions * unit)
    return integers @ basis.T, lengths, basis
