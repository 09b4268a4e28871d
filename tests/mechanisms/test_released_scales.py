"""Scales of a stream follow released variances, whatever noise hides of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.mechanisms import ReleasedScales


def scales(variances, noise, **changes):
    """Return scales of one that were never changed."""
    d = len(variances)
    columns = ReleasedScales(
        scale=np.ones(d),
        turn=np.full(d, 1e6),
        limit=8.0,
        first=np.ones(d),
        least=np.full(d, 1e-6),
        variances=np.asarray(variances, dtype=np.float64),
        noise=np.full(d, noise),
        centre_error=np.zeros(d),
    )
    return replace(columns, **changes)


def test_variances_are_pooled_by_their_precision():
    seen = np.array([4.0, 1.0, 0.0])
    columns = scales([1.0, 1.0, 1.0], 0.3).pooled(seen, np.full(3, 0.1))
    assert columns.variances == pytest.approx([3.7, 1.0, 0.1])
    assert columns.noise == pytest.approx(np.full(3, 0.3 / math.sqrt(10)))
    unknown = scales(np.zeros(3), np.inf).pooled(seen, np.full(3, 0.1))
    assert unknown.variances == pytest.approx([4.0, 1.0, 0.0])


def test_a_hidden_column_grows_until_it_shows():
    columns = scales([9.0, 0.001, 1.1], 0.01)
    factor = columns.renewal()
    assert factor == pytest.approx([3.0, 0.1, 1.0])
    assert columns.divided(factor).variances == pytest.approx([1.0, 0.1, 1.1])


def test_a_hidden_column_grows_no_further_than_its_centre_is_known():
    """Its error would pass for a variance: all rows lie where the centre is off."""
    columns = scales([1.0, 0.0], 1e-6, centre_error=np.array([0.0, 0.01]))
    assert columns.hidden.tolist() == [False, True]
    factor = columns.renewal()
    assert factor[1] ** 2 == pytest.approx(0.09 / 3.2, rel=0.01)
    assert replace(columns, variances=np.array([1.0, 0.08])).hidden.tolist() == [False, True]
    assert columns.divided(factor).centre_error[1] == pytest.approx(0.01 / factor[1] ** 2)
    assert columns.moved(0.02, 0.5).centre_error == pytest.approx([0.0025, 0.005])


def test_a_column_that_was_clear_does_not_fall_for_ever():
    """A rare flag's variance falls with its scale, as rows that hold it are clipped."""
    columns = scales([1.0, 0.1, 1.0], 0.001)
    for _ in range(20):  # every time it shows a quarter of what it should
        factor = columns.renewal()
        columns = replace(columns, least=columns.least_after(factor)).divided(factor)
        columns = columns.with_variances(np.array([1.0, 0.25, 1.0]), np.full(3, 0.001))
    assert columns.scale[1] > 0.3 / 2


ENLARGED = {"scale": np.array([1.0, 0.01])}  # a hundred times


def known(far, near, *, noise=0.001, least=1e-6, sure=False):
    """Return the variance that is believed of a column, in its present scale.

    ``far`` is in the first scale, with the same noise as ``near`` has in the present one.
    """
    columns = scales([1.0, far * 1e4], 1e-3, **ENLARGED, least=np.full(2, least))
    columns = replace(columns, noise=np.array([noise, noise * 1e4]))
    seen = columns.with_variances(np.array([1.0, near]), np.full(2, noise))
    return columns.with_whole(seen, sure=sure).variances[1]


def test_a_small_scale_is_believed_unless_entries_are_cut_off_there():
    assert known(far=0.001, near=1.0) == 1.0  # from afar it is not clear
    assert known(far=0.01, near=0.3) == pytest.approx(100)  # a flag, which is
    assert known(far=0.001, near=0.3) == 0.3  # seen for the first time
    assert known(far=0.001, near=0.3, least=0.007) == pytest.approx(10)  # and again
    assert known(far=0.001, near=0.01, sure=True) == pytest.approx(10)  # hardly clear


def test_columns_that_were_never_enlarged_are_seen_as_they_are():
    columns = scales([1.0, 5.0], 0.01)
    near = columns.with_variances(np.array([1.0, 0.2]), np.full(2, 0.01))
    assert columns.with_whole(near, sure=True).variances.tolist() == [1.0, 0.2]
    assert columns.with_enlarged(near).variances.tolist() == [1.0, 5.0]
    assert columns.enlarged.tolist() == [1.0, 1.0]


def test_a_hidden_column_is_divided_by_the_largest_deviation_that_noise_hides():
    columns = scales([4.0, 0.0, -0.1, 0.3], 0.1)
    assert columns.deviations() ** 2 == pytest.approx([4.0, 0.32, 0.32, 0.32])
    # Not by more than its first scale, nor by less than noise of an enlarged column asks for.
    assert scales([0.0], 2.0).deviations() == pytest.approx([1.0])
    assert scales([0.0], np.inf).deviations() == pytest.approx([1.0])
    assert scales([0.0], 2.0, first=np.array([5.0])).deviations() ** 2 == pytest.approx([6.4])
    assert scales([0.0], 99.0, first=np.array([5.0])).deviations() == pytest.approx([5.0])
