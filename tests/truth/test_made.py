"""What a covariance states is true on made tables of every kind."""

import pytest

from tests.truth.made import TABLES
from tests.truth.sweep import sweep

SEEDS = 8


@pytest.mark.parametrize("name", TABLES)
def test_all_statements_hold(name):
    failing, judged = sweep(name, TABLES[name](), seeds=SEEDS)
    assert judged > 0
    assert not failing, f"false statements: {failing}"
