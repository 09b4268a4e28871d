"""The table of mechanisms says what the mechanisms do."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.cli.mechanisms import rows
from eigenveil.exceptions import BoundsRequiredError, UnsupportedNotionError
from eigenveil.mechanisms import entries
from eigenveil.planning import Situation, choose
from eigenveil.privacy import Budget
from tests.cli.conftest import invoke

ESTIMATORS = {"components": PrivatePCA, "covariance": PrivateCovariance}
BUDGETS = {
    "(epsilon, delta)": {"epsilon": 8.0, "delta": 1e-6},
    "rho": {"rho": 2.0},
    "pure epsilon": {"epsilon": 8.0},
}
MECHANISMS = [SimpleNamespace(**row) for row in rows()]
ROWS = np.random.default_rng(0).standard_normal((3000, 4)) * [4, 1, 1, 1]
HUNGRY = ("boxed-oja", "dp-pca", "deflation")  # whose histograms need many rows
FITTED = [entry for entry in MECHANISMS if entry.name != "spiked"]


def fit(entry, budget, **bounds):
    size = {"n_components": 1} if entry.releases == "components" else {}
    estimator = ESTIMATORS[entry.releases](
        mechanism=entry.name, random_state=0, **size, **BUDGETS[budget], **bounds
    )
    return estimator.fit(np.tile(ROWS, (25, 1)) if entry.name in HUNGRY else ROWS)


def named(entry):
    return f"{entry.releases}-{entry.name}"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_all_mechanisms_are_listed(kind):
    listed = {entry.name for entry in MECHANISMS if entry.releases == kind}
    assert listed == {entry.name for entry in entries(kind)}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_auto_may_choose_is_marked(kind):
    task = {"components": "pca"}.get(kind, kind)
    gauss, pure = Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=1.0)
    chosen = {
        choose(
            Situation(
                task=task,
                n=n,
                d=5,
                budget=budget,
                one_pass=once,
                row_norm=norm,
                private_scale=scaled,
            )
        ).mechanism
        for n in (50, 10**6)
        for budget in (gauss, pure)
        for once in (False, True)
        for norm in (None, 1.0)
        for scaled in (False, True)
    }
    if task == "pca":  # rows too wide for a matrix and too many to keep
        stream = Situation(task=task, n=10**6, d=5000, k=5, budget=gauss, one_pass=True)
        chosen.add(choose(stream).mechanism)
    assert chosen == {entry.name for entry in MECHANISMS if entry.releases == kind and entry.auto}


@pytest.mark.parametrize("entry", FITTED, ids=named)
def test_bounds_are_needed_where_the_table_says_so(entry):
    budget = "pure epsilon" if entry.guarantee == "pure epsilon" else "(epsilon, delta)"
    if entry.needs_bounds == "yes":
        with pytest.raises(BoundsRequiredError):
            fit(entry, budget)
    else:
        found = fit(entry, budget)
        assert (found.components_ if entry.releases == "components" else found.covariance_).any()


@pytest.mark.parametrize("entry", FITTED, ids=named)
def test_guarantees_and_numerics(entry):
    """A pure mechanism serves any budget; others refuse what the table does not name."""
    offered = set(re.split(r", (?!delta)", entry.guarantee))
    assert offered <= BUDGETS.keys()
    bounds = {"row_norm": 9.0} if entry.needs_bounds == "yes" else {}
    for budget in BUDGETS:
        if budget in offered or offered == {"pure epsilon"}:
            privacy = fit(entry, budget, **bounds).privacy_
            pure = budget == "pure epsilon" or offered == {"pure epsilon"}
            declared = entry.pure_numerics if pure else entry.numerics
            # One branch of `adaptive` is idealised.
            assert privacy.numerics == declared or entry.name == "adaptive"
        else:
            with pytest.raises(UnsupportedNotionError):
                fit(entry, budget, **bounds)


def test_listings_for_people_and_programs():
    lines = invoke("mechanisms").stdout.splitlines()
    assert len(lines) == len(MECHANISMS) + 1
    assert max(map(len, lines)) <= 140
    listed = json.loads(invoke("mechanisms", "--json").stdout)
    assert [entry["name"] for entry in listed] == [entry.name for entry in MECHANISMS]
