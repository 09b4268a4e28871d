"""Messages: what is sent arrives, and nothing else is let in."""

import json
import struct
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import (
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
    check_name,
    columns_digest,
    decode,
    encode,
    largest_size,
    orthonormal,
)

BASIS = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0]
ONES = np.ones(3)
MATRIX = np.diag([3.0, 2.0, -0.5])
DIGEST = columns_digest(["age", "weight"])
PUBLIC = {"federation": "lungs-2026"}
SIZES = {"n_columns": 12, "n_components": 3, "n_directions": 3, "share": 0.5}
DECLARED: dict[str, Any] = {
    "owner": "north",
    "n_records": 130,
    "epsilon": 0.4,
    "delta": 1e-6,
    "mechanism": "spherical",
}
MESSAGES: list[Message] = [
    Invitation(**PUBLIC, **SIZES, columns=DIGEST, unit="shares"),
    Declaration(**PUBLIC, **DECLARED),
    BasisQuestion(**PUBLIC, **SIZES, columns=DIGEST, unit="variances"),
    BasisAnswer(**PUBLIC, owner="north", guarantee={"kind": "x"}, basis=BASIS, strengths=ONES),
    ValuesQuestion(**PUBLIC, basis=BASIS),
    ValuesAnswer(
        **PUBLIC,
        owner="north",
        rest=0.25,
        noise_scale=0.1,
        centred=True,
        guarantee={},
        matrix=MATRIX,
        centre=np.arange(3.0),
    ),
]


def altered(message: Message, **changes: Any) -> bytes:
    """The bytes of a message with other values in its header."""
    data = encode(message)
    (length,) = struct.unpack_from("<I", data, 10)
    header = json.loads(data[14 : 14 + length]) | changes
    words = json.dumps({name: value for name, value in header.items() if value != "gone"}).encode()
    return data[:10] + struct.pack("<I", len(words)) + words + data[14 + length :]


def refused(data: bytes, *expected: type[Message]) -> Code:
    with pytest.raises(ProtocolError) as caught:
        decode(data, *expected)
    return caught.value.code


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    arrived = decode(encode(message), type(message))
    for field in fields(message):
        np.testing.assert_array_equal(getattr(arrived, field.name), getattr(message, field.name))
    assert encode(arrived) == encode(message)


def test_a_message_is_its_numbers_and_a_short_header() -> None:
    d, k = 100_000, 5
    basis = np.zeros((d, k))
    basis[:k] = np.eye(k)
    sent = encode(
        BasisAnswer(**PUBLIC, owner="north", guarantee={}, basis=basis, strengths=np.ones(k))
    )
    assert len(sent) - 8 * d * k < 200


@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 5), (300, 250), (40_000, 6)])
def test_no_message_is_larger_than_is_let_in(d: int, k: int) -> None:
    basis, padding = np.eye(d, k), {"kind": "x" * 60_000}
    answer = encode(
        BasisAnswer(**PUBLIC, owner="north", guarantee=padding, basis=basis, strengths=np.ones(k))
    )
    question = encode(ValuesQuestion(**PUBLIC, basis=basis))
    assert max(len(answer), len(question)) <= largest_size(d, k)
    assert largest_size(d, k) <= max(1 << 20, 1.1 * len(answer) + 8 * k * (k + 1))


def test_the_same_message_has_the_same_bytes() -> None:
    first = BasisAnswer(
        **PUBLIC, owner="n", guarantee={"a": 1, "b": 2}, basis=BASIS, strengths=ONES
    )
    again = BasisAnswer(
        **PUBLIC,
        owner="n",
        guarantee={"b": 2, "a": 1},
        basis=np.asfortranarray(BASIS),
        strengths=ONES,
    )
    assert encode(first) == encode(again)


@pytest.mark.parametrize("code", list(Code))
def test_a_refusal_carries_its_code_and_nothing_else(code: Code) -> None:
    refusal = encode(Refusal(**PUBLIC, owner="north", code=code))
    assert refused(refusal, BasisAnswer) is code
    assert {field.name for field in fields(Refusal)} == {"federation", "owner", "code"}
    assert code.explanation


@pytest.mark.parametrize(
    ("message", "changes", "code"),
    [
        (MESSAGES[1], {"n_records": 0}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"n_records": 2.5}, Code.MALFORMED),
        (MESSAGES[1], {"n_records": True}, Code.MALFORMED),
        (MESSAGES[1], {"n_records": 10**30}, Code.MALFORMED),
        (MESSAGES[1], {"epsilon": -1.0}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"epsilon": "1"}, Code.MALFORMED),
        (MESSAGES[1], {"epsilon": float("nan")}, Code.MALFORMED),
        (MESSAGES[1], {"epsilon": float("inf")}, Code.MALFORMED),
        (MESSAGES[1], {"delta": 1.5}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"delta": 0}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"share": 0}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"share": 1}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"owner": "../north"}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"owner": "north\n"}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"mechanism": ""}, Code.OUT_OF_RANGE),
        (MESSAGES[1], {"mechanism": "gone"}, Code.MALFORMED),
        (MESSAGES[1], {"weight": 1.0}, Code.MALFORMED),
        (MESSAGES[1], {"kind": "invitation"}, Code.MALFORMED),
        (MESSAGES[1], {"kind": ["x"]}, Code.MALFORMED),
        (MESSAGES[0], {"n_components": 13}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"n_directions": 2}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"n_directions": 13}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"columns": "f" * 63}, Code.OUT_OF_RANGE),
        (MESSAGES[3], {"basis": [3, 12]}, Code.SHAPE),
        (MESSAGES[3], {"basis": [12, 4]}, Code.SHAPE),
        (MESSAGES[3], {"basis": [36]}, Code.SHAPE),
        (MESSAGES[3], {"basis": [-12, -3]}, Code.SHAPE),
        (MESSAGES[3], {"basis": [0, 3]}, Code.SHAPE),
        (MESSAGES[3], {"basis": [2**52, 2**52]}, Code.SHAPE),
        (MESSAGES[3], {"basis": "12x3"}, Code.SHAPE),
        (MESSAGES[5], {"rest": -1e200}, Code.OUT_OF_RANGE),
        (MESSAGES[5], {"rest": 1e200}, Code.OUT_OF_RANGE),
        (MESSAGES[0], {"unit": "metres"}, Code.OUT_OF_RANGE),
        (MESSAGES[3], {"guarantee": []}, Code.MALFORMED),
        (MESSAGES[3], {"strengths": [1, 3]}, Code.SHAPE),
        (MESSAGES[2], {"unit": "gone"}, Code.MALFORMED),
        (MESSAGES[4], {"unit": "shares"}, Code.MALFORMED),  # it was said before
        (MESSAGES[5], {"matrix": [1, 9]}, Code.SHAPE),
        (MESSAGES[5], {"noise_scale": 1e200}, Code.OUT_OF_RANGE),
        (MESSAGES[5], {"centred": 1}, Code.MALFORMED),
    ],
)
def test_impossible_values_are_refused(
    message: Message, changes: dict[str, Any], code: Code
) -> None:
    assert refused(altered(message, **changes), type(message)) is code


def test_other_bytes_are_refused() -> None:
    sent = encode(MESSAGES[3])
    assert refused(b"", BasisAnswer) is Code.MALFORMED
    assert refused(b"EIGENVEIL", BasisAnswer) is Code.MALFORMED
    assert refused(b"\x80\x04." + sent, BasisAnswer) is Code.MALFORMED
    assert refused(sent[:-8], BasisAnswer) is Code.SHAPE
    assert refused(sent + b"\0" * 8, BasisAnswer) is Code.SHAPE
    assert refused(sent.replace(b"EIGENVEIL\1", b"EIGENVEIL\2"), BasisAnswer) is Code.VERSION
    assert refused(sent[:10] + struct.pack("<I", 2**32 - 1) + sent[14:], BasisAnswer) is (
        Code.MALFORMED
    )
    nested = b"[" * 60_000
    deep = sent[:10] + struct.pack("<I", len(nested)) + nested
    assert refused(deep, BasisAnswer) is Code.MALFORMED
    twice = sent.replace(b'"guarantee":{"kind":"x"}', b'"owner":"no","guarantee":{}')
    assert refused(twice, BasisAnswer) is Code.MALFORMED
    assert refused(encode(MESSAGES[0]), BasisQuestion) is Code.MALFORMED


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    sent = bytearray(encode(MESSAGES[3]))
    sent[-8:] = struct.pack("<d", value)
    assert refused(bytes(sent), BasisAnswer) is Code.NOT_FINITE


def test_a_basis_is_kept_repaired_or_refused() -> None:
    assert orthonormal(BASIS) is BASIS
    noise = np.random.default_rng(2).standard_normal(BASIS.shape)
    nearly = orthonormal(BASIS + 1e-8 * noise)
    np.testing.assert_allclose(nearly.T @ nearly, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(nearly, BASIS, atol=1e-7)
    for wrong in (2 * BASIS, BASIS + 1e-3 * noise, np.zeros((12, 3)), np.full((12, 3), 1e300)):
        with pytest.raises(ProtocolError) as caught:
            orthonormal(wrong)
        assert caught.value.code is Code.NOT_ORTHONORMAL


def test_a_matrix_of_values_is_symmetric() -> None:
    skew = MATRIX + np.triu(np.ones((3, 3)), 1)
    right = decode(encode(MESSAGES[5]), ValuesAnswer)
    with pytest.raises(ProtocolError):
        replace(right, matrix=skew)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 5), st.data())
def test_damaged_bytes_raise_nothing_but_a_code(which: int, data: st.DataObject) -> None:
    message = MESSAGES[which]
    sent = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    try:
        arrived = decode(bytes(sent), type(message))
    except ProtocolError:
        return
    assert type(arrived) is type(message)


def test_names_are_safe_in_files_and_logs() -> None:
    assert check_name("owner", "st-mary.2") == "st-mary.2"
    for name in ("", ".hidden", "a/b", "a b", "a\n", "ü", "a" * 65, None, 3):
        with pytest.raises(InvalidParameterError, match="owner must be a name"):
            check_name("owner", name)


def test_columns_are_told_apart_by_names_and_order() -> None:
    names = (["a", "b"], ["b", "a"], ["a,b"], ["a", "b", ""], [], None)
    digests = {columns_digest(n) for n in names} | {columns_digest(["a", "b"], [1.0, 2.0])}
    assert len(digests) == len(names) + 1
