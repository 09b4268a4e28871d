"""An owner answers each question once, whatever happens, and pays for it before."""

import math
import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
    StateError,
)
from eigenveil.federated import (
    Answers,
    BasisAnswer,
    BasisQuestion,
    Code,
    Invitation,
    Owner,
    Records,
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    answers,
    decode,
    encode,
)
from eigenveil.mechanisms import Gate
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, epsilon_of
from tests.federated.one_owner import (
    ASKED,
    BASIS,
    ROWS,
    SETTINGS,
    SHARES,
    SIMULATED,
    TRUE,
    VALUES,
    code_of,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "secret-ledger-name.db", epsilon=4.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


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


@pytest.mark.parametrize("question", [BASIS, SHARES], ids=["variances", "shares"])
def test_a_ledger_that_counts_in_epsilon_pays_once_for_both_answers(question, tmp_path, folder):
    """Other charges may come between the answers: docs/proofs/ledger.md, *Releases in parts*."""
    ledger = Ledger.create(tmp_path / "pure.db", epsilon=9.0, delta=1e-6)
    replace_one = Adjacency.REPLACE_ONE
    ledger.charge(Pure(1.0), label="before", adjacency=replace_one)
    owner = Owner(SETTINGS, ROWS, ledger, folder)
    decode(owner.answer(question), BasisAnswer)
    ledger.charge(Pure(0.5), label="between", adjacency=replace_one)
    decode(owner.answer(VALUES), ValuesAnswer)
    _, both, _, *notes = ledger.entries
    assert both.label == "lungs basis"
    assert all(note.is_note for note in notes)
    spent = 1.5 + epsilon_of(both.cost, 1e-6 / 16)  # as one release that other charges surround
    assert ledger.currency == "epsilon"
    assert ledger.balance().spent == pytest.approx(spent)


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
        "from eigenveil.federated import Answers\n"
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
