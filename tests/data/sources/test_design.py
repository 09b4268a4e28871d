"""Records of a regression: functions of one row each, whatever the row."""

import numpy as np
import pytest

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms import (
    Design,
    Gradients,
    Records,
    Residuals,
    reordered,
)
from eigenveil.rows import ArraySource, GroupedSource, TakeColumns

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(50, 4)) * [1.0, 10.0, 0.1, 3.0] + [5.0, 0.0, 1.0, 7.0]
RECORDS = Records(
    centre=np.array([5.0, 0.0, 1.0]),
    scale=np.array([1.0, 10.0, 0.1]),
    target=3,
    offset=7.0,
    lift=1.0,
)
B = np.array([0.2, 1.0, -0.5, 0.1])


def whole(source):
    return np.vstack(list(source.chunks()))


@pytest.mark.parametrize("length", [None, 1.5])
def test_residuals_and_products_are_what_they_say(length):
    records = Records(
        centre=RECORDS.centre,
        scale=RECORDS.scale,
        target=3,
        offset=7.0,
        lift=1.0,
        length=length,
    )
    source = ArraySource(ROWS)
    z = np.column_stack([np.ones(50), (ROWS[:, :3] - RECORDS.centre) / RECORDS.scale])
    norms = np.linalg.norm(z, axis=1)
    w = 1 / norms if length is None else np.minimum(1, length / norms) / length
    r = w * (ROWS[:, 3] - 7.0 - z @ B)
    assert whole(source.map(Design(records))) == pytest.approx(z)
    assert whole(source.map(Residuals(records, B)))[:, 0] == pytest.approx(r, abs=1e-6)
    clipped = np.clip(r, -0.3, 0.3)
    gradients = whole(source.map(Gradients(records, B, 0.3)))
    assert gradients == pytest.approx(z * (w * clipped)[:, None], abs=1e-6)
    assert np.linalg.norm(gradients, axis=1).max() <= 0.3 * (1 + 1e-12)


def test_a_feature_without_a_scale_is_left_out():
    records = Records(
        centre=np.zeros(3), scale=np.array([1.0, np.inf, 2.0]), target=3, offset=0.0, lift=1.0
    )
    assert records.width == 3
    rows = ROWS.copy()
    rows[0, 1] = np.nan  # which does not matter
    z = whole(ArraySource(rows).map(Design(records)))
    assert z[:, 1:] == pytest.approx(rows[:, [0, 2]] / [1.0, 2.0])


def test_every_row_stands_for_itself():
    """Alone or in company, a row gives the same bits."""
    for make in (
        lambda s: s.map(Design(RECORDS)),
        lambda s: s.map(Residuals(RECORDS, B)),
        lambda s: s.map(Gradients(RECORDS, B, 0.5)),
    ):
        together = whole(make(ArraySource(ROWS)))
        alone = np.vstack([whole(make(ArraySource(ROWS[i : i + 1]))) for i in range(50)])
        assert (together == alone).all()


def test_odd_rows_are_finite_or_invalid():
    odd = np.array(
        [
            [1e308, -1e308, 1e308, 1e308],
            [1e-308, 0.0, 0.0, -1e308],
            [np.nan, 0.0, 0.0, 1.0],
            [0.0, np.inf, 0.0, 1.0],
            [0.0, 0.0, 0.0, np.nan],
        ]
    )
    for make in (
        lambda s: s.map(Design(RECORDS)),
        lambda s: s.map(Residuals(RECORDS, B)),
        lambda s: s.map(Gradients(RECORDS, B, 0.5)),
    ):
        rows = whole(make(ArraySource(odd)))
        assert np.isfinite(rows[:2]).all()
        assert np.isnan(rows[2:]).all()


def test_empty_features_lie_at_the_centre_and_targets_do_not():
    records = Records(
        centre=RECORDS.centre,
        scale=RECORDS.scale,
        target=3,
        offset=7.0,
        lift=1.0,
        on_missing="centre",
    )
    rows = np.array([[np.nan, 10.0, 1.0, 8.0], [5.0, 0.0, 1.0, np.nan]])
    z = whole(ArraySource(rows).map(Design(records)))
    assert z[0] == pytest.approx([1.0, 0.0, 1.0, 0.0])
    assert np.isnan(z[1]).all()


def test_rows_keep_their_owners():
    source = GroupedSource(ArraySource(ROWS), np.arange(50) // 2)
    made = source.map(Gradients(RECORDS, B, 0.5))
    assert made.units.protects == source.units.protects
    (chunk, owners), *_ = made.unit_tables()
    assert len(chunk) == len(owners) == 50
    assert (made.units.sizes == 2).all()


def test_columns_and_targets_by_name():
    source = ArraySource(ROWS, ("a", "b", "y", "c"))
    last = reordered(source, ("y",))
    assert last.schema.feature_names == ("a", "b", "c", "y")
    assert (whole(last) == ROWS[:, [0, 1, 3, 2]]).all()
    assert last.map(TakeColumns(slice(3, 4))).schema.feature_names == ("y",)
    with pytest.raises(InvalidDataError, match="not there"):
        reordered(source, ("z",))
    with pytest.raises(InvalidParameterError, match="twice"):
        reordered(source, ("y", "y"))
    with pytest.raises(InvalidDataError, match="apart from its targets"):
        reordered(source, ("a", "b", "c", "y"))
    with pytest.raises(InvalidParameterError, match="with names"):
        reordered(ArraySource(ROWS), ("y",))
