"""What an owner refuses, and what it lets nobody see."""

from collections.abc import Callable
from dataclasses import replace
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
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
    records,
)
from eigenveil.privacy import Ledger
from tests.federated.one_owner import (
    ASKED,
    BASIS,
    JOIN,
    MOVED,
    RNG,
    ROWS,
    SETTINGS,
    SHARES,
    SIMULATED,
    TRUE,
    VALUES,
    D,
    K,
    code_of,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "secret-ledger-name.db", epsilon=4.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


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
