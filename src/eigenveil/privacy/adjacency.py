"""Which pairs of tables must be hard to tell apart."""

from enum import StrEnum

from eigenveil.exceptions import InvalidParameterError

__all__ = ["Adjacency"]


class Adjacency(StrEnum):
    """Neighbouring tables differ in one row.

    Under ``REPLACE_ONE`` both tables have the same, public, number of rows. Under
    ``ADD_REMOVE`` one table has a row more, and the number of rows is private.
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
        """Whether the number of rows may be used and published."""
        return self is Adjacency.REPLACE_ONE
