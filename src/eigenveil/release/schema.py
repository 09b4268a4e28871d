"""Check a document against the release schema.

The schema is plain JSON Schema, so that anyone can check a release with any validator; this
module interprets the few keywords it uses and refuses a schema with others.
"""

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from eigenveil.exceptions import AlteredReleaseError, VerificationError

__all__ = ["NAME", "check", "check_version"]

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
