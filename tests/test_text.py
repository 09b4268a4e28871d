import os
import subprocess
from dataclasses import replace

import pytest

from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms import BuildContext, Oja
from eigenveil.papers.spiked import SpikedModel
from eigenveil.planning import Situation, choose
from eigenveil.privacy import Budget, Gaussian
from eigenveil.text import is_formula, percent, plural, printable, typed


@pytest.mark.parametrize(
    "word", ["a b.csv", "größe", "caf\udce9.csv", "it's\udce9\\1", "a\nb", "\u202e1", "\xa0", ""]
)
def test_a_printed_command_can_be_typed(word):
    shown = printable(typed([word]))
    told = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert os.fsdecode(told.stdout) == word


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe, μ²", "größe, μ²"),
        ("a\nb", "a\\nb"),
        ("\x1b[2K", "\\x1b[2K"),
        ("\u202eb", "\\u202eb"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text, shown):
    assert printable(text) == shown


def test_formulas():
    assert all(map(is_formula, ("=A1", "+1", "-x", "@x", "\t=1")))
    assert not any(map(is_formula, ("", "a=1", "x-y")))


def test_nouns_agree_with_their_numbers():
    assert [plural("row", n) for n in (0, 1, 2, 1.0, 0.5)] == ["rows", "row", "rows", "row", "rows"]
    budget = Budget(epsilon=1, delta=1e-6)
    one = Situation(task="pca", n=1, d=1, k=1, budget=budget)
    assert str(one).startswith("1 row, 1 column, 1 component wanted, ")
    model = SpikedModel(rank=1, smallest_spike=5.0, largest_spike=10.0, noise_variance=1.0)
    assert "along 1 unknown direction and" in model.assumption
    with pytest.raises(InvalidDataError, match="at least for 1 column at this budget"):
        Oja().at(
            Gaussian(1.0), BuildContext(budget=budget, n_columns=1, n_components=1)
        ).check_records(1, 1)
    unsure = replace(one, n=10**6, d=2, row_norm=None, bounded=True)
    assert "2 columns, 1 component and" in choose(unsure).reason


def test_percent_is_never_100_or_0_unless_it_is():
    shown = {0.994: "99 %", 0.9951: ">99 %", 1.0: "100 %", 1 - 1e-12: "100 %"}
    shown |= {0.004: "<1 %", 0.0: "0 %", 0.5: "50 %"}
    assert {share: percent(share) for share in shown} == shown
    assert percent(0.99951, 1) == ">99.9 %"
    assert percent(0.1234, 1) == "12.3 %"
