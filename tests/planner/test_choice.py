from dataclasses import replace

import pytest

from eigenveil.mechanisms.registry import entry
from eigenveil.planner import Situation, choose
from eigenveil.planner.choice import _losses
from eigenveil.privacy.budget import Budget


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
        (situation(one_pass=True, d=10_000, n=20_000), "oja"),  # too many rows to keep
        (situation(one_pass=True, d=10_000, n=20_000, row_norm=1.0), "oja"),
        (situation(one_pass=True, d=10_000, n=10_000), "spherical"),  # kept, with less error
        (situation(one_pass=True, d=10_000, n=None), "spherical"),
        (situation(one_pass=True, d=10_000, n=20_000, unit="person"), "spherical"),
        (situation(one_pass=True, d=10_000, n=20_000, adjacency="add-remove"), "spherical"),
        (situation(row_norm=40.0), "analyze-gauss"),
        (situation(bounded=True), "tangent"),
        (situation(bounded=True, epsilon=10.0), "analyze-gauss"),  # noise is not what is lost
        (situation(bounded=True, epsilon=10.0, per_column=True), "tangent"),
        (situation(bounded=True, epsilon=10.0, spread=0.1), "tangent"),
        (situation(bounded=True, epsilon=10.0, n=None, adjacency="add-remove"), "tangent"),
        (situation(delta=None), "wishart"),
        (situation(delta=None, row_norm=1.0), "wishart"),
        (situation("covariance", bounded=True), "adaptive-cleaned"),
        (situation("covariance", row_norm=1.0), "adaptive-cleaned"),
        (situation("covariance", row_norm=1.0, one_pass=True), "cleaned"),
        (situation("covariance", row_norm=1.0, n=30_000, d=6), "cleaned"),  # noise is faint
        (situation("covariance", row_norm=1.0, n=10_000, d=6), "adaptive-cleaned"),
        (situation("covariance", private_radius=True), "cleaned"),
        (situation(private_radius=True), "analyze-gauss"),
        (situation("covariance", row_norm=1.0, n=None, adjacency="add-remove"), "adaptive-cleaned"),
        (situation("covariance", bounded=True, delta=None), "wishart"),
        (situation("covariance", bounded=True, row_norm=1.0, reach=1.5), "adaptive-cleaned"),
        (situation("covariance", bounded=True, row_norm=1.0, reach=9.0), "wishart"),
    ],
    ids=str,
)
def test_choices(asked, wanted):
    choice = choose(asked)
    assert choice.mechanism == wanted
    assert choice.reason
    assert "\n" not in choice.reason


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
    few, many = (_losses(situation(n=n, bounded=True, epsilon=5.0)) for n in (10_000, 20_000))
    assert few[0] / many[0] == pytest.approx(4, rel=0.05)
    # Clipped at 1/sqrt(3) of a reach that rows have 0.4 of: noise larger by 25/12.
    assert few[1] / few[0] == pytest.approx((25 / 12) ** 2, rel=0.05)


def test_a_drowned_table_is_no_reason_to_clip():
    drowned = situation(n=100, d=1000, bounded=True)
    assert min(_losses(drowned)) > 1
    assert choose(drowned).mechanism == "tangent"
