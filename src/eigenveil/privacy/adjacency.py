"""Which pairs of tables must be hard to tell apart."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from eigenveil.exceptions import InvalidParameterError


class Adjacency(StrEnum):
    """Neighbouring tables differ in one row, or in all rows of one person: in one `Unit`.

    Under ``REPLACE_ONE`` both tables have the same, public, number of units. Under
    ``ADD_REMOVE`` one table has a unit more, and the number of units is private.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def parse(cls, value: "str | Adjacency") -> "Adjacency":
        """Accept a member or its name as users type it."""
        try:
            return cls(str(value).replace("_", "-"))
        except ValueError:
            names = " or ".join(repr(member.value) for member in cls)
            raise InvalidParameterError(f"adjacency must be {names}") from None

    @property
    def count_is_public(self) -> bool:
        """Whether the number of units may be used and published."""
        return self is Adjacency.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Unit:
    """What neighbouring tables differ in.

    Attributes
    ----------
    name : {"row", "group", "person"}
        One row, or all rows that share an id: one of those the caller passed (a group), or a value
        of a column of the table (a person).
    column : str, optional
        That column.

    """

    name: Literal["row", "group", "person"] = "row"
    column: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ("row", "group", "person"):
            raise InvalidParameterError("a unit is 'row', 'group' or 'person'")
        if (self.name == "person") != (self.column is not None):
            raise InvalidParameterError("persons are told apart by a column, rows and groups not")

    @property
    def owns_many(self) -> bool:
        """Whether a unit may have several rows."""
        return self.name != "row"


ROW, GROUP = Unit(), Unit("group")
