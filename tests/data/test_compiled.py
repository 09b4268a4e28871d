"""Compiled passes over rows beside those of numpy: the same to the last bit, whatever the rows."""

from itertools import product

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exact import Clip, total
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics import Circles, ColumnLimits, build, limited_rows, points_on_circles
from eigenveil.numerics import kernels as compiled
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows, row_hashes


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    library = build(tmp_path_factory.mktemp("compiled"))
    if library is None:
        pytest.skip("there is no C compiler")
    return library


@pytest.fixture
def both(built, monkeypatch):
    """What calls a function with compiled passes and with numpy."""

    def run(function):
        results = []
        for library in (built, built.with_name("none")):
            monkeypatch.setattr(compiled, "library_path", lambda library=library: library)
            compiled.library.cache_clear()
            assert (compiled.library() is None) == (library is not built)
            results.append(function())
        return results

    yield run
    compiled.library.cache_clear()


def tables():
    """Rows of every length and layout, ordinary ones and odd ones."""
    rng = np.random.default_rng(3)
    for d, n in product((1, 2, 3, 7, 8, 9, 30, 201), (1, 3, 4, 9)):
        yield rng.standard_normal((n, d))
    yield rng.standard_normal((5, 4101))
    rows = rng.standard_normal((40, 23)) * 10.0 ** rng.integers(-170, 150, (40, 1))
    rows[3], rows[4], rows[5, 7] = 0.0, 5e-324, -0.0
    yield from (rows, rows[:, ::2], rows[::-3], np.asfortranarray(rows), rows[:, 3:11])
    yield rows[:0]
    edge = rng.standard_normal((60, 30))  # about a sphere: inside, on it, outside
    lengths = 0.7 * (1 + rng.permutation(np.linspace(-3e-5, 1e-5, 60)))
    yield edge * (lengths / np.linalg.norm(edge, axis=1))[:, None]
    with np.errstate(over="ignore"):
        yield rows.astype(np.float32)
    yield (rows[6:8] * 1e3).astype(np.int64)
    unaligned = np.frombuffer(b" " + rows.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    yield unaligned.reshape(rows.shape)
    yield rows.astype(">f8")
    broken = rows.copy()
    broken[1, 2], broken[2, 0], broken[9, 5], broken[9, 6] = np.nan, np.inf, np.inf, -np.inf
    broken[20] = 1e200  # finite, and its square is not
    yield from (broken, broken.astype(np.float32))


def clips(d):
    centre = np.cos(np.arange(d) + 1.0)
    for row_norm, about, normalise in product((1e-50, 0.7, 1e50), (None, centre), (False, True)):
        yield Clip(row_norm=row_norm, centre=about, normalise=normalise, on_invalid="zero")
    yield Clip(row_norm=2.0, centre=centre, on_missing="centre", on_invalid="zero")
    yield Clip(row_norm=2.0, centre=centre, normalise=True, unit_distance=0.6, on_invalid="zero")
    yield Clip(row_norm=2.0, box=(-np.ones(d), np.ones(d)), on_invalid="zero")


@pytest.mark.filterwarnings("ignore:overflow")
def test_rows_norms_and_sums_are_those_of_numpy(both):
    def everything():
        found = []
        for rows in tables():
            for clip in clips(rows.shape[1]):
                integers = np.full(rows.shape, np.nan)
                invalid = clip.to_shares(rows, integers)
                found += [integers, invalid, clip.norm_exponents(rows)]
                if len(rows):
                    mean = total(open_rows(rows), clip, Adjacency.REPLACE_ONE)
                    found += [mean.value.units, mean.unit]
        return found

    for own, numpys in zip(*both(everything), strict=True):
        assert np.array_equal(own, numpys)


@pytest.mark.filterwarnings("ignore:overflow")
def test_hashes_are_those_of_numpy(both):
    for own, numpys in zip(*both(lambda: [row_hashes(rows) for rows in tables()]), strict=True):
        assert np.array_equal(own, numpys)


def test_an_invalid_row_stops_both(both):
    rows = np.ones((9, 4))
    rows[7, 1] = np.nan

    def stopped():
        for read in (Clip(row_norm=1.0).norm_exponents, Clip(row_norm=1.0).about_centre):
            with pytest.raises(InvalidDataError, match="missing or infinite"):
                read(rows)
        with pytest.raises(InvalidDataError, match="missing or infinite"):
            total(open_rows(rows), Clip(row_norm=1.0), Adjacency.REPLACE_ONE)

    both(stopped)


def test_fits_are_the_same(both):
    rows = np.random.default_rng(1).standard_normal((3000, 9)) + 4

    def fits():
        budget = {"epsilon": 2.0, "delta": 1e-6, "random_state": 7}
        components = PrivatePCA(2, **budget).fit(rows).components_
        removable = PrivatePCA(2, **budget, adjacency="add-remove").fit(rows).components_
        covariance = PrivateCovariance(**budget).fit(rows.astype(np.float32)).covariance_
        return components, removable, covariance

    for own, numpys in zip(*both(fits), strict=True):
        assert np.array_equal(own, numpys)


@pytest.mark.filterwarnings("ignore:overflow")
def test_points_on_circles_and_limits_are_those_of_numpy(both):
    for rows in tables():
        about = 0.3 + np.arange(rows.shape[1]) % 5
        narrow = ColumnLimits(scale=about, centre=about, turn=about, limit=0.2, fills=True)
        wide = ColumnLimits(scale=about, centre=-about, turn=9 * about)
        odd = rows.astype(np.float64)
        odd[:1, ::2], odd[1:2, ::3] = np.nan, -np.inf

        def changed(odd=odd, rows=rows, about=about, limits=(narrow, wide)):
            points = [compiled.circled(x, Circles(16 * about, 3, 2)) for x in (rows, odd)]
            limited = (compiled.limited(x, each) for x in (rows, odd) for each in limits)
            return [*points, *(part for pair in limited for part in pair)]

        for own, numpys in zip(*both(changed), strict=True):
            assert np.array_equal(own, numpys, equal_nan=True)


def test_sums_of_points_on_circles_are_those_of_numpy(built, monkeypatch):
    monkeypatch.setattr(compiled, "library_path", lambda: built)
    compiled.library.cache_clear()
    for d, number in product((1, 7, 16, 33, 201), (1, 2, 10)):
        rows = np.random.default_rng(d).standard_normal((50, d)) * 1e4
        circles = Circles(16 * (0.3 + np.arange(d) % 5), number, 2)
        points = points_on_circles(rows, circles).reshape(50, -1)
        clip = Clip(row_norm=1.01 * np.sqrt(number * d))
        scaling = clip.scaling(points.shape[1])
        integers = np.empty_like(points)
        assert clip.to_integers(points, integers) == 50
        found = compiled.circle_sum(rows, circles, scaling)
        assert np.array_equal(found, integers.sum(axis=0))
        rows[20, -1] = np.nan
        assert compiled.circle_sum(rows, circles, scaling) is None
        short = Clip(row_norm=0.9 * np.sqrt(number * d)).scaling(points.shape[1])
        assert compiled.circle_sum(rows[:20], circles, short) is None
    about = Clip(row_norm=100.0, centre=np.ones(points.shape[1])).scaling(points.shape[1])
    assert compiled.circle_sum(rows[:20], circles, about) is None
    compiled.library.cache_clear()


def test_rows_outside_the_ball_are_zero(built, monkeypatch):
    """Which clipping does not leave: the last guard, should it fail."""
    monkeypatch.setattr(compiled, "library_path", lambda: built)
    compiled.library.cache_clear()
    rows = np.array([[3.0, 4.0], [0.0, 2.0], [6.0, 8.0], [0.3, 0.4], [5.0, 0.0]])
    scaling = compiled.Scaling(None, ball=100.0, scale=1.0, normalise=False, most=25.0)
    out = np.empty_like(rows)
    assert compiled.row_integers(rows, scaling, out)
    inside = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    assert np.array_equal(out, inside)
    assert np.array_equal(compiled.row_sum(rows, scaling), inside.sum(axis=0))
    compiled.library.cache_clear()


def turned(rows, circles):
    return np.negative(points_on_circles(rows, circles))


def limited_elsewhere(rows, limits):
    found, changed = limited_rows(rows, limits)
    return found, ~changed


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("squared_norms", lambda rows: (rows[:, ::-1] ** 2).cumsum(1)[:, -1]),
        ("points_on_circles", turned),
        ("limited_rows", limited_elsewhere),
    ],
)
def test_what_differs_from_numpy_is_not_used(built, monkeypatch, name, other):
    monkeypatch.setattr(compiled, "library_path", lambda: built)
    monkeypatch.setattr(compiled, name, other)
    compiled.library.cache_clear()
    assert compiled.library() is None
    compiled.library.cache_clear()


def test_without_a_compiler_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build(tmp_path) is None
    assert not list(tmp_path.iterdir())
