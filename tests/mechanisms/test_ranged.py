"""A private bound on rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.data import Clip, open_rows
from eigenveil.data.clip import LARGEST_NORM
from eigenveil.exceptions import BudgetExceededError, NothingFoundError
from eigenveil.mechanisms import (
    CoinPressCov,
    Gate,
    GaussCov,
    LapCov,
    LocatedCentre,
    PrivateQuantile,
    PrivateRadiusClip,
    ZeroCov,
)
from eigenveil.mechanisms.covariance.adaptive_cleaned import AdaptiveCleanedCov
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.accounting import rho_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.privacy.ledger import Ledger
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ANY = Clip(row_norm=LARGEST_NORM)
ROWS = np.random.default_rng(0).standard_normal((4000, 5))
REACH = np.linalg.norm(ROWS, axis=1)


def ranged(inner=None, *, level=0.5, factor=1.0, epsilon=0.5):
    distance = PrivateQuantile(epsilon=epsilon, level=level)
    return PrivateRadiusClip(distance=distance, inner=inner or GaussCov(mu=1.0), factor=factor)


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


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
@pytest.mark.parametrize("level", [0.5, 0.75])
def test_the_radius_is_the_quantile_within_a_bracket(level, adjacency):
    """Noise of 4 rows on counts of 4000; a bracket has width sqrt(2)."""
    wanted = float(np.quantile(REACH, level))
    for seed in range(10):
        found = run(ranged(level=level), adjacency=adjacency, seed=seed).row_norm
        assert 0.97 * wanted < found < 1.03 * math.sqrt(2) * wanted
    doubled = run(ranged(level=level, factor=2.0), adjacency=adjacency).row_norm
    assert doubled == 2 * run(ranged(level=level), adjacency=adjacency).row_norm


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
    plain, other = run(ranged()), run(ranged(), ROWS * unit)
    assert other.row_norm == pytest.approx(plain.row_norm * unit)
    assert other.matrix == pytest.approx(plain.matrix * unit**2, rel=0.2, abs=0.1 * unit**2)


def test_a_stated_bound_holds():
    assert run(ranged(), clip=Clip(row_norm=0.5)).row_norm == 0.5


def test_a_mechanism_that_lowers_it_has_the_last_word():
    chosen = run(ranged(AdaptiveCleanedCov.gaussian(5.0))).row_norm
    assert chosen <= run(ranged()).row_norm * (1 + 1e-12)
    assert run(ranged(CoinPressCov.gaussian(5.0))).row_norm == run(ranged()).row_norm


def test_nothing_found_is_charged_and_says_what_to_do(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=10.0, adjacency=REPLACE)
    with pytest.raises(NothingFoundError, match="budget is spent: state row_norm or bounds"):
        run(ranged(), np.ones((4000, 5)), Clip(row_norm=1e50, centre=np.ones(5)), ledger=ledger)
    (entry,) = ledger.entries
    assert entry.cost == ranged().cost()


def test_no_second_search_from_one_allotment():
    mechanism = ranged()
    gate = Gate(
        mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(0)
    )
    mechanism.run(open_rows(ROWS), ANY, gate)
    with pytest.raises(BudgetExceededError, match="'quantile' asks for more"):
        mechanism.run(open_rows(ROWS), ANY, gate)


def built(strength, rows, columns=None, *, pure=False):
    return PrivateRadiusClip.build(
        (Pure if pure else Gaussian)(strength), rows, ZeroCov(), columns=columns
    )


@pytest.mark.parametrize("pure", [False, True])
def test_the_rule_follows_from_public_numbers(pure):
    tenth = 0.1 if pure else math.sqrt(0.1)
    few = built(1.0, 100, pure=pure).distance
    assert few.level == 0.5
    assert few.epsilon == pytest.approx(tenth)
    some = built(1.0, round(96 / tenth), pure=pure).distance  # 32/96 of the rows beyond
    assert some.level == pytest.approx(2 / 3, abs=1e-3)
    assert some.epsilon == pytest.approx(tenth)
    many = built(1.0, 100_000, pure=pure).distance
    assert many.level == 0.75
    assert many.epsilon == pytest.approx(128 / 100_000)  # no more than it needs
    unknown = built(1.0, None, 5, pure=pure)
    assert (unknown.distance.level, unknown.factor) == (0.75, 1.0)
    assert unknown.distance.epsilon == pytest.approx(tenth)


def test_it_reaches_farther_the_less_noise_that_brings():
    assert built(1.0, 1000, 100).factor == 1.0
    assert built(1.0, 16_000, 16).factor == pytest.approx(math.sqrt(0.05 * 16_000 / 64))
    assert built(1.0, 16_000, 16, pure=True).factor == pytest.approx(math.sqrt(0.05 * 16_000 / 256))
    assert built(1.0, 10**7, 3).factor == 8.0
    assert built(1.0, 10**7).factor == 1.0  # for components


def test_cost_grows_with_the_strength():
    """So that a budget has one strength."""
    costs = [rho_of(built(mu, 5000).cost()) for mu in np.geomspace(1e-3, 10, 60)]
    assert (np.diff(costs) >= 0).all()
    assert all(
        cost <= 0.1 * mu**2 / 2 for cost, mu in zip(costs, np.geomspace(1e-3, 10, 60), strict=True)
    )


def _with_distances(rows):
    """The same rows in fixed company that has distances."""
    return np.vstack([np.random.default_rng(4).standard_normal((400, rows.shape[1])), rows])


def _ranged(clip, read):
    """A refusal is an outcome like any other."""

    def run(mechanism, rows, adjacency, gate):
        rows = _with_distances(rows)
        try:
            return read(mechanism.run(case.open_rows(rows), clip, gate))
        except NothingFoundError:
            return np.zeros(1)

    return run


def _within_radius(released):
    return np.append(case.matrix(released), released.row_norm)


def _ranged_about_a_centre(mu, d, k):
    """A centre, a radius and a matrix, as they are built for rows without any bound."""
    whole = Gaussian(mu)

    def build(rest):
        inner = PrivateRadiusClip.build(
            whole, 400, GaussCov(mu=rest) if rest else ZeroCov(), columns=d
        )
        return LocatedCentre.build(whole, 400, inner, directions=False)

    return build(math.sqrt(mu * mu - 2 * rho_of(build(0.0).cost())))


RANGED = {
    "query": lambda rows, adjacency: case.distances(_with_distances(rows), adjacency),
    "read": lambda released: released,
    "norm": "linf",
    "sensitivity": case.ONE,
    "worst_pair": case.long_and_short,
    "trials": 1000,
    "shows": False,
}


CASES = [
    case.Case(
        "ranged",
        "ranged",
        lambda mu, d, k: PrivateRadiusClip(
            distance=PrivateQuantile(epsilon=math.sqrt(0.2) * mu, level=0.5),
            inner=GaussCov(mu=math.sqrt(0.8) * mu * (1 - 2**-40)),
            factor=2.0,
        ),
        run=_ranged(replace(case.CLIP, row_norm=LARGEST_NORM), _within_radius),
        **RANGED,
    ),
    case.Case(
        "ranged pure",
        "ranged",
        lambda epsilon, d, k: PrivateRadiusClip(
            distance=PrivateQuantile(epsilon=0.4 * epsilon, level=0.5),
            inner=LapCov(epsilon=0.6 * epsilon),
        ),
        run=_ranged(replace(case.CLIP, row_norm=LARGEST_NORM), _within_radius),
        **(RANGED | case.PURE),
    ),
    case.Case(
        "ranged about a private centre",
        "ranged",
        _ranged_about_a_centre,
        run=_ranged(
            replace(case.FILLED, row_norm=LARGEST_NORM),
            lambda released: case.centred_entries(released, _within_radius),
        ),
        **RANGED,
    ),
]
