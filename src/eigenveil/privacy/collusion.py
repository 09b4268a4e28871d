"""A promise that counts on other owners: what it needs, and what is left without them."""

from dataclasses import dataclass
from typing import Any, Self

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.budget import stated
from eigenveil.privacy.cost import Gaussian

_MOST_SHOWN = 8  # rows of the table in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """What secure sums promise to a record, by the number of honest owners.

    Attributes
    ----------
    mus : tuple of float
        The cost with 1, 2, ... honest owners, the record's own among them. The last is the one
        that is promised.
    quorum, owners : int
        How many are in every sum, and how many there are.
    total : bool
        Whether variances are about one common centre, or within owners.

    """

    mus: tuple[float, ...]
    quorum: int
    owners: int
    total: bool

    def __post_init__(self) -> None:
        numbers = (len(self.mus), self.quorum, self.owners)
        if not all(type(number) is int for number in numbers) or type(self.total) is not bool:
            raise InvalidParameterError("honest owners are counted in whole numbers")
        falling = all(a > b > 0 for a, b in zip(self.mus, self.mus[1:], strict=False))
        if not (falling and 2 <= len(self.mus) <= self.quorum <= self.owners):
            raise InvalidParameterError("a promise is the better, the more owners are honest")
        if len(self.mus) + self.quorum <= self.owners + 1:
            raise InvalidParameterError("so small a quorum does not make a set unique")

    @property
    def needed(self) -> int:
        """How many honest owners the promise counts on."""
        return len(self.mus)

    def condition(self) -> str:
        """Return what must hold, in words."""
        spare = self.quorum - self.needed
        collude = "none colludes" if not spare else f"at most {spare} of {self.owners} collude"
        return (
            f"at least {self.needed} honest owners, its own among them, are in every sum that its "
            f"owner answered in (sure if {collude}); they keep keys and noise secret; its owner's "
            "copy of the agreement has the right keys; and nobody breaks X25519, Ed25519, HKDF or "
            "AES-256"
        )

    def table(self, delta: float) -> tuple[tuple[int, float], ...]:
        """Return epsilon at this delta for every number of honest owners, the most first."""
        return tuple(
            (h, epsilon_of(Gaussian(self.mus[h - 1]), delta)) for h in range(self.needed, 0, -1)
        )

    def otherwise(self, delta: float) -> str:
        """Return what is left with fewer honest owners, in words."""
        rows = self.table(delta)[1:]
        if len(rows) > _MOST_SHOWN:
            step = len(rows) / (_MOST_SHOWN - 1)
            rows = (*(rows[int(i * step)] for i in range(_MOST_SHOWN - 1)), rows[-1])
        told = [f"with {h} epsilon = {stated(epsilon)}" for h, epsilon in rows[:-1]]
        last = f"with its own alone epsilon = {stated(rows[-1][1])}"
        return f"{', '.join([*told, last])}, each at delta = {stated(delta)}"

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "mus": list(self.mus),
            "quorum": self.quorum,
            "owners": self.owners,
            "total": self.total,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Return the inverse of `as_dict`."""
        return cls(**{**document, "mus": tuple(document["mus"])})
