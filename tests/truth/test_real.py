"""What releases state is true on tables as people have them: `make truth`.

The tables lie in ../shared/data beside the checkout. Cells that fail are printed.
"""

import os
from collections import Counter

import pytest
from benchmarks.real_tables import real_tables

from tests.truth.sweep import sweep, sweep_components

pytestmark = pytest.mark.truth

SEEDS = int(os.environ.get("TRUTH_SEEDS", "20"))
FAILING_SHARE = 0.01  # of claims, at most


@pytest.mark.parametrize("judge", [sweep, sweep_components], ids=["covariance", "components"])
def test_hardly_any_statement_about_real_tables_is_false(judge):
    tables = real_tables()
    if not tables:
        pytest.skip("no tables in ../shared/data beside the checkout")
    count, claims = 0, Counter()
    for name, (rows, _) in tables.items():
        failing, judged = judge(name, rows, seeds=SEEDS)
        count += judged
        for cell, shares in failing.items():
            claims.update(list(shares))
            said = ", ".join(f"{claim} {share:.2f}" for claim, share in shares.items())
            print(f"{name}, {cell.fit}, epsilon {cell.epsilon:g}: {said}", flush=True)
    share = claims.total() / count
    print(f"{claims.total()} of {count} claims fail ({share:.2%})")
    for claim, cells in claims.most_common():
        print(f"  {claim}: {cells} cells")
    assert share <= FAILING_SHARE
