"""What released scales and variances say of columns."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil.mechanisms import Columns, FoundScales, NoisyMatrix, without_hidden


def columns(scale, sure=None, **others):
    scale = np.array(scale)
    found = np.isfinite(scale)
    sure = found if sure is None else np.array(sure)
    return Columns.of(FoundScales(scale, sure, found, scale, **others))


def test_columns_without_a_scale_take_the_median():
    seen = columns([1.0, 100.0, 1e4, np.inf])
    assert seen.scale == pytest.approx([1.0, 100.0, 1e4, 100.0])
    assert seen.known.tolist() == [True, True, True, False]
    assert not seen.one_unit


def test_columns_of_about_one_scale_share_a_unit():
    seen = columns([1.0, 1.5, 0.8, 1.2, np.inf])
    assert seen.one_unit
    assert len(set(seen.scale)) == 1
    assert seen.shared.tolist() == [True, True, True, True, False]


def test_a_column_far_beyond_the_others_keeps_its_unit():
    """Only where its scale is sure: a false alarm gives none."""
    scale = [1.0, 1.5, 0.8, 1.2, 1e6]
    assert columns(scale).scale[4] == 1e6
    assert columns(scale, sure=[True] * 4 + [False]).scale[4] == pytest.approx(1.2)


def test_few_scales_that_are_not_sure_are_false_alarms():
    seen = columns([40.0] + [np.inf] * 5, sure=[False] * 6)
    assert seen.scale.tolist() == [1.0] * 6
    assert not seen.known.any()
    assert not seen.kept(np.full(6, 100.0), 0.1, refined=True).any()


def test_clear_variances_refine_scales():
    """One that does not show leaves a scale that was found, unless there is little noise."""
    seen = columns([1.0, 1e3, np.inf])
    assert seen.factors(np.array([4.0, 0.01, 0.01]), noise=0.2) == pytest.approx([2, 1, 0.2**0.5])
    assert seen.factors(np.array([4.0, 0.01, 0.01]), noise=0.1) == pytest.approx(
        [2, 0.1**0.5, 0.1**0.5]
    )


def test_columns_of_one_unit_are_refined_together():
    seen = columns([1.0, 1.0, 1.0, 1.0])
    factors = seen.factors(np.array([1.0, 1.5, 2.0, 100.0]), noise=0.01)
    assert factors[:3] == pytest.approx([1.75**0.5] * 3)
    assert factors[3] == 10.0


def test_a_variance_is_kept_where_its_scale_is_sure_or_it_is_clear_beyond_doubt():
    seen = columns([1.0, 1e3, 1e6, np.inf], sure=[True, True, False, False])
    clear = np.array([2.0, 4.0, 4.0, 6.0])
    assert seen.kept(clear, 0.1, refined=True).tolist() == [False, True, False, True]
    assert seen.kept(clear, 0.1, refined=False).tolist() == [False, True, False, False]
    alike = columns([1.0, 1.0, 1.0, np.inf])
    assert alike.kept(np.array([1.0, 2.0, 9.0, 2.0]), 0.1, refined=False).tolist() == [0, 1, 1, 0]


def test_a_variance_that_noise_or_the_centre_hides_is_zero():
    matrix = np.array([[9.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.0, 4.0]])
    noisy = NoisyMatrix(matrix, 1.0, None)
    assert without_hidden(noisy, 0.0).matrix.tolist() == [[9, 0, 2], [0, 0, 0], [2, 0, 4]]
    assert without_hidden(noisy, 0.5).matrix.diagonal().tolist() == [9, 0, 0]
    # The matrix as it was before it was cleaned tells what noise hides.
    cleaned = replace(noisy, unbiased=np.diag([1.0, 9.0, 1.0]))
    assert without_hidden(cleaned, 0.0).matrix.diagonal().tolist() == [0, 3, 0]
