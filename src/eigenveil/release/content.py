"""Read the statement and the arrays of a release, check them against the schema, and its receipts.

Both may come from anybody: whatever they hold, they are read or refused in one line.

The schema is plain JSON Schema, so that anyone can check a release with any validator; this
module interprets the few keywords it uses and refuses a schema with others.
"""

import io
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import AlteredReleaseError, InvalidParameterError, VerificationError
from eigenveil.privacy.accounting import compose, covers
from eigenveil.privacy.contribution import Contribution, promise_from_dict
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.release import content as schema
from eigenveil.storage.archive import unzip
from eigenveil.text import printable

if TYPE_CHECKING:
    from eigenveil.release.artefact import Release


_MOST_DIGITS = 16
_HEADER_BYTES = 2**12  # bytes that an array takes in a zip beside its numbers, at most

# numpy itself reads more, by handing what it finds to a parser of Python.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>[\s\S]{2})\{'descr': '<f8', 'fortran_order': "
    rb"(?P<columns>True|False), 'shape': \((?P<shape>|\d{1,16},|\d{1,16}(?:, \d{1,16})+)\), \} *\n"
)

_UNREADABLE = "arrays.npz cannot be read, damaged or truncated: ask its sender for it again"
Statement = tuple[dict[str, Any], Guarantee, tuple[Contribution, ...]]


def read_statement(data: bytes) -> Statement:
    """Return what ``release.json`` says, the promise in it, and the owners who made it."""
    try:
        document = _document(data)
        if "owners" not in document:
            return document, promise_from_dict(document["guarantee"]), ()
        owners = tuple(map(Contribution.from_dict, document["owners"]))
        return document, FederatedGuarantee.of(owner.guarantee for owner in owners), owners
    except InvalidParameterError:
        raise AlteredReleaseError("release.json states an impossible guarantee") from None
    except RecursionError:
        raise AlteredReleaseError("release.json is nested too deeply") from None


def without_sentences(document: dict[str, Any]) -> dict[str, Any]:
    """Return a statement without the sentences, which every version words in its own way."""
    plain = {**document, "guarantee": _without_sentence(document["guarantee"])}
    if "owners" in document:
        plain["owners"] = [
            {**owner, "guarantee": _without_sentence(owner["guarantee"])}
            for owner in document["owners"]
        ]
    return plain


def _without_sentence(guarantee: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in guarantee.items() if name != "sentence"}


def largest_arrays(data: bytes) -> int:
    """Return how many bytes ``arrays.npz`` may have by what ``release.json`` says of it."""
    try:
        stated = _document(data)["arrays"].values()
    except RecursionError:
        raise AlteredReleaseError("release.json is nested too deeply") from None
    sizes: list[int] = [8 * math.prod(array["shape"]) for array in stated]
    return sum(sizes) + _HEADER_BYTES * (1 + len(sizes))


def _integer(digits: str) -> int:
    """Return a whole number that is as good as a float."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too large")
    return int(digits)


def _document(data: bytes) -> Any:
    """Return a document that follows the schema.

    Names that are there twice, numbers that are none and half characters would mislead.
    """

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(members)) < len(members):
            raise AlteredReleaseError("release.json has two members of one name")
        return dict(members)

    try:
        document = json.loads(data, object_pairs_hook=once, parse_int=_integer)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise AlteredReleaseError("release.json is not JSON") from None
    schema.check_version(document)
    schema.check(document)
    return document


def encode_arrays(arrays: dict[str, NDArray[np.float64]]) -> bytes:
    """Return the content of ``arrays.npz``."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def decode_arrays(data: bytes) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of ``arrays.npz``: 64-bit floats and nothing else."""
    stored = unzip(data, "arrays.npz")
    if not all(name.endswith(".npy") for name in stored):
        raise AlteredReleaseError("arrays.npz holds other things than arrays")
    return {name.removesuffix(".npy"): _array(member) for name, member in stored.items()}


def _array(member: bytes) -> NDArray[np.float64]:
    """Return the numbers of one file, whose header is as numpy writes it, word for word."""
    header = _HEADER.match(member)
    if header is None or header.end() != 10 + int.from_bytes(header["length"], "little"):
        raise AlteredReleaseError(_UNREADABLE)
    shape = [int(size) for size in header["shape"].split(b",") if size]
    # What a header claims is compared before anything is made of it.
    if 8 * math.prod(shape) != len(member) - header.end():
        raise AlteredReleaseError(f"{_UNREADABLE}, or more than its numbers")
    numbers = np.frombuffer(member, np.float64, count=math.prod(shape), offset=header.end())
    return numbers.reshape(shape, order="F" if header["columns"] == b"True" else "C")


VERSION = 1
NAME = f"eigenveil-release/{VERSION}"

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_KEYWORDS = {
    "$schema",
    "$defs",
    "$ref",
    "title",
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "pattern",
    "propertyNames",
}


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    text = (
        resources.files(__package__).joinpath(f"release-{VERSION}.schema.json").read_text("utf-8")
    )
    return dict(json.loads(text))


def check_version(document: Any) -> None:
    """Refuse documents of later schemas, and of drafts of the first one, in words of their own."""
    if not isinstance(document, dict):
        return
    newer = re.fullmatch(r"eigenveil-release/([1-9][0-9]{0,8})", str(document.get("schema")))
    if newer and int(newer[1]) > VERSION:
        raise VerificationError("the release was made by a newer eigenveil: upgrade to read it")
    if document.get("schema") == NAME and "page_format" not in document and _is_draft(document):
        raise VerificationError(
            "the release was made by a draft of version 0.1.0, before releases stated how far to "
            "trust each component: read it with the version that wrote it"
        )


def _is_draft(document: dict[str, Any]) -> bool:
    """Return whether members are missing that every release since 0.1.0 has."""
    guarantee, arrays = document.get("guarantee"), document.get("arrays")
    if isinstance(guarantee, dict) and "assumption" not in guarantee:
        return True
    if document.get("kind") != "pca" or not isinstance(arrays, dict):
        return False
    return "components" in arrays and "distinguishable" not in arrays


def check(document: Any, schema: dict[str, Any] | None = None, at: str = "release.json") -> None:
    """Raise `VerificationError` naming the first place where the document departs."""
    schema = _schema() if schema is None else schema
    if unknown := schema.keys() - _KEYWORDS:
        raise VerificationError(f"the schema uses keywords not understood here: {sorted(unknown)}")
    if "$ref" in schema:
        check(document, _schema()["$defs"][schema["$ref"].removeprefix("#/$defs/")], at)
    if "type" in schema and not _has_type(document, schema["type"]):
        raise AlteredReleaseError(f"{at} has the wrong type")
    if "const" in schema and document != schema["const"]:
        raise VerificationError(
            f"{at} is not {schema['const']!r}: read it with the version of eigenveil that wrote it"
        )
    if "enum" in schema and document not in schema["enum"]:
        raise AlteredReleaseError(f"{at} is none of {schema['enum']}")
    if isinstance(document, (int, float)) and not (
        schema.get("minimum", document) <= document <= schema.get("maximum", document)
        and ("exclusiveMinimum" not in schema or document > schema["exclusiveMinimum"])
    ):
        raise AlteredReleaseError(f"{at} is out of range")
    if isinstance(document, str) and not re.search(schema.get("pattern", ""), document):
        raise AlteredReleaseError(f"{at} is not written as it should be")
    if isinstance(document, list):
        for i, item in enumerate(document):
            check(item, schema.get("items", {}), f"{at}[{i}]")
    if isinstance(document, dict):
        _check_members(document, schema, at)


def _check_members(document: dict[str, Any], schema: dict[str, Any], at: str) -> None:
    for name in schema.get("required", []):
        if name not in document:
            raise AlteredReleaseError(f"{at} lacks {name!r}")
    others = schema.get("additionalProperties", {})
    for name, value in document.items():
        check(name, schema.get("propertyNames", {}), f"a name in {at}")
        inner = schema.get("properties", {}).get(name, others)
        if inner is False:
            raise AlteredReleaseError(f"{at} has an unknown member {name!r}")
        check(value, inner, f"{at}.{name}")


def _has_type(document: Any, wanted: str | list[str]) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    if isinstance(document, bool):  # a bool is an int to Python, not to JSON
        return "boolean" in names
    return any(isinstance(document, _TYPES[name]) for name in names)


ABOUT = ("title", "purpose", "owner", "approver")
_LONGEST = 200  # characters


def about_settings(
    settings: Mapping[str, Any], image: tuple[int, int] | None = None, **words: str | None
) -> dict[str, Any]:
    """Return the settings for what was said."""
    said = dict(settings.get("about", {}))
    for name, text in words.items():
        if name not in ABOUT:
            raise InvalidParameterError(f"a release has no {name!r}: give {', '.join(ABOUT)}")
        if text is None:
            continue
        plain = isinstance(text, str) and text.strip() and printable(text) == text
        if not (plain and len(text) <= _LONGEST):
            raise InvalidParameterError(
                f"{name} must be one line of at most {_LONGEST} characters: shorten it"
            )
        said[name] = text.strip()
    found: dict[str, Any] = {"about": said} if said else {}
    if image is not None:
        found["image"] = _image(settings, image)
    return found


def _image(settings: Mapping[str, Any], image: Any) -> list[int]:
    """Return height and width of an image whose pixels are the columns."""
    try:
        height, width = (int(length) for length in image)
    except (TypeError, ValueError, OverflowError):
        height = width = 0
    if min(height, width) < 1 or height * width != settings["n_features"]:
        raise InvalidParameterError(
            f"image must be a height and a width whose product is the number of columns, "
            f"{settings['n_features']}"
        )
    return [height, width]


_HASH = re.compile(r"\(hash ([0-9a-f]{16})\)")  # as in `Gate.receipt`


def entries_named(guarantee: Guarantee, ledger: Ledger) -> tuple[Entry, ...]:
    """Return the entries of a ledger that a guarantee names, if it holds all of them, each once."""
    return _named(guarantee, ledger.entries)


def _named(guarantee: Guarantee, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    named = dict.fromkeys(_HASH.findall(guarantee.ledger or ""))
    found = {entry.hash[:16]: entry for entry in entries}
    return tuple(found[short] for short in named) if found.keys() >= set(named) else ()


def require_paid(release: "Release", ledger: Ledger) -> tuple[Entry, ...]:
    """Return the entries that paid for a release, or for the part of one of its owners.

    Raise `VerificationError` where the ledger does not hold them, or where they were for another
    promise: of a lower cost, of another unit or other neighbours, or of a release that failed.
    """
    entries = ledger.entries
    for guarantee in (release.guarantee, *(owner.guarantee for owner in release.owners)):
        if named := _named(guarantee, entries):
            _require_charge_of(guarantee, named, entries, ledger)
            return named
    raise VerificationError(
        f"{ledger} holds no entry that the release names: pass the ledger that was charged for it"
    )


def _require_charge_of(
    guarantee: Guarantee, named: tuple[Entry, ...], entries: tuple[Entry, ...], ledger: Ledger
) -> None:
    """Refuse entries that did not pay for what a guarantee promises."""
    failed = {entry.failed for entry in entries}
    if not covers(compose(*(entry.cost for entry in named)), guarantee.cost):
        wrong = "cost less than the release says was spent"
    elif ledger.adjacency is not guarantee.adjacency or named[-1].unit != guarantee.protects:
        wrong = "protects another unit, or under other neighbours, than the release says"
    elif any(entry.number in failed for entry in named):
        wrong = "is noted as failed, so that nothing was released for it"
    else:
        return
    raise VerificationError(
        f"entry {named[-1].number} of {ledger} {wrong}: it is not the charge of this release"
    )
