"""Plans of an owner's two releases, and the split of its budget between them."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError, TooFewRowsError
from eigenveil.federated.messages import Invitation
from eigenveil.federated.projected_moment import ProjectedMoment
from eigenveil.federated.settings import OwnerSettings
from eigenveil.mechanisms.distances import searchable
from eigenveil.mechanisms.registry import entry
from eigenveil.messages import option
from eigenveil.planning.bounds import RowNorm
from eigenveil.planning.choice import planned
from eigenveil.planning.plans import Plan, plan
from eigenveil.planning.request import Centring, Request
from eigenveil.privacy.accounting import compose, epsilon_of, part, split
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.rows.base import RowSource


@lru_cache(maxsize=64)
def first_budget(whole: Budget, share: float) -> Budget:
    """Return the (epsilon, delta) of the first answer: ``share`` of mu^2 and of delta."""
    assert whole.delta is not None  # the settings have both
    return part_of(whole_strength(whole, pure=False), share, whole.delta)


@lru_cache(maxsize=64)
def second_strength(whole: Budget, first: Cost) -> float:
    """Return the mu that a budget buys for a second answer after a first."""
    return strength(whole, lambda mu: compose(first, Gaussian(mu)), ProjectedMoment.name)


def part_of(mu: float, share: float, delta: float) -> Budget:
    """Return the (epsilon, delta) of ``share`` of mu^2, at that share of a delta."""
    (own,) = split(mu, (share,))
    return Budget(epsilon=epsilon_of(Gaussian(own), share * delta), delta=share * delta)


def together(before: Guarantee, after: Guarantee) -> Guarantee:
    """Return the promise for what was released before and after."""
    exact = before.numerics is after.numerics is Numerics.EXACT
    receipts = [receipt for receipt in (before.ledger, short_receipt(after.ledger)) if receipt]
    return replace(
        after,
        budget=before.budget,
        cost=compose(before.cost, after.cost),
        bounds=(*before.bounds, *(f"values: {words}" for words in after.bounds)),
        numerics=Numerics.EXACT if exact else Numerics.IDEALISED,
        ledger=" and ".join(receipts) or None,
    )


def short_receipt(receipt: str | None) -> str | None:
    """Return number and hash of an entry, without the name of the ledger's file."""
    if receipt is None:
        return None
    entry, number, _ = receipt.split(" ", 2)
    return f"{entry} {number} {receipt[receipt.rindex('(') :]}"


ADJACENCY = Adjacency.REPLACE_ONE  # owners declare how many records they have
_REST_SHARE = 0.2  # of mu^2 of the second release, for the variance outside the basis


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnerPlans:
    """What an owner states about its records, and the plans that follow. Fields are public.

    Attributes
    ----------
    settings : OwnerSettings
        What the owner agreed to.
    n_columns, n_records : int
        Size of the table.
    unit : Unit
        What is protected.
    box : pair of arrays or None
        Stated ranges; ``box_by_column`` says whether one for every column.
    scale : array or None
        Stated scales of columns.

    """

    settings: OwnerSettings
    n_columns: int
    n_records: int
    unit: Unit
    box: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    box_by_column: bool
    scale: NDArray[np.float64] | None

    def basis(self, asked: Invitation) -> Plan:
        """Plan the first release, with its share of the budget."""
        settings = self.settings
        sent = asked.n_directions
        more = sent > asked.n_components  # the next one tells how strong these are
        request = Request(
            releases="components",
            budget=first_budget(settings.budget, settings.share),
            adjacency=ADJACENCY,
            unit=self.unit,
            n_columns=self.n_columns,
            n_rows=self.n_records,
            entry=None if settings.mechanism == "auto" else self._entry,
            n_components=min(sent + more, asked.n_columns),
            row_norm=settings.row_norm if self._uses_lengths else None,
            box=self.box,
            box_by_column=self.box_by_column,
            scale=self.scale,
            centring=self._centring(asked.unit),
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
            # With noise there are as many directions as columns, however few rows an owner has.
            every_direction=True,
        )
        return planned(request)

    @property
    def _entry(self) -> Any:
        return entry("components", self.settings.mechanism)

    @property
    def _uses_lengths(self) -> bool:
        return self.settings.mechanism == "auto" or self._entry.uses_lengths

    def _centring(self, unit: str) -> Centring | None:
        """Return how the centre is found: variances need one, which pairs of rows do not have.

        An owner of one record, as in the local model, has neither: its centre is the origin.
        """
        if self.settings.centring is None and self.n_records == 1:
            return "none"
        free = self.settings.centring is None and not self._uses_lengths
        return "located" if free and unit == "variances" else self.settings.centring

    def norm(self, left: float, clip: Clip) -> RowNorm:
        """Return where lengths are clipped: as stated, privately found, or where bounds end.

        The last only where there are too few rows to find any, as it is longer than most rows.
        """
        stated = self.settings.row_norm
        if clip.box is None or stated is not None:
            return "private" if stated is None else stated
        if searchable(part(Gaussian(left), _REST_SHARE), self.n_records):
            return "private"
        low, high = clip.box
        centre = 0.0 if clip.centre is None else clip.centre
        return float(np.linalg.norm(np.maximum(high - centre, centre - low)))

    def outside(self, lengths: RowSource, left: float, norm: RowNorm) -> Plan:
        """Plan the variance outside the basis, at its share of what is left."""
        settings = self.settings
        budget = part_of(left, _REST_SHARE, settings.delta * (1 - settings.share))
        return self._moment(lengths, budget, norm, "none", None)

    def inside(self, rows: RowSource, norm: RowNorm, spent: Cost, *, centred: bool = True) -> Plan:
        """Plan the second moment inside the basis, with all that is left of the budget.

        About a first centre a stated length holds for a mean too.
        """
        settings = self.settings
        centring: Centring | None = "none" if settings.centring == "none" else None
        if centring is None and centred and not isinstance(norm, str):
            centring = "mean"
        return self._moment(rows, settings.budget, norm, centring, spent)

    def _moment(
        self,
        rows: RowSource,
        budget: Budget,
        norm: RowNorm,
        centring: Centring | None,
        spent: Cost | None,
    ) -> Plan:
        """Plan a matrix as it is, so that averages have no bias."""
        request = Request(
            releases="covariance",
            budget=budget,
            adjacency=ADJACENCY,
            unit=rows.units.protects,
            n_columns=rows.n_columns,
            n_rows=self.n_records,
            entry=entry("covariance", "gauss"),
            row_norm=norm,
            centring=centring,
            on_invalid=self.settings.on_invalid,
            spent=spent,
        )
        try:
            return plan(request)
        except TooFewRowsError:
            raise InvalidParameterError(
                "too few rows to find their length, which variances need: state ",
                option("row_norm"),
                " or ",
                option("bounds"),
            ) from None
