"""What a step sees of a batch: sums that are exact, and no record moves them further than declared.

The sensitivity is never exceeded by adversarial pairs, is attained by the worst ones, and the
checks fail for a bound without slack, for a tangent part that was not projected, and for records
that were not pulled in.
"""

import itertools
import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eigenveil.exact import (
    NO_EXPONENT,
    BasisProduct,
    Batches,
    Clip,
    update_blocks,
    update_counts,
    update_sum,
    updates,
)
from eigenveil.exact import basis_products as basis_product
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import Adjacency
from eigenveil.rows import Batch, IterableSource, MatrixBatch, MatrixSource

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=1.0, on_invalid="zero")
SHAPES = [(1, 1), (2, 1), (2, 2), (5, 1), (5, 2), (6, 4), (40, 3)]
SOME_SHAPES = pytest.mark.parametrize(
    ("d", "k"),
    [pytest.param(*s, marks=pytest.mark.audit if i % 2 else ()) for i, s in enumerate(SHAPES)],
)


def orthonormal(d, k, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]


def frame(d, k, seed=0):
    """A basis, and a direction beside it; zero where there is none."""
    whole = orthonormal(d, d, seed)
    return whole[:, :k], whole[:, k] if k < d else np.zeros(d)


def adversarial(basis, beside, rng):
    """Rows inside the span, beside it, between, far away, tiny, not numbers."""
    d = len(basis)
    first, last = basis[:, 0], basis[:, -1]
    half = math.sqrt(0.5)
    return [
        np.zeros(d),
        first,
        last,
        beside,
        half * (first + beside),
        half * (first - beside),
        half * (first + last),
        0.1 * first + math.sqrt(0.99) * beside,
        0.1 * first - math.sqrt(0.99) * beside,
        1e-9 * first,
        1e-160 * first,
        2.0**-19 * np.ones(d),
        1e308 * first,
        -1e200 * (first + beside),
        np.full(d, np.nan),
        np.full(d, -np.inf),
        np.full(d, np.longdouble(10) ** 400),
        (1 - 2.0**-19) * first,
        *rng.standard_normal((4, d)),
        *(0.3 * rng.standard_normal((3, d))),
    ]


def apart(first, second):
    gap = (first.value.units - second.value.units).ravel().tolist()
    return math.sqrt(sum(entry**2 for entry in gap)) * 2.0**first.value.exponent


def centre_of(kind, basis, beside):
    if kind == "none":
        return None
    d, k = basis.shape
    if kind == "a record":  # distances cancel
        row = math.sqrt(0.5) * (basis[:, 0] + beside)
        return np.outer(row, row @ basis)
    return {"small": 0.2, "far": 3.0, "lost in noise": 3e3}[kind] * orthonormal(d, k, 7)


FORMS = [{}, {"tangent": True}, {"weighted": True}]
VIEWS = [
    (kind, radius, form)
    for kind, radius, form in itertools.product(
        ["none", "small", "a record", "far", "lost in noise"],
        [None, 1e-30, 1e-6, 0.1, 0.49, 3.0],
        FORMS,
    )
    if radius is not None or kind == "none"
]


@SOME_SHAPES
def test_no_pair_of_rows_exceeds_the_sensitivity(d, k):
    basis, beside = frame(d, k)
    for kind, radius, form in VIEWS:
        rng = np.random.default_rng(1)
        view = BasisProduct(basis, centre_of(kind, basis, beside), **form)
        company = 0.4 * rng.standard_normal((3, d))
        sums = [
            update_sum(Batch(np.vstack([company, row]), 0), CLIP, view, REPLACE, radius)
            for row in adversarial(basis, beside, rng)
        ]
        for one, other in itertools.combinations(sums, 2):
            assert apart(one, other) <= one.sensitivity("l2"), (kind, radius, form)


@pytest.mark.parametrize("row_norm", [1e-40, 0.01, 1e30])
def test_the_bound_is_in_units_of_the_ball(row_norm):
    """Centre and radius are in the caller's units, the sum in those of the ball."""
    basis, beside = frame(5, 2)
    rows = row_norm * np.array([0.6 * basis[:, 0] + 0.8 * beside, basis[:, 1], beside])
    scaled = Clip(row_norm=row_norm)
    view, unit = BasisProduct(basis, row_norm**2 * 0.1 * basis), BasisProduct(basis, 0.1 * basis)
    found = update_sum(Batch(rows, 0), scaled, view, REPLACE, 0.3 * row_norm**2)
    expected = update_sum(Batch(rows / row_norm, 0), Clip(row_norm=1.0), unit, REPLACE, 0.3)
    assert found.sensitivity("l2") == pytest.approx(expected.sensitivity("l2"))
    assert np.abs(found.value.units - expected.value.units).max() <= 2.0**20  # 2^-16 of the ball
    assert found.unit == pytest.approx(expected.unit * row_norm**2)


def worst(d, k, tangent, radius):
    """A pair of rows at the largest distance, and the share of the bound that it attains."""
    basis, beside = frame(d, k)
    half = math.sqrt(0.5)
    if radius is not None:  # opposite ones: nearly so where the part inside is not dropped
        a, b = (half, half) if tangent else (radius, math.sqrt(1 - radius**2))
        pair = a * basis[:, 0] + b * beside, a * basis[:, 0] - b * beside
        return basis, pair, 1.0 if tangent else b
    if tangent:
        return basis, (half * (basis[:, 0] + beside), half * (basis[:, 0] - beside)), 1.0
    return basis, (basis[:, 0], np.zeros(d) if k == 1 else basis[:, 1]), 1.0


@pytest.mark.parametrize(("d", "k"), [(5, 1), (5, 2), (40, 3)])
@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("radius", [None, 0.01, 0.2, 0.4])
def test_the_sensitivity_is_attained(d, k, tangent, radius):
    """But for a share of 2e-4, and 1e-3 of the smallest radius, which rounding takes."""
    basis, (row, other), share = worst(d, k, tangent, radius)
    company = np.zeros((2, d))
    one, two = (
        update_sum(
            Batch(np.vstack([company, x]), 0),
            CLIP,
            BasisProduct(basis, tangent=tangent),
            REPLACE,
            radius,
        )
        for x in (row, other)
    )
    lost = 2e-4 + (0.0 if radius is None else 1e-5 / radius)
    assert apart(one, two) >= one.sensitivity("l2") * share * (1 - lost)
    natural = (1.0 if tangent or k == 1 else math.sqrt(2)) if radius is None else 2 * radius
    assert one.sensitivity("l2") == pytest.approx(natural, rel=lost)


@pytest.mark.parametrize(("d", "k"), [(5, 2), (40, 3)])
def test_the_weighted_sensitivity_is_attained(d, k):
    """By parts outside alone, and by parts inside alone; a larger weight would exceed it."""
    basis, beside = frame(d, k)
    half, view = math.sqrt(0.5), BasisProduct(basis, weighted=True)
    for pair in (
        (half * (basis[:, 0] + beside), half * (basis[:, 0] - beside)),
        (basis[:, 0], basis[:, 1]),
    ):
        one, two = (update_sum(Batch(x[None], 0), CLIP, view, REPLACE) for x in pair)
        assert one.sensitivity("l2") == pytest.approx(1.0, rel=2e-4)
        assert apart(one, two) >= one.sensitivity("l2") * (1 - 2e-4)


def test_rounding_is_what_the_slack_is_for():
    """Without it the bound would be false: some pair of rows at a small radius lies beyond."""
    rng = np.random.default_rng(2)
    basis, _ = frame(30, 8)
    centre = 0.5 * orthonormal(30, 8, 7)
    beyond, radius = 0.0, 1e-4
    view = BasisProduct(basis, centre)
    rows = rng.standard_normal((400, 30))
    bare = BasisProduct(basis, np.rint(centre * 2.0**18) * 2.0**-18)
    for row in rows:
        single = update_sum(Batch(row[None], 0), CLIP, view, REPLACE, radius)
        assert math.sqrt((single.value.to_float() ** 2).sum()) <= single.sensitivity("l2") / 2
        beyond = max(beyond, math.sqrt((single.value.to_float() ** 2).sum()))
    assert beyond > radius
    slack = bare.slack(bare.centre)
    assert beyond - radius > slack / 20  # neither nothing nor far too much


@pytest.mark.parametrize("fault", ["not projected", "not pulled in", "no slack"])
def test_planted_faults_are_seen(monkeypatch, fault):
    """Each of them moves some pair of rows beyond the declared bound."""
    d, k = 6, 2
    basis, beside = frame(d, k)
    radius = {"not projected": None, "not pulled in": 0.1, "no slack": 1e-6}[fault]
    if fault == "not projected":
        true = updates._parts

        def parts(records, clip, view):
            return true(records, clip, BasisProduct(view.basis))

        monkeypatch.setattr(updates, "_parts", parts)
    elif fault == "not pulled in":
        monkeypatch.setattr(updates, "_distances", lambda rows, *rest: np.full(len(rows), 1e-9))
    else:
        monkeypatch.setattr(BasisProduct, "slack", lambda self, centre: 0.0)
    view = BasisProduct(basis, tangent=True)
    rows = adversarial(basis, beside, np.random.default_rng(3))
    sums = [update_sum(Batch(row[None], 0), CLIP, view, REPLACE, radius) for row in rows]
    assert any(
        apart(one, other) > one.sensitivity("l2") for one, other in itertools.combinations(sums, 2)
    )


@pytest.mark.parametrize(
    ("form", "inside"), [({}, 1), ({"tangent": True}, 0), ({"weighted": True}, math.sqrt(0.5))]
)
def test_sums_are_those_of_the_products(form, inside):
    rng = np.random.default_rng(4)
    d, k, n = 12, 3, 500
    basis = orthonormal(d, k)
    rows = rng.standard_normal((n, d)) / 5
    centre = 0.05 * orthonormal(d, k, 8)
    pulled = rows * np.minimum(1.0, 1 / np.linalg.norm(rows, axis=1))[:, None]
    blocks = np.einsum("ij,ik->ijk", pulled, pulled @ basis)
    weigh = np.eye(d) - (1 - inside) * basis @ basis.T
    plain, blocks = blocks, weigh @ blocks
    query = update_sum(Batch(rows, 0), CLIP, BasisProduct(basis, **form), REPLACE)
    assert query.value.to_float() * query.unit == pytest.approx(blocks.mean(axis=0), abs=1e-5)
    if inside:
        restored = BasisProduct(basis, **form).restored(query.value.to_float() * query.unit)
        assert restored == pytest.approx(plain.mean(axis=0), abs=1e-5)
    moved = blocks - weigh @ centre
    lengths = np.linalg.norm(moved, axis=(1, 2))
    radius = float(np.median(lengths))
    expected = (moved * np.minimum(1, radius / lengths)[:, None, None]).mean(axis=0)
    view = BasisProduct(basis, centre, **form)
    query = update_sum(Batch(rows, 0), CLIP, view, REPLACE, radius)
    assert query.value.to_float() * query.unit == pytest.approx(expected, abs=1e-5)
    counts = update_counts(Batch(rows, 0), CLIP, view, REPLACE)
    bins = np.floor(-2 * np.log2(lengths / updates.REACH)).astype(int)
    assert np.abs(counts.value.units - np.bincount(bins, minlength=NO_EXPONENT + 1)).sum() <= 2
    seen = np.concatenate(
        list(update_blocks(Batch(rows, 0), CLIP, BasisProduct(basis, None, **form)))
    )
    assert seen == pytest.approx(blocks, abs=1e-4)


@pytest.mark.parametrize("tangent", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_sums_are_the_same_to_the_last_bit(tangent, centred, monkeypatch):
    """Whatever the order, the chunks, the number of threads, and how many rows are in a sum."""
    rng = np.random.default_rng(5)
    d, k, n = 70, 9, 3000
    rows = rng.standard_normal((n, d)) * 0.2
    view = BasisProduct(
        orthonormal(d, k), 0.03 * orthonormal(d, k, 9) if centred else None, tangent
    )
    radius = 0.2 if centred else None

    def both(table):
        batch = table if isinstance(table, Batch) else Batch(table, 0)
        return (
            update_sum(batch, CLIP, view, REPLACE, radius).value.units,
            update_counts(batch, CLIP, view, REPLACE).value.units,
        )

    expected = both(rows)
    with threadpool_limits(1):
        single = both(rows)
    order = rng.permutation(n)
    fortran = np.asfortranarray(rows)
    cuts = np.sort(rng.integers(0, n, 40))
    streamed = Batches(IterableSource(iter(np.split(rows, cuts))), REPLACE).take(n)
    tables = [single, both(rows[order]), both(fortran), both(streamed)]
    parts = [both(rows[start : start + 7]) for start in range(0, n, 7)]
    tables.append(tuple(sum(part[i] for part in parts) for i in range(2)))
    monkeypatch.setattr(basis_product, "_EXACT_ROWS", 300)
    tables.append(both(rows))
    for found in tables:
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_every_partial_sum_of_the_largest_rows_is_exact():
    """More rows on the sphere than one float sum holds, in integers of any size."""
    n, basis = (1 << 17) + 5, np.eye(2)
    rows = np.tile([1.0, 0.0], (n, 1))
    found = update_sum(
        Batch(rows, 0), Clip(row_norm=1.0, normalise=True), BasisProduct(basis), REPLACE
    )
    one = update_sum(
        Batch(rows[:1], 0), Clip(row_norm=1.0, normalise=True), BasisProduct(basis), REPLACE
    )
    assert found.value.units.tolist() == (one.value.units * n).tolist()
    wide = update_sum(Batch(rows[:, :1], 0), CLIP, BasisProduct(np.eye(1)), REPLACE)
    single = update_sum(Batch(rows[:1, :1], 0), CLIP, BasisProduct(np.eye(1)), REPLACE)
    assert wide.value.units.tolist() == (single.value.units * n).tolist()


def test_counts_move_by_one_record():
    rng = np.random.default_rng(6)
    basis, beside = frame(5, 2)
    rows = adversarial(basis, beside, rng)
    for view in (
        BasisProduct(basis),
        BasisProduct(basis, 0.3 * basis),
        BasisProduct(basis, None, tangent=True),
    ):
        counts = [update_counts(Batch(row[None], 0), CLIP, view, REPLACE) for row in rows]
        for query in counts:
            assert query.value.units.sum() == 1
            assert query.value.units.min() == 0
            assert (query.sensitivity("l1"), query.sensitivity("linf")) == (2.0, 1.0)


def test_a_basis_of_many_columns_is_orthonormal_enough():
    """Rounding to 2^-26 turns 210 columns by less than 1e-6 in operator norm, not in row sums."""
    view = BasisProduct(orthonormal(300, 210))
    assert view.skew < 1e-6
    assert view.natural() == pytest.approx(math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize(
    "basis", [np.ones((3, 2)), 1.00001 * np.eye(3), np.full((3, 1), np.nan), np.zeros((2, 1))]
)
def test_other_columns_are_refused(basis):
    with pytest.raises(InvalidParameterError, match="orthonormal"):
        BasisProduct(basis)


def test_what_cannot_be_summed_is_refused(monkeypatch):
    batch, basis = Batch(np.ones((3, 4)), 0), orthonormal(4, 2)
    with pytest.raises(InvalidParameterError, match="needs a radius"):
        update_sum(batch, CLIP, BasisProduct(basis, basis), REPLACE)
    for centre in (1e6 * basis, np.full(basis.shape, np.nan)):
        with pytest.raises(InvalidParameterError, match="far outside"):
            update_sum(batch, CLIP, BasisProduct(basis, centre), REPLACE, 1.0)
    for radius in (math.nan, 0.0, -1.0, math.inf):
        with pytest.raises(InvalidParameterError, match="positive and finite"):
            update_sum(batch, CLIP, BasisProduct(basis), REPLACE, radius)
    monkeypatch.setattr("eigenveil.exact.gram._ALWAYS_ROWS", 1)
    monkeypatch.setattr("eigenveil.exact.gram._MOST_NUMBERS", 8)
    with pytest.raises(InvalidDataError, match="2 rows at most"):
        update_sum(batch, CLIP, BasisProduct(basis), REPLACE)


# Matrices


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def adversarial_matrices(basis, rng):
    d = len(basis)
    outer = np.outer(basis[:, 0], basis[:, 0])
    return [
        np.zeros((d, d)),
        np.eye(d),
        -np.eye(d),
        outer,
        -outer,
        1e308 * outer,
        -1e150 * outer,
        1e-165 * np.ones((d, d)),
        1e-9 * np.eye(d),
        np.full((d, d), np.nan),
        np.full((d, d), np.inf),
        *(symmetric(m) for m in rng.standard_normal((5, d, d))),
        rng.standard_normal((d, d)),  # of which the symmetric part counts
    ]


@SOME_SHAPES
def test_no_pair_of_matrices_exceeds_the_sensitivity(d, k):
    basis, beside = frame(d, k)
    radii, kinds = (None, 1e-200, 1e-6, 0.3, 5.0), ("none", "small", "far")
    for form, radius, kind in itertools.product(FORMS, radii, kinds):
        rng = np.random.default_rng(7)
        view = BasisProduct(basis, centre_of(kind, basis, beside), **form)
        company = rng.standard_normal((2, d, d))
        sums = []
        for matrix in adversarial_matrices(basis, rng):
            batch = Batches(MatrixSource([company, matrix[None]], d), REPLACE).take(3)
            sums.append(update_sum(batch, CLIP, view, REPLACE, radius))
        distances = [apart(a, b) for a, b in itertools.combinations(sums, 2)]
        assert max(distances) <= sums[0].sensitivity("l2"), (form, radius, kind)
        if k < d and not form and kind == "none":  # opposite ones
            assert max(distances) >= sums[0].sensitivity("l2") * (1 - 1e-6)
            assert max(distances) == pytest.approx(2 * min(1.0, 1 / (radius or 1.0)), rel=1e-6)


def test_matrices_of_rows_are_rows():
    """xx' as matrices gives what rows give."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((50, 6)) / 4
    matrices = MatrixBatch(list(MatrixSource([np.einsum("ij,ik->ijk", rows, rows)], 6).chunks()), 0)
    basis, centre = orthonormal(6, 2), 0.02 * orthonormal(6, 2, 3)
    for view, radius in (
        (BasisProduct(basis), None),
        (BasisProduct(basis, centre), 0.1),
        (BasisProduct(basis, centre, tangent=True), 0.05),
    ):
        one, other = (
            update_sum(records, Clip(row_norm=9.0), view, REPLACE, radius)
            for records in (matrices, Batch(rows, 0))
        )
        assert one.value.to_float() * one.unit == pytest.approx(
            other.value.to_float() * other.unit, abs=2e-3
        )
        assert one.records == other.records == range(50)


def test_invalid_matrices_stop_a_run_or_count_nothing():
    bad = np.full((1, 3, 3), np.nan)
    batch = Batches(MatrixSource([np.zeros((2, 3, 3)), bad], 3), REPLACE).take(3)
    view = BasisProduct(np.eye(3)[:, :1])
    assert not update_sum(batch, CLIP, view, REPLACE).value.units.any()
    with pytest.raises(InvalidDataError, match="missing, infinite"):
        update_sum(batch, Clip(row_norm=1.0), view, REPLACE)
