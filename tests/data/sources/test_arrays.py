"""Arrays in memory, and batches of their rows."""

import numpy as np
import pytest

from eigenveil.exact import (
    Clip,
    column_counts,
    moment_products,
    norm_counts,
    second_moment,
    total,
    trace,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy import Adjacency
from eigenveil.rows import ArraySource, Batch, Divide

REPLACE = Adjacency.REPLACE_ONE
ROWS = np.random.default_rng(0).standard_normal((50, 3))


def test_parts_of_a_batch_keep_their_positions():
    batch = ArraySource(ROWS).batch(20, 40)
    part = batch.slice(3, 9)
    assert part.records == range(23, 29)
    assert np.array_equal(part.array, ROWS[23:29])
    assert part.slice(2, 100).records == range(25, 29)
    for start, stop in ((-3, 5), (5, 3), (-3, -1)):
        with pytest.raises(InvalidParameterError, match="part of a batch"):
            batch.slice(start, stop)


@pytest.mark.parametrize(
    "statistic", [second_moment, total, trace, norm_counts, column_counts, moment_products]
)
def test_statistics_of_a_batch_say_whose_they_are(statistic):
    batch = Batch(ROWS[10:30], 10)
    clip = Clip(row_norm=1.0)
    assert statistic(batch, clip, REPLACE).records == range(10, 30)
    assert statistic(batch.map(Divide(np.ones(3))), clip, REPLACE).records == range(10, 30)
    assert statistic(ArraySource(ROWS), clip, REPLACE).records is None
    assert batch.records == range(10, 30)
