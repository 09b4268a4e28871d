"""A private bound on rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import LARGEST_NORM, Clip
from eigenveil.exceptions import BudgetExceededError, NothingFoundError
from eigenveil.mechanisms import (
    AdaptiveCleaned,
    Gate,
    GaussCov,
    GaussianNoise,
    LaplaceNoise,
    LocatedCentre,
    PrivateDistances,
    PrivateRadiusClip,
    noise_rows,
)
from eigenveil.numerics import SimulationSource
from eigenveil.papers.covrev import CoinPress, LapCov
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, epsilon_of, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ANY = Clip(row_norm=LARGEST_NORM)
ROWS = np.random.default_rng(0).standard_normal((4000, 5))
REACH = np.linalg.norm(ROWS, axis=1)


def ranged(inner=None, *, rows=10.0, mu=0.5):
    distances = PrivateDistances(noise=GaussianNoise(mu=mu))
    return PrivateRadiusClip(distances=distances, inner=inner or GaussCov(mu=1.0), rows=rows)


def run(mechanism, rows=ROWS, clip=ANY, adjacency=REPLACE, ledger=None, seed=0):
    noise = None if ledger else SimulationSource(seed)
    gate = Gate(
        mechanism.cost(),
        label="x",
        adjacency=adjacency,
        ledger=ledger,
        noise=noise or SimulationSource(seed),
    )
    return mechanism.run(open_rows(rows), clip, gate)


def best_radius(rows):
    """Where noise worth so many rows, and what clipping takes, are least together."""
    radii = np.linspace(0.5, REACH.max(), 400)
    loss = [rows * r**2 / 4000 + np.mean(np.maximum(REACH**2 - r**2, 0.0)) for r in radii]
    return radii[int(np.argmin(loss))]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
@pytest.mark.parametrize("rows", [2.0, 100.0, 1000.0])
def test_the_radius_balances_noise_and_loss(rows, adjacency):
    """Brackets of width sqrt(2) say where rows lie: within that of the best."""
    wanted = best_radius(rows)
    for seed in range(5):
        found = run(ranged(rows=rows, mu=5.0), adjacency=adjacency, seed=seed).row_norm
        assert wanted / math.sqrt(2) < found < math.sqrt(2) * wanted


def test_less_noise_reaches_farther():
    """Beyond all rows where there is next to none."""
    radii = [run(ranged(rows=rows)).row_norm for rows in (2000.0, 200.0, 20.0, 0.01)]
    assert radii == sorted(radii)
    assert radii[-1] >= np.quantile(REACH, 0.99)


def test_rows_are_clipped_at_it_about_the_centre():
    centre = np.full(5, 1e6)
    released = run(ranged(GaussCov(mu=1e4)), ROWS + centre, Clip(row_norm=1e50, centre=centre))
    radius = released.row_norm
    pulled = ROWS * np.minimum(1.0, radius / REACH)[:, None]
    assert released.matrix == pytest.approx(pulled.T @ pulled / 4000, abs=2e-3)
    assert released.noise_scale == pytest.approx(math.sqrt(2) * radius**2 / 4e7)


@pytest.mark.parametrize("unit", [2.0**-100, 2.0**-20, 2.0**20, 2.0**100])
def test_units_do_not_matter(unit):
    """Brackets are powers of sqrt(2): even powers of two move them by whole numbers."""
    plain, other = run(ranged(mu=50.0)), run(ranged(mu=50.0), ROWS * unit)
    assert other.row_norm == pytest.approx(plain.row_norm * unit, rel=0.02)  # counts are noisy
    assert other.matrix == pytest.approx(plain.matrix * unit**2, rel=0.2, abs=0.1 * unit**2)


def test_a_stated_bound_holds():
    assert run(ranged(), clip=Clip(row_norm=0.5)).row_norm == 0.5


def test_a_mechanism_that_lowers_it_has_the_last_word():
    chosen = run(ranged(AdaptiveCleaned(strength=Gaussian(5.0)))).row_norm
    assert chosen <= run(ranged()).row_norm * (1 + 1e-12)
    assert run(ranged(CoinPress(strength=Gaussian(5.0)))).row_norm == run(ranged()).row_norm


def test_nothing_found_is_charged_and_says_what_to_do(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=10.0, adjacency=REPLACE)
    with pytest.raises(NothingFoundError, match="budget is spent: state row_norm or bounds"):
        run(ranged(), np.ones((4000, 5)), Clip(row_norm=1e50, centre=np.ones(5)), ledger=ledger)
    (entry,) = ledger.entries
    assert entry.cost == ranged().cost()


def test_nothing_found_falls_back_to_a_distance_released_before():
    clip = replace(ANY, found_norm=3.0)
    assert run(ranged(), np.zeros((50, 3)), clip).row_norm == 3.0
    assert run(ranged(), np.zeros((50, 3)), replace(clip, row_norm=2.0)).row_norm == 2.0
    assert run(ranged(), ROWS, clip).row_norm == run(ranged(), ROWS).row_norm


def test_no_second_search_from_one_allotment():
    mechanism = ranged()
    gate = Gate(
        mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(0)
    )
    mechanism.run(open_rows(ROWS), ANY, gate)
    with pytest.raises(BudgetExceededError, match="'distances' asks for more"):
        mechanism.run(open_rows(ROWS), ANY, gate)


def test_the_cost_is_that_of_both_steps():
    searches = [PrivateDistances(noise=n) for n in (GaussianNoise(mu=0.2), LaplaceNoise(epsilon=1))]
    inners = [GaussCov(mu=0.1), LapCov(epsilon=2)]
    built, pure = (
        PrivateRadiusClip(distances=search, inner=inner, rows=1.0)
        for search, inner in zip(searches, inners, strict=True)
    )
    assert rho_of(built.cost()) == pytest.approx((0.04 + 0.01) / 2)
    assert epsilon_of(pure.cost(), 0.0) == pytest.approx(3)


def test_noise_in_rows_grows_with_columns_and_falls_with_the_budget():
    """A quarter of the Frobenius norm of the noise on a sum of rows in the unit ball."""
    for d in (1, 5, 40):
        scale = math.sqrt(2) / 0.5
        expected = 0.25 * scale * math.sqrt(d * (d + 1) / 2)
        assert noise_rows(Gaussian(0.5), d, REPLACE) == pytest.approx(expected)
    assert noise_rows(Gaussian(0.5), 5, ADD) < noise_rows(Gaussian(0.5), 5, REPLACE)
    assert noise_rows(Pure(1.0), 5, REPLACE) == 2 * noise_rows(Pure(2.0), 5, REPLACE)


def _within_radius(released):
    return np.append(case.matrix(released), released.row_norm)


def _entries(d):
    return d * (d + 1) // 2 + 1


def _ranged_about_a_centre(mu, d, k):
    """A centre, a radius and a matrix, as they are built for rows without any bound."""
    whole = Gaussian(mu)
    matrix = GaussCov(mu=math.sqrt(0.3) * mu * (1 - 2**-40))
    radius, *centre = case.noises(whole, (0.1, 0.2, 0.1, 0.1))
    inner = PrivateRadiusClip(
        distances=PrivateDistances(noise=radius), inner=matrix, rows=noise_rows(whole, d, REPLACE)
    )
    return LocatedCentre.build(centre, inner, directions=False)


CASES = [
    case.Case(
        "ranged",
        lambda mu, d, k: PrivateRadiusClip(
            distances=PrivateDistances(noise=GaussianNoise(mu=math.sqrt(0.2) * mu)),
            inner=GaussCov(mu=math.sqrt(0.8) * mu * (1 - 2**-40)),
            rows=10.0,
        ),
        run=case.in_company(_entries, case.ANYWHERE, _within_radius),
        **case.BRACKETS,
    ),
    case.Case(
        "ranged pure",
        lambda epsilon, d, k: PrivateRadiusClip(
            distances=PrivateDistances(noise=LaplaceNoise(epsilon=0.4 * epsilon)),
            inner=LapCov(epsilon=0.6 * epsilon),
            rows=10.0,
        ),
        run=case.in_company(_entries, case.ANYWHERE, _within_radius),
        **case.PURE_BRACKETS,
    ),
    case.Case(
        "ranged about a private centre",
        _ranged_about_a_centre,
        run=case.in_company(
            lambda d: d + _entries(d),
            replace(case.FILLED, row_norm=LARGEST_NORM),
            lambda released: case.centred_entries(released, _within_radius),
        ),
        **case.BRACKETS,
        proof="ranged",
    ),
]
