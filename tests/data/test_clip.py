"""What one row can contribute, for every row there is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eigenveil.data import clip as clip_module
from eigenveil.data.clip import FRACTION_BITS, Clip
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
@settings(max_examples=400, deadline=None)
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


@given(tables)
@settings(max_examples=100, deadline=None)
def test_a_row_is_treated_alike_in_any_company(rows):
    clip = Clip(row_norm=2.0, on_invalid="zero")
    together = integers(clip, rows)
    for i, row in enumerate(rows):
        assert np.array_equal(together[i], integers(clip, row)[0])


@pytest.mark.parametrize("radius", [1.5, float("nan"), float("inf")])
def test_whatever_goes_wrong_before_it_the_exact_check_holds(radius, monkeypatch):
    """The last line of defence: a row that is not provably inside the ball counts for nothing."""
    monkeypatch.setattr(clip_module, "_radius", lambda d: radius)
    out = integers(Clip(row_norm=1.0), [[3.0, 4.0], [1e300, 1e300]])
    assert not out.any()


def test_a_wide_row_is_treated_alike_in_any_company():
    """Beyond numpy's buffer of 8,192 the order of its sums depends on the number of rows."""
    rows = np.random.default_rng(0).standard_normal((5, 10_000))
    clip = Clip(row_norm=30.0)
    together = integers(clip, rows)
    for i in range(5):
        assert np.array_equal(together[i], integers(clip, rows[i])[0])
        alone = clip_module._squared_norms(rows[i : i + 1])
        assert alone[0] == clip_module._squared_norms(rows)[i]


@pytest.mark.parametrize("d", [23, 784, 9000])
def test_a_stretched_row_is_treated_alike_in_any_company(d):
    """Its product with the directions is a product of matrices, but of integers."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((40, d)) * np.exp(5 * rng.standard_normal((40, 1)))
    directions = np.linalg.qr(rng.standard_normal((d, 3)))[0].T
    for factor in (0.2, 7.0):
        clip = Clip(row_norm=1.0, normalise=True, stretch=(directions, factor))
        together = integers(clip, rows)
        for size in (1, 3, 8):
            apart = [integers(clip, rows[i : i + size]) for i in range(0, 40, size)]
            assert np.array_equal(np.concatenate(apart), together)
        expected = rows + (factor - 1) * rows @ directions.T @ directions
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert together / ONE == pytest.approx(expected, abs=4 / ONE)


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
