"""What ``release.json`` says of privacy: a promise, and those of the owners behind it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee, guarantee_from_dict, guarantee_to_dict

_NOT_IN_ALL = ("unit_column", "arrival", "arrivals", "honest", "merged_ids")  # promises
_LONGEST_NAME = 64
_LONGEST_TEXT = 500
_MOST_BOUNDS = 20
_MOST_ROWS = 10**15
_ROUNDING = 1e-9  # of weights that sum to 1


def promise_to_dict(guarantee: Guarantee) -> dict[str, Any]:
    """Return a guarantee with its sentence; what not every promise has comes last."""
    fields = guarantee_to_dict(guarantee)
    more = {k: fields.pop(k) for k in list(fields) if k in _NOT_IN_ALL}
    return {**fields, "sentence": guarantee.sentence(), **more}


def promise_from_dict(document: dict[str, Any]) -> Guarantee:
    """Return the guarantee of a document; its sentence is not read."""
    return guarantee_from_dict({k: v for k, v in document.items() if k != "sentence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one owner put into a release of several, and the promise it made to its own records.

    All of it came from the owner or follows from what it declared, so every text is short and
    printable, or refused.

    Attributes
    ----------
    name : str
        Of the owner.
    n_rows : int
        How many rows it has, or persons where these are protected: public, as it declared.
    guarantee : Guarantee
        For its own records, for all that it sent.
    basis_weight : float
        Its part in the common directions, between 0 and 1.
    values_weight : float
        Its part in the variances along them, between 0 and 1. An owner whose answer was not heard
        has no part in that; what it may have spent on it is stated.

    """

    name: str
    n_rows: int
    guarantee: Guarantee
    basis_weight: float
    values_weight: float

    def __post_init__(self) -> None:
        if not _is_text(self.name, _LONGEST_NAME) or self.name != self.name.strip():
            raise InvalidParameterError(
                f"the name of an owner has 1 to {_LONGEST_NAME} printable characters, no spaces "
                "around them"
            )
        if type(self.n_rows) is not int or not 1 <= self.n_rows <= _MOST_ROWS:
            raise InvalidParameterError("an owner declares a whole number of rows, at least 1")
        for name in ("basis_weight", "values_weight"):
            weight = float(getattr(self, name))  # numpy scalars become floats
            if not 0 <= weight <= 1:
                raise InvalidParameterError("the weight of an owner lies between 0 and 1")
            object.__setattr__(self, name, weight)
        stated = self.guarantee
        optional = (stated.ledger, stated.assumption, stated.protects.column)
        texts = (*stated.bounds, *(text for text in optional if text is not None))
        if len(stated.bounds) > _MOST_BOUNDS or not all(
            _is_text(text, _LONGEST_TEXT) for text in texts
        ):
            raise InvalidParameterError(
                f"the statement of an owner has at most {_MOST_BOUNDS} bounds, and texts of 1 to "
                f"{_LONGEST_TEXT} printable characters"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``release.json`` for one owner."""
        return {
            "name": self.name,
            "n_rows": self.n_rows,
            "basis_weight": self.basis_weight,
            "values_weight": self.values_weight,
            "guarantee": promise_to_dict(self.guarantee),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Return the contribution of a document that follows the schema."""
        return cls(**{**document, "guarantee": promise_from_dict(document["guarantee"])})


def check_owners(owners: Sequence[Contribution], guarantee: Guarantee, n_rows: int | None) -> None:
    """Refuse a release that says of itself what its owners do not say."""
    if len({owner.name for owner in owners}) < len(owners):
        raise InvalidParameterError("two owners have one name")
    for weights in ([o.basis_weight for o in owners], [o.values_weight for o in owners]):
        if abs(math.fsum(weights) - 1) > _ROUNDING:
            raise InvalidParameterError("the weights of the owners must sum to 1")
    if n_rows != sum(owner.n_rows for owner in owners if owner.basis_weight > 0):
        raise InvalidParameterError(
            "n_rows must be the sum of what the owners declare who have a part in the directions"
        )
    if guarantee != FederatedGuarantee.of(owner.guarantee for owner in owners):
        raise InvalidParameterError(
            "the guarantee must be what the owners' imply: FederatedGuarantee.of(...)"
        )


def _is_text(text: Any, longest: int) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= longest and text.isprintable()
