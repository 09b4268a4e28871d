"""Pads, keys and what is signed: fixed vectors, and what each depends on."""

import hashlib
import hmac
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from eigenveil.federated import Code, ProtocolError
from eigenveil.federated.secure import (
    Context,
    Statement,
    listed,
    masked,
    pad,
    pair_key,
    pair_keys,
    unmasked,
)
from tests.federated.secure.parties import signing_key

CONTEXT = Context(agreement=bytes(range(32)), step=2, question=b"q" * 32, roll=b"r" * 32)
FIRST, SECOND = (X25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
LOW_ORDER = (bytes(32), bytes([1]) + bytes(31))


def public(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def test_the_encoding_of_a_list_is_fixed_and_tells_types_and_lengths():
    assert listed("ab", b"\1\2", -1, 7).hex() == (
        "0000000000000004"
        "7300000000000000026162"
        "6200000000000000020102"
        "690000000000000009ffffffffffffffffff"
        "690000000000000009000000000000000007"
    )
    different = [(), ("",), (b"",), ("ab", "c"), ("a", "bc"), (b"ab", "c"), ("abc",), (1,), ("1",)]
    assert len({listed(*fields) for fields in different}) == len(different)


def test_a_key_is_that_of_hkdf_by_hand():
    found = pair_key(FIRST, public(SECOND), CONTEXT, ("east", "west"))
    assert found.hex() == "71885abdbdec46f855bdd62038d7f719b3502a539abf2b0e3b94632c6fcaf69d"
    product = FIRST.exchange(X25519PublicKey.from_public_bytes(public(SECOND)))
    info = struct.pack(">Q", 7)
    for kind, data in (
        (b"s", b"eigenveil-secure-sum/1/pad"),
        (b"b", bytes(range(32))),
        (b"i", (2).to_bytes(9, "big")),
        (b"b", b"q" * 32),
        (b"b", b"r" * 32),
        (b"s", b"east"),
        (b"s", b"west"),
    ):
        info += kind + struct.pack(">Q", len(data)) + data
    extracted = hmac.digest(bytes(range(32)), product, "sha256")
    assert found == hmac.digest(extracted, info + b"\1", "sha256")
    assert found == pair_key(SECOND, public(FIRST), CONTEXT, ("east", "west"))


def test_a_pad_is_the_key_stream_of_aes_256_from_zero():
    # openssl enc -aes-256-ctr on zeros, with a key and a counter of zeros
    stream = "dc95c078a2408989ad48a21492842087530f8afbc74536b9"
    assert pad(bytes(32), 3).astype("<u8").tobytes().hex() == stream


def test_a_pad_beyond_its_limit_is_refused():
    with pytest.raises(ProtocolError) as refused:
        pad(bytes(32), (1 << 29) + 1)
    assert refused.value.code is Code.SHAPE


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_point_of_low_order_is_a_refusal(point):
    with pytest.raises(ProtocolError) as refused:
        pair_key(FIRST, point, CONTEXT, ("east", "west"))
    assert refused.value.code is Code.ROLL


def test_what_is_signed_is_fixed():
    said = Statement(
        purpose="ready",
        agreement=b"a" * 32,
        step=0,
        question=b"q" * 32,
        roll=b"",
        sender="east",
        body=b"k" * 32,
    )
    assert hashlib.sha256(said.encode()).hexdigest() == (
        "3b5cfd82200f932a291e40cf0d74ed63d35d74260ba51a1af860d6954626b0f8"
    )
    signature = said.sign(signing_key("east"))
    said.check(signature, signing_key("east").public_key().public_bytes_raw())
    for wrong in ("", "00" * 64, "zz", signature[:-2]):
        with pytest.raises(ProtocolError) as refused:
            said.check(wrong, signing_key("east").public_key().public_bytes_raw())
        assert refused.value.code is Code.SIGNATURE


def test_pads_cancel_in_the_sum_and_nowhere_else():
    rng = np.random.default_rng(0)
    secrets = {name: X25519PrivateKey.generate() for name in ("a", "b", "c", "d")}
    keys = {name: public(secret) for name, secret in secrets.items()}
    values = {name: rng.integers(-(2**40), 2**40, 50) for name in secrets}
    sent = {
        name: masked(values[name], name, pair_keys(name, secret, keys, CONTEXT))
        for name, secret in secrets.items()
    }
    assert np.array_equal(unmasked(list(sent.values())), sum(values.values()))
    for left_out in secrets:
        rest = unmasked([sent[name] for name in secrets if name != left_out])
        assert (np.abs(rest.astype(np.float64)) > 2**50).mean() > 0.9


def test_sums_wrap_around():
    large = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    keys = {"a": {"b": b"k" * 32}, "b": {"a": b"k" * 32}}
    sent = [masked(large, "a", keys["a"]), masked(np.array([-5, 7]), "b", keys["b"])]
    assert unmasked(sent).tolist() == [2**63 - 6, -(2**63) + 7]
