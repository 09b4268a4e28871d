from dataclasses import replace

import pytest

from eigenveil.mechanisms import entry
from eigenveil.planning import AssumedTable, Situation, choose
from eigenveil.planning.choice import _loss
from eigenveil.privacy import Budget


def situation(task="pca", n=1797, d=64, epsilon=1.0, delta=1e-6, **others):
    k = {"k": 5} if task == "pca" else {}
    budget = Budget(epsilon=epsilon, delta=delta)
    return Situation(**{"task": task, "n": n, "d": d, "budget": budget} | k | others)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (situation(), "tangent"),
        (situation(n=None, adjacency="add-remove"), "tangent"),
        (situation(d=10_000), "spherical"),  # no matrix is formed
        (situation(one_pass=True), "spherical"),
        (situation(one_pass=True, d=10_000, n=200_000), "oja"),  # too many rows to keep
        (situation(one_pass=True, d=10_000, n=200_000, row_norm=1.0), "oja"),
        (situation(one_pass=True, d=10_000, n=10_000), "spherical"),  # kept, with less error
        (situation(one_pass=True, d=10_000, n=None), "spherical"),
        (situation(one_pass=True, d=10_000, n=200_000, unit="person"), "spherical"),
        (situation(one_pass=True, d=10_000, n=20_000, adjacency="add-remove"), "spherical"),
        (situation(row_norm=40.0), "analyze-gauss"),
        (situation(private_radius=True), "analyze-gauss"),
        (situation(bounded=True), "tangent"),  # a range is no reason to pay for lengths
        (situation(epsilon=10.0), "tangent"),
        (situation(epsilon=40.0), "analyze-gauss"),  # noise is not what is lost
        (situation(n=100_000), "analyze-gauss"),
        (situation(n=20_000), "tangent"),
        (situation(n=20_000, adjacency="add-remove"), "analyze-gauss"),  # half the noise
        (situation(n=100, d=1000), "tangent"),  # a drowned table is no reason to clip
        (situation(missing=True), "spherical"),  # whose moments allow for empty cells
        (situation(missing=True, n=100_000), "analyze-gauss"),
        (situation(delta=None), "wishart"),
        (situation(delta=None, row_norm=1.0), "wishart"),
        (situation("covariance"), "elliptical"),
        (situation("covariance", delta=None), "wishart"),
        (situation("covariance", delta=None, row_norm=1.0), "wishart"),
        (situation("covariance", bounded=True), "elliptical"),  # which only tightens
        (situation("covariance", row_norm=1.0), "elliptical"),
        (situation("covariance", private_radius=True), "elliptical"),
        (situation("covariance", row_norm=1.0, n=None, adjacency="add-remove"), "elliptical"),
        (situation("covariance", row_norm=1.0, one_pass=True), "cleaned"),
        # So few that no distance would stand out: a stated bound has to do, where there is one.
        (situation("covariance", bounded=True, n=100), "adaptive-cleaned"),
        (situation("covariance", row_norm=1.0, n=100), "adaptive-cleaned"),
        (situation("covariance", bounded=True, n=100, delta=None), "wishart"),
        (situation("covariance", n=100), "elliptical"),
    ],
    ids=str,
)
def test_choices(asked, wanted):
    choice = choose(asked)
    assert choice.mechanism == wanted
    assert choice.reason
    assert "\n" not in choice.reason


@pytest.mark.parametrize(
    ("asked", "clips"),
    [
        (situation(), False),
        (situation(epsilon=40.0), True),
        (situation(delta=None, epsilon=10.0), False),
        (situation(delta=None, n=10**6), True),
        (situation(epsilon=40.0, row_norm=1.0), False),  # it is stated
        (situation("covariance", epsilon=40.0), False),
        (situation("covariance", delta=None), True),
        (situation("covariance", delta=None, row_norm=1.0), False),
        (situation("covariance", delta=None, bounded=True), False),
    ],
    ids=str,
)
def test_a_generous_budget_buys_the_own_directions_of_the_covariance(asked, clips):
    """Unit rows have a target of their own; rows clipped at a private radius do not."""
    choice = choose(asked)
    assert choice.private_radius == clips
    assert ("clipped rows are" in choice.reason) == (asked.task == "pca" and asked.row_norm is None)


def test_a_choice_is_among_the_mechanisms_of_its_estimator():
    for task, releases in (("pca", "components"), ("covariance", "covariance")):
        for delta in (1e-6, None):
            asked = situation(task, delta=delta, row_norm=1.0)
            found = entry(releases, choose(asked).mechanism)
            assert found.has_pure if delta is None else found.has_gaussian


def test_choices_are_remembered():
    asked = situation(n=4321)
    assert choose(asked) is choose(replace(asked))


def test_expected_losses_follow_the_noise():
    """To first order a loss is proportional to the variance of the noise."""
    table = AssumedTable.of(situation(), 64)
    assert _loss(table, 0.002) / _loss(table, 0.001) == pytest.approx(4, rel=0.05)
    assert _loss(table, 10.0) > 1  # drowned
