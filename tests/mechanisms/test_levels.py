"""Levels of categories that are found privately."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from eigenveil.exact import level_counts
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import PrivateLevels, release
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import delta_of, gaussian_delta, parts_of
from eigenveil.rows import GroupedSource, MappedRows, Unchanged, open_rows
from tests.conformance import case


class Categories:
    """A frame of one category, as a source with groups or without."""

    def __new__(cls, levels, groups=None):
        import pandas as pd

        source = open_rows(pd.DataFrame({"c": levels}), encode={"c": "private"})
        return source if groups is None else GroupedSource(source, groups)


def counted(levels, adjacency=case.REPLACE, groups=None):
    found = level_counts(Categories(levels, groups), "c", adjacency)
    return dict(zip(found.levels, found.value.units.tolist(), strict=True)), found


def drawn(levels, seed, mechanism, adjacency=case.REPLACE):
    query = counted(levels, adjacency)[1]
    return release(mechanism, query, ledger=None, noise=SimulationSource(seed))


def test_rows_are_counted_once_and_empty_cells_not_at_all():
    counts, found = counted(["a", " b", "a ", None, "", "NA", "b", "c"])
    assert counts == {"a": 2, "b": 2, "c": 1}
    assert found.count == 8
    assert "'a'" not in repr(found)


def test_a_person_is_counted_once_at_the_level_of_most_rows():
    levels = ["a", "b", "b", "c", "a", None, None]
    counts, found = counted(levels, groups=[1, 1, 1, 2, 2, 3, 3])
    assert counts == {"b": 1, "a": 1}  # of a tie the first
    assert found.count == 3
    order = [6, 3, 2, 5, 1, 4, 0]
    assert counted([levels[i] for i in order], groups=[[1, 1, 1, 2, 2, 3, 3][i] for i in order])[
        0
    ] == {"b": 1, "a": 1}


def test_full_levels_show_and_rare_ones_do_not():
    levels = ["common"] * 400 + ["frequent"] * 300 + ["rare"] * 3
    mechanism = PrivateLevels(mu=0.1, delta=1e-6)
    for seed in range(20):
        found = drawn(levels, seed, mechanism)
        assert list(found) == ["common", "frequent"]


def test_a_level_of_one_row_shows_as_often_as_delta_allows():
    """Error probability 1e-6 on either side; one count more would show too often."""
    mechanism = PrivateLevels(mu=1.0, delta=0.05)
    trials = 2000
    query = counted(["one"] + ["most"] * 50)[1]
    draws = (
        release(mechanism, query, ledger=None, noise=SimulationSource(seed))
        for seed in range(trials)
    )
    shown = sum("one" in found for found in draws)
    step = 2.0**-7  # the grid of noise costs no more than this
    least = norm.sf(norm.isf(0.05) + step)
    assert binom.ppf(1e-6, trials, least) <= shown <= binom.ppf(1 - 1e-6, trials, 0.05)
    shifted = norm.sf(norm.isf(0.05) - 1 / math.sqrt(2))
    assert binom.ppf(1 - 1e-6, trials, 0.05) < binom.ppf(1e-6, trials, shifted)


def test_the_cost_is_that_of_the_noise_and_of_the_threshold():
    mechanism = PrivateLevels(mu=0.5, delta=1e-3)
    parts = parts_of(mechanism.cost())
    assert (parts.mu, float(parts.delta), parts.pure) == (0.5, 1e-3, ())
    assert delta_of(mechanism.cost(), 1.0) == pytest.approx(gaussian_delta(0.5, 1.0) + 1e-3)


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_a_threshold_needs_a_small_delta(delta):
    with pytest.raises(InvalidParameterError, match="between 0 and 1/2"):
        PrivateLevels(mu=1.0, delta=delta)


def test_other_counts_are_refused():
    with pytest.raises(InvalidParameterError, match="counts of levels"):
        PrivateLevels(mu=1.0, delta=0.1).perturb(
            case.norms(np.ones((3, 1)), case.REPLACE), SimulationSource(0)
        )


class Levelled(MappedRows):
    """Rows of a case as a category: how long they are."""

    def __init__(self, base):
        super().__init__(base, Unchanged())

    @property
    def table(self):
        return self

    def levels_of(self, column):
        for chunk, units in self.base.unit_tables():
            with np.errstate(all="ignore"):
                lengths = np.sqrt((np.asarray(chunk, dtype=float) ** 2).sum(axis=1))
            yield [_length(length) for length in lengths], units


def _length(length):
    if np.isnan(length):
        return None
    return "long" if length > 0.5 else "short"


def category(rows, adjacency):
    return level_counts(Levelled(case.open_rows(rows)), "length", adjacency)


CASES = [
    case.Case(
        "levels",
        lambda mu, d, k: PrivateLevels(mu=mu, delta=1e-3),
        ledger={"epsilon": 50.0, "delta": 0.5},
        query=category,
        run=case.one_step(category),
        read=lambda released: np.array([released.get(level, 0.0) for level in ("long", "short")]),
        norm="l2",
        sensitivity=case.constant(math.sqrt(2), 1.0),
        worst_pair=case.long_and_short,
        strength_of=lambda cost: parts_of(cost).mu,
        may_coincide=True,
    ),
]
