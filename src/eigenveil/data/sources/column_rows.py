"""Rows of a table that has names and cells of any kind: what its readers share."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

from eigenveil.data.sources.asking import TextColumns, ask_about
from eigenveil.data.sources.columns import Columns, Reading
from eigenveil.data.sources.features import Numbers
from eigenveil.data.sources.readings import Readings
from eigenveil.data.sources.units import LabelledRows
from eigenveil.exceptions import InvalidDataError

__all__ = ["ColumnRows"]


class ColumnRows(LabelledRows):
    """A table whose columns become features as a `Reading` says."""

    feature_names: tuple[str, ...]

    def _take(self, columns: Columns, reading: Reading) -> None:
        """Set what follows from the columns that are taken."""
        self._columns = columns
        self._reading = reading
        self.feature_names = columns.titles
        self.n_columns = len(self.feature_names)
        self._are_plain = all(feature == Numbers() for _, feature in columns.features)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Columns whose levels are to be found."""
        return self._columns.undecided

    @property
    def encoding(self) -> dict[str, Any]:
        """How columns of text and dates become features."""
        return self._columns.encoding

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was done to cells, in words."""
        return self._columns.remarks

    def decided(self, levels: Mapping[str, Sequence[str]]) -> Self:
        """Return the same table, with these levels for undecided columns."""
        other = copy(self)
        other.readings = None if self.readings is None else Readings()
        other._take(self._columns.decided(levels), self._reading)
        if other.n_columns == 0:
            raise InvalidDataError("no column is left: no level of a category is known")
        return other

    def _refuse(self, text: TextColumns) -> None:
        """Refuse those of the columns of text that are taken as numbers or dates."""
        if undated := [n for n in self._reading.undated(text) if n in self._columns.names]:
            raise InvalidDataError(
                f"column {undated[0]!r} holds no dates such as 2024-01-31 or 31.1.2024: rewrite it "
                "in one of these forms, or leave it out"
            )
        names, unread = self._columns.names, self._reading.unexplained(text)
        wordy = {name: unread[name] for name in names if name in unread}
        others = [name for name in names if name not in wordy]
        ask_about([], wordy, others, named=self._reading.columns is not None)
