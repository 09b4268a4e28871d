"""One reading of what a ledger has spent, and what one more release may ask for."""

import pytest

from eigenveil import Ledger, PrivatePCA
from eigenveil.privacy import Adjacency, Balance, Gaussian, Pure, rounded_down
from eigenveil.report.page import render
from tests.cli.conftest import invoke


def test_rounding_never_promises_more():
    for value, shown in (
        (1.61829, 1.618),
        (2 - 1e-12, 2.0),
        (0.0, 0.0),
        (-1.0, 0.0),
        (5e-324, 5e-324),
        (12345, 12340),
    ):
        assert rounded_down(value) == shown


def test_why_is_said_where_it_is_more_than_the_difference():
    more = Balance("epsilon", 0.0, 1.0, 2.0, 1e-6, 1.6)
    assert "more than the difference, 1," in more.reading()
    same = Balance("epsilon", 0.0, 1.0, 2.0, None, 1.0)
    assert same.reading() == "spent epsilon = 1 of 2; largest next release: epsilon = 1"
    older = Balance("epsilon", 0.0, 1.0, 2.0, 1e-6)
    assert older.reading() == "spent epsilon = 1 of 2 at delta = 1e-06"


@pytest.mark.parametrize(
    ("cost", "more"), [(Gaussian(0.2), True), (Pure(1.0), False)], ids=["Gaussian", "pure"]
)
def test_what_it_says_is_granted_and_no_more(cost, more, tmp_path):
    ledger = Ledger.create(tmp_path / "a", epsilon=2, delta=1e-6)
    ledger.charge(cost, adjacency=Adjacency.REPLACE_ONE, label="one")
    balance = ledger.balance()
    assert bool(balance.why()) == more
    assert balance.largest_next == rounded_down(ledger.left()[1])


def test_page_and_shell_say_the_same(tmp_path):
    rows = [[float(i % 7), float(i % 3)] for i in range(200)]
    ledger = Ledger.create(tmp_path / "a", epsilon=2, delta=1e-6)
    pca = PrivatePCA(1, epsilon=1, delta=1e-6, ledger=ledger).fit(rows)
    reading = ledger.balance().reading()
    assert "more than the difference" in reading
    release = pca.release_
    assert reading in render(release.guarantee, release.as_dict(), release.arrays)
    shown = invoke("ledger", "show", tmp_path / "a").stdout
    assert all(part in shown.replace("\n", "; ") for part in reading.split("; "))
