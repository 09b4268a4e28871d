"""Centres without bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import Clip
from eigenveil.exceptions import BudgetExceededError, InvalidDataError, NothingFoundError
from eigenveil.mechanisms import Gate, GaussCov, LocatedCentre, enough_rows, mean_shares
from eigenveil.numerics import SimulationSource
from eigenveil.papers.covrev import LapCov, Zero
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, compose, epsilon_of, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
DIRECTIONS = Clip(row_norm=1.0, normalise=True)
SHARES = (0.05, 0.1, 0.2)


def gate(mechanism, adjacency=REPLACE, seed=0, ledger=None):
    noise = SimulationSource(seed)
    return Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=ledger, noise=noise)


def located(rows, *, mu=1.0, adjacency=REPLACE, seed=0, start=DIRECTIONS, inner=None, **options):
    mechanism = LocatedCentre.build(case.noises(Gaussian(mu), SHARES), inner or Zero(), **options)
    return mechanism.run(open_rows(rows), start, gate(mechanism, adjacency, seed))


def normal(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@BOTH
def test_a_centre_far_away_is_found(adjacency):
    """20,000 rows in 10 dimensions, 1e5 spreads from the origin, at mu = 1: within one spread."""
    rows = normal(20_000, 10) + 1e5 / math.sqrt(10)
    errors = [
        np.linalg.norm(located(rows, adjacency=adjacency, seed=s).centre - rows.mean(axis=0))
        for s in range(10)
    ]
    assert max(errors) < 1.0


def test_a_generous_budget_finds_the_mean_of_skewed_rows():
    """Nothing is clipped then: rows clipped at their median distance have a mean a tenth off."""
    rows = np.random.default_rng(0).exponential(size=(5000, 3)) + 40
    assert np.abs(located(rows, mu=1e3).centre - rows.mean(axis=0)).max() < 0.01


@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
def test_the_unit_of_the_data_does_not_matter(scale):
    rows = (normal(5000, 4) + 20.0) * scale
    for seed in range(5):
        error = located(rows, seed=seed).centre - rows.mean(axis=0)
        assert np.linalg.norm(error) < 0.3 * scale


@pytest.mark.parametrize(
    "rows",
    [np.full((9, 2), 1e300), np.full((9, 2), 1e-300), np.ones((2, 3)), normal(30, 2) * 1e9],
    ids=["huge", "tiny", "two", "few"],
)
def test_where_nothing_is_found_pairs_need_no_centre(rows):
    """A search that finds nothing never answers with something that cannot be."""
    found = located(rows, inner=GaussCov(mu=0.1))
    assert np.isnan(found.centre).all()
    assert found.differences
    assert np.isfinite(found.inner.matrix).all()
    with pytest.raises(NothingFoundError, match="state bounds"):
        located(rows, adjacency=ADD, inner=GaussCov(mu=0.1))


def test_a_centre_is_lost_less_than_once_in_a_million_times():
    """Noise alone: 2,000 searches of an empty table keep nothing; a limit ten thousand times too
    low would be passed with probability 1 - (1 - 0.01)^2000.
    """
    rows = np.zeros((50, 2))  # at the start, where there is no distance
    assert all(located(rows, seed=s).differences for s in range(200))


def test_invalid_rows_stop_the_search_or_bring_nothing():
    rows = np.vstack([normal(2000, 3) + 50, np.full((20, 3), np.nan)])
    with pytest.raises(InvalidDataError, match="on_invalid"):
        located(rows)
    found = located(rows, start=replace(DIRECTIONS, on_invalid="zero")).centre
    assert np.linalg.norm(found - 50) < 3  # 1 % of the sum is missing


def test_the_search_begins_at_a_stated_centre():
    """At 1e9 spreads two steps from the origin are not enough for 1000 rows."""
    rows = normal(1000, 3) + 1e9
    near = located(rows, start=replace(DIRECTIONS, centre=np.full(3, 1e9)))
    assert np.linalg.norm(near.centre - rows.mean(axis=0)) < 1
    assert np.linalg.norm(located(rows).centre - rows.mean(axis=0)) > 100


def test_the_centre_stays_within_stated_ranges():
    rows = normal(2000, 3) + 5.0
    box = (np.full(3, 5.2), np.full(3, 10.0))
    start = replace(DIRECTIONS, centre=np.full(3, 7.5), box=box)
    assert (located(rows, start=start).centre >= 5.2).all()


def test_the_centre_is_that_of_rows_as_they_are():
    """Neither a stretch nor a norm for the inner release changes a bit of it."""
    rows = normal(500, 3) + 7.0
    expected = located(rows).centre
    stretch = (np.eye(3)[:1], 0.01)
    for start in (replace(DIRECTIONS, stretch=stretch), Clip(row_norm=30.0)):
        assert np.array_equal(located(rows, start=start).centre, expected)


@BOTH
def test_what_is_said_about_the_error(adjacency):
    """The squared error of a run is that which is said, in the mean of 60, within a factor 2; all
    of a squared distance where the data lie too far away for two steps.
    """
    rows = normal(3000, 5) * 10 + 100
    runs = [located(rows, adjacency=adjacency, seed=s, directions=False) for s in range(60)]
    actual = np.mean([np.sum((run.centre - rows.mean(axis=0)) ** 2) for run in runs])
    said = np.mean([run.centre_error for run in runs])
    assert 0.5 < actual / said < 2
    share = located(rows, adjacency=adjacency).centre_error
    assert 0.5 < share * np.mean(np.sum((rows - 100) ** 2, axis=1)) / said < 8
    lost = located(normal(1000, 3) + 1e9, adjacency=adjacency)
    assert lost.centre_error > 0.2


@BOTH
def test_unit_rows_have_a_distance_below_which_they_stay_shorter(adjacency):
    """The lower end of the bracket of a quarter of all distances, and of no other clip."""
    rows = normal(3000, 5) * 10 + 100
    run = located(rows, adjacency=adjacency, inner=Noting())
    quarter = np.quantile(np.linalg.norm(rows - run.centre, axis=1), 0.25)
    assert 0.6 * quarter < run.unit_distance < 1.05 * quarter
    assert run.inner.unit_distance == run.unit_distance
    other = located(rows, adjacency=adjacency, inner=Noting(), directions=False)
    assert other.unit_distance == other.inner.unit_distance == 0.0


def test_what_is_said_about_the_error_in_unit_rows():
    """Eight rows of ten lie a hundredth as far as the others, so that the mean of 1/r^2 is that of
    a few; what the centre adds to rows that are divided by a distance is what is said, within a
    factor of two in the mean of 40 runs.
    """
    rows = normal(5000, 8)
    rows[: len(rows) * 4 // 5] *= 0.01
    mean, actual, said = rows.mean(axis=0), [], []
    for seed in range(40):
        run = located(rows, seed=seed)
        error = float(np.sum((run.centre - mean) ** 2))
        lengths = np.linalg.norm(rows - run.centre, axis=1)
        inverse = np.mean(np.maximum(lengths, run.unit_distance) ** -2.0)
        trace = np.mean(np.minimum(1.0, lengths / run.unit_distance) ** 2)
        actual.append(min(1.0, error * inverse / trace))
        said.append(run.centre_error)
    assert 0.5 < np.mean(actual) / np.mean(said) < 2


class Noting(Zero):
    """Release nothing but the clip, which is public."""

    def run(self, source, clip, gate):
        super().run(source, clip, gate)
        return clip


@BOTH
def test_every_step_is_drawn_and_paid(adjacency):
    names = []

    class Watching(Gate):
        def draw(self, step, query):
            names.append(step.name)
            return super().draw(step, query)

    mechanism = LocatedCentre.build(case.noises(Gaussian(1.2), SHARES), GaussCov(mu=0.5))
    watching = Watching(
        mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=SimulationSource(0)
    )
    mechanism.run(open_rows(normal(2000, 3)), DIRECTIONS, watching)
    assert names == ["distances", "mean", "distances", "mean", "distances", "gauss"]
    expected = 1.2**2 * 0.45 / 2 + 0.5**2 / 2
    assert rho_of(mechanism.cost()) == pytest.approx(expected, rel=1e-6)
    pure = LocatedCentre.build(case.noises(Pure(1.0), SHARES), LapCov(epsilon=0.55))
    assert epsilon_of(pure.cost(), 0.0) == pytest.approx(1.0)


def test_shares_follow_from_public_numbers():
    """The more rows, the less."""
    totals = [sum(mean_shares(Gaussian(0.3), n, 16)) for n in (10, 1000, 10_000, 10**6)]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] == pytest.approx(0.04 + 0.15)
    assert totals[-1] == pytest.approx(0.025 + 0.05)
    assert sum(mean_shares(Pure(0.3), None, 16)) < 0.2


def test_a_search_that_is_not_charged_is_refused():
    """The planted fault: a total without the searches."""

    class Forgetful(LocatedCentre):
        def cost(self):
            return compose(*(mean.cost() for mean in self.means), self.inner.cost())

    honest = LocatedCentre.build(case.noises(Gaussian(1.0), SHARES), GaussCov(mu=0.5))
    faulty = Forgetful(distances=honest.distances, means=honest.means, inner=honest.inner)
    rows = open_rows(normal(500, 3))
    honest.run(rows, DIRECTIONS, gate(honest))
    with pytest.raises(BudgetExceededError, match="more than its share"):
        faulty.run(rows, DIRECTIONS, gate(faulty))


def test_large_tables_find_their_centre_from_some_rows():
    whole = Gaussian(0.3)
    share = enough_rows(whole, 200_000, 4)
    assert share == 2**15 / 200_000
    wide = enough_rows(Gaussian(0.3), 10**7, 9)
    assert wide == pytest.approx(math.sqrt(200 * 10**7 * 3 / 0.3) / 10**7)
    mechanism = LocatedCentre.build(case.noises(whole, SHARES), GaussCov(mu=0.2), sample=share)
    rows = normal(200_000, 4) + 50.0
    found = mechanism.run(open_rows(rows), DIRECTIONS, gate(mechanism))
    assert np.linalg.norm(found.centre - 50.0) < 0.5
    # It depends on the sample alone: rows outside it do not move it.
    places = gate(mechanism).sample(200_000, 2**15)
    moved = rows + 1000.0
    moved[places] = rows[places]
    assert np.array_equal(
        mechanism.run(open_rows(moved), DIRECTIONS, gate(mechanism)).centre, found.centre
    )


def test_a_sample_must_be_a_saving():
    def share(mu=0.3, rows=200_000, columns=4, pure=False):
        return enough_rows((Pure if pure else Gaussian)(mu), rows, columns)

    assert share(rows=None) == share(pure=True) == share(rows=3000) == 1.0
    assert share(rows=50_000_000, columns=2000) == 1.0  # too large to hold
    assert share(mu=0.01) == 1.0  # too far away to be found


def test_an_invalid_row_beside_the_sample_stops_before_the_charge(tmp_path):
    rows = normal(20_000, 2)
    rows[1, 0] = np.nan  # whether it is in the sample or not
    ledger = Ledger.create(tmp_path / "x.ledger", rho=5.0)
    mechanism = LocatedCentre.build(case.noises(Gaussian(1.0), SHARES), Zero(), sample=0.5)
    with pytest.raises(InvalidDataError, match="missing"):
        mechanism.run(open_rows(rows), DIRECTIONS, gate(mechanism, ledger=ledger))
    assert ledger.entries == ()


CENTRE = (0.1, 0.1, 0.1)


def _located(mu, d, k):
    return LocatedCentre.build(
        case.noises(Gaussian(mu), CENTRE), GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40))
    )


def _located_pure(epsilon, d, k):
    return LocatedCentre.build(
        case.noises(Pure(epsilon), CENTRE), LapCov(epsilon=0.5 * epsilon * (1 - 2**-40))
    )


def _entries(d):
    return d + d * (d + 1) // 2


LOCATED = {"run": case.in_company(_entries, case.DIRECTIONS, case.centred_entries)}
CROWDED = {  # so that Laplace noise hides no distance
    "run": case.in_company(_entries, case.DIRECTIONS, case.centred_entries, company=3000)
}

CASES = [
    case.Case("located", _located, **(case.BRACKETS | LOCATED)),
    case.Case(
        "located pure",
        _located_pure,
        **(case.PURE_BRACKETS | CROWDED | {"may_coincide": True}),
    ),
    case.Case(
        "located of a sample",
        lambda mu, d, k: replace(_located(mu, d, k), sample=0.75),
        **(case.BRACKETS | LOCATED | {"adjacencies": (case.REPLACE,)}),
    ),
    case.Case(
        "located of filled rows",
        _located,
        run=case.in_company(_entries, replace(case.FILLED, normalise=True), case.centred_entries),
        **case.BRACKETS,
    ),
]
