"""Linear regression in stages: what it costs, what it finds, and what it leaves out."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import Clip, total
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms import (
    CentreSteps,
    ColumnScale,
    Gate,
    GaussCov,
    LinearStages,
    PrivateDistances,
    PrivateMean,
    PrivateTrace,
    Stage,
    TargetSteps,
    WishartCov,
    vector_noise,
)
from eigenveil.numerics import SimulationSource
from eigenveil.planning import clips, divided, searchable
from eigenveil.privacy import Adjacency, Gaussian, Pure, compose, part
from eigenveil.rows import TakeColumns, open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
RNG = np.random.default_rng(3)
X = RNG.exponential(size=(4000, 3)) * [1.0, 50.0, 0.01] + [3.0, -20.0, 0.0]
SLOPES = np.array([2.0, 0.02, 0.0])
Y = 5.0 + X @ SLOPES + 0.5 * RNG.standard_normal(4000)


def steps(whole, p, *, scale=None, centre=None, stages=2, ranged=False, length=True, count=18):
    """All steps at a share of ``whole``, each one over ``count``."""

    def noise():
        return vector_noise(part(whole, 1 / count))

    def search():
        return PrivateDistances(noise=noise())

    def towards():
        means = PrivateMean(noise=noise())
        return CentreSteps(searches=(search(), search()), means=(means, means))

    left = part(whole, 1 / count)
    gram = WishartCov(epsilon=left.epsilon, clean=False) if isinstance(left, Pure) else None
    one = CentreSteps(searches=(), means=(PrivateMean(noise=noise()),))
    return LinearStages(
        scale=ColumnScale(first=noise()) if scale is None else scale,
        centre=towards() if centre is None else centre,
        gram=gram or GaussCov(mu=left.mu),
        targets=(
            TargetSteps(
                offset=one if ranged else towards(),
                stages=tuple(Stage(search=search(), noise=noise()) for _ in range(stages)),
                spread=search(),
                variance=PrivateTrace(noise=noise()),
            ),
        ),
        length=search() if length else None,
        target_boxes=((-1.0, 1.0),) if ranged else None,
    )


def run(procedure, rows, adjacency=REPLACE, seed=0, clip=None):
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), clip or Clip(row_norm=1.0), gate), gate


def slopes(model):
    kept = np.isfinite(model.scale)
    found = np.zeros(kept.size)
    found[kept] = model.targets[0].coefficients[1:] / model.scale[kept]
    return found


@pytest.mark.parametrize("length", [True, False])
def test_coefficients_of_a_linear_model_are_found_without_any_bound(length):
    """Skewed features in different units; nothing but the table is given."""
    table = np.column_stack([X, Y])
    model, gate = run(steps(Gaussian(4.0), 3, length=length), table)
    spread = X.std(axis=0)
    assert slopes(model) * spread == pytest.approx(SLOPES * spread, abs=0.05)
    assert (model.row_norm is None) == (not length)
    assert gate.exact


def test_all_steps_are_paid_for():
    procedure = steps(Gaussian(4.0), 3)
    _, gate = run(procedure, np.column_stack([X, Y]))
    spent, declared = compose(*gate._spent), procedure.cost()
    assert spent.mu == pytest.approx(declared.mu, rel=1e-9)


def test_stated_scales_serve_add_remove_neighbours():
    procedure = steps(Gaussian(4.0), 3, scale=X.std(axis=0))
    model, _ = run(procedure, np.column_stack([X, Y]), ADD)
    spread = X.std(axis=0)
    assert slopes(model) * spread == pytest.approx(SLOPES * spread, abs=0.05)


def test_a_pure_budget_has_idealised_numerics():
    model, gate = run(steps(Pure(40.0), 3), np.column_stack([X, Y]))
    spread = X.std(axis=0)
    assert slopes(model) * spread == pytest.approx(SLOPES * spread, abs=0.2)
    assert not gate.exact


def test_noise_falls_with_the_residuals_not_with_the_target():
    """The same residuals about a line a thousand times as steep: not a thousand times the noise."""
    errors = []
    for factor in (1.0, 1000.0):
        target = factor * (X @ SLOPES) + (Y - X @ SLOPES)
        model, _ = run(steps(Gaussian(4.0), 3, stages=5, count=24), np.column_stack([X, target]))
        errors.append(math.sqrt(np.trace(model.targets[0].noise)))
    assert errors[1] < 20 * errors[0]


def test_a_target_without_a_distance_has_a_median_for_what_the_matrix_would_cost():
    """The search finds nothing at such budgets; the gate refuses steps beyond the whole."""
    for whole in (Gaussian(0.001), Pure(0.001)):
        model, _ = run(steps(whole, 3), np.column_stack([X, Y]))
        assert model.gram is None
        (target,) = model.targets
        assert not target.coefficients.any()
        assert np.isfinite(target.offset)
        assert np.isinf(target.offset_error)


def test_where_the_number_of_rows_is_private_a_target_without_a_distance_is_refused():
    with pytest.raises(NothingFoundError, match="target_bounds"):
        run(steps(Gaussian(0.001), 3), np.column_stack([X, Y]), ADD)


def test_bad_rows_contribute_nothing_or_stop_before_the_charge():
    table = np.column_stack([X, Y])
    table[7, 3] = table[8, 1] = np.nan
    zero = Clip(row_norm=1.0, on_invalid="zero")
    model, _ = run(steps(Gaussian(4.0), 3), table, clip=zero)
    assert slopes(model)[0] == pytest.approx(2.0, abs=0.1)
    for clip in (Clip(row_norm=1.0), Clip(row_norm=1.0, on_missing="centre")):
        procedure = steps(Gaussian(4.0), 3)
        gate = Gate(
            procedure.cost(),
            label="x",
            adjacency=REPLACE,
            ledger=None,
            noise=SimulationSource(0),
        )
        with pytest.raises(ValueError, match=r"missing or infinite|has no target"):
            procedure.run(open_rows(table), clip, gate)
        assert gate._spent == ()


def test_shares_sum_to_the_whole_and_public_numbers_decide():
    kinds = {"scales": 8, "centres": True, "lengths": True, "ranged": False}
    for whole in (Gaussian(0.3), Pure(2.0)):
        for n in (300, 3000, 10**6, None):
            for p, q in ((1, 1), (8, 1), (40, 3)):
                shares = divided(whole, n, p, q, **kinds)
                assert sum(shares.by_name(q).values()) == pytest.approx(1.0)
    assert not divided(Gaussian(0.3), 300, 8, 1, **kinds).gram  # a mean is all that is possible
    assert len(divided(Gaussian(0.3), 10**5, 8, 1, **kinds).stages) == 3
    assert clips(Gaussian(0.3), 10**5, 8)
    assert not clips(Gaussian(0.3), 500, 8)
    assert not searchable(Gaussian(0.01), 1000)
    assert searchable(Gaussian(0.01), None)


def _query(rows, adjacency):
    """The first step: a mean of the target within its stated range."""
    bound = Clip(
        row_norm=1.0,
        centre=np.zeros(1),
        box=(np.array([-1.0]), np.array([1.0])),
        on_invalid="zero",
    )
    source = case.open_rows(case.two_columns(rows))
    return total(source.map(TakeColumns(slice(source.n_columns - 1, None))), bound, adjacency)


def _run(mechanism, rows, adjacency, gate):
    return mechanism.run(case.open_rows(case.two_columns(rows)), case.CLIP, gate)


def _accompanied(rows):
    """A row of zeros for each, so that there is a pair at least."""
    return np.vstack([rows, np.zeros(rows.shape)])


def _read(released):
    (target,) = released.targets
    return np.concatenate([[target.offset], target.coefficients, case.upper(released.gram.matrix)])


def _ends(d, adjacency):
    """Targets at either end of their range."""
    first = np.ones(d)
    return first, None if adjacency is ADD else -first


def _built(whole, d, *, scale):
    p = max(1, d - 1)
    found = steps(whole, p, scale=np.ones(p) if scale else None, ranged=True, count=60)
    spent = case.pure_of(found.cost()) if isinstance(whole, Pure) else case.mu_of(found.cost())
    wanted = whole.epsilon if isinstance(whole, Pure) else whole.mu
    power = 1 if isinstance(whole, Pure) else 2
    left = wanted**power - spent**power
    gram = found.gram
    if isinstance(gram, WishartCov):
        return replace(found, gram=replace(gram, epsilon=gram.epsilon + left * (1 - 1e-12)))
    return replace(found, gram=GaussCov(mu=math.sqrt(gram.mu**2 + left * (1 - 1e-12))))


_LINEAR = {
    "query": _query,
    "run": _run,
    "read": _read,
    "norm": "l2",
    "sensitivity": case.MEAN,
    "worst_pair": _ends,
    "may_coincide": True,
    "trials": 300,
    "shows": False,
}


CASES = [
    case.Case(name="linear", build=lambda mu, d, k: _built(Gaussian(mu), d, scale=True), **_LINEAR),
    case.Case(
        name="linear with private scales",
        build=lambda mu, d, k: _built(Gaussian(mu), d, scale=False),
        adjacencies=(REPLACE,),
        **_LINEAR
        | {
            "query": lambda rows, adjacency: _query(_accompanied(rows), adjacency),
            "run": lambda step, rows, *rest: _run(step, _accompanied(rows), *rest),
        },
    ),
    case.Case(
        name="linear pure",
        build=lambda epsilon, d, k: _built(Pure(epsilon), d, scale=True),
        exact=False,
        **(_LINEAR | case.PURE | {"norm": "l1", "sensitivity": case.constant(2.0, 2.0)}),
    ),
]
