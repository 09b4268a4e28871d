"""Refusals for want of rows: what they name is accepted, and hardly less of it would be."""

import re

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import EigenveilError, InvalidParameterError, TooFewRowsError
from eigenveil.planning import Situation, recommend, what_would_do
from eigenveil.privacy import Budget

PRIVATE = {"scale": "private"}
GAUSSIAN, PURE, RHO = {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 1.0}, {"rho": 0.03}
# Model, options, number of rows and of columns.
COMPONENTS = {
    "standardised": (GAUSSIAN | PRIVATE, 300, 20),
    "standardised, rho": (RHO | PRIVATE, 300, 20),
    "one column": (GAUSSIAN | PRIVATE, 60, 1),
    "pure": (PURE | PRIVATE, 500, 28),
    "pure, few columns": (PURE | PRIVATE, 2500, 10),
    "wide": (GAUSSIAN | PRIVATE, 2000, 1200),
    "wide, rho": (RHO | PRIVATE, 1500, 1000),
    "wide and pure": (PURE | PRIVATE, 2000, 1200),
    "wider than a matrix": (GAUSSIAN | PRIVATE, 800, 2200),
    "named": (GAUSSIAN | PRIVATE | {"mechanism": "tangent"}, 300, 20),
    "named and pure": (PURE | PRIVATE | {"mechanism": "wishart"}, 300, 20),
    "centre": (PURE | PRIVATE | {"centring": "located"}, 700, 4),
    "private radius": (GAUSSIAN | {"row_norm": "private", "mechanism": "analyze-gauss"}, 60, 5),
    "variances": (GAUSSIAN | {"variances": True, "mechanism": "spherical"}, 60, 5),
    "map of scores": (GAUSSIAN | {"show_scores": True}, 100, 5),
}
COVARIANCES = {
    "free": (GAUSSIAN, 50, 5),
    "free and pure": (PURE, 300, 5),
    "private scales": (GAUSSIAN | PRIVATE | {"mechanism": "cleaned", "row_norm": 5.0}, 300, 20),
    "one unit": (GAUSSIAN | {"scale": "same"}, 50, 5),
}


def foreseen(kind, options, n, d):
    """Plan a release of so many rows; none of them is read."""
    rows = np.broadcast_to(0.0, (n, d))
    if kind == "covariance":
        return PrivateCovariance(**options).promise(rows)
    return PrivatePCA(min(2, d), **options).promise(rows)


def named(refusal):
    """The number of rows, the budget and the rows with delta that a refusal names."""
    message = str(refusal)
    rows = re.search(r"about ([\d,]+) rows would do", message)[1]
    name, size = re.search(r"or (epsilon|rho) = ([\de.+-]+)", message).groups()
    relaxed = re.search(r"about ([\d,]+) with delta = 1e-6", message)
    numbers = (int(each.replace(",", "")) for each in (rows, relaxed[1] if relaxed else "0"))
    return *numbers, {name: float(size)}, "or delta = 1e-6 for these" in message


@pytest.mark.parametrize(
    ("kind", "options", "n", "d"),
    [
        *(pytest.param("components", *case, id=name) for name, case in COMPONENTS.items()),
        *(pytest.param("covariance", *case, id=name) for name, case in COVARIANCES.items()),
    ],
)
def test_what_a_refusal_names_is_accepted(kind, options, n, d):
    with pytest.raises(TooFewRowsError) as refused:
        foreseen(kind, options, n, d)
    rows, relaxed_rows, budget, relaxed = named(refused.value)
    foreseen(kind, options, rows, d)
    foreseen(kind, options | budget, n, d)
    smaller = {name: 0.97 * size for name, size in budget.items()}
    for few, others in ((max(n, round(0.97 * rows)), {}), (n, smaller)):
        with pytest.raises(TooFewRowsError):
            foreseen(kind, options | others, few, d)
    if relaxed:
        foreseen(kind, options | {"delta": 1e-6}, n, d)
    elif relaxed_rows:
        foreseen(kind, options | {"delta": 1e-6}, relaxed_rows, d)
        with pytest.raises(EigenveilError):
            foreseen(kind, options | {"delta": 1e-6}, n, d)


def test_delta_is_named_for_a_pure_budget_alone():
    with pytest.raises(TooFewRowsError, match=r"epsilon = 1\.23 or delta = 1e-6 for these"):
        foreseen("components", PURE | PRIVATE, 2500, 10)
    with pytest.raises(TooFewRowsError) as refused:
        foreseen("components", GAUSSIAN | PRIVATE, 300, 20)
    assert "delta" not in str(refused.value)


@pytest.mark.parametrize(("n", "d"), [(500, 28), (2500, 10), (2000, 1200)])
@pytest.mark.parametrize("budget", [PURE, {"epsilon": 0.05, "delta": 1e-6}], ids=["pure", "delta"])
def test_plans_name_what_fits_name(n, d, budget):
    """A plan reads no rows, so that it may say first that it could serve nothing."""
    with pytest.raises(TooFewRowsError) as refused:
        foreseen("components", budget | PRIVATE, n, d)
    asked = Situation(task="pca", n=n, d=d, k=2, budget=Budget(**budget), private_scale=True)
    with pytest.raises(InvalidParameterError) as told:
        recommend(asked)
    assert str(refused.value) in str(told.value)


def test_a_map_of_scores_has_a_centre():
    options = GAUSSIAN | {"show_scores": True, "centring": "paired"}
    with pytest.raises(InvalidParameterError, match="choose another centring") as refused:
        foreseen("components", options, 10_000, 5)
    assert not isinstance(refused.value, TooFewRowsError)


def test_what_nothing_would_do_for_is_not_named():
    budget = Budget(epsilon=1.0)
    assert what_would_do(lambda rows, budget: False, 10, budget, "row") == ""
    only_rows = what_would_do(lambda rows, budget: rows >= 1234, 10, budget, "group")
    assert only_rows == "about 1,240 groups would do"
    large = what_would_do(lambda rows, budget: bool(budget.delta), 10, budget, "row")
    assert large == "delta = 1e-6 would do"
