"""AdaptiveOja: the radius and the noise of a step, what it costs, and faults that would show."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.exact import REACH, BasisProduct, Batches, Clip, update_counts
from eigenveil.exceptions import BudgetExceededError, NothingFoundError
from eigenveil.mechanisms import Gate, Oja, OnePassState
from eigenveil.numerics import SimulationSource
from eigenveil.papers.kpca import AdaptiveOja, adaptive_oja
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, compose
from eigenveil.rows import Batch, MatrixSource, open_rows
from tests.conformance import batches, case
from tests.conformance.tape import Tape
from tests.statistics import variance_p_value

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=2.0)
UNIT = Clip(row_norm=1.0, normalise=True)
D, P = 40, 4
BASIS = np.eye(D)[:, :P]
MEAN = 1.8 * np.eye(D)[0]
IMAGE = np.outer(MEAN, MEAN @ BASIS)


def tape(mechanism, seed=0, record=None, ledger=None):
    return Tape(
        mechanism.cost(),
        label="x",
        adjacency=REPLACE,
        ledger=ledger,
        noise=seed if isinstance(seed, SimulationSource) else SimulationSource(seed),
        record=record,
    )


def near_and_far(m):
    """Of four records about the mean, three are off by 0.001 and then one by 0.1, or so."""
    off = np.random.default_rng(0).standard_normal((m, D)) / math.sqrt(D)
    off[:, 0] = 0
    return MEAN + off * np.where(np.arange(m) % 5 < 2, 0.1, 0.001)[:, None]


def products(rows, image=IMAGE):
    """W(AQ - P) of every record, as the module docstring of `exact/updates.py` has it."""
    moved = np.einsum("ij,ik->ijk", rows, rows @ BASIS) - image
    inside = BASIS @ (BASIS.T @ moved)
    return moved - (1 - math.sqrt(0.5)) * inside


def start(image=IMAGE, trace=4.0):
    return OnePassState(BASIS, image, trace=trace)


def stepped(mechanism, rows, iterate=None, clip=CLIP, **options):
    opened = tape(mechanism, **options)
    after = mechanism.step(iterate or start(), Batch(rows, 0), clip, opened)
    return after, opened.tape


def radius_of(draws):
    """What the search has answered, in the caller's units."""
    ((_, query, found),) = (draw for draw in draws if draw[0] == "quantile")
    return query.unit * 2.0 ** (-found / 2)


def test_the_radius_is_the_quantile_of_distances_from_the_image():
    """The 75 % quantile is among the far 40 %, the median is not. The search is off with a
    probability below 1e-20: brackets miss by 100 records, its noise has a scale of 8.
    """
    mechanism = AdaptiveOja(strength=Gaussian(1.0), n_components=2)
    rows = near_and_far(1000)
    lengths = np.linalg.norm(products(rows), axis=(1, 2))
    wanted = np.quantile(lengths, 0.75)
    assert np.median(lengths) < wanted / 20
    _, draws = stepped(mechanism, rows)
    radius = radius_of(draws)
    assert wanted / 1.01 < radius < wanted * 1.01 * math.sqrt(2)


def test_few_records_ask_for_a_lower_quantile():
    """A bracket beyond all records misses by 16 scales of the search's noise, or by a half."""
    levels = [
        AdaptiveOja(strength=Gaussian(1.0), n_components=2)._quantile(m).level
        for m in (100, 256, 384, 512, 10**6)
    ]
    assert levels == pytest.approx([0.5, 0.5, 2 / 3, 0.75, 0.75])


def test_the_sum_is_that_of_records_about_the_image_pulled_in():
    """Rounding the centre moves the mean by 2^-19 of the ball."""
    rows = near_and_far(1000)
    _, draws = stepped(AdaptiveOja(strength=Gaussian(1.0), n_components=2), rows)
    radius, (_, query, _) = radius_of(draws), draws[-1]
    about = products(rows)
    lengths = np.linalg.norm(about, axis=(1, 2))
    assert (lengths > 1.1 * radius).sum() > 20
    pulled = about * np.minimum(1.0, radius / lengths)[:, None, None]
    seen = query.value.to_float() * query.unit
    assert seen == pytest.approx(pulled.mean(axis=0), abs=CLIP.radius**2 * 2.0**-19)
    assert seen != pytest.approx(about.mean(axis=0), abs=1e-4)
    assert seen != pytest.approx(products(rows, 0 * IMAGE).mean(axis=0), abs=1e-4)


def test_noise_is_twice_the_radius_over_the_records_and_mu():
    """False alarm 2e-6; 3 % off lies 8 standard errors out at 40,000 entries."""
    mechanism, m = AdaptiveOja(strength=Gaussian(1.3), n_components=2), 1000
    rows, source = near_and_far(m), SimulationSource(1)
    noise = []
    for _ in range(40_000 // BASIS.size):
        after, draws = stepped(mechanism, rows, seed=source)
        sigma = 2 * radius_of(draws) / (m * mechanism.mu)
        _, query, noisy = draws[-1]
        noise.append((noisy.values - query.value.to_float() * query.unit) / sigma)
        assert after.noise_variance == pytest.approx(sigma**2, rel=1e-2)
    sample = np.array(noise).ravel()
    assert variance_p_value(sample, 1.0) > 1e-6
    assert variance_p_value(sample, 1.03) < 1e-6
    assert variance_p_value(sample, 0.97) < 1e-6


def test_noise_falls_from_batch_to_batch_where_records_are_nearly_equal():
    """Oja's, for the bound alone, stays what it was."""
    rng = np.random.default_rng(2)
    rows = np.eye(8)[0] + 1e-3 * rng.standard_normal((3000, 8))

    def deviations(mechanism):
        opened = tape(mechanism)
        mechanism.run(open_rows(rows), UNIT, opened)
        return [answer.deviation for name, _, answer in opened.tape if name == "gaussian"]

    adaptive = deviations(AdaptiveOja(strength=Gaussian(1.0), n_components=1, batch_size=500))
    assert len(adaptive) == 6
    assert adaptive[-1] < adaptive[0] / 50
    plain = deviations(Oja(strength=Gaussian(1.0), n_components=1, batch_size=500))
    assert min(plain) > max(plain) / 1.01


def test_a_batch_too_small_for_the_search_has_the_stated_bound():
    """256/mu records are enough; with one less there is no search, and the noise of the ball."""
    mechanism = AdaptiveOja(strength=Gaussian(1.0), n_components=2)
    rows = near_and_far(256)
    _, draws = stepped(mechanism, rows)
    assert [name for name, _, _ in draws] == ["quantile", "gaussian"]
    _, draws = stepped(mechanism, rows[1:])
    assert [name for name, _, _ in draws] == ["gaussian"]
    natural = BasisProduct(BASIS, weighted=True).natural() * CLIP.radius**2
    assert draws[0][2].deviation == pytest.approx(natural / 255, rel=1e-4)
    assert mechanism.first_batch(D) >= 256


def test_a_search_that_finds_nothing_is_charged(tmp_path):
    """All matrices are equal, and the image is theirs: every distance is zero."""
    mechanism = AdaptiveOja(strength=Gaussian(1.0), n_components=1)
    ledger = Ledger.create(tmp_path / "l", rho=2.0, adjacency=REPLACE)
    batch = Batches(MatrixSource([np.repeat(np.eye(D)[None] / D, 500, axis=0)], D), REPLACE).take(
        500
    )
    opened = tape(mechanism, ledger=ledger)
    with pytest.raises(NothingFoundError, match="the budget is spent"):
        mechanism.step(start(BASIS / D), batch, CLIP, opened)
    (entry,) = ledger.entries
    assert entry.cost == mechanism.cost()


def test_equal_rows_are_found_at_the_finest_radius():
    """What rounding adds bounds the noise from below: never zero, never an error."""
    mechanism = AdaptiveOja(strength=Gaussian(1.0), n_components=1, batch_size=500)
    found = mechanism.run(open_rows(np.ones((3000, 3))), UNIT, tape(mechanism))
    assert found.components[0] == pytest.approx(np.full(3, math.sqrt(1 / 3)), abs=1e-2)
    assert 0 < found.noise_scale < 1e-5


def test_a_generous_norm_takes_nothing_off_the_image():
    """The centre of a step is rounded to 2^-19 of the squared norm: to nothing where that is huge.

    The estimate then stays where earlier batches brought it, but for the noise of one step: five
    of its deviations are exceeded once in a million times by one of 160 entries.
    """
    clip = Clip(row_norm=3000.0)
    assert 4 * IMAGE.max() < 2.0**-18 * clip.row_norm**2  # so that it is rounded to zero
    rows = MEAN + np.random.default_rng(0).standard_normal((20_000, D)) / D
    truth = rows.T @ (rows @ BASIS) / len(rows)
    begun = replace(start(truth), steps=3, doubt=1.0, noise_variance=1.0)
    after, _ = stepped(AdaptiveOja(strength=Gaussian(5.0), n_components=P), rows, begun, clip=clip)
    found = after.image @ after.basis.T @ BASIS
    deviation = math.sqrt(after.noise_variance)
    assert deviation < 0.1
    assert np.abs(found - truth).max() < 5 * deviation + 1e-2


def test_a_trace_that_is_noise_moves_no_component():
    """Where it tells no level, directions outside the basis stay outside."""
    basis = np.eye(9)[:, :1]
    known = OnePassState(basis, 4.0 * basis, trace=12.0, trace_noise=0.1, steps=3, doubt=1.0)
    assert known.level == pytest.approx(1.0)
    noisy = replace(known, trace=400.0, trace_noise=200.0)
    assert noisy.level == 0.0
    batch = Batch(np.zeros((5, 9)), 0)
    turn = 0.1 * np.eye(9)[:, 1:2]
    moved = noisy.corrected(turn, 1.0, batch)
    assert abs(moved.basis[0, 0]) > 0.99
    lost = replace(noisy, trace_noise=0.0).corrected(turn, 1.0, batch)
    assert abs(lost.basis[0, 0]) < 0.9  # as if it were sure


def test_a_batch_costs_the_mean_and_the_search():
    mechanism = AdaptiveOja(strength=Gaussian(0.8), n_components=2)
    assert mechanism.cost() == compose(Gaussian(0.8), Pure(0.2))
    opened = tape(mechanism)
    rows = near_and_far(600)
    after = mechanism.step(start(), Batch(rows[:400], 0), CLIP, opened)
    after = mechanism.step(after, Batch(rows[400:], 400), CLIP, opened)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        mechanism.step(after, Batch(rows[400:], 400), CLIP, opened)


# Planted faults


class Peeking(AdaptiveOja):
    """The radius is read off the records."""

    def _radius(self, batch, clip, view, gate):
        counts = update_counts(batch, clip, view, gate.adjacency).value.units
        return float(REACH * clip.radius**2 * 2.0 ** (-np.flatnonzero(counts)[0] / 2))


def excess(kind):
    """Of the sums of neighbours over their sensitivity, given the same draws."""
    mechanism = kind(strength=Gaussian(1.0), n_components=2)
    rows = near_and_far(500)
    neighbour = np.vstack([-rows[:1, ::-1], rows[1:]])
    longest = np.linalg.norm(products(rows), axis=(1, 2)).max()
    assert np.linalg.norm(products(neighbour[:1])) > 5 * longest
    first = tape(mechanism)
    mechanism.step(start(), Batch(neighbour, 0), CLIP, first)
    second = tape(mechanism, record=first.tape)
    mechanism.step(start(), Batch(rows, 0), CLIP, second)
    return second.excess


def test_a_radius_that_is_not_paid_for_shows_in_the_sums_of_neighbours():
    assert excess(AdaptiveOja) <= 1
    assert excess(Peeking) > 2


def accused():
    """Audit of one step on rows that are as far apart as the bound lets them be."""
    mechanism = AdaptiveOja(strength=Gaussian(1.5), n_components=1)
    basis = np.eye(2)
    tables = [np.vstack([basis, basis[i]]) for i in range(2)]
    source = SimulationSource(4)

    def release(rows):
        opened = Gate(mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=source)
        begun = OnePassState(basis, np.zeros((2, 2)))
        after = mechanism.step(begun, Batch(rows, 0), UNIT, opened)
        return (after.image @ after.basis.T)[np.triu_indices(2)]

    return audit(
        lambda: release(tables[0]),
        lambda: release(tables[1]),
        cost=mechanism.cost(),
        trials=300,
        alpha=1e-3,
    ).violated


def test_half_of_the_noise_would_be_accused(monkeypatch):
    """What is honest is accused with probability 1e-3 at most."""
    assert not accused()
    honest = adaptive_oja.update_sum

    def halved(*arguments):
        query = honest(*arguments)
        return replace(query, sensitivities={"l2": query.sensitivity("l2") / 2})

    monkeypatch.setattr(adaptive_oja, "update_sum", halved)
    assert accused()


CASES = [
    case.Case(
        name,
        batches.adaptive(AdaptiveOja),
        **(batches.ONE_PASS | batches.COUNTED_PART),
        query=batches.update_distances,
        run=batches.found(batches.one_pass(clip)),
    )
    for name, clip in (("adaptive-oja", case.DIRECTIONS), ("adaptive-oja clipped", case.CLIP))
]
