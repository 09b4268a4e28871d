"""PrivatePreprocessor: a pipeline's first step, which says what the columns of a table are."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator, TransformerMixin

from eigenveil.rows.base import RowSource
from eigenveil.rows.columns import Encode
from eigenveil.rows.features import Censored, Decimal
from eigenveil.rows.open import open_rows


class PrivatePreprocessor(
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Say what the columns of a table are, before a step that releases something.

    ``make_pipeline(PrivatePreprocessor(encode={"ward": "private"}), PrivatePCA(...)).fit(frame)``.
    It learns nothing from the rows: levels that are to be found are found by the step that follows,
    with its budget, in its release and its ledger. So it costs nothing by itself.

    Parameters
    ----------
    columns, unit, drop, encode, censored, as_number, decimal
        As `eigenveil.open_rows` describes them.

    """

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        unit: str | None = None,
        drop: Sequence[str] = (),
        encode: Encode | None = None,
        censored: Censored | Mapping[str, Censored] = "missing",
        as_number: Sequence[str] = (),
        decimal: Decimal | None = None,
    ) -> None:
        self.columns = columns
        self.unit = unit
        self.drop = drop
        self.encode = encode
        self.censored = censored
        self.as_number = as_number
        self.decimal = decimal

    def set_output(self, *, transform: Any = None) -> Self:
        """Return itself: what comes out is read by the next step alone."""
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return itself; nothing is read."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> RowSource:
        """Return the rows of a data frame or a file, for a step that takes sources of rows."""
        return open_rows(
            X,
            self.columns,
            self.unit,
            drop=self.drop,
            encode=self.encode,
            censored=self.censored,
            as_number=self.as_number,
            decimal=self.decimal,
        )
