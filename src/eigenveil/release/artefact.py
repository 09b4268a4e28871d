"""A release as it leaves the building: save, load, verify.

A folder with ``release.json`` (statement and settings, versioned schema), ``arrays.npz`` (no
pickle), ``report.html`` and ``SHA256SUMS``. The sums detect damage and careless changes; someone
who can rewrite every file can rewrite them too, so note the fingerprint elsewhere.
"""

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError, VerificationError
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import cost_from_dict, cost_to_dict
from eigenveil.privacy.guarantee import Guarantee, Kind, Numerics
from eigenveil.release import schema
from eigenveil.release.page import promise, render

__all__ = ["Release"]

_SHORTEST_FINGERPRINT = 16
_FILES = ("release.json", "arrays.npz", "report.html")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """What was released, with its promise. Nothing in it depends on raw records but through
    the noisy arrays.
    """

    kind: str
    mechanism: str
    guarantee: Guarantee
    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[np.float64]]
    created: str = field(default_factory=_now)
    library: str = field(default_factory=lambda: version("eigenveil"))

    def __post_init__(self) -> None:
        frozen = {name: np.array(array, dtype=np.float64) for name, array in self.arrays.items()}
        for array in frozen.values():
            array.setflags(write=False)
        object.__setattr__(self, "arrays", frozen)

    def as_dict(self) -> dict[str, Any]:
        """The content of ``release.json``."""
        stated = self.guarantee
        column = stated.protects.column
        return {
            "schema": "eigenveil-release/1",
            "library": self.library,
            "created": self.created,
            "kind": self.kind,
            "mechanism": self.mechanism,
            "guarantee": {
                "unit": stated.unit,
                "adjacency": stated.adjacency.value,
                "budget": stated.budget.as_dict(),
                "cost": cost_to_dict(stated.cost),
                "kind": stated.kind.value,
                "numerics": stated.numerics.value,
                "simulated": stated.simulated,
                "bounds": list(stated.bounds),
                "ledger": stated.ledger,
                "assumption": stated.assumption,
                "sentence": stated.sentence(),
                **({"unit_column": column} if column is not None else {}),
            },
            "settings": dict(self.settings),
            "arrays": {
                name: {"dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in self.arrays.items()
            },
        }

    def save(self, folder: str | Path) -> Path:
        """Write the four files to a new folder, all or none, and return it."""
        folder = Path(folder)
        if folder.exists():
            raise InvalidParameterError(f"{folder} exists already: choose a new folder")
        document = self.as_dict()
        schema.check(document)
        arrays = io.BytesIO()
        np.savez(arrays, allow_pickle=False, **self.arrays)
        content = {
            "release.json": (json.dumps(document, indent=2, allow_nan=False) + "\n").encode(),
            "arrays.npz": arrays.getvalue(),
            "report.html": render(self.guarantee, document, self.arrays).encode(),
        }
        content["SHA256SUMS"] = "".join(
            f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in content.items()
        ).encode()
        try:
            _write(folder, content)
        except OSError:
            raise InvalidParameterError(f"cannot write {folder}: choose a writable place") from None
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> "Release":
        """Read a folder, verifying it on the way."""
        content = _verified(Path(folder))
        try:
            document = json.loads(content["release.json"])
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise VerificationError("release.json is not JSON") from None
        schema.check(document)
        arrays = _arrays(content["arrays.npz"])
        _check_arrays(document["kind"], document["settings"]["n_features"], arrays)
        loaded = cls(
            kind=document["kind"],
            mechanism=document["mechanism"],
            guarantee=_guarantee(document["guarantee"]),
            settings=document["settings"],
            arrays=arrays,
            created=document["created"],
            library=document["library"],
        )
        if loaded.as_dict() != document:
            raise VerificationError("release.json contradicts itself or the arrays beside it")
        # Another version may lay the page out differently; this one must say what it promises.
        stated = promise(loaded.guarantee).encode() in content["report.html"]
        if loaded.library == version("eigenveil") and not stated:
            raise VerificationError("report.html does not say what release.json says")
        return loaded

    @staticmethod
    def fingerprint(folder: str | Path) -> str:
        """One hash for the whole folder, to be noted where the folder is not."""
        folder = Path(folder)
        _verified(folder)
        return hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()

    @classmethod
    def verify(cls, folder: str | Path, *, fingerprint: str | None = None) -> "Release":
        """Load a folder, or raise `VerificationError`; compare with a noted fingerprint."""
        release = cls.load(folder)
        if fingerprint is not None:
            if len(fingerprint) < _SHORTEST_FINGERPRINT:
                raise InvalidParameterError(
                    f"give at least {_SHORTEST_FINGERPRINT} digits of the fingerprint"
                )
            if not cls.fingerprint(folder).startswith(fingerprint.lower()):
                raise VerificationError("the folder is intact but is not the one you noted")
        return release


def _write(folder: Path, content: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".release-") as draft:
        complete = Path(draft) / "complete"
        complete.mkdir()
        for name, data in content.items():
            (complete / name).write_bytes(data)
        os.rename(complete, folder)


def _verified(folder: Path) -> dict[str, bytes]:
    """The files of a folder, after checking their hashes and that no other file is there."""
    try:
        present = {path.name for path in folder.iterdir()}
        content = {name: (folder / name).read_bytes() for name in _FILES}
        sums = (folder / "SHA256SUMS").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise VerificationError(f"{folder} is not a complete release folder") from None
    expected = "".join(f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in _FILES)
    if sums != expected:
        raise VerificationError("the files do not match SHA256SUMS: damaged or altered")
    if extra := present - {*_FILES, "SHA256SUMS"}:
        raise VerificationError(f"the folder holds files that are not part of it: {sorted(extra)}")
    return content


def _guarantee(document: dict[str, Any]) -> Guarantee:
    try:
        return Guarantee(
            budget=Budget(**document["budget"]),
            cost=cost_from_dict(document["cost"]),
            adjacency=Adjacency(document["adjacency"]),
            bounds=tuple(document["bounds"]),
            kind=Kind(document["kind"]),
            numerics=Numerics(document["numerics"]),
            simulated=document["simulated"],
            ledger=document["ledger"],
            assumption=document["assumption"],
            protects=_protects(document["unit"], document.get("unit_column")),
        )
    except InvalidParameterError:
        raise VerificationError("release.json states an impossible guarantee") from None


def _protects(words: str, column: str | None) -> Unit:
    """The unit behind its words, of which the schema allows three."""
    if column is not None:
        return Unit("person", column)
    return {"one row": ROW, "all rows of one group": GROUP}.get(words) or Unit("person")


def _arrays(data: bytes) -> dict[str, NDArray[np.float64]]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile):
        raise VerificationError("arrays.npz cannot be read") from None


def _check_arrays(kind: str, n_features: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Whether the arrays are those of their kind of release, numbers of the right width."""
    required = {"pca": "components", "covariance": "covariance"}[kind]
    if required not in arrays or any(array.dtype != np.float64 for array in arrays.values()):
        raise VerificationError(f"arrays.npz does not hold a {kind} release")
    if arrays[required].ndim != 2 or arrays[required].shape[1] != n_features:
        raise VerificationError("arrays.npz has another number of columns than release.json")
