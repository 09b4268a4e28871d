"""The judge of components accepts true statements and rejects false ones.

Fits are made up from the eigenpairs of a table and noise: 40 of each, whose claims hold by
construction or fail by it.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from eigenveil.mechanisms import Captured
from tests.truth.components import SeenMoment, judged_components
from tests.truth.judge import (
    ABOVE_FLOOR,
    CAPTURED,
    CLEAR,
    NOT_THE_CENTRE,
    RELEASED,
    REPRODUCIBLE,
    failures,
)

FITS, ROWS, COLUMNS, K = 40, 400, 6, 2
NOISE = 0.01


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    return rng.standard_normal((ROWS, COLUMNS)) * 2.0 ** -np.arange(COLUMNS) + 5.0


def made_up(rows, seed, *, error=0.0, turned=0.0, raised=0.0, boast=0.0, clear=True, **options):
    """Return a fit about a centre that is off by ``error`` along the last column.

    The last component is ``turned`` into the last column by that much, and the first eigenvalue
    ``raised`` by so many floors. Squared cosines and shares are stated too large by ``boast``.
    """
    rng = np.random.default_rng(seed)
    centre = rows.mean(axis=0) + error * np.eye(COLUMNS)[-1]
    fit = SimpleNamespace(
        mean_=centre,
        scale_=np.ones(COLUMNS),
        row_norm=None,
        plan_=SimpleNamespace(normalise=True),
        noise_floor_=3 * NOISE,
        mechanism_="tangent",
        **options,
    )
    seen = SeenMoment.about(fit, rows, centre)
    components = seen.vectors[:K].copy()
    components[-1] = math.sqrt(1 - turned) * components[-1]
    components[-1, -1] += math.sqrt(turned)
    fit.components_ = components / np.linalg.norm(components, axis=1)[:, None]
    values = seen.values[:K] + NOISE * rng.standard_normal(K)
    values[0] += raised * fit.noise_floor_
    fit.release_ = SimpleNamespace(arrays={"eigenvalues": values})
    fit.distinguishable_ = np.full(K, clear)
    own = np.sum(fit.components_ * seen.vectors[:K], axis=1) ** 2
    fit.reproducibility_ = np.minimum(1.0, own + boast)
    held = (fit.components_ @ seen.vectors.T) ** 2 @ seen.values
    found = np.array([held.sum() / seen.values.sum(), held.sum() / seen.values[:K].sum()])
    found += boast + NOISE * rng.standard_normal(2)
    fit.captured_ = Captured(found[0], NOISE, found[1], NOISE)
    return fit


def failing(rows, **law):
    return set(failures([judged_components(made_up(rows, s, **law), rows) for s in range(FITS)]))


@pytest.mark.parametrize("options", [{}, {"unit_distance_": 0.5}], ids=["unit", "near"])
def test_accepts_true_statements(rows, options):
    assert failing(rows, **options) == set()


def test_rejects_a_clear_component_that_the_table_does_not_have(rows):
    assert failing(rows, turned=0.8) == {CLEAR, NOT_THE_CENTRE}


def test_rejects_a_clear_component_that_is_the_error_of_the_centre(rows):
    assert failing(rows, error=20.0) == {NOT_THE_CENTRE}


def test_says_nothing_of_components_that_are_not_clear(rows):
    assert failing(rows, turned=0.8, error=20.0, clear=False) == set()


def test_rejects_eigenvalues_above_the_floor_that_the_table_does_not_have(rows):
    assert failing(rows, raised=1.5) == {ABOVE_FLOOR}


def test_rejects_agreement_and_shares_that_are_too_large(rows):
    assert failing(rows, turned=0.3, boast=0.2) == {REPRODUCIBLE, CAPTURED}


def test_limited_columns_are_judged_in_standard_deviations(rows):
    """The truth of standardised columns is the limited moment over the released deviations."""
    scale, deviations = np.full(COLUMNS, 2.0), rows.std(axis=0) / 2.0
    fit = SimpleNamespace(
        mean_=rows.mean(axis=0),
        scale_=scale * deviations,
        row_norm_=math.inf,
        mechanism_="correlation",
        release_=SimpleNamespace(arrays={"clipping_scale": scale}, settings={}),
    )
    found = SeenMoment.about(fit, rows, fit.mean_)
    assert found.values == pytest.approx(np.linalg.eigvalsh(np.corrcoef(rows.T))[::-1])
    fit.release_.settings["column_limit"] = 0.1
    assert SeenMoment.about(fit, rows, fit.mean_).values.sum() < found.values.sum()


def test_a_release_that_is_not_finite_fails(rows):
    fit = made_up(rows, 1)
    fit.components_[0, 0] = np.nan
    assert judged_components(fit, rows) == {RELEASED: 0.0}


def test_pairs_of_rows_have_the_matrix_of_rows_about_their_mean(rows):
    fit = made_up(rows, 1)
    fit.plan_.normalise = False
    own = SeenMoment.about(fit, rows, rows.mean(axis=0))
    paired = SeenMoment.about(fit, rows, np.full(COLUMNS, np.nan))
    assert paired.values == pytest.approx(own.values, rel=0.2)
    assert own.values == pytest.approx(np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1])
    fit.row_norm = 0.5
    clipped = SeenMoment.about(fit, rows, rows.mean(axis=0))
    assert clipped.values.sum() < 0.25 < own.values.sum()
