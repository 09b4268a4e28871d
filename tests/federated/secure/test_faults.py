"""Faults that must not go unnoticed: each check holds, and fails once its fault is planted.

Faults of the noise itself (its scale, what is rounded together, the grid of counts) are planted in
tests/mechanisms/test_shared.py and tests/privacy/test_shared_noise.py.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from eigenveil.federated import Answers, Code, Kept, ProtocolError, Words, decode, encode
from eigenveil.federated.secure import (
    Context,
    Ready,
    Roll,
    SecureAgreement,
    SecureOwner,
    Statement,
    SumQuestion,
    Upload,
    masks,
)
from eigenveil.federated.secure import agreement as agreement_module
from eigenveil.mechanisms import Gate
from tests.federated.secure.hostile import attacked
from tests.federated.secure.parties import (
    agreement,
    member,
    real_owner,
    signing_key,
    simulated,
    tables,
)

ROWS = tables(n=6, d=1)
BOUNDS = {"kind": "covariance", "bounds": ((0.0,), (20.0,))}
Plant = Callable[[pytest.MonkeyPatch], None]


# What is checked


def one_pad_is_uniform(_: Any) -> None:
    """Every bit of 2,000 words is set about half the time: within 7 deviations, 1e-10 for all."""
    words = masks.pad(b"k" * 32, 2000)
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 7 * 0.5 / np.sqrt(2000)
    assert np.unique(words).size == words.size


def keys_depend_on(field: str) -> Callable[[Any], None]:
    def check(_: Any) -> None:
        first, second = (X25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
        context = Context(agreement=b"a" * 32, step=0, question=b"q" * 32, roll=b"r" * 32)
        names = ("a", "b")
        other = {"agreement": b"x" * 32, "step": 1, "question": b"x" * 32, "roll": b"x" * 32}
        public = second.public_key().public_bytes_raw()
        before = masks.pair_key(first, public, context, names)
        if field == "names":
            after = masks.pair_key(first, public, context, ("a", "c"))
        else:
            after = masks.pair_key(first, public, replace(context, **{field: other[field]}), names)
        assert before != after

    return check


_SAID = Statement(
    purpose="upload",
    agreement=b"a" * 32,
    step=0,
    question=b"q" * 32,
    roll=b"r" * 32,
    sender="east",
    body=b"b" * 32,
)
_OTHERWISE: dict[str, Any] = {
    "purpose": "ready",
    "agreement": b"x" * 32,
    "step": 1,
    "question": b"x" * 32,
    "roll": b"x" * 32,
    "sender": "west",
    "body": b"x" * 32,
}


def signatures_depend_on(field: str) -> Callable[[Any], None]:
    def check(_: Any) -> None:
        key = signing_key("east")
        signature = _SAID.sign(key)
        other = replace(_SAID, **{field: _OTHERWISE[field]})
        with pytest.raises(ProtocolError):
            other.check(signature, key.public_key().public_bytes_raw())

    return check


def the_digest_depends_on(name: str) -> Callable[[Any], None]:
    def check(_: Any) -> None:
        five = tables(5, n=6, d=2)
        agreed = agreement(five, honest=4, quorum=4)
        changed = {
            "quorum": {"quorum": 5},
            "honest": {"honest": 3},
            "owners": {"owners": {**agreed.owners, "owner-000": member("other", 6)}},
            "records": {"owners": {**agreed.owners, "owner-000": member("owner-000", 7)}},
            "n_columns": {"n_columns": 3},
            "epsilon": {"epsilon": 3.0},
        }
        assert replace(agreed, **changed[name]).digest != agreed.digest

    return check


def the_digest_depends_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    before = agreement(ROWS).digest
    with monkeypatch.context() as other:
        original = agreement_module.SecureAgreement._noise
        other.setattr(
            SecureAgreement,
            "_noise",
            lambda self, kind, mu: replace(noise := original(self, kind, mu), grid=noise.grid - 1),
        )
        assert agreement(ROWS).digest != before


def _asked(agreed: SecureAgreement, step: int = 0) -> bytes:
    return encode(
        SumQuestion(
            federation=agreed.federation,
            agreement=agreed.digest.hex(),
            step=step,
            radius=10.0,
            centre=np.array([10.0]),
        )
    )


def _roll(agreed: SecureAgreement, ready: dict[str, bytes], step: int = 0) -> bytes:
    members = [ready[name] for name in sorted(ready)]
    return encode(Roll.of(agreed.federation, agreed.digest.hex(), step, members))


def _code(answer: bytes) -> Code | None:
    try:
        decode(answer, Ready, Upload)
    except ProtocolError as error:
        return error.code
    return None


def _all_ready(owners: dict[str, SecureOwner], agreed: SecureAgreement) -> dict[str, bytes]:
    return {name: owner.answer(_asked(agreed)) for name, owner in owners.items()}


def _quiet(agreed: SecureAgreement) -> dict[str, SecureOwner]:
    return simulated(agreed, ROWS, log=lambda line: None)


def an_owner_checks_its_own_key(_: Any) -> None:
    agreed = agreement(ROWS, **BOUNDS)
    owners = _quiet(agreed)
    ready = _all_ready(owners, agreed)
    again = decode(_all_ready(_quiet(agreed), agreed)["east"], Ready)  # signed by itself
    assert (
        _code(owners["east"].answer(_roll(agreed, {**ready, "east": encode(again)}))) is Code.ROLL
    )


def an_owner_checks_the_quorum(_: Any) -> None:
    agreed = agreement(ROWS, **BOUNDS, honest=3, quorum=4)
    owners = _quiet(agreed)
    ready = _all_ready(owners, agreed)
    del ready["west"]
    assert _code(owners["east"].answer(_roll(agreed, ready))) is Code.ROLL


def an_owner_answers_one_roll(_: Any) -> None:
    agreed = agreement(ROWS, **BOUNDS)
    owners = _quiet(agreed)
    ready = _all_ready(owners, agreed)
    first = owners["east"].answer(_roll(agreed, ready))
    assert _code(first) is None
    fewer = {name: each for name, each in ready.items() if name != "west"}
    assert _code(owners["east"].answer(_roll(agreed, fewer))) is Code.OTHER_QUESTION
    assert owners["east"].answer(_roll(agreed, ready)) == first


def an_upload_is_paid_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    agreed = agreement(ROWS, **BOUNDS, simulated=False)
    owners = {
        name: real_owner(agreed, name, rows, tmp_path / name, log=lambda line: None)
        for name, rows in ROWS.items()
    }
    ready = _all_ready(owners, agreed)
    assert _code(owners["east"].answer(_roll(agreed, ready))) is None
    entries = owners["east"]._ledger.entries
    assert [entry.cost for entry in entries] == [agreed.steps[0].cost]
    assert [entry.alone for entry in entries] == [agreed.steps[0].alone]


def no_small_set_can_be_opened(_: Any) -> None:
    assert attacked(3, 400)[2] is None


# Faults


def _pads(change: Callable[[Words], Words]) -> Plant:
    original = masks.pad
    return lambda m: m.setattr(masks, "pad", lambda key, count: change(original(key, count)))


def _key_without(field: str) -> Plant:
    original = masks.pair_key
    none: dict[str, Any] = {"agreement": b"", "step": 0, "question": b"", "roll": b""}

    def pair_key(secret: Any, public: Any, context: Context, names: Any) -> bytes:
        if field == "names":
            return original(secret, public, context, ("", ""))
        return original(secret, public, replace(context, **{field: none[field]}), names)

    return lambda m: m.setattr(masks, "pair_key", pair_key)


def _signature_without(field: str) -> Plant:
    original = Statement.encode
    fixed = {**_OTHERWISE, "purpose": "ready"}
    return lambda m: m.setattr(
        Statement, "encode", lambda self: original(replace(self, **{field: fixed[field]}))
    )


def _digest_without(name: str) -> Plant:
    original = SecureAgreement.encode

    def encode_without(self: SecureAgreement) -> bytes:
        text = original(self).decode()
        document = json.loads(text)
        document["steps"] = []
        if name == "records":
            document["owners"] = {o: {**m, "records": 0} for o, m in document["owners"].items()}
        else:
            document[name] = None
        return repr(document).encode()

    return lambda m: m.setattr(SecureAgreement, "encode", encode_without)


def _digest_without_steps(m: pytest.MonkeyPatch) -> None:
    original = SecureAgreement.encode
    m.setattr(SecureAgreement, "encode", lambda self: original(self).partition(b'"steps"')[0])


def _own_key_unchecked(m: pytest.MonkeyPatch) -> None:
    original = SecureOwner._checked

    def checked(self: SecureOwner, step: Any, asked: Roll, own: Kept) -> Any:
        shown = {each.owner: each.key for each in asked.ready()}
        return original(self, step, asked, replace(own, notes={"key": shown[self.name]}))

    m.setattr(SecureOwner, "_checked", checked)


def _quorum_unchecked(m: pytest.MonkeyPatch) -> None:
    original = SecureOwner._checked

    def checked(self: SecureOwner, *arguments: Any) -> Any:
        agreed = self.agreement
        lax = SimpleNamespace(
            owners=agreed.owners,
            federation=agreed.federation,
            digest=agreed.digest,
            key=agreed.key,
            quorum=0,
        )
        self.agreement = lax  # type: ignore[assignment]
        try:
            return original(self, *arguments)
        finally:
            self.agreement = agreed

    m.setattr(SecureOwner, "_checked", checked)


def _forgetful(m: pytest.MonkeyPatch) -> None:
    original = Answers.find
    m.setattr(
        Answers,
        "find",
        lambda self, name: None if name.startswith("upload") else original(self, name),
    )
    m.setattr(Answers, "erase", lambda self, name: None)


def _unpaid(m: pytest.MonkeyPatch) -> None:
    m.setattr(Gate, "_commit", lambda self: None)


_FAULTS: dict[str, tuple[Callable[..., None], Plant]] = {
    "pads of 32 bits": (one_pad_is_uniform, _pads(lambda w: w & np.uint64(2**32 - 1))),
    "a repeated block": (one_pad_is_uniform, _pads(lambda w: np.resize(w[:2], w.shape))),
    **{
        f"{field} not in a key": (keys_depend_on(field), _key_without(field))
        for field in ("agreement", "step", "question", "roll", "names")
    },
    **{
        f"{field} not signed": (signatures_depend_on(field), _signature_without(field))
        for field in _OTHERWISE
    },
    **{
        f"{name} not agreed on": (the_digest_depends_on(name), _digest_without(name))
        for name in ("quorum", "honest", "owners", "records", "n_columns", "epsilon")
    },
    "grids not agreed on": (the_digest_depends_on_the_grid, _digest_without_steps),
    "own key unchecked": (an_owner_checks_its_own_key, _own_key_unchecked),
    "quorum unchecked": (an_owner_checks_the_quorum, _quorum_unchecked),
    "answering twice": (an_owner_answers_one_roll, _forgetful),
    "uploading before the charge": (an_upload_is_paid_for, _unpaid),
    "small sets": (no_small_set_can_be_opened, _quorum_unchecked),
}


@pytest.mark.parametrize("name", _FAULTS)
def test_the_check_holds_and_finds_the_fault(name, monkeypatch, tmp_path):
    check, plant = _FAULTS[name]
    more = (tmp_path / "right",) if check is an_upload_is_paid_for else ()
    for place in more:
        place.mkdir()
    check(monkeypatch, *more)
    plant(monkeypatch)
    more = (tmp_path / "wrong",) if check is an_upload_is_paid_for else ()
    for place in more:
        place.mkdir()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(monkeypatch, *more)


def test_with_the_roll_outside_the_keys_a_second_answer_opens_one_owner(monkeypatch):
    """Two faults together: what the design relies on is found by the oracle as well."""
    _key_without("roll")(monkeypatch)
    _forgetful(monkeypatch)
    assert attacked(4, 3000)[2] is not None
