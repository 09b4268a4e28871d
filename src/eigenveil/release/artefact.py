"""A release as it leaves the building: save, load, verify, sign, transform.

A folder, or one zip, with ``release.json`` (statement and settings, versioned schema),
``arrays.npz`` (no pickle), ``report.html``, ``SHA256SUMS`` and perhaps ``SIGNATURE``. The sums
detect damage and careless changes; someone who can rewrite every file can rewrite them too, so note
the fingerprint elsewhere, or sign.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.source import open_rows, tables
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, VerificationError
from eigenveil.privacy.federated import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.release import schema, storage
from eigenveil.release.page import promise, promises, render
from eigenveil.release.projection import Projection
from eigenveil.release.signature import Signature
from eigenveil.release.statement import (
    Contribution,
    check_owners,
    promise_from_dict,
    promise_to_dict,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["Release"]

_SHORTEST_FINGERPRINT = 16
_MOST_DIGITS = 16
# The arrays every release of a kind has, and their shapes: d columns, k components. ``scale``
# alone may be infinite.
_SHAPES = {
    "pca": {
        "components": "kd",
        "explained_variance": "k",
        "explained_variance_ratio": "k",
        "mean": "d",
        "scale": "d",
    },
    "covariance": {"covariance": "dd", "location": "d"},
}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """What was released, with its promise. Nothing in it depends on raw records but through
    the noisy arrays.

    One that several owners made together has a `Contribution` of each; its guarantee is the one
    that theirs imply.
    """

    kind: str
    mechanism: str
    guarantee: Guarantee
    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[np.float64]]
    created: str = field(default_factory=_now)
    library: str = field(default_factory=lambda: version("eigenveil"))
    owners: tuple[Contribution, ...] = ()

    def __post_init__(self) -> None:
        frozen = {name: np.array(array, dtype=np.float64) for name, array in self.arrays.items()}
        for array in frozen.values():
            array.setflags(write=False)
        object.__setattr__(self, "arrays", frozen)
        object.__setattr__(self, "owners", tuple(self.owners))
        if self.owners or isinstance(self.guarantee, FederatedGuarantee):
            check_owners(self.owners, self.guarantee, self.settings["n_rows"])

    def as_dict(self) -> dict[str, Any]:
        """The content of ``release.json``."""
        return {
            "schema": schema.NAME,
            "library": self.library,
            "created": self.created,
            "kind": self.kind,
            "mechanism": self.mechanism,
            "guarantee": promise_to_dict(self.guarantee),
            **({"owners": [owner.as_dict() for owner in self.owners]} if self.owners else {}),
            "settings": dict(self.settings),
            "arrays": {
                name: {"dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in self.arrays.items()
            },
        }

    def statement(self) -> str:
        """The promise in plain words, and a line with that of each owner where there are several
        owners.
        """
        each = (f"Owner {one.name}: {one.guarantee.sentence()}" for one in self.owners)
        return "\n".join([self.guarantee.sentence(), *each])

    def save(self, folder: str | Path, key: "Ed25519PrivateKey | str | Path | None" = None) -> Path:
        """Write a new folder, or one file where the name ends in ``.zip``, and return it.

        All files are written or none. ``key``, an Ed25519 private key or the path of one, signs it.
        """
        document = self.as_dict()
        schema.check(document)
        _check_arrays(self.kind, self.settings, self.arrays)
        arrays = io.BytesIO()
        np.savez(arrays, allow_pickle=False, **self.arrays)
        content = {
            "release.json": (json.dumps(document, indent=2, allow_nan=False) + "\n").encode(),
            "arrays.npz": arrays.getvalue(),
            "report.html": render(
                self.guarantee, document, self.arrays, owners=self.owners
            ).encode(),
        }
        content[storage.SUMS] = storage.sums(content)
        if key is not None:
            content[storage.SIGNATURE] = Signature.of(content[storage.SUMS], key).encode()
        storage.write(Path(folder), content)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path) -> "Release":
        """Read a folder or a zip, verifying it on the way."""
        return cls.verify(folder)

    @classmethod
    def verify(
        cls,
        folder: str | Path,
        *,
        fingerprint: str | None = None,
        key: "Ed25519PublicKey | str | Path | None" = None,
    ) -> "Release":
        """Load a folder or a zip, or raise `VerificationError`.

        Parameters
        ----------
        folder : path
            What `save` wrote.
        fingerprint : str, optional
            One you noted, or its first 16 digits or more: the folder must have it.
        key : Ed25519 public key or path of one, optional
            The folder must be signed by it.

        """
        content = storage.read(Path(folder))
        _signature(content, key)
        if fingerprint is not None:
            if len(fingerprint) < _SHORTEST_FINGERPRINT:
                raise InvalidParameterError(
                    f"give at least {_SHORTEST_FINGERPRINT} digits of the fingerprint"
                )
            if not _fingerprint(content).startswith(fingerprint.lower()):
                raise VerificationError("the folder is intact but is not the one you noted")
        return cls._parse(content)

    @classmethod
    def _parse(cls, content: Mapping[str, bytes]) -> "Release":
        document, guarantee, owners = _statement(content["release.json"])
        arrays = _arrays(content["arrays.npz"])
        _check_arrays(document["kind"], document["settings"], arrays)
        try:
            loaded = cls(
                kind=document["kind"],
                mechanism=document["mechanism"],
                guarantee=guarantee,
                settings=document["settings"],
                arrays=arrays,
                created=document["created"],
                library=document["library"],
                owners=owners,
            )
        except InvalidParameterError as error:
            raise VerificationError(f"release.json contradicts its owners: {error}") from None
        if loaded.as_dict() != document:
            raise VerificationError("release.json contradicts itself or the arrays beside it")
        if loaded.library == version("eigenveil"):  # another version may have had other words
            loaded._check_words(content["report.html"])
        return loaded

    def _check_words(self, page: bytes) -> None:
        """Whether the page and the settings say what the promise says."""
        if promise(self.guarantee).encode() not in page:
            raise VerificationError("report.html does not say what release.json says")
        if promises(self.owners).encode() not in page:
            raise VerificationError("report.html does not say what the owners say")
        told = any("empty cells" in words for words in self.guarantee.bounds)
        # Owners treat their empty cells as each of them says.
        if not self.owners and told != (self.settings.get("on_missing") == "centre"):
            raise VerificationError("release.json says two things about empty cells")
        if self.settings["assume_centered"] and self.settings.get("centring", "none") != "none":
            raise VerificationError("release.json says two things about the centre")

    @staticmethod
    def fingerprint(folder: str | Path) -> str:
        """One hash for the whole folder or zip, to be noted where the folder is not."""
        return _fingerprint(storage.read(Path(folder)))

    @classmethod
    def inspect(
        cls, folder: str | Path, *, key: "Ed25519PublicKey | str | Path | None" = None
    ) -> dict[str, Any]:
        """Everything public about a folder or zip that verifies, as plain JSON values.

        The content of ``release.json``; ``fingerprint``; ``signer``, the fingerprint of the key or
        None; ``signature``, what is known about it in words; ``values``, the arrays of one number
        per component.
        """
        content = storage.read(Path(folder))
        signature = _signature(content, key)
        release = cls._parse(content)
        return {
            **release.as_dict(),
            "fingerprint": _fingerprint(content),
            "signer": None if signature is None else signature.signer,
            "signature": _words(signature, trusted=key is not None),
            "values": {
                name: array.tolist()
                for name, array in release.arrays.items()
                if release.kind == "pca" and array.ndim == 1 and name not in ("mean", "scale")
            },
        }

    @classmethod
    def sign(cls, folder: str | Path, key: "Ed25519PrivateKey | str | Path") -> str:
        """Sign a folder or zip that verifies and has no signature; returns the signer.

        The signer is the fingerprint of the public key. ``key`` is as in `save`.
        """
        content = storage.read(Path(folder))
        if (present := _signature(content, None)) is not None:
            raise InvalidParameterError(
                f"signed already, by {present.signer}: sign a copy without SIGNATURE"
            )
        cls._parse(content)
        signature = Signature.of(content[storage.SUMS], key)
        storage.add_signature(Path(folder), content, signature.encode())
        return signature.signer

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, where the table had them."""
        names = self.settings["feature_names"]
        return None if names is None else tuple(names)

    @property
    def projection(self) -> Projection:
        """From rows to scores; of a release of components."""
        if self.kind != "pca":
            raise InvalidParameterError(
                f"a {self.kind} release has no components: transform with one made by PrivatePCA"
            )
        return Projection(
            components=self.arrays["components"],
            mean=self.arrays["mean"],
            scale=self.arrays["scale"],
            on_invalid=self.settings["on_invalid"] or "raise",  # owners may differ
            on_missing=self.settings.get("on_missing", "invalid"),
        )

    def transform(self, rows: Any) -> NDArray[np.float64]:
        """Scores of rows: an array, a data frame, a path, or chunks.

        The scores are NOT private with respect to the rows: they are for whoever may see these.
        Columns of a CSV or parquet file are found by their names, others must be those of the fit
        in the same order. Missing and invalid values are treated as the fit was told to; invalid
        ones are refused where its owners may have told it different things.
        """
        projection = self.projection
        scores = [projection.scores(chunk) for chunk in self._tables(rows)]
        return np.concatenate([np.empty((0, len(projection.components))), *scores])

    def inverse_transform(self, scores: Any) -> NDArray[np.float64]:
        """Rows with the given scores; as private as the scores are."""
        projection = self.projection
        if self.settings.get("centring") == "inside":
            raise InvalidParameterError(
                "this release knows its centre inside the components only, so that rows cannot be "
                "restored: multiply scores by its components for their part of a row"
            )
        return projection.rows(scores)

    def _tables(self, rows: Any) -> Iterator[NDArray[Any]]:
        """Chunks of a table that has the columns of the fit."""
        known = self.feature_names
        by_name = isinstance(rows, (str, Path)) and Path(rows).suffix.lower() != ".npy"
        source = open_rows(rows, columns=list(known) if known and by_name else None)
        if source.n_columns != self.settings["n_features"]:
            raise InvalidDataError(
                f"the rows have {source.n_columns} columns, those of the release "
                f"{self.settings['n_features']}"
            )
        names = source.feature_names or _names(getattr(rows, "columns", ()))
        if known and names and names != known:
            raise InvalidDataError("the columns are not those of the fit, in the same order")
        return tables(source)


def _names(columns: Iterable[Any]) -> tuple[str, ...]:
    """Names of the columns of a data frame; mere numbers are none."""
    names = tuple(columns)
    return names if all(isinstance(name, str) for name in names) else ()


def _fingerprint(content: Mapping[str, bytes]) -> str:
    return hashlib.sha256(content[storage.SUMS]).hexdigest()


def _signature(
    content: Mapping[str, bytes], key: "Ed25519PublicKey | str | Path | None"
) -> Signature | None:
    """The signature of a folder, checked; with a key there must be one."""
    stored = content.get(storage.SIGNATURE)
    if stored is None:
        if key is not None:
            raise VerificationError("the release is not signed: ask its owner to sign it")
        return None
    signature = Signature.decode(stored)
    signature.check(content[storage.SUMS], key)
    return signature


def _words(signature: Signature | None, *, trusted: bool) -> str:
    if signature is None:
        return "not signed"
    if not signature.checkable:
        return (
            f"signature, said to be by {signature.signer}, not checked at all: pip install "
            "'eigenveil[sign]'"
        )
    if trusted:
        return f"signed by {signature.signer}, the key you gave"
    return f"signed by {signature.signer}, not checked against a key you trust"


def _statement(data: bytes) -> tuple[dict[str, Any], Guarantee, tuple[Contribution, ...]]:
    """What ``release.json`` says, the promise in it, and the owners who made it."""
    try:
        document = _document(data)
        schema.check_version(document)
        schema.check(document)
        if "owners" not in document:
            return document, promise_from_dict(document["guarantee"]), ()
        owners = tuple(map(Contribution.from_dict, document["owners"]))
        return document, FederatedGuarantee.of(owner.guarantee for owner in owners), owners
    except InvalidParameterError:
        raise VerificationError("release.json states an impossible guarantee") from None
    except RecursionError:
        raise VerificationError("release.json is nested too deeply") from None


def _integer(digits: str) -> int:
    """One that is as good as a float."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too large")
    return int(digits)


def _document(data: bytes) -> Any:
    """Names that are there twice, numbers that are none and half characters would mislead."""

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(members)) < len(members):
            raise VerificationError("release.json has two members of one name")
        return dict(members)

    try:
        document = json.loads(data, object_pairs_hook=once, parse_int=_integer)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise VerificationError("release.json is not JSON") from None
    return document


def _arrays(data: bytes) -> dict[str, NDArray[np.float64]]:
    stored = storage.unzip(data, "arrays.npz")
    if not all(name.endswith(".npy") for name in stored):
        raise VerificationError("arrays.npz holds other things than arrays")
    arrays = {}
    for name, member in stored.items():
        stream = io.BytesIO(member)
        try:
            arrays[name.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
        except Exception:  # numpy hands the header to Python's parser, which refuses in many ways
            raise VerificationError("arrays.npz cannot be read: damaged or truncated") from None
        if stream.read(1):
            raise VerificationError("arrays.npz holds more than its arrays")
    return arrays


def _check_arrays(
    kind: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Whether the arrays are those of their kind of release: numbers, of the right shapes."""
    shapes = _SHAPES[kind]
    if not shapes.keys() <= arrays.keys():
        raise VerificationError(f"arrays.npz does not hold a {kind} release")
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise VerificationError("arrays.npz holds other things than numbers")
    first = next(iter(shapes))
    sizes = {"d": settings["n_features"], "k": len(np.atleast_1d(arrays[first]))}
    for name, shape in shapes.items():
        if arrays[name].shape != tuple(sizes[size] for size in shape):
            raise VerificationError("arrays.npz has another number of columns than release.json")
    for name, array in arrays.items():
        if not (array > 0 if name == "scale" else np.isfinite(array)).all():
            raise VerificationError(f"arrays.npz holds no usable numbers in {name!r}")
    names = settings["feature_names"]
    if names is not None and len(names) != sizes["d"]:
        raise VerificationError("release.json has not one name for each column")
