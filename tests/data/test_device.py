"""Rows on devices: the same integers in every namespace, summed exactly."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.engines import DeviceSource, adds_exactly, device
from eigenveil.exact import (
    LARGEST_NORM,
    Clip,
    DistanceCounts,
    ExponentCounts,
    MomentSum,
    MomentSums,
    SquareSum,
    UnitCount,
    VectorSum,
    moment_products,
)
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics import integers, squared_norms
from eigenveil.privacy import Adjacency
from eigenveil.rows import ArraySource, Divide, count_checked, open_rows, sampled

pytest.importorskip("array_api_compat")
SUMS = (MomentSum, SquareSum, VectorSum, UnitCount, ExponentCounts, DistanceCounts)


def strict(rows):
    namespace = pytest.importorskip("array_api_strict")
    return namespace.asarray(rows)


def torch(rows):
    library = pytest.importorskip("torch", reason="PyTorch is not installed")
    return library.as_tensor(rows)


@pytest.fixture(params=[strict, torch], ids=lambda make: make.__name__)
def moved(request):
    return request.param


def odd_rows(d=9):
    """Rows of all sizes, at the centre, too long to square, too short to, and ordinary ones."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, d)) * 10.0 ** rng.uniform(-3, 3, (400, 1))
    rows[0], rows[1], rows[2] = 0.0, 1e200, 1e-200
    rows[3, 1:] = 0.0
    return rows


CLIPS = {
    "clipped": Clip(row_norm=5.0),
    "unit": Clip(row_norm=1.0, normalise=True),
    "unit from a distance on": Clip(row_norm=1.0, normalise=True, unit_distance=2.0),
    "centred": Clip(row_norm=5.0, centre=np.linspace(-1, 1, 9)),
    "boxed": Clip(row_norm=9.0, box=(np.full(9, -2.0), np.full(9, 3.0)), centre=np.full(9, 0.5)),
    "any": Clip(row_norm=LARGEST_NORM),
}


@pytest.mark.parametrize("name", CLIPS)
def test_sums_are_those_of_the_host(moved, name, monkeypatch):
    # Norms are added in the order of the device on both sides: all else is equal to the bit.
    def pairwise(rows):
        return device._squared_norms(np, rows)

    monkeypatch.setattr("eigenveil.exact.clip.squared_norms", pairwise)
    monkeypatch.setattr("eigenveil.numerics.kernels.library", lambda: None)
    clip, rows = CLIPS[name], odd_rows()
    there = DeviceSource(moved(rows))
    for kind in SUMS:
        for one, other in zip(
            there.summed(kind(clip)), kind(clip).of(ArraySource(rows)), strict=True
        ):
            assert np.array_equal(one, other), kind


def test_the_order_of_a_sum_changes_single_units_at_most(moved):
    rows = np.random.default_rng(1).standard_normal((2000, 40))
    ours = DeviceSource(moved(rows)).summed(VectorSum(Clip(row_norm=4.0)))[0] >> 16
    host = VectorSum(Clip(row_norm=4.0)).of(ArraySource(rows))[0] >> 16
    assert np.abs(ours - host).max() <= 2
    assert np.allclose(device._squared_norms(np, rows), squared_norms(rows), rtol=1e-14)


@pytest.mark.parametrize(("on_invalid", "on_missing"), [("zero", "invalid"), ("zero", "centre")])
def test_rows_that_are_not_finite_count_as_on_the_host(moved, on_invalid, on_missing):
    rows = np.random.default_rng(2).integers(-3, 4, (50, 6)).astype(float)
    rows[1, 2], rows[5, 0], rows[7] = np.nan, np.inf, np.nan
    clip = Clip(row_norm=64.0, centre=np.ones(6), on_invalid=on_invalid, on_missing=on_missing)
    for kind in SUMS:  # whole numbers: norms are exact in any order
        found = DeviceSource(moved(rows)).summed(kind(clip))
        assert all(map(np.array_equal, found, kind(clip).of(ArraySource(rows))))


def test_a_row_that_stops_a_run_stops_it_without_a_word_of_it(moved):
    rows = np.ones((20, 3))
    rows[4, 1] = np.inf
    source = DeviceSource(moved(rows))
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        source.summed(MomentSum(Clip(row_norm=1.0)))
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        count_checked(source, Clip(row_norm=1.0).check)


def test_a_row_depends_on_no_other_one(moved, monkeypatch):
    rows = odd_rows()
    clip = CLIPS["centred"]
    whole = DeviceSource(moved(rows)).summed(MomentSum(clip))[0]
    monkeypatch.setattr(device, "_ENTRIES", 9 * 7)  # seven rows at a time
    mixed = DeviceSource(moved(rows[np.random.default_rng(3).permutation(len(rows))]))
    assert np.array_equal(mixed.summed(MomentSum(clip))[0], whole)


def test_sums_beyond_int64_are_exact(moved, monkeypatch):
    """Two parts at a time are added there; numbers of 40 bits are taken for the largest."""
    rows, clip = odd_rows(), Clip(row_norm=9.0)
    expected = [DeviceSource(moved(rows)).summed(kind(clip)) for kind in SUMS]
    monkeypatch.setattr(device, "_ENTRIES", 9 * 7)
    monkeypatch.setattr(device, "_INT64_PARTS", 2)
    monkeypatch.setattr(integers, "LARGEST", 1 << 40)
    found = [DeviceSource(moved(rows)).summed(kind(clip)) for kind in SUMS]
    assert found[SUMS.index(MomentSum)][0].dtype == object
    for sums, others in zip(found, expected, strict=True):
        assert all(map(np.array_equal, sums, others))


def test_several_moments_are_summed_there(moved):
    rows, clips = odd_rows(), (Clip(row_norm=9.0), Clip(row_norm=1.0, normalise=True))
    source = DeviceSource(moved(rows))
    found = source.summed(MomentSums(tuple(map(MomentSum, clips))))
    alone = [part for clip in clips for part in source.summed(MomentSum(clip))]
    assert len(found) == 4
    assert all(map(np.array_equal, found, alone))


def test_no_rows_have_sums_too(moved):
    sums, counts = DeviceSource(moved(np.empty((0, 4)))).summed(MomentSum(Clip(row_norm=1.0)))
    assert sums.shape == (4, 4)
    assert not sums.any()
    assert not counts.any()


def test_what_has_no_form_there_is_read_on_the_host(moved):
    rows = np.random.default_rng(4).standard_normal((300, 5))
    scaled = DeviceSource(moved(rows)).map(Divide(np.arange(1.0, 6.0)))
    clip = Clip(row_norm=2.0)
    host = MomentSum(clip).of(ArraySource(rows).map(Divide(np.arange(1.0, 6.0))))
    assert np.array_equal(scaled.summed(MomentSum(clip))[0], host[0])
    lifted = Clip(row_norm=2.0, lift=0.5)
    found = DeviceSource(moved(rows)).summed(MomentSum(lifted))[0]
    assert np.array_equal(found, MomentSum(lifted).of(ArraySource(rows))[0])


def test_samples_come_to_the_host(moved):
    rows = np.arange(60.0).reshape(20, 3)
    some = sampled(
        DeviceSource(moved(rows)),
        0.25,
        Adjacency.REPLACE_ONE,
        lambda n, m: np.arange(m) * 2,
        Clip(row_norm=1.0).check,
    )
    assert np.array_equal(some.whole(), rows[[0, 2, 4, 6, 8]])


def test_a_device_that_adds_up_otherwise_is_not_asked(moved, monkeypatch):
    source = DeviceSource(moved(np.ones((5, 2))))

    def single(xp, integers):  # of which products of two lose their last bits
        rows = xp.astype(integers, xp.float32)
        return xp.astype(xp.matmul(xp.permute_dims(rows, (1, 0)), rows), xp.int64)

    monkeypatch.setattr(device, "_gram_of_floats", single)
    device._self_test.cache_clear()
    assert not source._exact
    device._self_test.cache_clear()


@pytest.mark.parametrize(
    "rows", [np.ones((3, 2, 2)), np.ones((3, 0)), np.ones((3, 2), dtype=bool)], ids=str
)
def test_what_is_no_table_is_refused(moved, rows):
    with pytest.raises(InvalidDataError):
        DeviceSource(moved(rows))


def test_estimators_take_them(moved):
    rows = np.random.default_rng(5).standard_normal((3000, 6)) * np.arange(6, 12) + 3
    for estimator in (
        PrivatePCA(2, epsilon=1.0, delta=1e-6, random_state=0),
        PrivateCovariance(epsilon=2.0, delta=1e-6, random_state=0),
    ):
        there = estimator.fit(moved(rows)).release_.arrays
        here = estimator.fit(rows).release_.arrays
        assert all(np.allclose(there[name], here[name], rtol=1e-6) for name in here)
    assert estimator.n_features_in_ == 6


def test_parts_of_a_numpy_array_are_brought_to_a_device():
    torch(np.ones(1))
    rows = odd_rows()
    rows.flags.writeable = False
    brought = DeviceSource(rows, device="cpu")
    there = DeviceSource(torch(rows.copy()))
    for kind in SUMS:
        clip = CLIPS["centred"]
        assert all(map(np.array_equal, brought.summed(kind(clip)), there.summed(kind(clip))))


def test_digits_hold_the_largest_integers():
    library = pytest.importorskip("torch", reason="PyTorch is not installed")
    one = 1 << 18
    wide = np.random.default_rng(6).integers(-one, one + 1, (70, 40))
    wide[0], wide[1], wide[2] = one, -one, one - 1
    digits = device._gram_of_digits(library.as_tensor(wide.astype(np.float64)))
    assert np.array_equal(digits.numpy(), wide.T @ wide)


def test_this_device_is_exact(moved):
    source = open_rows(moved(np.ones((2, 2))))
    assert isinstance(source, DeviceSource)
    assert source._exact
    assert not adds_exactly(source._xp, "no such device")


def test_wide_rows_are_held_there(moved):
    rows = odd_rows()
    clip = Clip(row_norm=5.0)
    there = moment_products(DeviceSource(moved(rows)), clip, Adjacency.REPLACE_ONE)
    host = moment_products(open_rows(rows), clip, Adjacency.REPLACE_ONE)
    assert np.abs(there.value.units - host.value.units).max() <= 400 * (1 << 18)  # a unit a row
    block = np.linalg.qr(np.random.default_rng(7).standard_normal((9, 3)))[0]
    products = there.place.host(there.times(there.place.there(block)))
    assert np.allclose(products, host.times(block), rtol=1e-6)
    again = moment_products(DeviceSource(moved(rows[::-1].copy())), clip, Adjacency.REPLACE_ONE)
    assert np.array_equal(again.fingerprint, there.fingerprint)
    assert not np.array_equal(
        moment_products(DeviceSource(moved(rows[:-1])), clip, Adjacency.REPLACE_ONE).fingerprint,
        there.fingerprint,
    )


def test_components_of_wide_rows(moved):
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((400, 5000)) * 0.05
    rows[:, :3] += rng.standard_normal((400, 3)) * [9, 6, 4]
    settings = {"epsilon": 1e5, "delta": 1e-6, "random_state": 0, "mechanism": "spherical"}
    there = PrivatePCA(3, **settings).fit(moved(rows))
    here = PrivatePCA(3, **settings).fit(rows)
    assert there.release_.guarantee.numerics.value == "idealised"
    captured = np.sum((there.components_ @ here.components_.T) ** 2)
    assert captured > 2.99
