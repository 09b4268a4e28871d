"""What one row can contribute, for every row there is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eigenveil.exact import FRACTION_BITS, Clip
from eigenveil.exact import clip as clip_module
from eigenveil.exceptions import InvalidDataError, InvalidParameterError

ONE = 1 << FRACTION_BITS
anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=anything)


def integers(clip, rows):
    rows = np.atleast_2d(rows)
    out = np.empty(rows.shape)
    clip.to_integers(rows, out)
    return out


@given(tables, st.floats(1e-50, 1e50), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_row_becomes_integers_inside_the_unit_ball(rows, norm, centred, boxed):
    d = rows.shape[1]
    clip = Clip(
        row_norm=norm,
        centre=np.full(d, 1e3) if centred else None,
        box=(np.full(d, -5.0), np.full(d, 7.0)) if boxed else None,
        on_invalid="zero",
    )
    out = integers(clip, rows)
    assert np.array_equal(out, np.rint(out))
    for row, source in zip(out, rows, strict=True):
        assert sum(int(k) ** 2 for k in row) <= ONE**2
        if not np.isfinite(source).all():
            assert not row.any()


@given(tables, st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_row_is_treated_alike_in_any_company(rows, normalise):
    clip = Clip(row_norm=2.0, on_invalid="zero")
    if normalise:
        clip = directions(rows.shape[1], centre=np.full(rows.shape[1], 0.1), on_invalid="zero")
    together = integers(clip, rows)
    for i, row in enumerate(rows):
        assert np.array_equal(together[i], integers(clip, row)[0])


def directions(d, **options):
    """Normalised rows, stretched along two orthonormal directions or the only one."""
    turned = np.linalg.qr(np.vander(np.arange(1.0, d + 1), d))[0][:2] if d < 50 else wavy(d)
    return Clip(row_norm=1.0, normalise=True, stretch=(turned, 0.05), **options)


def wavy(d):
    return np.sqrt(2 / d) * np.cos(np.pi / d * np.outer([1, 2], np.arange(d) + 0.5))


@given(tables, st.floats(1e-50, 1e50), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_normalised_row_lies_inside_the_unit_ball(rows, norm, stretched, lifted):
    n, d = rows.shape
    clip = replace(directions(d), row_norm=norm, on_invalid="zero", lift=0.5 if lifted else 0.0)
    if not stretched:
        clip = replace(clip, stretch=None, centre=np.full(d, 1e3))
    out = np.empty((n, clip.width(d)))
    clip.to_integers(rows, out)
    assert np.array_equal(out, np.rint(out))
    for row, source in zip(out, rows, strict=True):
        assert sum(int(k) ** 2 for k in row) <= ONE**2
        if not np.isfinite(source).all():
            assert not row.any()


@pytest.mark.parametrize("size", [1e-140, 1e-50, 1e-3, 1.0, 1e50, 1e160, 1e307])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_a_normalised_row_lies_on_the_sphere_up_to_rounding(size, d):
    """The radius gives up sqrt(d)/2 units of 2^-18 and rounding at most as much again."""
    rows = np.random.default_rng(0).standard_normal((20, d)) * size
    for row_norm in (1e-20, 1.0, 1e20):
        out = integers(Clip(row_norm=row_norm, normalise=True), rows)
        lengths = np.linalg.norm(out, axis=1) / ONE
        assert (lengths >= 1 - (np.sqrt(d) + 1) / ONE).all()
        assert (lengths <= 1).all()
        largest = np.abs(rows).max(axis=1, keepdims=True)
        scaled = rows / largest
        expected = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        assert np.abs(out / ONE - expected).max() < (np.sqrt(d) + 2) / ONE


def test_a_row_without_a_direction_counts_for_nothing():
    centre = np.array([3.0, -1.0])
    clip = Clip(row_norm=1.0, centre=centre, normalise=True, on_invalid="zero")
    assert not integers(clip, [centre, [np.nan, 1.0], [np.inf, 1.0]]).any()
    near = np.nextafter(centre, 9.0)
    assert np.linalg.norm(integers(clip, near)) > 0.999 * ONE
    about_zero = Clip(row_norm=1.0, normalise=True)
    assert not integers(about_zero, [[0.0, 0.0], [5e-324, 0.0], [1e-160, 1e-160]]).any()
    assert not integers(about_zero, [5e-146, 5e-146]).any()
    lifted = np.empty((1, 3))
    replace(about_zero, lift=1.0).to_integers(np.zeros((1, 2)), lifted)
    assert lifted[0] / ONE == pytest.approx([0, 0, 0.5**0.5], abs=1e-4)
    far = replace(clip, centre=np.array([-1e308, 0.0]))
    assert not integers(far, [1.5e308, 0.0]).any()  # the difference overflows
    with pytest.raises(InvalidDataError):
        integers(replace(clip, on_invalid="raise"), [np.nan, 1.0])


@given(tables, st.floats(1e-50, 1e50), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_unit_distance_is_a_clipping_radius_in_other_units(rows, distance, lifted, shared):
    """To the bit: the ball that holds all rows, and the sensitivities, are those of clipping."""
    n, d = rows.shape
    lift = 0.5 if lifted else 0.0
    unit = Clip(row_norm=7.0, normalise=True, unit_distance=distance, on_invalid="zero", lift=lift)
    clipped = Clip(row_norm=distance, on_invalid="zero", lift=lift)
    sizes = np.full(n, 3) if shared else None
    ours, theirs = np.empty((2, n, unit.width(d)))
    assert np.array_equal(unit.to_shares(rows, ours, sizes), clipped.to_shares(rows, theirs, sizes))
    assert np.array_equal(ours, theirs)


def test_rows_within_the_unit_distance_stay_shorter_than_one():
    clip = Clip(row_norm=1.0, centre=np.ones(2), normalise=True, unit_distance=5.0)
    out = integers(clip, [[1.0, 1.0], [2.0, 1.0], [4.0, 5.0], [31.0, 41.0]]) / ONE
    expected = [[0.0, 0.0], [0.2, 0.0], [0.6, 0.8], [0.6, 0.8]]
    assert out == pytest.approx(np.array(expected), abs=3 / ONE)
    coordinates = clip.coordinates(np.array([[2.0, 1.0], [31.0, 41.0]]), np.eye(2))
    assert coordinates == pytest.approx(np.array([[0.2, 0.0], [0.6, 0.8]]), abs=1e-7)
    beside = clip.beside(np.array([[4.0, 5.0]]), np.eye(2)[:1])
    assert beside == pytest.approx([4.0], abs=1e-6)


def test_a_stretch_acts_along_its_directions_alone():
    first, second = np.array([0.6, 0.8, 0.0]), np.array([0.0, 0.0, 1.0])
    third = np.array([0.8, -0.6, 0.0])
    clip = Clip(row_norm=10.0, stretch=(np.stack([first, second]), 0.5))
    out = integers(clip, 4 * first + 2 * second + 3 * third)[0] / ONE * 10
    assert out == pytest.approx(2 * first + second + 3 * third, abs=1e-3)
    again = integers(replace(clip, normalise=True), 4 * first + 2 * second + 3 * third)[0]
    assert again / ONE == pytest.approx((2 * first + second + 3 * third) / 14**0.5, abs=1e-4)


@pytest.mark.parametrize("radius", [1.5, float("nan"), float("inf")])
def test_whatever_goes_wrong_before_it_the_exact_check_holds(radius, monkeypatch):
    """The last line of defence: a row that is not provably inside the ball counts for nothing."""
    monkeypatch.setattr(clip_module, "ball_radius", lambda d: radius)
    out = integers(Clip(row_norm=1.0), [[3.0, 4.0], [1e300, 1e300]])
    assert not out.any()


def test_a_wide_row_is_treated_alike_in_any_company():
    """Beyond numpy's buffer of 8,192 the order of its sums depends on the number of rows."""
    rows = np.random.default_rng(0).standard_normal((5, 10_000))
    rows[3] *= 1e200  # its square overflows
    for clip in (Clip(row_norm=30.0), directions(10_000)):
        together = integers(clip, rows)
        for i in range(5):
            assert np.array_equal(together[i], integers(clip, rows[i])[0])
    for i in range(5):
        alone = clip_module.squared_norms(rows[i : i + 1])
        assert alone[0] == clip_module.squared_norms(rows)[i]


@pytest.mark.parametrize("d", [23, 784, 9000])
def test_a_stretched_row_is_treated_alike_in_any_company(d):
    """Its product with the directions is a product of matrices, but of integers."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((16, d)) * np.exp(5 * rng.standard_normal((16, 1)))
    directions = np.linalg.qr(rng.standard_normal((d, 3)))[0].T
    for factor in (0.2, 7.0):
        clip = Clip(row_norm=1.0, normalise=True, stretch=(directions, factor))
        together = integers(clip, rows)
        for size in (1, 3, 8):
            apart = [integers(clip, rows[i : i + size]) for i in range(0, 16, size)]
            assert np.array_equal(np.concatenate(apart), together)
        expected = rows + (factor - 1) * rows @ directions.T @ directions
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert together / ONE == pytest.approx(expected, abs=4 / ONE)


@pytest.mark.parametrize("d", [3, 64, 784])
def test_a_stretched_row_has_the_same_bits_in_any_company(d):
    """Before it is rounded: products of floats would differ in their last bits."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((48, d))
    basis = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    clip = Clip(row_norm=1.0, normalise=True, stretch=(basis, 3.0))
    together = clip.about_centre(rows)
    for i in range(48):
        assert np.array_equal(together[i], clip.about_centre(rows[i : i + 1])[0])


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e200, 1e305])
def test_stretched_rows_of_any_length(size):
    directions = np.array([[0.6, 0.8, 0.0]])
    clip = Clip(row_norm=1.0, normalise=True, stretch=(directions, 3.0))
    out = integers(clip, [0.6 * size, 0.8 * size, 3.0 * size])[0] / ONE
    expected = np.array([0.6, 0.8, 1.0]) / 2**0.5 if size > 1e-145 else np.zeros(3)
    assert out == pytest.approx(expected, abs=2 / ONE)


def test_inside_rows_keep_their_value_and_outside_rows_their_direction():
    clip = Clip(row_norm=10.0)
    assert integers(clip, [3.0, 4.0])[0] / ONE == pytest.approx([0.3, 0.4], abs=2 / ONE)
    assert integers(clip, [30.0, 40.0])[0] / ONE == pytest.approx([0.6, 0.8], abs=2 / ONE)
    assert integers(clip, [6.0, 8.0])[0] / ONE == pytest.approx([0.6, 0.8], abs=2 / ONE)  # on it


@pytest.mark.parametrize("size", [1e155, 1e300, 1.7e308])
def test_huge_rows_keep_their_direction(size):
    out = integers(Clip(row_norm=1.0, centre=np.array([1.0, -1.0])), [size, -size])[0] / ONE
    assert out == pytest.approx([0.5**0.5, -(0.5**0.5)], abs=1e-4)


def test_the_box_clamps_before_the_ball():
    clip = Clip(row_norm=100.0, box=(np.zeros(2), np.full(2, 16.0)), centre=np.full(2, 8.0))
    assert integers(clip, [1e9, -1e9])[0] / ONE == pytest.approx([0.08, -0.08], abs=1e-4)


def test_zero_rows_and_rows_at_the_centre():
    assert not integers(Clip(row_norm=1.0), np.zeros((3, 4))).any()
    assert not integers(Clip(row_norm=1.0, centre=np.ones(4)), np.ones((1, 4))).any()
    assert not integers(Clip(row_norm=1.0), np.full((1, 4), 1e-300)).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("box", [None, (np.zeros(2), np.ones(2))])
def test_non_finite_rows_raise_without_naming_a_value(bad, box):
    with pytest.raises(InvalidDataError) as caught:
        integers(Clip(row_norm=1.0, box=box), [[0.123456, bad]])
    assert "0.123456" not in str(caught.value)
    assert "on_invalid='zero'" in str(caught.value)
    assert not integers(Clip(row_norm=1.0, box=box, on_invalid="zero"), [[0.5, bad]]).any()


def test_a_row_whose_sum_overflows_is_valid():
    assert integers(Clip(row_norm=1.0), [1.7e308, 1.7e308]).any()


@pytest.mark.parametrize("box", [None, (np.full(2, -5.0), np.full(2, 5.0))])
def test_a_float_too_wide_for_float64_is_an_invalid_row(box):
    wide = np.array([[np.longdouble(10) ** 400, 1], [np.longdouble(1) / 3, 0]])
    if not np.isfinite(wide).all():
        pytest.skip("long double is float64 here")
    out = integers(Clip(row_norm=1.0, box=box, on_invalid="zero"), wide)
    assert not out[0].any()
    assert out[1, 0] == np.rint(ONE / 3)
    with pytest.raises(InvalidDataError):
        integers(Clip(row_norm=1.0, box=box), wide)


def test_a_huge_row_is_clamped_to_a_huge_box():
    box = (np.full(2, -1e160), np.full(2, 1e160))
    out = integers(Clip(row_norm=1.0, box=box), [1e200, 1e160])[0] / ONE
    assert out == pytest.approx([0.5**0.5, 0.5**0.5], abs=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
def test_other_dtypes(dtype):
    rows = np.array([[1, 0], [0, 1]], dtype=dtype)
    assert np.array_equal(
        integers(Clip(row_norm=2.0), rows), integers(Clip(row_norm=2.0), rows.astype(float))
    )


@pytest.mark.parametrize("norm", [0.0, -1.0, np.nan, np.inf, 1e-61, 1e61])
def test_impossible_norms_are_refused(norm):
    with pytest.raises(InvalidParameterError, match="row_norm"):
        Clip(row_norm=norm)


def test_unknown_policies_are_refused():
    with pytest.raises(InvalidParameterError, match="on_invalid"):
        Clip(row_norm=1.0, on_invalid="drop")


@pytest.mark.parametrize("d", [1, 2, 7, 100, 10_000])
def test_stretched_rows_of_wild_lengths_are_treated_alike_in_any_company(d):
    """Its coordinates are sums too, and what they give is exact only if no other row has a say."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((9, d)) * 10.0 ** rng.integers(-160, 160, (9, 1))
    rows[0] = 0.0
    directions = np.linalg.qr(rng.standard_normal((d, min(d, 3))))[0].T
    clip = Clip(row_norm=1.0, stretch=(directions, 7.0), normalise=True)
    together = integers(clip, rows)
    for i, row in enumerate(rows):
        assert np.array_equal(together[i], integers(clip, row)[0])
    assert not together[0].any()


def test_a_stretched_row_has_the_length_of_any_other():
    """Along the directions seven times as much as before, relative to the rest."""
    row = np.array([3.0, 4.0, 12.0])
    clip = Clip(row_norm=1.0, stretch=(np.eye(3)[:1], 7.0), normalise=True)
    expected = np.array([21.0, 4.0, 12.0]) / np.linalg.norm([21.0, 4.0, 12.0])
    assert integers(clip, row)[0] / 2.0**18 == pytest.approx(expected, abs=2.0**-17)


@given(tables, st.booleans(), st.sampled_from([0.0, 0.5]))
@settings(max_examples=100, deadline=None)
def test_rows_that_are_units_of_their_own_are_the_same_integers_as_shares(rows, normalise, lift):
    n, d = rows.shape
    clip = Clip(row_norm=2.0, on_invalid="zero", normalise=normalise, lift=lift)
    alone, shared = np.empty((2, n, clip.width(d)))
    invalid = clip.to_shares(rows, alone)
    assert np.array_equal(invalid, clip.to_shares(rows, shared, np.ones(n, dtype=np.int64)))
    assert np.array_equal(alone, shared)


@given(tables)
@settings(max_examples=100, deadline=None)
def test_rows_about_the_origin_need_no_copy_for_their_distances(rows):
    clip = Clip(row_norm=1e3, on_invalid="zero")
    before = rows.copy()
    found = clip.norm_exponents(rows)
    assert np.array_equal(rows, before, equal_nan=True)
    for same in (np.asfortranarray(rows), rows.astype(np.longdouble)):
        assert np.array_equal(clip.norm_exponents(same), found)
    boxed = replace(clip, box=(np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)))
    assert np.array_equal(boxed.norm_exponents(rows), found)
