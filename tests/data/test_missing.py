"""Empty cells taken as the centre's: a function of each row and of public numbers alone."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import (
    Clip,
    column_counts,
    count,
    moment_products,
    norm_counts,
    second_moment,
    total,
)
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import Adjacency
from eigenveil.rows import Divide, PairedSource, open_rows

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
D = 5
CENTRE = np.array([0.3, -0.2, 0.0, 0.1, 7.0])
BOX = (np.full(D, -1.0), np.full(D, 1.5))
CLIPS = {
    "plain": Clip(row_norm=2.0, on_missing="centre"),
    "centre": Clip(row_norm=2.0, centre=CENTRE, on_missing="centre"),
    "box": Clip(row_norm=2.0, centre=CENTRE, box=BOX, on_missing="centre"),
    "directions": Clip(row_norm=1.0, centre=CENTRE, normalise=True, on_missing="centre"),
    "lifted": Clip(row_norm=2.0, centre=CENTRE, lift=0.5, on_missing="centre"),
    "stretched": Clip(
        row_norm=2.0, centre=CENTRE, stretch=(np.eye(D)[:1], 3.0), on_missing="centre"
    ),
    "transformed": Clip(
        row_norm=2.0, centre=CENTRE, transform=np.diag([1.0, 2, 3, 4, 5]), on_missing="centre"
    ),
}
EVERY = pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
QUERIES = [norm_counts, column_counts, second_moment, moment_products, total]


def holes(n=40, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, D))
    rows[rng.random((n, D)) < 0.2] = np.nan
    rows[0] = np.nan
    return rows


def by_hand(rows, clip):
    """What the rows are about the centre, with zeros for empty cells."""
    centre = np.zeros(D) if clip.centre is None else clip.centre
    inside = rows if clip.box is None else np.clip(rows, *clip.box)
    return np.where(np.isnan(rows), 0.0, inside - centre)


@EVERY
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_filling_is_putting_the_cell_at_the_centre(clip, query, adjacency):
    """Of rows moved and filled beforehand, every statistic is the same to the last bit."""
    if query is total and clip.lift:
        pytest.skip("a lifted row has its sum in the second moment")
    rows = holes()
    known = replace(clip, centre=None, box=None, on_missing="invalid")
    filled = query(open_rows(rows), clip, adjacency).value.units
    assert np.array_equal(
        filled, query(open_rows(by_hand(rows, clip)), known, adjacency).value.units
    )
    dropped = replace(clip, on_missing="invalid", on_invalid="zero")
    assert (filled != query(open_rows(rows), dropped, adjacency).value.units).any()


@EVERY
def test_a_row_is_filled_alone(clip):
    """Whatever the company, its order and its chunks."""
    rows = holes()
    out = np.empty((len(rows), clip.width(D)))
    clip.to_integers(rows, out)
    for i, row in enumerate(rows):
        alone = np.empty((1, clip.width(D)))
        assert clip.to_integers(row[None], alone) == 1
        if clip.transform is None:  # a product whose rounding is not declared exact
            assert np.array_equal(alone[0], out[i])
    assert (out[0, :D] == 0).all()  # a row of empty cells lies at the centre
    assert ((out**2).sum(axis=1) <= 2.0**36).all()


def test_empty_rows_are_valid_and_counted():
    clip = CLIPS["centre"]
    assert count(open_rows(holes(7)), clip).value.to_float().item() == 7.0
    lifted = np.empty((1, D + 1))
    CLIPS["lifted"].to_integers(np.full((1, D), np.nan), lifted)
    assert lifted[0, -1] > 0
    assert norm_counts(open_rows(holes(1)), clip, REPLACE).value.units[-1] == 1


@EVERY
def test_infinite_cells_stay_invalid(clip):
    rows = holes()
    rows[3, 1], rows[3, 2] = np.inf, np.nan
    rows[4] = -np.inf
    for read in (clip.check, clip.about_centre, clip.norm_exponents):
        with pytest.raises(InvalidDataError, match=r"infinite value, .* which on_missing does"):
            read(rows)
    kind = replace(clip, on_invalid="zero")
    assert (kind.about_centre(rows)[3:5] == 0).all()
    out = np.empty((len(rows), clip.width(D)))
    assert kind.to_integers(rows, out) == len(rows) - 2
    assert (out[3:5] == 0).all()


def test_by_default_an_empty_cell_makes_its_row_invalid():
    with pytest.raises(InvalidDataError, match="on_missing='centre'"):
        Clip(row_norm=1.0).check(holes())
    with pytest.raises(InvalidParameterError, match="on_missing must be"):
        Clip(row_norm=1.0, on_missing="mean")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int8, bool])
def test_other_types_of_numbers(dtype):
    rows = np.ones((3, D), dtype=dtype)
    if np.dtype(dtype).kind == "f":
        rows[1, 2] = np.nan
    moved = CLIPS["centre"].about_centre(rows)
    expected = np.where(np.isnan(rows.astype(float)), 0.0, 1.0 - CENTRE)
    assert moved == pytest.approx(expected)


def difference(first, second, clip):
    source = PairedSource(open_rows(np.array([first, second])), REPLACE, np.arange)
    return clip.about_centre(next(iter(source.chunks())))[0]


def test_a_cell_empty_in_either_row_of_a_pair_is_no_difference():
    clip, nan = Clip(row_norm=1.0, on_missing="centre"), math.nan
    assert difference([1.0, nan, 4.0], [3.0, 5.0, nan], clip) == pytest.approx([-1.0, 0.0, 0.0])
    for one, other in ([np.inf, nan], [nan, -np.inf], [np.inf, np.inf], [np.inf, -np.inf]):
        with pytest.raises(InvalidDataError):
            difference([one, 1.0], [other, 1.0], clip)


def test_empty_cells_have_no_scale_and_keep_none():
    rows = holes(400)
    clip = Clip(row_norm=1e50, on_missing="centre")
    counts = column_counts(open_rows(rows), clip, REPLACE).value.units
    assert np.array_equal(counts.sum(axis=1), np.isfinite(rows).sum(axis=0))
    scaled = next(iter(open_rows(rows).map(Divide(np.full(D, 2.0))).chunks()))
    assert np.array_equal(np.isnan(scaled), np.isnan(rows))


def size(gap, norm):
    symmetric = gap.ndim == 2 and gap.shape[0] == gap.shape[1]
    if norm == "nuclear":
        return np.abs(np.linalg.eigvalsh(gap)).sum()
    if norm == "l1":
        return np.abs(gap[np.triu_indices(len(gap))] if symmetric else gap).sum()
    return np.abs(gap).max() if norm == "linf" else math.sqrt((gap**2).sum())


@EVERY
@pytest.mark.parametrize("query", [norm_counts, column_counts, second_moment, total])
def test_sensitivities_hold_for_rows_with_any_cells_empty(clip, query):
    """Also between a row and itself with one cell more, or less."""
    if query is total and clip.lift:
        pytest.skip("a lifted row has its sum in the second moment")
    company = holes(6, seed=2)
    full = np.full(D, 1e9)
    some, one = full.copy(), full.copy()
    some[1:4], one[2] = np.nan, np.nan
    candidates = [full, -full, some, one, np.full(D, np.nan), np.zeros(D), np.eye(D)[0]]
    for adjacency in (REPLACE, ADD):
        for row in candidates:
            left = query(open_rows(np.vstack([company, row])), clip, adjacency)
            for other in candidates if adjacency is REPLACE else [None]:
                rows = company if other is None else np.vstack([company, other])
                right = query(open_rows(rows), clip, adjacency)
                gap = (left.value.units - right.value.units) * 2.0**left.value.exponent
                for norm, bound in left.sensitivities.items():
                    assert size(gap, norm) <= bound * (1 + 1e-12)
