"""A covariance of columns in any units: its steps, what they cost, and what they make of tables."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance
from eigenveil.data import Clip, open_rows
from eigenveil.data.clip import LARGEST_NORM
from eigenveil.exceptions import InvalidDataError, TooFewRowsError
from eigenveil.mechanisms import Gate
from eigenveil.mechanisms.front import Front
from eigenveil.mechanisms.scalars.column_scale import ColumnScale, FoundScales
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.accounting import rho_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.ledger import Ledger
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
ANYWHERE = Clip(row_norm=LARGEST_NORM)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
UNITS = 10.0 ** np.arange(4)
# Limits on q = sqrt(2) d/(n mu) between which the steps differ, and a number in each part.
MANY_ROWS, SEARCHED, REFINED, FEW_ROWS = 0.01, 0.03, 0.05, 0.1


class Watching(Gate):
    """A gate that remembers its steps and what was asked of them."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.steps = []

    def draw(self, step, query):
        self.steps.append(step)
        return super().draw(step, query)

    @property
    def names(self):
        return [step.name for step in self.steps]


def gate(mechanism, seed=0, ledger=None):
    noise = SimulationSource(seed)
    return Watching(mechanism.cost(), label="x", adjacency=REPLACE, ledger=ledger, noise=noise)


def front(q, mu=1.0, columns=4, **options):
    """Return all steps for a table on which the noise is ``q``."""
    rows = math.ceil(math.sqrt(2) * columns / (q * mu))
    return Front(mu=mu, rows=rows, columns=columns, **options)


def of_rows(rows, mu=1.0, seed=0, **options):
    mechanism = Front(mu=mu, rows=len(rows), columns=rows.shape[1], **options)
    return mechanism.run(open_rows(rows), ANYWHERE, gate(mechanism, seed))


def normal(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def covariance(found):
    """Return the covariance of a result in the units of the data."""
    return found.inner.matrix * np.outer(found.scale, found.scale)


# What released scales may say of columns: one unit after the first draw or after both, or several.
SPARED, ALIKE, APART = "spared", "alike", "apart"
_draw_scales = ColumnScale.run


def scales_that_say(what):
    """Return a search for scales that draws as often as it would, and then finds this."""

    def run(step, source, clip, gate):
        _draw_scales(replace(step, more=None), source, clip, gate)
        spared = what == SPARED and step.more is not None
        if step.more is not None and not spared:
            _draw_scales(replace(step, first=step.more, more=None), source, clip, gate)
        sure = np.ones(source.n_columns, dtype=bool)
        scale = UNITS if what == APART else np.ones(source.n_columns)
        return FoundScales(scale, sure, sure, scale, one_unit=spared)

    return run


@pytest.mark.parametrize("what", [SPARED, ALIKE, APART])
@pytest.mark.parametrize("distances", [True, False])
def test_every_route_costs_the_whole(monkeypatch, what, distances):
    """Whatever released numbers choose, at public numbers of every kind: many rows and few, scales
    in one draw and in two, distances that are found and equal rows that have none.
    """
    monkeypatch.setattr(ColumnScale, "run", scales_that_say(what))
    rows = normal(3000) * UNITS if distances else np.zeros((40, 4))
    known = np.array([1.0, 10.0, 100.0, np.nan])
    routes = set()
    for q in (MANY_ROWS, SEARCHED, REFINED, FEW_ROWS):
        for mechanism in (front(q), front(q, known_scale=known), front(q / 9, columns=4)):
            paid = gate(mechanism)
            mechanism.run(open_rows(rows), ANYWHERE, paid)
            whole = rho_of(mechanism.cost())
            spent = sum(rho_of(step.cost()) for step in paid.steps)
            assert spent <= whole * (1 + 1e-12)
            assert spent == pytest.approx(whole, rel=1e-6)
            routes.add(tuple(paid.names))
    print(len(routes), *routes, sep="\n")
