"""TangentOja: when tangent steps begin, what they leave alone, and what they gain."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from eigenveil.exact import BasisProduct, Clip, update_counts
from eigenveil.mechanisms import NoisyComponents, OnePassState
from eigenveil.papers.kpca import AdaptiveOja, TangentOja
from eigenveil.privacy import Gaussian
from eigenveil.rows import Batch, open_rows
from tests.conformance import batches, case
from tests.mechanisms.test_adaptive_oja import tape

CLIP = Clip(row_norm=1.0)
UNIT = Clip(row_norm=1.0, normalise=True)
D, K = 30, 2
BASIS = np.eye(D)[:, :K]


def spiked(n, seed=0):
    """Two strong directions of their own, in noise."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, D))
    rows[:, :K] *= np.array([20.0, 12.0])
    return rows


class Watched(TangentOja):
    """Remembers what its steps look at."""

    seen: ClassVar[list[BasisProduct]] = []

    def view(self, iterate):
        view = TangentOja.view(self, iterate)
        self.seen.append(view)
        return view


def test_tangent_steps_begin_when_the_basis_is_narrowed_and_never_end():
    mechanism = Watched(strength=Gaussian(1.0), n_components=K, batch_size=2000)
    Watched.seen.clear()
    found = mechanism.run(open_rows(spiked(20_000)), UNIT, tape(mechanism))
    tangent = [view.tangent for view in Watched.seen]
    assert len(tangent) == 10
    assert tangent == sorted(tangent)
    assert 2 <= sum(tangent) <= 8
    for view in Watched.seen:
        assert view.k == (K if view.tangent else mechanism.width(D))
        assert (view.centre is None) == view.tangent
    assert np.sum((found.components @ BASIS) ** 2) > K - 0.02


def test_a_basis_that_was_never_wider_is_not_narrowed():
    """All columns are components: there is nothing across."""
    mechanism = TangentOja(strength=Gaussian(1.0), n_components=3)
    assert not mechanism.view(OnePassState(np.eye(3), np.eye(3))).tangent
    mechanism = TangentOja(strength=Gaussian(1.0), n_components=K)
    assert mechanism.view(OnePassState(BASIS, BASIS)).tangent
    wide = np.eye(D)[:, : mechanism.width(D)]
    assert not mechanism.view(OnePassState(wide, wide)).tangent


def test_values_in_doubt_are_measured_again():
    """Where rows are clipped farther out than before, they have other values."""
    mechanism = TangentOja(strength=Gaussian(1.0), n_components=K)
    settled = OnePassState(BASIS, BASIS, steps=3, noise_variance=1e-6, doubt=1.5e-6)
    assert mechanism.view(settled).tangent
    assert mechanism.view(settled.reaching(1.1, 1e-3)).tangent
    assert not mechanism.view(settled.reaching(2.0, 0.1)).tangent


def inside_and_across(n, across):
    """Rows that vary much along the basis, and by ``across`` beside it."""
    rng = np.random.default_rng(1)
    rows = across * rng.standard_normal((n, D)) / math.sqrt(D)
    rows[:, :K] = np.where(rng.random((n, 1)) < 0.5, [0.7, 0.1], [-0.2, 0.5])
    return rows


def test_values_are_left_alone():
    """They stay wrong where they were. What lies across, 2e-5 or so, moves them by its square over
    a gap; noise inside would move them by 1e-7.
    """
    mechanism = TangentOja(strength=Gaussian(20.0), n_components=K)
    values = np.array([0.9, 0.3])
    begun = OnePassState(BASIS, BASIS * values, trace=1.3, steps=1)
    batch = Batch(inside_and_across(500, 1e-3), 0)
    opened = tape(mechanism)
    after = mechanism.step(begun, batch, CLIP, opened)
    _, query, noisy = opened.tape[-1]
    assert np.abs(query.value.to_float() * query.unit)[:K].max() < 1e-5
    assert 1e-7 < noisy.deviation < 1e-6
    assert after.values(K) == pytest.approx(values, abs=noisy.deviation / 20)
    whole = AdaptiveOja(strength=Gaussian(20.0), n_components=K).step(
        begun, batch, CLIP, tape(mechanism)
    )
    assert abs(whole.values(K)[0] - 0.9) > 0.1


def test_what_noise_puts_inside_is_taken_out():
    noise = np.random.default_rng(2).standard_normal((D, K))
    left = BasisProduct(BASIS, tangent=True).restored(noise)
    assert np.abs(left[:K]).max() < 1e-12
    assert np.array_equal(left[K:], noise[K:])


def test_what_varies_inside_adds_no_noise():
    """A hundredth across: whole steps have the noise of what varies inside."""
    begun = OnePassState(BASIS, BASIS * 0.4, trace=1.0, steps=1)
    batch = Batch(inside_and_across(2000, 0.01), 0)
    mechanisms = [
        kind(strength=Gaussian(1.0), n_components=K) for kind in (TangentOja, AdaptiveOja)
    ]
    tangent, whole = (
        mechanism.step(begun, batch, CLIP, tape(mechanism)).noise_variance
        for mechanism in mechanisms
    )
    assert math.sqrt(tangent) < math.sqrt(whole) / 20


# Narrowing, which all one-pass methods share


def turned(angle):
    """The second direction turned towards the third."""
    basis = np.eye(D)[:, :10]
    cosine, sine = math.cos(angle), math.sin(angle)
    basis[1:3, 1:3] = [[cosine, -sine], [sine, cosine]]
    return basis


def considered(angle=0.1, grown=1.0, variance=1e-8):
    """Ten columns for two components after a step that turned and stretched them."""
    values = np.array([0.5, 0.3, *np.full(8, 1e-3)])
    before = OnePassState(
        turned(0.0), turned(0.0) * values, trace=1.0, steps=2, noise_variance=1e-8
    )
    values[1] *= grown
    after = replace(
        before, basis=turned(angle), image=turned(angle) * values, steps=3, noise_variance=variance
    )
    return TangentOja(strength=Gaussian(1.0), n_components=K)._considered(
        before, replace(after, doubt=1e-8)
    )


def test_columns_are_given_up_once_directions_and_values_stand_still():
    kept = considered()
    assert kept.basis.shape == kept.image.shape == (D, K)
    assert kept.basis == pytest.approx(turned(0.1)[:, :K])
    assert considered(angle=0.4).basis.shape == (D, 10)  # cosine 0.92
    assert considered(grown=1.6).basis.shape == (D, 10)
    assert considered(variance=1e-2).basis.shape == (D, 10)


def test_what_was_seen_along_other_directions_is_forgotten():
    assert considered(angle=0.8).doubt == pytest.approx(4e-8)  # cosine 0.7
    assert considered(angle=0.4).doubt == 1e-8


def test_a_first_step_has_nothing_to_stand_still_beside():
    wide = turned(0.0)
    before = OnePassState(wide, np.zeros_like(wide), trace=1.0)
    after = OnePassState(wide, wide * 0.1, trace=1.0, steps=1, noise_variance=1e-9, doubt=1e-9)
    assert TangentOja(strength=Gaussian(1.0), n_components=K)._considered(before, after) is after


def _tangent_step(mechanism, rows, adjacency, gate):
    """One batch after the warm start."""
    basis = batches.columns(rows.shape[1])[:, : mechanism.n_components]
    batch = Batch(batches.batched(mechanism, rows, 0), 0)
    return mechanism.step(OnePassState(basis, basis / 2, trace=1.0), batch, case.DIRECTIONS, gate)


def _tangent_counts(rows, adjacency):
    view = BasisProduct(batches.columns(rows.shape[1])[:, :1], tangent=True)
    return update_counts(Batch(rows, 0), case.DIRECTIONS, view, adjacency)


def _tangent_estimate(released):
    if isinstance(released, NoisyComponents):  # nothing was found
        return np.zeros(released.components.shape[1] * (released.components.shape[1] + 1) // 2)
    return batches.estimate(released)


CASES = [
    case.Case(
        "tangent-oja",
        batches.adaptive(TangentOja),
        **(batches.ONE_PASS | batches.COUNTED_PART),
        query=batches.update_distances,
        run=batches.found(batches.one_pass(case.DIRECTIONS)),
    ),
    case.Case(
        "tangent-oja step",
        batches.adaptive(TangentOja),
        **(batches.ONE_PASS | batches.COUNTED_PART | {"read": _tangent_estimate}),
        query=_tangent_counts,
        run=batches.found(_tangent_step),
        may_coincide=True,
    ),
]
