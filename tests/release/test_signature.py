"""Who signed what, checked here and with standard tools."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from eigenveil import PrivatePCA, Release
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    VerificationError,
)
from eigenveil.release import Signature, fingerprint, generate_key, private_key

ROWS = np.random.default_rng(0).standard_normal((40, 4))
RELEASE = PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(ROWS).release_


@pytest.fixture
def key(tmp_path):
    generate_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture(params=["release", "release.zip"])
def signed(request, tmp_path, key):
    return RELEASE.save(tmp_path / request.param, key=key)


def pub(key):
    return f"{key}.pub"


def test_signed_and_verified(signed, key, tmp_path):
    assert Release.verify(signed, key=pub(key)).as_dict() == RELEASE.as_dict()
    signer = fingerprint(pub(key))
    seen = Release.inspect(signed)
    assert seen["signer"] == signer
    assert seen["signature"] == f"signed by {signer}, not checked against a key you trust"
    assert Release.inspect(signed, key=pub(key))["signature"].endswith("the key you gave")
    # A signature does not change what was noted of the unsigned release.
    generate_key(tmp_path / "other")
    with pytest.raises(VerificationError, match="not the key you gave") as error:
        Release.verify(signed, key=pub(tmp_path / "other"))
    assert error.value.exit_code == 5


def test_an_unsigned_release_does_not_pass_for_a_signed_one(tmp_path, key):
    for name in ("r", "r.zip"):
        path = RELEASE.save(tmp_path / name)
        assert Release.inspect(path)["signer"] is None
        noted = Release.fingerprint(path)
        with pytest.raises(VerificationError, match="not signed"):
            Release.verify(path, key=pub(key))
        assert Release.sign(path, key) == fingerprint(pub(key))
        Release.verify(path, key=pub(key), fingerprint=noted)
        with pytest.raises(InvalidParameterError, match="signed already"):
            Release.sign(path, key)
    assert {p.name for p in tmp_path.iterdir()} == {"key", "key.pub", "r", "r.zip"}


def test_a_signature_of_another_release_is_refused(tmp_path, key):
    one = RELEASE.save(tmp_path / "one", key=key)
    other = PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(ROWS).release_.save(tmp_path / "other")
    shutil.copy(one / "SIGNATURE", other / "SIGNATURE")
    for options in ({}, {"key": pub(key)}):
        with pytest.raises(VerificationError, match="not of these files"):
            Release.verify(other, **options)


def test_a_signature_for_another_purpose_is_refused(tmp_path, key):
    """Only the bytes of the sums, without the line before them."""
    folder = RELEASE.save(tmp_path / "r")
    secret = private_key(key)
    bare = secret.sign((folder / "SHA256SUMS").read_bytes())
    forged = Signature(secret.public_key().public_bytes_raw(), bare)
    (folder / "SIGNATURE").write_bytes(forged.encode())
    with pytest.raises(VerificationError, match="not of these files"):
        Release.verify(folder, key=pub(key))


def test_a_changed_byte_of_the_signature_is_detected(tmp_path, key):
    """Every bit, also those that base64 leaves unused, whether or not a key is given."""
    folder = RELEASE.save(tmp_path / "r", key=key)
    good = (folder / "SIGNATURE").read_bytes()
    for place in range(len(good)):
        for bit in (0, 2, 7):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            (folder / "SIGNATURE").write_bytes(bad)
            with pytest.raises(VerificationError):
                Release.load(folder)
    for bad in (b"", good[:-1], good + b"\n", good * 2):
        (folder / "SIGNATURE").write_bytes(bad)
        with pytest.raises(VerificationError, match="SIGNATURE is damaged"):
            Release.load(folder)


def test_standard_tools_agree(tmp_path, key):
    """The commands of docs/release.md."""
    for tool in ("openssl", "sha256sum", "base64"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    RELEASE.save(tmp_path / "r", key=key)
    script = """
        sha256sum --check --quiet SHA256SUMS
        (echo eigenveil-signature/1; cat SHA256SUMS) > ../message
        sed -n 's/^signature //p' SIGNATURE | base64 -d > ../signature
        openssl pkeyutl -verify -pubin -inkey ../key.pub -rawin -in ../message -sigfile ../signature
        openssl pkey -pubin -in ../key.pub -outform DER | sha256sum
    """
    done = subprocess.run(
        ["sh", "-ec", script], cwd=tmp_path / "r", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert fingerprint(pub(key)) in done.stdout


def test_keys_are_for_their_owner_and_never_overwritten(tmp_path, key):
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    with pytest.raises(InvalidParameterError, match="exists already"):
        generate_key(key)
    (tmp_path / "half.pub").write_text("someone's")
    with pytest.raises(InvalidParameterError, match="exists already"):
        generate_key(tmp_path / "half")
    assert key.read_bytes() == before
    assert not (tmp_path / "half").exists()
    with pytest.raises(InvalidParameterError, match="writable"):
        generate_key(key / "below")


def test_a_password_protects_a_key(tmp_path):
    place = tmp_path / "locked"
    signer = generate_key(place, password="long and secret")
    assert b"ENCRYPTED" in place.read_bytes()
    with pytest.raises(InvalidParameterError, match="protected by a password"):
        RELEASE.save(tmp_path / "r", key=place)
    assert not (tmp_path / "r").exists()
    with pytest.raises(InvalidDataError, match="password is wrong"):
        private_key(place, password="wrong")
    folder = RELEASE.save(tmp_path / "r", key=private_key(place, password="long and secret"))
    assert Release.inspect(folder, key=pub(place))["signer"] == signer
    with pytest.raises(InvalidParameterError, match="empty"):
        generate_key(tmp_path / "k", password="")


def test_things_that_are_no_keys(tmp_path, key):
    folder = RELEASE.save(tmp_path / "r", key=key)
    (tmp_path / "text").write_text("hello")
    for wrong in (key, tmp_path / "text", tmp_path / "nothing"):  # a private key is no public one
        with pytest.raises(InvalidDataError):
            Release.verify(folder, key=wrong)
    for wrong in (pub(key), tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(InvalidDataError):
            RELEASE.save(tmp_path / "s", key=wrong)
    with pytest.raises(InvalidParameterError, match="Ed25519 key or the path"):
        Release.verify(folder, key=b"bytes")
    opened = Ed25519PrivateKey.generate()
    folder = RELEASE.save(tmp_path / "s", key=opened)
    Release.verify(folder, key=opened.public_key())


def test_without_the_extra(tmp_path, key, monkeypatch):
    folder = RELEASE.save(tmp_path / "r", key=key)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    told = Release.inspect(folder)["signature"]
    assert "not checked at all: pip install 'eigenveil[sign]'" in told
    assert not told.startswith("signed")
    for refused in (
        lambda: Release.verify(folder, key=pub(key)),
        lambda: RELEASE.save(tmp_path / "s", key=key),
        lambda: generate_key(tmp_path / "k"),
    ):
        with pytest.raises(MissingExtraError, match=r"eigenveil\[sign\]"):
            refused()
