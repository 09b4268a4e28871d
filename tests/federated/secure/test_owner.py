"""An owner of secure sums: what it answers, once, and what it refuses."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, StateError
from eigenveil.federated import Answers, Code, ProtocolError, decode, encode
from eigenveil.federated.secure import (
    Agreed,
    Ready,
    Roll,
    SecureAgreement,
    SecureOwner,
    SumInvitation,
    SumQuestion,
    Sums,
    Upload,
    digest,
)
from eigenveil.federated.secure import owner as owner_module
from eigenveil.privacy import Ledger
from tests.federated.secure.parties import (
    agreement,
    member,
    real_owner,
    signing_key,
    simulated,
    tables,
)

ROWS = tables(n=6, d=2)
AGREED = agreement(ROWS, kind="covariance", bounds=((0.0,) * 2, (20.0,) * 2))
REAL = replace(AGREED, simulated=False)


@pytest.mark.parametrize("kind", ["pca", "covariance"])
def test_an_owner_whose_blas_is_inexact_is_refused(kind, monkeypatch):
    """Whatever is summed: results of secure sums are stated as exact."""
    monkeypatch.setattr("eigenveil.federated.secure.sums.sums_are_exact", lambda: False)
    with pytest.raises(InvalidDataError, match="BLAS"):
        simulated(agreement(ROWS, kind=kind), ROWS)


def silent(line: str) -> None:
    pass


def question(agreed: SecureAgreement = AGREED, step: int = 0, centre: float = 10.0) -> bytes:
    return encode(
        SumQuestion(
            federation=agreed.federation,
            agreement=agreed.digest.hex(),
            step=step,
            radius=15.0,
            centre=np.full(2, centre),
        )
    )


def roll(ready: dict[str, bytes], agreed: SecureAgreement = AGREED, step: int = 0) -> bytes:
    members = [ready[name] for name in sorted(ready)]
    return encode(Roll.of(agreed.federation, agreed.digest.hex(), step, members))


def code(answer: bytes) -> Code | None:
    try:
        decode(answer, Agreed, Ready, Upload)
    except ProtocolError as error:
        return error.code
    return None


@pytest.fixture
def owners() -> dict[str, SecureOwner]:
    return simulated(AGREED, ROWS, log=silent)


@pytest.fixture
def ready(owners) -> dict[str, bytes]:
    return {name: owner.answer(question()) for name, owner in owners.items()}


def real(folder, agreed=REAL, name="east", **options) -> SecureOwner:
    return real_owner(agreed, name, ROWS[name], folder, log=silent, **options)


# Before anything is asked


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "nobody"}, "knows no owner"),
        ({"key": signing_key("west")}, "not the key"),
        ({"random_state": None}, "random_state"),
        ({"signature": AGREED.agreed("west").sign(signing_key("east"))}, "another agreement"),
    ],
)
def test_what_does_not_fit_the_agreement_is_refused(changes, words):
    arguments = {"name": "east", "key": signing_key("east"), "random_state": 0, **changes}
    name, key = arguments.pop("name"), arguments.pop("key")
    with pytest.raises(InvalidParameterError, match=words):
        SecureOwner(AGREED, name, ROWS["east"], key, **arguments)


def test_an_owner_without_a_ledger_or_a_folder_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "pure", epsilon=3)
    for given, words in ((None, "has a ledger"), (ledger, "state folder")):
        with pytest.raises(InvalidParameterError, match=words):
            SecureOwner(REAL, "east", ROWS["east"], signing_key("east"), given)
    with pytest.raises(InvalidParameterError, match="epsilon and delta"):
        SecureOwner(REAL, "east", ROWS["east"], signing_key("east"), ledger, tmp_path / "f")


def invitation(agreed: SecureAgreement) -> bytes:
    return encode(SumInvitation(federation=agreed.federation, agreement=agreed.digest.hex()))


def test_who_agrees_says_so_with_a_signature(owners):
    said = decode(owners["east"].answer(invitation(AGREED)), Agreed)
    AGREED.agreed("east").check(said.signature, AGREED.key("east"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"federation": "another"}, Code.FEDERATION),
        ({"epsilon": 3.0}, Code.AGREEMENT),
        ({"owners": {**AGREED.owners, "west": member("evil", 6)}}, Code.AGREEMENT),
    ],
)
def test_another_agreement_is_refused_in_every_message(owners, ready, changes, expected):
    other = replace(AGREED, **changes)
    for message in (invitation(other), question(other), roll(ready, other)):
        assert code(owners["east"].answer(message)) is expected


def test_the_table_must_be_the_one_that_was_agreed_on():
    for rows, expected in (
        (ROWS["east"][:5], Code.SETTINGS),
        (np.ones((6, 3)), Code.COLUMNS),
    ):
        owner = SecureOwner(AGREED, "east", rows, signing_key("east"), random_state=0, log=silent)
        assert code(owner.answer(invitation(AGREED))) is expected


def test_a_ledger_that_does_not_cover_all_steps_is_found_out_at_once(tmp_path):
    tmp_path.joinpath("a").mkdir()
    Ledger.create(tmp_path / "a" / "ledger", epsilon=1, delta=1e-5)
    assert code(real(tmp_path / "a").answer(invitation(REAL))) is Code.BUDGET
    tmp_path.joinpath("b").mkdir()
    Ledger.create(tmp_path / "b" / "ledger", epsilon=4, delta=1e-5, alone_epsilon=5)
    assert code(real(tmp_path / "b").answer(invitation(REAL))) is Code.BUDGET


def test_bad_rows_are_found_out_before_the_roll():
    rows = ROWS["east"].copy()
    rows[0, 0] = np.nan
    owner = SecureOwner(AGREED, "east", rows, signing_key("east"), random_state=0, log=silent)
    assert code(owner.answer(question())) is Code.DATA


# Ready and upload


def test_the_same_question_gets_the_same_bytes_and_another_one_none(owners):
    first = owners["east"].answer(question())
    assert owners["east"].answer(question()) == first
    assert code(owners["east"].answer(question(centre=11.0))) is Code.OTHER_QUESTION
    assert code(owners["east"].answer(question(step=8))) is Code.OTHER_QUESTION


def test_the_same_roll_gets_the_same_bytes_and_another_one_none(owners, ready):
    first = owners["east"].answer(roll(ready))
    assert code(first) is None
    assert owners["east"].answer(roll(ready)) == first
    del ready["west"]
    assert code(owners["east"].answer(roll(ready))) is Code.OTHER_QUESTION


def test_a_roll_before_the_question_is_refused(owners):
    others = {n: o.answer(question()) for n, o in owners.items() if n != "east"}
    assert code(owners["east"].answer(roll(others))) is Code.OTHER_QUESTION


def _without_me(ready):
    del ready["east"]


def _too_few(ready):
    del ready["west"], ready["north"]


def _signature_missing(ready):
    ready["west"] = encode(replace(decode(ready["west"], Ready), signature="0" * 128))


def _signatures_swapped(ready):
    west, north = (decode(ready[name], Ready) for name in ("west", "north"))
    ready["west"] = encode(replace(west, signature=north.signature))


def _key_substituted(ready):
    ready["west"] = encode(replace(decode(ready["west"], Ready), key="ab" * 32))


def _low_order(ready):
    unsigned = replace(decode(ready["west"], Ready), key="00" * 32)
    ready["west"] = encode(
        replace(unsigned, signature=unsigned.statement.sign(signing_key("west")))
    )


def _key_twice(ready):
    key = decode(ready["north"], Ready).key
    unsigned = replace(decode(ready["west"], Ready), key=key)
    ready["west"] = encode(
        replace(unsigned, signature=unsigned.statement.sign(signing_key("west")))
    )


def _named_twice(ready):
    ready["zest"] = ready["west"]


def _stranger(ready):
    unsigned = replace(decode(ready["west"], Ready), owner="zest")
    ready["zest"] = encode(
        replace(unsigned, signature=unsigned.statement.sign(signing_key("zest")))
    )


def _of_another_step(ready):
    other = simulated(AGREED, ROWS, log=silent)["west"]
    ready["west"] = other.answer(question(step=1))


def _of_another_question(ready):
    other = simulated(AGREED, ROWS, log=silent)["west"]
    ready["west"] = other.answer(question(centre=3.0))


def _of_another_federation(ready):
    agreed = replace(AGREED, federation="another")
    ready["west"] = simulated(agreed, ROWS, log=silent)["west"].answer(question(agreed))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_without_me, Code.ROLL),
        (_too_few, Code.ROLL),
        (_signature_missing, Code.SIGNATURE),
        (_signatures_swapped, Code.SIGNATURE),
        (_key_substituted, Code.SIGNATURE),
        (_low_order, Code.ROLL),
        (_key_twice, Code.ROLL),
        (_named_twice, Code.ROLL),
        (_stranger, Code.ROLL),
        (_of_another_step, Code.ROLL),
        (_of_another_question, Code.ROLL),
        (_of_another_federation, Code.ROLL),
    ],
)
def test_a_roll_that_is_not_what_it_should_be_is_refused(owners, ready, change, expected):
    changed = dict(ready)
    change(changed)
    assert code(owners["east"].answer(roll(changed))) is expected
    assert code(owners["east"].answer(roll(ready))) is None  # nothing had begun


@pytest.mark.parametrize("members", [b"\1", b"\xff\xff\xff\xff", b"\5\0\0\0hello"])
def test_a_roll_that_cannot_be_read_is_refused(owners, ready, members):
    broken = Roll(
        federation=AGREED.federation,
        agreement=AGREED.digest.hex(),
        step=0,
        members=np.frombuffer(members, dtype=np.uint8),
    )
    assert code(owners["east"].answer(encode(broken))) is Code.MALFORMED


def test_owners_who_are_shown_different_rolls_do_not_cancel(owners, ready):
    names = sorted(ready)
    fewer = {name: ready[name] for name in names if name != "west"}
    sent = [owners[name].answer(roll(fewer)) for name in names[:2]]
    sent += [owners[name].answer(roll(ready)) for name in names[2:]]
    assert [code(answer) for answer in sent] == [None] * 4
    words = sum(decode(answer, Upload).masked for answer in sent).astype(np.int64)
    # Of 2,045 words that are uniform 2^-11 are smaller, one or so; twenty once in 10^18 times.
    assert (np.abs(words.astype(np.float64)) < 2.0**52).sum() < 20


def test_every_step_has_a_fresh_key(owners):
    first, second = (decode(owners["east"].answer(question(step=s)), Ready) for s in (0, 1))
    assert first.key != second.key


# Crash and restore


def _steps(folder, others) -> tuple[SecureOwner, bytes]:
    owner = real(folder)
    ready = {n: o.answer(question(REAL)) for n, o in {"east": owner, **others}.items()}
    return owner, roll(ready, REAL)


@pytest.fixture
def others(tmp_path):
    return {n: real(tmp_path / n, name=n) for n in ROWS if n != "east"}


def test_an_owner_that_is_started_again_sends_the_same(tmp_path, others):
    owner, shown = _steps(tmp_path / "east", others)
    ready = owner.answer(question(REAL))
    again = real(tmp_path / "east")
    assert again.answer(question(REAL)) == ready
    sent = again.answer(shown)
    assert code(sent) is None
    assert real(tmp_path / "east").answer(shown) == sent
    assert len(owner._ledger.entries) == 1


@pytest.mark.parametrize("place", ["hide", "ready", "begin", "charge", "upload", "erase"])
def test_a_crash_at_each_durable_write_spends_once_and_never_answers_twice(
    tmp_path, others, monkeypatch, place
):
    class Killed(BaseException):
        pass

    def crash(*_, **__):
        raise Killed

    original_keep = Answers.keep

    def keep(self, name, *rest):
        if name.startswith(place):
            raise Killed
        original_keep(self, name, *rest)

    folder = tmp_path / "east"
    owner = real(folder)
    ready = {n: o.answer(question(REAL)) for n, o in others.items()}
    with monkeypatch.context() as patch:
        match place:
            case "hide" | "begin" | "erase":
                patch.setattr(Answers, place, crash)
            case "charge":  # charged, and then nothing more
                patch.setattr(owner_module, "masked", crash)
            case _:
                patch.setattr(Answers, "keep", keep)

        def both() -> None:
            ready["east"] = owner.answer(question(REAL))
            owner.answer(roll(ready, REAL))

        with pytest.raises(Killed):
            both()
    again = real(folder)
    ready["east"] = again.answer(question(REAL))
    sent = again.answer(roll(ready, REAL))
    spent = len(again._ledger.entries)
    if place in ("charge", "upload"):  # paid, and lost: never drawn again
        assert (code(sent), spent) == (Code.INTERRUPTED, 1)
    else:
        assert (code(sent), spent) == (None, 1)
        assert real(folder).answer(roll(ready, REAL)) == sent
    del ready["west"]
    assert code(real(folder).answer(roll(ready, REAL))) is not None
    if code(sent) is None:
        assert not (folder / "answers" / "secret-0-mean").exists()


def test_an_old_copy_of_the_folder_answers_nothing_that_was_paid_for(tmp_path, others):
    owner, shown = _steps(tmp_path / "east", others)
    shutil.copytree(tmp_path / "east" / "answers", tmp_path / "copy")
    assert code(owner.answer(shown)) is None
    shutil.rmtree(tmp_path / "east" / "answers")
    shutil.copytree(tmp_path / "copy", tmp_path / "east" / "answers")
    assert code(real(tmp_path / "east").answer(shown)) is Code.INTERRUPTED
    shutil.rmtree(tmp_path / "east" / "answers")  # and without any folder
    assert code(real(tmp_path / "east").answer(question(REAL))) is Code.INTERRUPTED


def test_with_folder_and_ledger_restored_another_roll_has_other_pads(tmp_path, others, monkeypatch):
    """What no file can prevent: the quorum is chosen so that one such owner is no more than one."""
    used = []
    original = owner_module.masked
    monkeypatch.setattr(
        owner_module,
        "masked",
        lambda values, name, keys: used.append(keys) or original(values, name, keys),
    )
    owner, shown = _steps(tmp_path / "east", others)
    shutil.copytree(tmp_path / "east", tmp_path / "copy")
    assert code(owner.answer(shown)) is None
    shutil.rmtree(tmp_path / "east")
    shutil.copytree(tmp_path / "copy", tmp_path / "east")
    ready = {n: o.answer(question(REAL)) for n, o in others.items() if n != "west"}
    ready["east"] = real(tmp_path / "east").answer(question(REAL))
    assert code(real(tmp_path / "east").answer(roll(ready, REAL))) is None
    first, second = used
    assert not set(first.values()) & set(second.values())


def test_terms_are_not_overwritten_once_a_step_has_begun(tmp_path):
    owner = real(tmp_path / "east")
    assert code(owner.answer(question(REAL))) is None
    with pytest.raises(StateError, match="another federation"):
        real(tmp_path / "east", agreed=replace(REAL, federation="another"))


def test_what_is_refused_after_the_charge_stays_so(tmp_path, others, monkeypatch):
    owner, shown = _steps(tmp_path / "east", others)
    original = Sums.share

    def fail(self, *arguments):
        original(self, *arguments)
        raise ValueError("a value of a record")

    with monkeypatch.context() as patch:
        patch.setattr(Sums, "share", fail)
        first = owner.answer(shown)
    assert code(first) is Code.INTERNAL
    assert b"record" not in first
    assert owner.answer(shown) == first
    assert len(owner._ledger.entries) == 1


def test_an_upload_says_what_it_answers(owners, ready):
    sent = decode(owners["east"].answer(roll(ready)), Upload)
    assert sent.roll == digest(roll(ready)).hex()
    assert sent.question == digest(question()).hex()
    sent.statement.check(sent.signature, AGREED.key("east"))
    assert sent.masked.size == AGREED.steps[0].size
