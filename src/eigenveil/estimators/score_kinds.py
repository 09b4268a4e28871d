"""By which levels of a category a map shows scores: stated, encoded, or to be found."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigenveil.exact.histograms import row_kinds
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows.base import RowSource
from eigenveil.rows.columns import parsed_encode
from eigenveil.rows.features import DaysSince, Feature, Levels
from eigenveil.rows.maps import ShownSource
from eigenveil.text import did_you_mean, plural, printable
from eigenveil.wording import Phrase

__all__ = ["ScoreKinds"]

_MOST_LEVELS = 50
_BY = Phrase(python="show_scores", shell="--show-scores-by", file="maps of scores")

_NAMED_TABLE = Phrase(
    python="pass a file, or open_rows(frame)",
    shell="give a file whose columns have names",
    file="give a file whose columns have names",
)


@dataclass(frozen=True, slots=True)
class ScoreKinds:
    """The column whose levels have maps of their own, and the levels; None where unknown."""

    column: str
    levels: tuple[str, ...] | None
    found: bool = False

    @classmethod
    def asked(cls, show_scores: Any, source: RowSource) -> "ScoreKinds | None":
        """Return what ``show_scores`` asks for; None where it is a map of all rows, or none."""
        if isinstance(show_scores, (bool, np.bool_)):
            return None
        column, feature = _parsed(show_scores)
        columns = source.table_columns
        if not columns or not source.rereadable:
            raise InvalidDataError(_BY, " names a column of a table: ", _NAMED_TABLE)
        if column not in columns:
            raise InvalidDataError(f"no column {column!r}: {did_you_mean(column, columns)}")
        encoded = source.encoding.get(column, {}).get("levels")
        if isinstance(feature, Levels):
            found = cls(column, feature.levels)
        else:
            found = cls(column, None if encoded is None else tuple(encoded))
        if len(found.levels or ()) > _MOST_LEVELS:
            raise InvalidParameterError(_BY, f" shows {_MOST_LEVELS} levels at most: state fewer")
        return found

    def shown(self, source: RowSource) -> ShownSource:
        """Return the rows with their kinds."""
        kinds = row_kinds(source, self.column, self.levels or ())
        how = "found privately" if self.found else "stated by the caller"
        number = f"{self.number - 1} {plural('level', self.number - 1)}"
        words = f"scores are counted by {number} of {printable(self.column)!r} {how}"
        return ShownSource(source, kinds, words)

    @property
    def number(self) -> int:
        """Number of kinds: one for each level, and one for all others."""
        return len(self.levels or ()) + 1


def _parsed(show_scores: Any) -> tuple[str, Feature]:
    """Return a column, and what is said of its levels."""
    if isinstance(show_scores, str):
        show_scores = {show_scores: "private"}
    try:
        ((column, feature),) = parsed_encode(show_scores).items()
    except ValueError:  # an InvalidParameterError is one, and so is another number of columns
        feature = None
    if feature is None or isinstance(feature, DaysSince):
        raise InvalidParameterError(_BY, " names one column, or one with a list of its levels")
    return column, feature
