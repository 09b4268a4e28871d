"""What an owner answers, and what it pays for."""

import math
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.federated import (
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Message,
    Owner,
    ProtocolError,
    Records,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
)
from eigenveil.federated.owner_plans import _REST_SHARE
from eigenveil.mechanisms import entries
from eigenveil.privacy import (
    Budget,
    Kind,
    Ledger,
    covers,
    delta_of,
    epsilon_of,
    guarantee_from_dict,
)
from eigenveil.rows import ArraySource, GroupedSource
from tests.federated.one_owner import (
    ASKED,
    BASIS,
    INSIDE,
    JOIN,
    MEAN,
    MOVED,
    ROWS,
    SETTINGS,
    SHARES,
    SIMULATED,
    TRUE,
    VALUES,
    D,
    K,
    N,
    code_of,
    simulated,
)
from tests.statistics import variance_p_value


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "secret-ledger-name.db", epsilon=4.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_joining_is_free(ledger, folder):
    declared = decode(Owner(SETTINGS, ROWS, ledger, folder).answer(JOIN), Declaration)
    assert (declared.owner, declared.federation) == ("north", "lungs")
    assert (declared.n_records, declared.epsilon, declared.delta) == (N, 4.0, 1e-6)
    assert declared.mechanism == "spherical"
    assert ledger.entries == ()


def test_two_answers_for_one_budget(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    basis = decode(owner.answer(BASIS), BasisAnswer)
    assert np.linalg.norm(TRUE.T @ basis.basis) ** 2 > 0.99 * K
    assert len(ledger.entries) == 1
    first = guarantee_from_dict(dict(basis.guarantee))
    assert covers(ledger.entries[0].cost, first.cost)
    assert not first.simulated
    values = decode(owner.answer(VALUES), ValuesAnswer)
    assert [entry.label for entry in ledger.entries] == [
        "lungs basis",
        "lungs values, beside",
        "lungs values",
    ]
    # Eight deviations of the noise: once in 10^14 times.
    np.testing.assert_allclose(values.matrix, INSIDE, atol=8 * values.noise_scale)
    np.testing.assert_array_equal(values.centre, np.zeros(K))
    both = guarantee_from_dict(dict(values.guarantee))
    assert both.budget == Budget(epsilon=4.0, delta=1e-6)
    # The first answer was charged for both, and nothing is left of a ledger of this budget.
    assert [entry.is_note for entry in ledger.entries] == [False, True, True]
    assert ledger.spent.mu == pytest.approx(both.cost.mu, rel=1e-9)


def test_shares_are_paid_for(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    decode(owner.answer(SHARES), BasisAnswer)
    values = decode(owner.answer(VALUES), ValuesAnswer)
    assert [entry.label for entry in ledger.entries] == ["lungs basis", "lungs values"]
    assert guarantee_from_dict(dict(values.guarantee)).cost == ledger.spent


@pytest.mark.parametrize("question", [SHARES, BASIS], ids=["shares", "variances"])
def test_values_have_the_noise_that_was_paid_for(question):
    """Against the cost that is stated: noise that is drawn twice and averaged would show.

    A false alarm has a probability of 1e-6; noise that is 1/1.2 of what was paid for is rejected.
    """
    wide = np.linalg.qr(np.random.default_rng(0).standard_normal((D, 6)))[0]
    asked = replace(decode(question, BasisQuestion), n_components=6, n_directions=6)
    settings = replace(SIMULATED, centring="none", row_norm=40.0)
    first, notes = Records(settings, ROWS, None).basis(asked)
    inside = ROWS @ wide
    norms = np.linalg.norm(ROWS, axis=1, keepdims=True)
    assert norms.max() < 40.0  # nothing is clipped
    unit = norms if question is SHARES else 40.0  # of length 1 afterwards
    truth = (inside / unit).T @ (inside / unit) / N
    part = 1.0 if question is SHARES else 1 - _REST_SHARE
    pairs = np.triu_indices(6)
    residuals = []
    for seed in range(50):
        answer, _ = Records(replace(settings, random_state=seed), ROWS, None).values(wide, notes)
        costs = (guarantee_from_dict(dict(each.guarantee)).cost.mu for each in (answer, first))
        both, before = costs
        mu = math.sqrt(part * (both**2 - before**2))
        noise = (answer.matrix / (1.0 if question is SHARES else 1600.0) - truth) * mu * N
        noise[np.diag_indices(6)] /= math.sqrt(2)  # the others have 1/sqrt(2) of its deviation
        residuals.append(noise[pairs])
    assert variance_p_value(np.concatenate(residuals), 1.0) > 1e-6
    assert variance_p_value(np.concatenate(residuals), 1.2) < 1e-6


def test_the_second_answer_reads_no_centre_off_its_rows(tmp_path):
    """It is the one of the first, whatever lies in the table by now."""
    said = []
    for name, moved in (("one", 0.0), ("two", 3.0)):
        decode(Owner(SIMULATED, MOVED, folder=tmp_path / name).answer(SHARES), BasisAnswer)
        later = Owner(SIMULATED, MOVED + moved, folder=tmp_path / name)
        said.append(decode(later.answer(VALUES), ValuesAnswer))
    np.testing.assert_array_equal(said[0].centre, said[1].centre)
    # And rows are taken about it: all of them point the way they were moved.
    away = (ROWS + 3.0) @ TRUE / np.linalg.norm(ROWS + 3.0, axis=1, keepdims=True)
    atol = 8 * said[1].noise_scale + 0.02  # and the error of the centre
    np.testing.assert_allclose(said[1].matrix, away.T @ away / N, atol=atol)


def test_receipts_name_no_file(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    sent = [owner.answer(BASIS), owner.answer(VALUES)]
    receipt = decode(sent[1], ValuesAnswer).guarantee["ledger"]
    assert b"secret" not in b"".join(sent)
    assert str(folder).encode() not in b"".join(sent)
    numbered = (f"entry {entry.number} (hash {entry.hash[:16]})" for entry in ledger.entries)
    assert receipt == " and ".join(numbered)


@pytest.mark.parametrize("question", [BASIS, SHARES], ids=["variances", "shares"])
@pytest.mark.parametrize(
    "changes",
    [
        {"centring": "none", "row_norm": 60.0},
        {"centring": "none"},  # a private radius
        {},  # a located centre in both rounds, and a private radius
        {"centring": "paired"},
        {"share": 0.2, "mechanism": "tangent"},
        {"mechanism": "analyze-gauss", "row_norm": "private"},
        {"mechanism": "analyze-gauss", "row_norm": 30.0, "bounds": (-80.0, 80.0)},
        {"mechanism": "wishart", "row_norm": 60.0},  # pure
        {"mechanism": "exponential", "row_norm": 20.0},
        {"mechanism": "gap-projector", "row_norm": 20.0, "epsilon": 60.0},  # may fail
        {"mechanism": "oja", "epsilon": 8.0},
    ],
    ids=str,
)
def test_both_answers_together_stay_within_the_budget(changes, question):
    basis, values = simulated(question, **changes)
    both = guarantee_from_dict(dict(values.guarantee))
    epsilon = changes.get("epsilon", 4.0)
    assert (both.budget.epsilon, both.budget.delta) == (epsilon, 1e-6)
    assert delta_of(both.cost, epsilon) <= 1e-6
    assert epsilon_of(both.cost, 1e-6) >= 0.97 * epsilon  # and leave nothing on the table
    first = guarantee_from_dict(dict(basis.guarantee))
    assert first.budget == both.budget
    assert 0 < epsilon_of(first.cost, 1e-6) < 0.97 * epsilon
    assert first.simulated
    assert both.simulated


def directions(rows: np.ndarray) -> np.ndarray:
    """Second moment inside the basis of rows scaled to unit length."""
    inside = rows @ TRUE / np.linalg.norm(rows, axis=1, keepdims=True)
    return inside.T @ inside / len(inside)


def test_shares_about_the_centre_that_the_basis_needed():
    _, values = simulated(SHARES, epsilon=1e3)
    assert values.centred
    np.testing.assert_allclose(values.centre, MEAN @ TRUE, atol=1.0)
    np.testing.assert_allclose(values.matrix, directions(ROWS), atol=0.02)
    promise = guarantee_from_dict(dict(values.guarantee))
    assert "values: none needed for shares: rows of unit length" in promise.bounds


def test_shares_of_differences_where_no_centre_was_needed():
    _, values = simulated(SHARES, epsilon=1e3, centring="paired")
    assert not values.centred
    np.testing.assert_array_equal(values.centre, np.zeros(K))
    np.testing.assert_allclose(values.matrix, directions(ROWS), atol=0.05)  # half as many
    persons = GroupedSource(ArraySource(MOVED), np.arange(N) // 2)
    _, values = simulated(SHARES, persons, epsilon=1e3, centring="paired")
    np.testing.assert_allclose(values.matrix, directions(ROWS), atol=0.08)
    assert guarantee_from_dict(dict(values.guarantee)).protects.owns_many


def test_shares_need_no_bound_and_few_rows():
    _, values = simulated(SHARES, MOVED[:20])
    assert not values.centred
    np.testing.assert_allclose(np.trace(values.matrix), 1.0, atol=8 * values.noise_scale)
    _, values = simulated(SHARES, ROWS[:1], centring="none")  # local privacy
    assert values.centred


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_basis_has_its_share_of_mu_squared(share):
    basis, values = simulated(share=share, centring="none", row_norm=60.0)
    first, both = (guarantee_from_dict(dict(a.guarantee)).cost for a in (basis, values))
    assert math.isclose(first.mu**2 / both.mu**2, share, rel_tol=1e-6)


def test_the_variance_beside_the_basis_is_one():
    _, values = simulated(epsilon=1e3)
    beside = np.mean(np.sum((ROWS - ROWS @ TRUE @ TRUE.T) ** 2, axis=1))
    assert values.rest == pytest.approx(beside, rel=0.05)
    _, values = simulated(SHARES, epsilon=1e3)
    assert values.rest == pytest.approx(1 - np.trace(values.matrix), abs=1e-12)


def test_bounds_give_a_length_where_too_few_rows_do():
    """About the centre of the first answer, as long as the box is."""
    few = MOVED[:200]
    owner = Owner(SIMULATED, few, log=lambda said: None)
    assert code_of(owner.answer(JOIN)) is Code.SETTINGS
    bounds = (MEAN.min() - 30, MEAN.max() + 30)
    _, values = simulated(rows=few, bounds=bounds)
    promise = guarantee_from_dict(dict(values.guarantee))
    assert not any("chosen privately" in words for words in promise.bounds)
    sample = np.cov(few.T, bias=True)
    np.testing.assert_allclose(values.matrix, TRUE.T @ sample @ TRUE, atol=8 * values.noise_scale)
    _, values = simulated(bounds=bounds)  # enough to find a shorter one
    promise = guarantee_from_dict(dict(values.guarantee))
    assert sum("chosen privately" in words for words in promise.bounds) == 2


def test_all_directions_leave_nothing_beside_them():
    """The whole covariance: components as many as columns."""
    asked = encode(BasisQuestion(**{**ASKED, "n_components": D, "n_directions": D}))
    owner = Owner(replace(SIMULATED, epsilon=1e3), MOVED)
    decode(owner.answer(asked), BasisAnswer)
    whole = encode(ValuesQuestion(federation="lungs", basis=np.eye(D)))
    values = decode(owner.answer(whole), ValuesAnswer)
    assert values.rest == 0
    np.testing.assert_allclose(values.matrix, ROWS.T @ ROWS / N, atol=2.0)


def test_something_must_be_left_for_the_second_answer():
    with pytest.raises(InvalidParameterError, match="share must lie between 0 and 1"):
        replace(SIMULATED, share=1.0)


def test_one_record_is_enough_for_local_privacy():
    settings = replace(SIMULATED, centring="none", row_norm=60.0)
    owner = Owner(settings, ROWS[:1])
    assert decode(owner.answer(JOIN), Declaration).n_records == 1
    assert decode(owner.answer(BASIS), BasisAnswer).basis.shape == (D, K)
    values = decode(owner.answer(VALUES), ValuesAnswer)
    assert values.matrix.shape == (K, K)
    np.testing.assert_array_equal(values.centre, np.zeros(K))


CENTRES: dict[str, dict[str, Any]] = {
    "free": {},
    "assumed": {"centring": "none"},
    **{name: {"centring": name} for name in ("mean", "located", "paired")},
}


BOUNDS: dict[str, dict[str, Any]] = {
    "none": {},
    "box": {"bounds": [-5.0, 5.0]},
    "norm": {"row_norm": 3.0},
}


def outcome(owner: Owner, question: Message, *kinds: type[Message]) -> Code | None:
    """Why an owner does not answer; None if it does."""
    try:
        decode(owner.answer(encode(question)), *kinds)
    except ProtocolError as refused:
        return refused.code
    return None


UNITS = ("shares", "variances")


OWNERS = [entry.name for entry in entries("components") if entry.kind is Kind.WORST_CASE]


@pytest.mark.parametrize("mechanism", OWNERS)
@pytest.mark.parametrize("persons", [False, True])
def test_who_declares_itself_answers_both_questions(mechanism, persons):
    """Every number of records with every centre, and every bound and unit with either of them."""
    some = product((1, 2, 3, 5), CENTRES)
    bounds, units = cycle(["none"] if persons else BOUNDS), cycle(UNITS)
    answers_both(mechanism, persons, zip(some, zip(bounds, units, strict=False), strict=False))


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", OWNERS)
@pytest.mark.parametrize("persons", [False, True])
def test_who_declares_itself_answers_both_questions_whatever_is_stated(mechanism, persons):
    stated = product(["none"] if persons else BOUNDS, UNITS)
    answers_both(mechanism, persons, product(product(range(1, 6), CENTRES), stated))


def answers_both(mechanism, persons, asked):
    """Whatever public numbers tell is said before anybody counts on an owner.

    That a search found nothing is a private answer, and paid for.
    """
    rng = np.random.default_rng(3)
    for (n, centre), (bounds, unit) in asked:
        settings = replace(
            SIMULATED, epsilon=1.0, mechanism=mechanism, **CENTRES[centre], **BOUNDS[bounds]
        )
        table = ArraySource(rng.standard_normal((2 * n if persons else n, D)))
        rows = GroupedSource(table, np.arange(2 * n) % n) if persons else table
        owner = Owner(settings, rows, log=lambda line: None)
        question = {**ASKED, "n_components": 1, "n_directions": 1, "unit": unit}
        if (code := outcome(owner, Invitation(**question), Declaration)) is not None:
            assert code in (Code.SETTINGS, Code.DATA)
            continue
        code = outcome(owner, BasisQuestion(**question), BasisAnswer)
        if code is None:
            values = ValuesQuestion(federation="lungs", basis=np.eye(D)[:, :1])
            code = outcome(owner, values, ValuesAnswer)
        assert code in (None, Code.NOTHING_FOUND), (n, centre, bounds, unit)


def test_one_record_has_no_pair(ledger, folder):
    said: list[str] = []
    settings = replace(SETTINGS, centring="paired", row_norm=None)
    owner = Owner(settings, ROWS[:1], ledger, folder, log=said.append)
    join = encode(Invitation(**{**ASKED, "unit": "shares"}))
    assert code_of(owner.answer(join)) is Code.DATA
    assert "give more rows" in said[0]
    assert code_of(owner.answer(SHARES)) is Code.DATA  # who asks all the same
    assert ledger.entries == ()
    located = Owner(replace(SIMULATED, centring="located"), ROWS[:1], log=said.append)
    assert code_of(located.answer(join)) is Code.DATA  # nor a centre


def test_the_local_model_needs_no_settings():
    """One record each, as [Fed] has it for n_j = 1: about the origin unless told otherwise."""
    alone = Owner(replace(SIMULATED, centring=None, row_norm=None), ROWS[:1])
    join = encode(Invitation(**{**ASKED, "unit": "shares"}))
    assert decode(alone.answer(join), Declaration).n_records == 1


def test_no_larger_message_is_promised_than_is_read():
    """A server that asks for a matrix of all columns of a wide table gets no memory for it."""
    wide = ArraySource(np.zeros((10, 100_000)))
    said: list[str] = []
    owner = Owner(SIMULATED, wide, log=said.append)
    asked = {**ASKED, "n_columns": 100_000, "n_components": 100_000, "n_directions": 100_000}
    assert code_of(owner.answer(encode(Invitation(**asked)))) is Code.SETTINGS
    assert code_of(owner.answer(encode(BasisQuestion(**asked)))) is Code.SETTINGS
    assert "larger message" in said[0]


def test_what_a_server_asks_for_is_not_remembered():
    owner = Owner(replace(SIMULATED, centring="none"), ROWS)
    for k in range(1, D + 1):
        asked = {**ASKED, "n_components": k, "n_directions": k, "unit": "shares"}
        decode(owner.answer(encode(Invitation(**asked))), Declaration)
    held = [value for value in vars(owner._records).values() if isinstance(value, (dict, list))]
    assert all(len(value) <= 1 for value in held)


@pytest.mark.parametrize("kind", ["frame", "csv", "npy", "named", "persons", "groups", "source"])
def test_tables_of_all_kinds(kind, tmp_path):
    names = tuple(f"c{j}" for j in range(D))
    frame = pd.DataFrame(MOVED, columns=list(names))
    settings, rows, records = SIMULATED, frame, N
    if kind in ("csv", "persons"):
        rows = tmp_path / "rows.csv"
        who = np.arange(N) // 3
        frame.assign(**({"who": who} if kind == "persons" else {})).to_csv(rows, index=False)
    if kind == "persons":
        settings, records = replace(SIMULATED, unit="who"), N // 3
    if kind in ("npy", "named"):
        rows = tmp_path / "rows.npy"
        np.save(rows, MOVED)
    if kind == "named":
        settings = replace(SIMULATED, columns=names)
    if kind in ("groups", "source"):
        rows = ArraySource(MOVED)
    if kind == "groups":
        rows, records = GroupedSource(rows, np.arange(N) // 3), N // 3
    owner = Owner(replace(settings, epsilon=1e3), rows)
    named = kind in ("frame", "csv", "named", "persons")
    agreed = {**ASKED, "columns": columns_digest(names if named else None)}
    assert decode(owner.answer(encode(Invitation(**agreed))), Declaration).n_records == records
    basis = decode(owner.answer(encode(BasisQuestion(**agreed))), BasisAnswer)
    assert np.linalg.norm(TRUE.T @ basis.basis) ** 2 > 0.98 * K
    values = decode(owner.answer(VALUES), ValuesAnswer)
    np.testing.assert_allclose(values.matrix, INSIDE, rtol=0.05, atol=1.0)
    np.testing.assert_allclose(values.centre, MEAN @ TRUE, atol=0.5)
    unit = guarantee_from_dict(dict(values.guarantee)).protects
    assert unit.owns_many == (records < N)


def test_a_first_record_is_not_taken_for_names(tmp_path):
    values = [str(value) for value in MOVED[0]]
    frame = pd.DataFrame(MOVED[1:], columns=values)
    frame.to_parquet(tmp_path / "rows.parquet")
    for rows in (frame, tmp_path / "rows.parquet"):
        with pytest.raises(InvalidDataError, match="named like a value, perhaps of a first") as no:
            Owner(SIMULATED, rows)
        assert not any(value in str(no.value) for value in values)
    names = tuple(f"c{j}" for j in range(D))
    assert Owner(replace(SIMULATED, columns=names), pd.DataFrame(MOVED))  # numbered, so unnamed


def test_names_of_columns_are_those_of_the_table_or_of_all_columns():
    names = tuple(f"c{j}" for j in range(D))
    for rows in (MOVED[:, 1:], pd.DataFrame(MOVED, columns=names[::-1])):
        with pytest.raises(InvalidParameterError, match="name all columns of this table"):
            Owner(replace(SIMULATED, columns=names), rows)
    with pytest.raises(InvalidParameterError, match="no names of columns"):
        Owner(replace(SIMULATED, unit="c0"), MOVED)
    owner = Owner(replace(SIMULATED, columns=names), MOVED)
    other = encode(Invitation(**{**ASKED, "columns": columns_digest(names[::-1])}))
    assert code_of(owner.answer(other)) is Code.COLUMNS


def test_scales_are_divided_by_and_agreed_on():
    scale = np.linspace(0.5, 2.0, D)
    settings = replace(SIMULATED, epsilon=1e3, scale=scale)
    owner = Owner(settings, MOVED * scale)
    assert code_of(owner.answer(BASIS)) is Code.COLUMNS
    agreed = encode(BasisQuestion(**{**ASKED, "columns": columns_digest(None, scale)}))
    basis = decode(owner.answer(agreed), BasisAnswer)
    assert np.linalg.norm(TRUE.T @ basis.basis) ** 2 > 0.999 * K
    values = decode(owner.answer(VALUES), ValuesAnswer)
    np.testing.assert_allclose(values.matrix, INSIDE, rtol=0.05, atol=0.5)
    np.testing.assert_allclose(values.centre, MEAN @ TRUE, atol=0.3)


def test_empty_cells_lie_at_the_centre():
    rows = ROWS.copy()
    rows[::2, 0] = np.nan
    settings = replace(SIMULATED, epsilon=1e3, on_missing="centre", centring="none")
    owner = Owner(settings, rows)
    decode(owner.answer(BASIS), BasisAnswer)
    values = decode(owner.answer(VALUES), ValuesAnswer)
    inside = np.nan_to_num(rows) @ TRUE
    wanted = inside.T @ inside / N
    np.testing.assert_allclose(values.matrix, wanted, rtol=0.02, atol=0.5)
    assert np.abs(wanted - INSIDE).max() > 2.0
