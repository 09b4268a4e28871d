"""Who may talk to whom: the server's certificate, the owners' keys, and where both are needed.

A server shows a certificate that the owners were given, and an owner signs each request with an
elliptic-curve key whose public half the server was given. Keys are in OpenSSH's format, the one
Flower's own tools read, so those of ``ssh-keygen -t ecdsa`` serve as well.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.storage.paths import read_regular, write_new

__all__ = [
    "host_and_port",
    "is_loopback",
    "make_certificate",
    "make_node_key",
    "node_key",
    "node_public_key",
    "require_loopback",
]

_YEARS = 2  # a certificate lasts
_LARGEST_KEY = 1 << 16  # bytes


def host_and_port(address: str) -> tuple[str, int]:
    """Take ``host:port`` apart; an IPv6 address stands in brackets."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidParameterError(f"{address!r} is no address: write it as host:port")
    if ":" in host and not address.startswith("["):
        raise InvalidParameterError(f"{address!r} is no address: write an IPv6 one as [host]:port")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone; a name is never looked up."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_loopback(host: str) -> None:
    """Refuse to go without encryption and keys where others can listen."""
    if not is_loopback(host):
        raise InvalidParameterError(
            f"{host} is not this machine: without encryption and keys only 127.0.0.1, ::1 and "
            "localhost are allowed"
        )


def make_node_key(path: str | Path) -> bytes:
    """Write an owner's new key to ``path``, for its eyes only, and the public half to ``path.pub``.

    Returns the public half, which the server registers; the private one never leaves the owner.
    """
    secret = ec.generate_private_key(ec.SECP384R1())
    public = secret.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    private = secret.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    _write_new(Path(path), private, 0o600)
    _write_new(Path(f"{path}.pub"), public + b"\n", 0o644)
    return public


def node_key(path: str | Path) -> ec.EllipticCurvePrivateKey:
    """Read an owner's private key."""
    data = _read(path)
    try:
        found = serialization.load_ssh_private_key(data, None)
    except Exception:  # the library has many ways to say that it cannot read a key
        found = None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise InvalidDataError(
            f"{path} is not an elliptic-curve private key without a password, in OpenSSH's format"
        )
    return found


def node_public_key(path: str | Path) -> ec.EllipticCurvePublicKey:
    """Read an owner's public key."""
    data = _read(path)
    try:
        found = serialization.load_ssh_public_key(data)
    except Exception:
        found = None
    if not isinstance(found, ec.EllipticCurvePublicKey):
        raise InvalidDataError(f"{path} is not an elliptic-curve public key: give the .pub file")
    return found


def make_certificate(folder: str | Path, hosts: Sequence[str]) -> tuple[Path, Path, Path]:
    """Write a certificate for a server that owners reach under ``hosts``.

    Returns the paths of ``authority.pem``, which every owner gets, and of the server's
    ``server.pem`` and ``server.key``. The authority's key signs this one certificate and is
    forgotten: nobody can make another that the owners would accept.
    """
    if not hosts:
        raise InvalidParameterError("a certificate is for named hosts: give at least one")
    names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name = _name("eigenveil authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    server = (
        _certificate(_name("eigenveil server"), authority_name, server_key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    private = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    place = Path(folder)
    files = (place / "authority.pem", place / "server.pem", place / "server.key")
    _write_new(files[0], authority.public_bytes(pem), 0o644)
    _write_new(files[1], server.public_bytes(pem), 0o644)
    _write_new(files[2], private, 0o600)
    return files


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - timedelta(hours=1)  # the owners' clocks may be a little behind
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidParameterError(f"{host!r} is no name of a host") from None


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _read(path: str | Path) -> bytes:
    try:
        return read_regular(path, _LARGEST_KEY)
    except OSError:
        raise InvalidDataError(f"no readable key at {path}: check the path") from None


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new({path: data}, mode=mode)
    except FileExistsError:
        raise InvalidParameterError(f"{path} exists already: choose a new name") from None
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None
