"""How an owner takes part in a federation."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.messages import check_name
from eigenveil.mechanisms.registry import entries
from eigenveil.planning.bounds import OnInvalid, OnMissing, RowNorm
from eigenveil.planning.request import Centring
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnerSettings:
    """How an owner takes part; all of it public.

    Attributes
    ----------
    owner, federation : str
        Names. Questions of another federation are refused.
    epsilon, delta : float
        The whole budget, for both answers.
    share : float
        Of mu^2, for the basis; the same for all owners.
    mechanism : str
        Of the basis: any of `PrivatePCA` that needs no model.
    row_norm : float or "private", optional
        Where rows are clipped, in units after ``scale`` and about the centre: in the first round
        unless its mechanism uses directions only, for variances in the second, by default at a
        length that is found privately or, with too few rows for that, follows from ``bounds``.
    bounds, centring, on_invalid, on_missing
        As in `PrivatePCA`; the centre of a single record, as in the local model of privacy, is the
        origin by default. In the second round entries are clamped to the bounds, and an empty cell
        lies at the centre that the first round found.
    scale : array, optional
        Public numbers that columns are divided by, the same for all owners.
    columns : sequence of str, optional
        Of a CSV or parquet file: which to use, in this order. Of a table without names, such as a
        ``.npy`` file: those of all its columns.
    unit : str, optional
        Of a file: the column that says whose a row is. All rows of one person are protected
        together.
    random_state : int, optional
        Seed of a simulation, which protects nobody.

    """

    owner: str
    federation: str
    epsilon: float
    delta: float
    share: float = 0.8
    mechanism: str = "spherical"
    row_norm: RowNorm | None = None
    bounds: Any = None
    centring: Centring | None = None
    scale: Any = None
    on_invalid: OnInvalid = "raise"
    on_missing: OnMissing = "invalid"
    columns: tuple[str, ...] | None = None
    unit: str | None = None
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_name("owner", self.owner)
        check_name("federation", self.federation)
        if self.budget.is_pure:
            raise InvalidParameterError("an owner states epsilon and delta: give both")
        worst_case = (e for e in entries("components") if e.kind is Kind.WORST_CASE)
        known = [one.name for one in worst_case]
        if self.mechanism not in known:
            listed = ", ".join(map(repr, known))
            raise InvalidParameterError(f"the mechanism of an owner must be one of: {listed}")
        number = isinstance(self.share, Real) and not isinstance(self.share, bool)
        if not (number and 0 < self.share < 1):
            raise InvalidParameterError("share must lie between 0 and 1")
        for name in ("epsilon", "delta", "share"):  # 1 and 1.0 are the same settings
            object.__setattr__(self, name, float(getattr(self, name)))
        try:
            json.dumps(self.as_dict(), allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                "the settings of an owner are finite numbers and words: leave out what has no bound"
            ) from None
        if isinstance(self.scale, str):
            raise InvalidParameterError(
                "scales are the same for all owners: give one number for each column"
            )

    @property
    def budget(self) -> Budget:
        """The budget of both answers together."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def _plain(value: Any) -> Any:
    """Return the same without arrays and numbers of numpy."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
