"""An owner answers each question once, pays for it before, and lets nothing else out."""

import math
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from eigenveil.data.sources import ArraySource, GroupedSource
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
    StateError,
)
from eigenveil.federated import answers, records
from eigenveil.federated.answers import Answers
from eigenveil.federated.messages import (
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Message,
    ProtocolError,
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
)
from eigenveil.federated.owner import Owner
from eigenveil.federated.owner_plans import _REST_SHARE
from eigenveil.federated.records import Records
from eigenveil.federated.settings import OwnerSettings
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.registry import entries
from eigenveil.privacy.accounting import covers, delta_of, epsilon_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Gaussian
from eigenveil.privacy.guarantee import Kind, guarantee_from_dict
from eigenveil.privacy.ledger import Ledger
from tests.statistics import variance_p_value

D, K, N = 8, 2, 1500
RNG = np.random.default_rng(11)
TRUE = np.linalg.qr(RNG.standard_normal((D, K)))[0]
MEAN = 20 * RNG.standard_normal(D)
ROWS = RNG.standard_normal((N, K)) * [6.0, 4.0] @ TRUE.T + RNG.standard_normal((N, D))
ROWS -= ROWS.mean(axis=0)
MOVED = MEAN + ROWS
INSIDE = TRUE.T @ (ROWS.T @ ROWS / N) @ TRUE
ASKED: dict[str, Any] = {
    "federation": "lungs",
    "n_columns": D,
    "n_components": K,
    "n_directions": K,
    "share": 0.8,
    "columns": columns_digest(None),
    "unit": "variances",
}
JOIN, BASIS = encode(Invitation(**ASKED)), encode(BasisQuestion(**ASKED))
VALUES = encode(ValuesQuestion(federation="lungs", basis=TRUE))
SHARES = encode(BasisQuestion(**{**ASKED, "unit": "shares"}))  # will be asked for
SIMULATED = OwnerSettings(
    owner="north", federation="lungs", epsilon=4.0, delta=1e-6, random_state=5
)
# With the noise of the system: nothing is searched for that could not be found.
SETTINGS = replace(SIMULATED, random_state=None, centring="none", row_norm=30.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "secret-ledger-name.db", epsilon=4.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def code_of(answer: bytes) -> Code:
    with pytest.raises(ProtocolError) as caught:
        decode(answer, Declaration, BasisAnswer, ValuesAnswer)
    return caught.value.code


def simulated(
    question: bytes = BASIS, rows: Any = MOVED, **changes: Any
) -> tuple[BasisAnswer, ValuesAnswer]:
    owner = Owner(replace(SIMULATED, **changes), rows)
    if "share" in changes:
        question = encode(replace(decode(question, BasisQuestion), share=changes["share"]))
    return decode(owner.answer(question), BasisAnswer), decode(owner.answer(VALUES), ValuesAnswer)


# What is answered.


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
    located = Owner(replace(SIMULATED, centring="located"), ROWS[:1])
    assert decode(located.answer(join), Declaration).n_records == 1


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
        with pytest.raises(InvalidDataError, match="named like a value, which may be one") as no:
            Owner(SIMULATED, rows)
        assert not any(value in str(no.value) for value in values)
    names = tuple(f"c{j}" for j in range(D))
    assert Owner(replace(SIMULATED, columns=names), pd.DataFrame(MOVED))  # numbered, so unnamed


def test_names_of_columns_are_those_of_the_table_or_of_all_columns():
    names = tuple(f"c{j}" for j in range(D))
    for rows in (MOVED[:, 1:], pd.DataFrame(MOVED, columns=names[::-1])):
        with pytest.raises(InvalidParameterError, match="name all columns of this table"):
            Owner(replace(SIMULATED, columns=names), rows)
    with pytest.raises(InvalidParameterError, match="unit names a column of a CSV"):
        Owner(replace(SIMULATED, unit="c0"), pd.DataFrame(MOVED, columns=names))
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


# Each question once.


def test_the_same_question_gets_the_same_bytes_and_costs_nothing(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    first, second = owner.answer(BASIS), owner.answer(VALUES)
    again = Owner(SETTINGS, ROWS, ledger, folder)  # after a restart
    for one in (owner, again):
        assert one.answer(BASIS) == first
        assert one.answer(VALUES) == second
    assert len(ledger.entries) == 3


def test_another_question_in_the_same_round_is_refused(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    owner.answer(BASIS)
    other = encode(BasisQuestion(**{**ASKED, "n_directions": 3}))
    assert code_of(owner.answer(other)) is Code.OTHER_QUESTION
    assert code_of(owner.answer(SHARES)) is Code.OTHER_QUESTION  # they would cost something else
    kept = owner.answer(VALUES)
    turned = encode(ValuesQuestion(federation="lungs", basis=TRUE[:, ::-1]))
    for one in (owner, Owner(SETTINGS, ROWS, ledger, folder)):
        assert code_of(one.answer(turned)) is Code.OTHER_QUESTION
        assert one.answer(VALUES) == kept
    assert len(ledger.entries) == 3


def test_values_come_second(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    assert code_of(owner.answer(VALUES)) is Code.OTHER_QUESTION
    assert ledger.entries == ()
    decode(owner.answer(BASIS), BasisAnswer)
    decode(owner.answer(VALUES), ValuesAnswer)


def charges_after_a_crash(ledger: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The process dies once the charge is made; another one is asked the same."""
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise SystemExit

        patch.setattr(Answers, "keep", die)
        with pytest.raises(SystemExit):
            owner.answer(BASIS)
    assert len(ledger.entries) == 1
    answer = Owner(SETTINGS, ROWS, ledger, folder).answer(BASIS)
    if len(ledger.entries) == 1:
        assert code_of(answer) in (Code.INTERRUPTED, Code.BUDGET, Code.INTERNAL)
    return len(ledger.entries)


def test_an_interrupted_question_is_not_paid_for_again(ledger, folder, monkeypatch):
    assert charges_after_a_crash(ledger, folder, monkeypatch) == 1
    assert code_of(Owner(SETTINGS, ROWS, ledger, folder).answer(VALUES)) is Code.OTHER_QUESTION


@pytest.mark.parametrize("fault", ["no note", "no look", "neither"])
def test_either_guard_alone_holds(tmp_path, folder, monkeypatch, fault):
    """The ledger refuses a second charge of the same label even if nobody looks before."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    if fault != "no look":
        monkeypatch.setattr(Answers, "begin", lambda *_: None)
        monkeypatch.setattr(Answers, "forget", lambda *_: None)
    if fault != "no note":
        monkeypatch.setattr(Records, "charged", lambda *_: None)
    assert charges_after_a_crash(ledger, folder, monkeypatch) == 1


def test_without_any_guard_it_would_be_paid_twice(tmp_path, folder, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    monkeypatch.setattr(Answers, "begin", lambda *_: None)
    monkeypatch.setattr(Records, "charged", lambda *_: None)
    charge = Ledger.charge
    monkeypatch.setattr(
        Ledger, "charge", lambda self, cost, **k: charge(self, cost, **{**k, "once": False})
    )
    assert charges_after_a_crash(ledger, folder, monkeypatch) == 2


def test_two_folders_at_once_are_charged_once(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    owners = [Owner(SETTINGS, ROWS, ledger, tmp_path / name) for name in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda owner: owner.answer(BASIS), owners))
    assert [entry.label for entry in ledger.entries] == ["lungs basis"]
    assert sum(b"basis-answer" in answer for answer in answers) == 1


@pytest.mark.parametrize("question", [SHARES, BASIS], ids=["shares", "variances"])
def test_two_copies_of_a_folder_at_once_are_charged_once(tmp_path, question, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    decode(Owner(SETTINGS, ROWS, ledger, tmp_path / "one").answer(question), BasisAnswer)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    owners = [Owner(SETTINGS, ROWS, ledger, tmp_path / name) for name in ("one", "two")]
    look = Records.charged  # for the first question only: neither looks before it is to pay
    monkeypatch.setattr(
        Records, "charged", lambda self, name: look(self, name) if name == "basis" else None
    )
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda owner: owner.answer(VALUES), owners))
    labels = [entry.label for entry in ledger.entries]
    assert len(labels) == len(set(labels))
    assert sum(b"values-answer" in answer for answer in answers) <= 1


def test_a_refusal_that_cost_nothing_is_not_kept(tmp_path, folder):
    """Whatever else was charged meanwhile."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    table = np.array(ROWS)
    table[3, 3] = np.nan
    owner = Owner(SETTINGS, table, ledger, folder)

    def other(*_: object) -> None:
        ledger.charge(Gaussian(0.01), label="monthly", adjacency=Adjacency.REPLACE_ONE)
        return None

    owner._log = other
    assert code_of(owner.answer(BASIS)) is Code.DATA
    table[3, 3] = 0.0
    assert decode(Owner(SETTINGS, table, ledger, folder).answer(BASIS), BasisAnswer)


def test_another_folder_does_not_answer_again(tmp_path):
    """With other settings too: the ledger knows federation and round of what it paid for."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=40.0, delta=1e-6)
    owner = Owner(SETTINGS, ROWS, ledger, tmp_path / "first")
    decode(owner.answer(BASIS), BasisAnswer)
    heard: list[str] = []
    other = replace(SETTINGS, row_norm=31.0)
    again = Owner(other, ROWS, ledger, tmp_path / "second", log=heard.append)
    assert code_of(again.answer(BASIS)) is Code.INTERRUPTED
    assert len(ledger.entries) == 1
    later = replace(SETTINGS, federation="lungs-2")
    question = encode(BasisQuestion(**{**ASKED, "federation": "lungs-2"}))
    assert decode(Owner(later, ROWS, ledger, tmp_path / "third").answer(question), BasisAnswer)
    with pytest.raises(StateError, match="start a new federation"):
        Owner(other, ROWS, ledger, tmp_path / "first")


def test_the_noise_of_an_owner_comes_from_no_seed(tmp_path):
    """Both answers of two owners of the same rows differ: noise from a seed would repeat."""
    said = []
    for name in ("one", "two"):
        ledger = Ledger.create(tmp_path / f"{name}.db", epsilon=4.0, delta=1e-6)
        owner = Owner(SETTINGS, ROWS, ledger, tmp_path / name)
        decode(owner.answer(SHARES), BasisAnswer)
        said.append(decode(owner.answer(VALUES), ValuesAnswer).matrix)
    assert not np.isclose(*said, rtol=0, atol=1e-12).any()


def test_ledgers_of_another_notion_are_refused(tmp_path, folder):
    ledger = Ledger.create(tmp_path / "rho.db", rho=10.0)
    with pytest.raises(InvalidParameterError, match="must grant epsilon and delta"):
        Owner(SETTINGS, ROWS, ledger, folder)


def test_the_part_for_the_basis_is_agreed_on(ledger, folder):
    heard: list[str] = []
    owner = Owner(SETTINGS, ROWS, ledger, folder, log=heard.append)
    for kind in (Invitation, BasisQuestion):
        asked = encode(kind(**{**ASKED, "share": 0.5}))
        assert code_of(owner.answer(asked)) is Code.SETTINGS
    assert "share = 0.5" in heard[0]
    assert ledger.entries == ()


def test_settings_without_a_bound_are_refused():
    with pytest.raises(InvalidParameterError, match="finite numbers and words"):
        replace(SIMULATED, bounds=(-math.inf, math.inf))


def test_an_answer_that_cannot_be_kept_is_not_sent(ledger, folder, monkeypatch):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise StateError("cannot write")

        patch.setattr(Answers, "keep", full)
        assert code_of(owner.answer(BASIS)) is Code.INTERNAL
    assert code_of(owner.answer(BASIS)) is Code.INTERRUPTED
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("row 17 is 42"), Code.INTERNAL, "RuntimeError"),
        (NothingFoundError("nothing"), Code.NOTHING_FOUND, "nothing"),
        (InvalidDataError("the file changed"), Code.DATA, "the file changed"),
    ],
)
def test_a_failure_after_the_charge_is_final(error, code, said, ledger, folder, monkeypatch):
    draws = []

    def fails(self: Gate, *given: Any) -> Any:
        draws.append(drawn(self, *given))
        raise error

    drawn = Gate.draw
    heard: list[str] = []
    owner = Owner(SETTINGS, ROWS, ledger, folder, log=heard.append)
    with monkeypatch.context() as patch:
        patch.setattr(Gate, "draw", fails)
        refusal = owner.answer(BASIS)
    assert draws
    assert len(ledger.entries) == 1
    assert code_of(refusal) is code
    assert owner.answer(BASIS) == refusal
    assert code_of(owner.answer(VALUES)) is Code.OTHER_QUESTION
    assert len(ledger.entries) == 1
    assert heard[0] == f"refused ({code}): {said}"


def test_a_failure_before_the_charge_may_be_mended(ledger, folder):
    broken = ROWS.copy()
    broken[7, 3] = np.nan
    heard: list[str] = []
    owner = Owner(SETTINGS, broken, ledger, folder, log=heard.append)
    refusal = owner.answer(BASIS)
    said = Refusal(federation="lungs", owner="north", code=Code.DATA)
    assert refusal == encode(said)  # a code and no text
    assert len(heard) == 1
    assert "missing or infinite" in heard[0]
    assert "\n" not in heard[0]
    assert ledger.entries == ()
    decode(Owner(SETTINGS, ROWS, ledger, folder).answer(BASIS), BasisAnswer)
    assert len(ledger.entries) == 1


def test_bad_rows_in_the_second_round(ledger, folder):
    decode(Owner(SETTINGS, ROWS, ledger, folder).answer(BASIS), BasisAnswer)
    broken = ROWS.copy()
    broken[7, 3] = np.inf
    assert code_of(Owner(SETTINGS, broken, ledger, folder).answer(VALUES)) is Code.DATA
    assert len(ledger.entries) == 1
    decode(Owner(SETTINGS, ROWS, ledger, folder).answer(VALUES), ValuesAnswer)


def test_a_search_that_finds_nothing_is_final(folder):
    settings = replace(SIMULATED, centring="none")
    owner = Owner(settings, ROWS, folder=folder)
    decode(owner.answer(BASIS), BasisAnswer)
    equal = Owner(settings, np.zeros_like(ROWS), folder=folder)  # whose rows have no distances
    assert code_of(equal.answer(VALUES)) is Code.NOTHING_FOUND
    assert code_of(owner.answer(VALUES)) is Code.NOTHING_FOUND


def test_another_process_has_to_wait(ledger, folder, monkeypatch):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    script = (
        "import sys, numpy as np\n"
        "from eigenveil.federated import answers\n"
        "from eigenveil.federated.answers import Answers\n"
        "from eigenveil.exceptions import BusyError\n"
        "from pathlib import Path\n"
        "answers._BUSY_SECONDS = 0.05\n"
        "try:\n"
        "    with Answers(Path(sys.argv[1]), {}).opened(): pass\n"
        "except BusyError: print('busy')\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with owner._answers.opened():
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert found.stdout == "busy\n"
        # The same for another owner in this process, of whom the coordinator hears a code.
        monkeypatch.setattr(answers, "_BUSY_SECONDS", 0.05)
        with pytest.raises(StateError, match="in use"):
            Owner(SETTINGS, ROWS, ledger, folder)
    second = Owner(SETTINGS, ROWS, ledger, folder)
    with owner._answers.opened():
        assert code_of(second.answer(BASIS)) is Code.BUSY
    assert ledger.entries == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_sends_what_its_parent_has_kept(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    kept = owner.answer(BASIS)
    child = os.fork()
    if child == 0:
        os._exit(0 if owner.answer(BASIS) == kept else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 3.0}, {"share": 0.4}, {"federation": "hearts"}, {"bounds": (-1.0, 1.0)}],
    ids=str,
)
def test_a_folder_belongs_to_its_settings(changes, ledger, folder):
    mistaken = replace(SETTINGS, **changes)
    Owner(mistaken, ROWS, ledger, folder)  # which may be mended as long as nothing is answered
    Owner(SETTINGS, ROWS, ledger, folder).answer(BASIS)
    with pytest.raises(StateError, match="other settings"):
        Owner(mistaken, ROWS, ledger, folder)
    Owner(SETTINGS, ROWS, ledger, folder)


def test_a_folder_belongs_to_its_ledger(ledger, folder, tmp_path):
    Owner(SETTINGS, ROWS, ledger, folder).answer(BASIS)
    other = Ledger.create(tmp_path / "other.db", epsilon=4.0, delta=1e-6)
    with pytest.raises(StateError, match="another ledger"):
        Owner(SETTINGS, ROWS, other, folder)


def test_the_folder_is_the_owners_alone(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    owner.answer(BASIS)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    folder.chmod(0o750)
    with pytest.raises(StateError, match="chmod 700"):
        Owner(SETTINGS, ROWS, ledger, folder)


def test_a_damaged_answer_is_not_sent(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    owner.answer(BASIS)
    kept = folder / "basis"
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(bytes(data))
    assert code_of(owner.answer(BASIS)) is Code.INTERNAL
    kept.write_bytes(b"nothing")
    assert code_of(owner.answer(BASIS)) is Code.INTERNAL
    assert len(ledger.entries) == 1


# What is refused.


@pytest.mark.parametrize("kind", [Invitation, BasisQuestion])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"federation": "hearts"}, Code.FEDERATION),
        ({"n_columns": D + 1}, Code.COLUMNS),
        ({"columns": columns_digest(["a", "b"])}, Code.COLUMNS),
        ({"columns": columns_digest(None, [1.0] * D)}, Code.COLUMNS),
    ],
)
def test_what_is_not_meant_for_this_table(
    kind: Callable[..., Message], changes, code, ledger, folder
):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    assert code_of(owner.answer(encode(kind(**{**ASKED, **changes})))) is code
    assert ledger.entries == ()
    decode(owner.answer(BASIS), BasisAnswer)


def test_names_are_compared_where_they_are_agreed_on():
    named = Owner(SIMULATED, pd.DataFrame(ROWS, columns=list("abcdefgh")))
    for names, good in (("abcdefgh", True), ("bacdefgh", False), (None, True)):
        asked = encode(Invitation(**{**ASKED, "columns": columns_digest(names)}))
        if good:
            decode(named.answer(asked), Declaration)
        else:
            assert code_of(named.answer(asked)) is Code.COLUMNS


def hostile(basis: np.ndarray) -> bytes:
    """The question that nobody could make with `encode`."""
    good = ValuesQuestion(federation="lungs", basis=TRUE)
    object.__setattr__(good, "basis", basis)
    return encode(good)


@pytest.mark.parametrize(
    ("basis", "code"),
    [
        (2 * TRUE, Code.NOT_ORTHONORMAL),
        (TRUE * (1 + 1e-5), Code.NOT_ORTHONORMAL),
        (np.repeat(TRUE[:, :1], 2, axis=1), Code.NOT_ORTHONORMAL),
        (np.zeros((D, K)), Code.NOT_ORTHONORMAL),
        (np.full((D, K), 1e300), Code.NOT_ORTHONORMAL),
        (np.where(TRUE[0, 0] == TRUE, np.nan, TRUE), Code.NOT_FINITE),
        (np.where(TRUE[0, 0] == TRUE, np.inf, TRUE), Code.NOT_FINITE),
        (TRUE[:, :1], Code.SHAPE),
        (np.linalg.qr(RNG.standard_normal((D + 1, K)))[0], Code.SHAPE),
        (np.eye(D), Code.SHAPE),
        (TRUE[:, 0], Code.SHAPE),
    ],
)
def test_a_hostile_basis_is_refused_and_costs_nothing(basis, code, ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    decode(owner.answer(BASIS), BasisAnswer)
    assert code_of(owner.answer(hostile(basis))) is code
    assert len(ledger.entries) == 1
    decode(owner.answer(VALUES), ValuesAnswer)  # the round is still open


@pytest.mark.parametrize(
    "question", [b"", b"EIGENVEIL", b"\x00" * 100, VALUES[:-1], "text", None, BASIS + b"x"], ids=str
)
def test_what_is_no_question(question):
    owner = Owner(SIMULATED, ROWS)
    assert code_of(owner.answer(question)) in (Code.MALFORMED, Code.SHAPE)
    refusal = encode(Refusal(federation="lungs", owner="x", code=Code.INTERNAL))
    assert code_of(owner.answer(refusal)) is Code.INTERNAL
    assert code_of(owner.answer(encode(Declaration(**DECLARED)))) is Code.MALFORMED


DECLARED: dict[str, Any] = {
    "federation": "lungs",
    "owner": "north",
    "n_records": 1,
    "epsilon": 1.0,
    "delta": 1e-6,
    "mechanism": "spherical",
}


def test_a_ledger_that_cannot_pay_refuses_before_anything_is_spent(tmp_path, folder):
    ledger = Ledger.create(tmp_path / "poor.db", epsilon=2.0, delta=1e-6)
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    assert code_of(owner.answer(JOIN)) is Code.BUDGET
    assert ledger.entries == ()
    poorer = Ledger.create(tmp_path / "poorer.db", epsilon=0.1, delta=1e-6)
    other = Owner(SETTINGS, ROWS, poorer, tmp_path / "other")
    assert code_of(other.answer(BASIS)) is Code.BUDGET
    assert poorer.entries == ()


def test_a_lost_ledger_stops_everything_but_what_is_kept(ledger, folder):
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    kept = owner.answer(BASIS)
    ledger.path.unlink()
    assert code_of(owner.answer(VALUES)) is Code.BUDGET
    assert owner.answer(BASIS) == kept


def test_whatever_fails_inside_stays_inside(ledger, folder, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the patient of row 17")

    heard: list[str] = []
    owner = Owner(SETTINGS, ROWS, ledger, folder, log=heard.append)
    with monkeypatch.context() as patch:
        patch.setattr(records, "execute", fails)
        assert code_of(owner.answer(BASIS)) is Code.INTERNAL
    decode(owner.answer(BASIS), BasisAnswer)
    monkeypatch.setattr(records, "execute", fails)
    assert code_of(owner.answer(VALUES)) is Code.INTERNAL
    assert heard == ["refused (internal): ZeroDivisionError"] * 2
    assert [entry.label for entry in ledger.entries] == ["lungs basis"]


def test_too_few_rows_for_a_private_radius_is_said_before_the_charge(ledger, folder):
    heard: list[str] = []
    settings = replace(SETTINGS, row_norm=None)
    owner = Owner(settings, ROWS[:10], ledger, folder, log=heard.append)
    assert code_of(owner.answer(JOIN)) is Code.SETTINGS
    assert len(heard) == 1
    assert "state row_norm" in heard[0]
    decode(owner.answer(encode(Invitation(**{**ASKED, "unit": "shares"}))), Declaration)
    assert code_of(owner.answer(BASIS)) is Code.SETTINGS
    assert ledger.entries == ()
    decode(owner.answer(SHARES), BasisAnswer)


def test_rows_that_became_too_few_are_noticed_before_anything_is_charged(ledger, folder):
    settings = replace(SETTINGS, row_norm="private")
    decode(Owner(settings, ROWS, ledger, folder).answer(BASIS), BasisAnswer)
    assert code_of(Owner(settings, ROWS[:20], ledger, folder).answer(VALUES)) is Code.SETTINGS
    assert len(ledger.entries) == 1


def test_a_huge_finite_record_stops_nothing():
    rows = MOVED.copy()
    rows[0], rows[1] = 1.5e308, -1.5e308
    owner = Owner(SIMULATED, rows)
    assert np.isfinite(decode(owner.answer(BASIS), BasisAnswer).basis).all()
    assert np.isfinite(decode(owner.answer(VALUES), ValuesAnswer).matrix).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "no/name"},
        {"federation": ""},
        {"epsilon": 0.0},
        {"delta": None},
        {"delta": 1.0},
        {"share": 0.0},
        {"share": 1.5},
        {"share": True},
        {"mechanism": "spiked"},
        {"mechanism": "auto"},
        {"scale": "private"},
    ],
    ids=str,
)
def test_settings_are_checked(changes):
    with pytest.raises(InvalidParameterError):
        replace(SETTINGS, **changes)


def test_whole_numbers_and_floats_are_the_same_settings(ledger, folder):
    first = Owner(replace(SETTINGS, epsilon=4), ROWS, ledger, folder).answer(BASIS)
    assert Owner(replace(SETTINGS, epsilon=4.0), ROWS, ledger, folder).answer(BASIS) == first


def test_an_owner_has_a_ledger_and_a_folder_or_simulates(ledger, folder):
    with pytest.raises(InvalidParameterError, match="ledger"):
        Owner(SETTINGS, ROWS)
    with pytest.raises(InvalidParameterError, match="ledger"):
        Owner(SIMULATED, ROWS, ledger, folder)
    with pytest.raises(InvalidParameterError, match="folder"):
        Owner(SETTINGS, ROWS, ledger)
    with pytest.raises(InvalidDataError, match="both rounds"):
        Owner(SIMULATED, iter([ROWS]))
    # A simulation may keep its answers too.
    kept = Owner(SIMULATED, ROWS, folder=folder).answer(BASIS)
    assert Owner(SIMULATED, ROWS, folder=folder).answer(BASIS) == kept


def test_strengths_are_those_of_the_released_eigenvalues(monkeypatch):
    released = []
    result = records.component_result
    monkeypatch.setattr(
        records,
        "component_result",
        lambda *a, **k: released.append(result(*a, **k)) or released[-1],
    )
    asked = encode(BasisQuestion(**{**ASKED, "n_directions": 4}))
    answer = decode(Owner(SIMULATED, MOVED).answer(asked), BasisAnswer)
    values = released[0].explained_variance
    np.testing.assert_allclose(
        answer.strengths**2, (values[:4] - values[4]) / (values[0] - values[4])
    )


def test_more_directions_come_with_their_strengths():
    asked = encode(BasisQuestion(**{**ASKED, "n_directions": 4}))
    answer = decode(Owner(replace(SIMULATED, epsilon=50.0), MOVED).answer(asked), BasisAnswer)
    assert answer.basis.shape == (D, 4)
    assert answer.strengths[0] == 1
    assert answer.strengths[1] > 0.4 > answer.strengths[3]  # two true ones among four
    everything = encode(BasisQuestion(**{**ASKED, "n_directions": D}))
    answer = decode(Owner(SIMULATED, MOVED).answer(everything), BasisAnswer)
    assert answer.basis.shape == (D, D)
    default = decode(Owner(SIMULATED, MOVED).answer(BASIS), BasisAnswer)
    np.testing.assert_array_equal(default.strengths, np.ones(K))
