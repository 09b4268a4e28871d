"""Who vouches for a release: Ed25519 signatures over ``SHA256SUMS``.

What is signed is the line ``eigenveil-signature/1`` and the bytes of ``SHA256SUMS``, so that a
signature made for another purpose is none here. The file ``SIGNATURE`` names the key and holds it.
That proves nothing by itself, as a forger has keys too: compare with a key you were given.
"""

import base64
import binascii
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    VerificationError,
)
from eigenveil.storage.paths import read_regular, require_new, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


_DOMAIN = b"eigenveil-signature/1\n"
_LARGEST_KEY = 2**16  # bytes of a PEM file
# What precedes the 32 bytes of an Ed25519 key in a file of public keys (RFC 8410).
_DER_PREFIX = bytes.fromhex("302a300506032b6570032100")


@dataclass(frozen=True, slots=True)
class Signature:
    """The public key of the signer, as 32 bytes, and what it signed."""

    key: bytes
    signed: bytes

    @property
    def signer(self) -> str:
        """The fingerprint of the key."""
        return hashlib.sha256(_DER_PREFIX + self.key).hexdigest()

    @property
    def checkable(self) -> bool:
        """Whether what `check` needs is installed."""
        try:
            _require()
        except MissingExtraError:
            return False
        return True

    @classmethod
    def of(cls, sums: bytes, key: "Ed25519PrivateKey | str | Path") -> Self:
        """Sign the content of ``SHA256SUMS``."""
        secret = private_key(key)
        return cls(secret.public_key().public_bytes_raw(), secret.sign(_DOMAIN + sums))

    def encode(self) -> bytes:
        """Return the content of ``SIGNATURE``."""
        key = base64.b64encode(_DER_PREFIX + self.key).decode()
        signed = base64.b64encode(self.signed).decode()
        head = _DOMAIN.decode()
        return f"{head}signer {self.signer}\nkey {key}\nsignature {signed}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read ``SIGNATURE``; every byte must be as `encode` writes it."""
        fields = [line.rpartition(b" ")[2] for line in data.split(b"\n")]
        with suppress(binascii.Error):
            if len(fields) == 5:
                stored = base64.b64decode(fields[2]).removeprefix(_DER_PREFIX)
                signature = cls(stored, base64.b64decode(fields[3]))
                if len(stored) == 32 and signature.encode() == data:
                    return signature
        raise VerificationError(
            "SIGNATURE is damaged or altered, or of another version: ask its sender for it again"
        )

    def check(self, sums: bytes, key: "Ed25519PublicKey | str | Path | None") -> None:
        """Raise `VerificationError` unless ``key``, or else the key it names, signed ``sums``.

        Without a key to trust and without the extra there is nothing to check it by.
        """
        if key is not None and public_key(key).public_bytes_raw() != self.key:
            raise VerificationError(
                f"signed by {self.signer}, which is not the key you gave: ask its sender about it"
            )
        if not self.checkable:
            return
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.signed, _DOMAIN + sums)
        except (InvalidSignature, ValueError):
            raise VerificationError(
                "the signature is not of these files, damaged or altered: ask their sender for "
                "them again"
            ) from None


def generate_key(path: str | Path, *, password: str | None = None) -> str:
    """Write a new private key to ``path`` and its public key to ``path.pub``, both PEM.

    Only the owner may read the private key; with a password it is encrypted as well. Returns the
    fingerprint of the public key.
    """
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    secret = ed25519.Ed25519PrivateKey.generate()
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        if not password:
            raise InvalidParameterError("the password is empty: give one, or leave it out")
        lock = serialization.BestAvailableEncryption(password.encode())
    private = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock
    )
    public = secret.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    beside = Path(f"{path}.pub")
    require_new(Path(path))
    require_new(beside)
    try:
        write_new({Path(path): private}, mode=0o600)
        write_new({beside: public}, mode=0o644)
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None
    return fingerprint(secret.public_key())


def fingerprint(key: "Ed25519PublicKey | str | Path") -> str:
    """Return the SHA-256 of a public key, as ``openssl pkey -pubin -outform DER | sha256sum`` gives
    it.
    """
    return Signature(public_key(key).public_bytes_raw(), b"").signer


def private_key(
    key: "Ed25519PrivateKey | str | Path", *, password: str | None = None
) -> "Ed25519PrivateKey":
    """Return a key to sign with, from a PEM file; a key that was opened already is returned as it
    is.
    """
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    pem = _pem(key)
    try:
        found: object = serialization.load_pem_private_key(
            pem, None if password is None else password.encode()
        )
    except TypeError:  # encrypted and no password, or the reverse
        raise InvalidParameterError(
            f"{key} is protected by a password: open it with "
            "eigenveil.release.private_key(path, password=...)"
            if password is None
            else f"{key} is not protected by a password: leave it out"
        ) from None
    except Exception:  # the library has many ways to say that it cannot read a key
        found = None
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        wrong = "" if password is None else ", or the password is wrong"
        raise InvalidDataError(f"{key} is not an Ed25519 private key in PEM{wrong}")
    return found


def public_key(key: "Ed25519PublicKey | str | Path") -> "Ed25519PublicKey":
    """Return a key to check with, from a PEM file; a key that was opened already is returned as it
    is.
    """
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    pem = _pem(key)
    try:
        found: object = serialization.load_pem_public_key(pem)
    except Exception:  # as above
        found = None
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise InvalidDataError(f"{key} is not an Ed25519 public key in PEM: give the .pub file")
    return found


def _pem(key: Any) -> bytes:
    if not isinstance(key, (str, Path)):
        raise InvalidParameterError("a key must be an Ed25519 key or the path of its PEM file")
    try:
        return read_regular(key, _LARGEST_KEY)
    except (OSError, ValueError):  # the latter of a name with the character 0
        raise InvalidDataError(f"no readable key at {key}: check the path") from None


def _require() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "signatures need cryptography: pip install 'eigenveil[sign]'"
        ) from None
