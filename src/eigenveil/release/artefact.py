"""A release as it leaves the building: save, load, verify, sign, transform.

A folder, or one zip, with ``release.json`` (statement and settings, versioned schema),
``arrays.npz`` (no pickle), ``report.html``, ``SHA256SUMS`` and perhaps ``SIGNATURE``. The sums
detect damage and careless changes; someone who can rewrite every file can rewrite them too, so note
the fingerprint elsewhere, or sign.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import (
    AlteredReleaseError,
    InvalidDataError,
    InvalidParameterError,
    VerificationError,
)
from eigenveil.messages import Phrase
from eigenveil.privacy.contribution import Contribution, check_owners, promise_to_dict
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.release import content as schema
from eigenveil.release import files
from eigenveil.release.consistency import check_consistency, check_promise
from eigenveil.release.content import (
    about_settings,
    decode_arrays,
    encode_arrays,
    largest_arrays,
    read_statement,
    without_sentences,
)
from eigenveil.release.invariants import check_arrays
from eigenveil.release.projection import Projection
from eigenveil.release.signature import Signature
from eigenveil.release.verdict import Verdict
from eigenveil.report.page.document import PAGE_FORMAT, render
from eigenveil.report.page.summary import card, one_line
from eigenveil.rows.base import decided, tables
from eigenveil.rows.columns import noted_reading
from eigenveil.rows.frames import is_frame
from eigenveil.rows.open import open_rows
from eigenveil.storage.reservation import Reservation, reserved
from eigenveil.text import plural

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


_FINGERPRINT = re.compile(r"[0-9a-fA-F]{16,64}")
_PROOF = "docs/proofs/{}.md"
_USE_COMPONENTS = Phrase(
    python="transform with one made by PrivatePCA",
    shell="give one made by eigenveil fit",
    file="give one made by eigenveil fit",
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def _library() -> str:
    return version("eigenveil")  # which parses a file: a twentieth of a small fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Release:
    """Released arrays with their promise. Nothing else in it depends on the records.

    A release that several owners made together has a `Contribution` of each. Its guarantee follows
    from theirs. ``proofs`` are the names of pages in ``docs/proofs``, one for each stage.
    """

    kind: str
    mechanism: str
    guarantee: Guarantee
    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[np.float64]]
    created: str = field(default_factory=_now)
    library: str = field(default_factory=_library)
    owners: tuple[Contribution, ...] = ()
    proofs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        frozen = {name: np.array(array, dtype=np.float64) for name, array in self.arrays.items()}
        for array in frozen.values():
            array.setflags(write=False)
        object.__setattr__(self, "arrays", frozen)
        object.__setattr__(self, "owners", tuple(self.owners))
        object.__setattr__(self, "proofs", tuple(self.proofs))
        if self.owners or isinstance(self.guarantee, FederatedGuarantee):
            check_owners(self.owners, self.guarantee, self.settings["n_rows"])

    def __repr__(self) -> str:
        what = one_line(self.kind, self.mechanism, self.settings, self.arrays)
        return f"<Release: {what}; {self.guarantee.budget}>"

    def _repr_html_(self) -> str:
        said = dict(self.guarantee.statements())
        return card(self.kind, self.mechanism, self.settings, self.arrays, said)

    def described(
        self,
        *,
        title: str | None = None,
        purpose: str | None = None,
        owner: str | None = None,
        approver: str | None = None,
        image: tuple[int, int] | None = None,
    ) -> "Release":
        """Return the same release with what its owner says of it.

        Parameters
        ----------
        title, purpose, owner, approver : str, optional
            Public words for its page; nothing of the records belongs into them.
        image : pair of int, optional
            Height and width, where the columns are the pixels of an image, row by row.

        """
        words = {"title": title, "purpose": purpose, "owner": owner, "approver": approver}
        said = about_settings(self.settings, image=image, **words)
        return replace(self, settings={**self.settings, **said})

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``release.json``, but for the format of the page beside it."""
        return {
            "schema": schema.NAME,
            "library": self.library,
            "created": self.created,
            "kind": self.kind,
            "mechanism": self.mechanism,
            **({"proofs": [_PROOF.format(name) for name in self.proofs]} if self.proofs else {}),
            "guarantee": promise_to_dict(self.guarantee),
            **({"owners": [owner.as_dict() for owner in self.owners]} if self.owners else {}),
            "settings": dict(self.settings),
            "arrays": {
                name: {"dtype": str(array.dtype), "shape": list(array.shape)}
                for name, array in self.arrays.items()
            },
        }

    def statement(self) -> str:
        """Return the promise in plain words, and a line with that of each owner where there are
        several owners.
        """
        each = (f"Owner {one.name}: {one.guarantee.sentence()}" for one in self.owners)
        return "\n".join([self.guarantee.sentence(), *each])

    def save(
        self,
        folder: str | Path | Reservation,
        key: "Ed25519PrivateKey | str | Path | None" = None,
    ) -> Path:
        """Write a new folder, or one file where the name ends in ``.zip``, and return it.

        All files are written or none, and only what `verify` accepts. ``key``, an Ed25519 private
        key or the path of one, signs it.
        """
        content = self._files()
        if key is not None:
            content[files.SIGNATURE] = Signature.of(content[files.SUMS], key).encode()
        if isinstance(folder, Reservation):
            folder.fill(content)
            return folder.path
        with reserved(Path(folder), parents=True) as place:
            place.fill(content)
        return Path(folder)

    def _files(self) -> dict[str, bytes]:
        """Return the content of the files, but for a signature."""
        document = {**self.as_dict(), "page_format": PAGE_FORMAT}
        text = (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
        check_arrays(self.kind, self.settings, self.arrays)
        check_promise(self)
        check_consistency(self)
        arrays = encode_arrays(dict(self.arrays))
        # From what a reader will see: numbers and names as JSON gives them back.
        stated, guarantee, owners = read_statement(text)
        report = render(guarantee, stated, self.arrays, owners=owners).encode()
        content = {"release.json": text, "arrays.npz": arrays, "report.html": report}
        for name, data in content.items():
            if len(data) > files.LARGEST[name]:
                raise InvalidParameterError(
                    f"{name} would have {len(data):,} bytes and may have "
                    f"{files.LARGEST[name]:,}: choose fewer columns or components"
                )
        return {**content, files.SUMS: files.sums(content)}

    @classmethod
    def load(cls, folder: str | Path) -> "Release":
        """Read a folder or a zip, verifying it on the way; its page is not used."""
        return cls.examine(folder).release

    @classmethod
    def verify(
        cls,
        folder: str | Path,
        *,
        fingerprint: str | None = None,
        key: "Ed25519PublicKey | str | Path | None" = None,
    ) -> "Release":
        """Load a folder or a zip, or raise `VerificationError`.

        Raise `UncheckedPageError` for a page of another version, unless a fingerprint or a key
        vouches for it.

        Parameters
        ----------
        folder : path
            What `save` wrote.
        fingerprint : str, optional
            One you noted, or its first 16 digits or more: the folder must have it.
        key : Ed25519 public key or path of one, optional
            The folder must be signed by it.

        """
        verdict = cls.examine(folder, fingerprint=fingerprint, key=key)
        verdict.require_page()
        return verdict.release

    @classmethod
    def examine(
        cls,
        folder: str | Path,
        *,
        fingerprint: str | None = None,
        key: "Ed25519PublicKey | str | Path | None" = None,
    ) -> Verdict:
        """Verify a folder or a zip, and say what was checked about it; arguments as `verify`'s."""
        content = files.read(Path(folder), largest_arrays)
        signature = _signature(content, key)
        found = _fingerprint(content)
        if fingerprint is not None:
            if not _FINGERPRINT.fullmatch(fingerprint):
                raise InvalidParameterError(
                    "a fingerprint has 64 digits, 0 to 9 and a to f: give the first 16 at least"
                )
            if not found.startswith(fingerprint.lower()):
                raise VerificationError(
                    "the folder is intact but is not the one you noted: ask its sender for that one"
                )
        release, page_format = cls._parse(content)
        return Verdict(
            release=release,
            fingerprint=found,
            noted=fingerprint is not None,
            signature=signature,
            trusted=key is not None,
            page_format=page_format,
        )

    @classmethod
    def _parse(cls, content: Mapping[str, bytes]) -> tuple["Release", int]:
        """Return the release that the files hold, and the format of its page."""
        document, guarantee, owners = read_statement(content["release.json"])
        arrays = decode_arrays(content["arrays.npz"])
        check_arrays(document["kind"], document["settings"], arrays)
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
                proofs=tuple(Path(page).stem for page in document.get("proofs", ())),
            )
        except InvalidParameterError as error:
            raise AlteredReleaseError(
                "release.json contradicts its owners (", *error.args, ")"
            ) from None
        page_format = document.pop("page_format", 1)  # before it was written down, it was this
        rendered, found = page_format == PAGE_FORMAT, loaded.as_dict()
        if not rendered:  # another version words its sentences, and its page, in its own way
            document, found = without_sentences(document), without_sentences(found)
        if found != document:
            raise AlteredReleaseError("release.json contradicts itself or the arrays beside it")
        check_promise(loaded)
        if rendered:
            check_consistency(loaded)
            if content["report.html"] != loaded.page().encode():
                raise AlteredReleaseError(
                    "report.html does not say what release.json and the arrays say"
                )
        return loaded, page_format

    def page(self) -> str:
        """Return the page for people: the same bytes for the same content, on every machine."""
        return render(self.guarantee, self.as_dict(), self.arrays, owners=self.owners)

    @staticmethod
    def fingerprint(folder: str | Path) -> str:
        """Return one hash for the whole folder or zip, to be noted where the folder is not."""
        return _fingerprint(files.read(Path(folder), largest_arrays))

    @classmethod
    def inspect(
        cls, folder: str | Path, *, key: "Ed25519PublicKey | str | Path | None" = None
    ) -> dict[str, Any]:
        """Return everything public about a folder or zip that verifies, as plain JSON values.

        The content of ``release.json``; ``fingerprint``; ``signer``, the fingerprint of the key or
        None; ``signature`` and ``page``, what is known about them in words; ``values``, the arrays
        of one number per component.
        """
        return cls.examine(folder, key=key).as_dict()

    @classmethod
    def sign(cls, folder: str | Path, key: "Ed25519PrivateKey | str | Path") -> str:
        """Sign a folder or zip that verifies and has no signature; returns the signer.

        The signer is the fingerprint of the public key. ``key`` is as in `save`.
        """
        content = files.read(Path(folder), largest_arrays)
        if (present := _signature(content, None)) is not None:
            raise InvalidParameterError(
                f"signed already, by {present.signer}: sign a copy without SIGNATURE"
            )
        _, page_format = cls._parse(content)
        if page_format != PAGE_FORMAT:
            raise VerificationError(
                "the page cannot be checked: sign with the version of eigenveil that wrote it"
            )
        signature = Signature.of(content[files.SUMS], key)
        files.add_signature(Path(folder), content, signature.encode())
        return signature.signer

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, where the table had them."""
        names = self.settings["feature_names"]
        return None if names is None else tuple(names)

    @property
    def projection(self) -> Projection:
        """The map from rows to scores, of a release of components."""
        if self.kind != "pca":
            raise InvalidParameterError(
                f"a {self.kind} release has no components: ", _USE_COMPONENTS
            )
        return Projection(
            components=self.arrays["components"],
            mean=self.arrays["mean"],
            scale=self.arrays["scale"],
            on_invalid=self.settings["on_invalid"] or "raise",  # owners may differ
            on_missing=self.settings.get("on_missing", "invalid"),
        )

    def transform(self, rows: Any) -> NDArray[np.float64]:
        """Return scores of rows: an array, a data frame, a path, or chunks.

        The scores are NOT private with respect to the rows: they are for whoever may see these.
        Columns of a CSV or parquet file are found by their names, others must be those of the fit
        in the same order. Missing and invalid values are treated as the fit was told to; invalid
        ones are refused where its owners may have told it different things.
        """
        projection = self.projection
        scores = [projection.scores(chunk) for chunk in self._tables(rows)]
        return np.concatenate([np.empty((0, len(projection.components))), *scores])

    def inverse_transform(self, scores: Any) -> NDArray[np.float64]:
        """Return rows with the given scores; as private as the scores are."""
        projection = self.projection
        if self.settings.get("centring") == "inside":
            raise InvalidParameterError(
                "this release knows its centre inside the components only: multiply scores by the "
                "components for that part of a row"
            )
        return projection.rows(scores)

    def _tables(self, rows: Any) -> Iterator[NDArray[Any]]:
        """Return chunks of a table that has the columns of the fit."""
        known = self.feature_names
        noted = self.settings.get("encoding") or {}
        named_file = isinstance(rows, (str, Path)) and Path(rows).suffix not in (".npy", ".npz")
        if known and (named_file or (noted and is_frame(rows))):
            source = open_rows(rows, **noted_reading(known, noted)).plain
        else:
            levels = {name: how["levels"] for name, how in noted.items() if "levels" in how}
            source = decided(open_rows(rows).plain, levels)
        if source.n_columns != self.settings["n_features"]:
            raise InvalidDataError(
                f"the rows have {source.n_columns} {plural('column', source.n_columns)}, those of "
                f"the release {self.settings['n_features']}: choose the same ones"
            )
        names = source.schema.feature_names or _names(getattr(rows, "columns", ()))
        if known and names and names != known:
            raise InvalidDataError(
                "the columns are not those of the fit, in the same order: choose those"
            )
        return tables(source)


def _names(columns: Iterable[Any]) -> tuple[str, ...]:
    """Return names of the columns of a data frame; mere numbers are none."""
    names = tuple(columns)
    return names if all(isinstance(name, str) for name in names) else ()


def _fingerprint(content: Mapping[str, bytes]) -> str:
    return hashlib.sha256(content[files.SUMS]).hexdigest()


def _signature(
    content: Mapping[str, bytes], key: "Ed25519PublicKey | str | Path | None"
) -> Signature | None:
    """Return the signature of a folder, checked; with a key there must be one."""
    stored = content.get(files.SIGNATURE)
    if stored is None:
        if key is not None:
            raise VerificationError("the release is not signed: ask its owner to sign it")
        return None
    signature = Signature.decode(stored)
    signature.check(content[files.SUMS], key)
    return signature
