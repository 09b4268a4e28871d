r"""The records of an owner, and the two private releases that its answers are made of.

The first is a basis, `PrivatePCA` with a share of the owner's budget. The second is about the basis
U that the coordinator made of all answers: `inside`, the shares of variance along U of rows scaled
to unit length, or, if variances are asked for, `PrivateCovariance` on

.. math:: y = U'(x - c_1)

with c_1 the centre that the first release had to find, and on lengths of rows beside U. The whole
(epsilon, delta) stands for a mu; the first release has ``share`` of its square, the second the
largest strength with which both together, composed exactly with all searches inside, stay within
(epsilon, delta).

U may be anything, chosen by somebody who knows the first release: y is a function of its own record
and of U, and is clipped at a length that is stated or privately found, or scaled to unit length,
before noise of that size is added. What the second costs does not depend on the first, as
composition needs it: the number of components and the unit are fixed before both. So the ledger is
charged for both before the first; the second leaves a note. Proof: docs/proofs/owner.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import LARGEST_NORM, Clip
from eigenveil.data.gram import public_rows
from eigenveil.data.sources import (
    ArraySource,
    OutsideSource,
    ProjectedSource,
    RowSource,
    ScaledSource,
    as_table,
    open_rows,
)
from eigenveil.data.sources.frames import is_frame, names
from eigenveil.estimators.base import Asked
from eigenveil.estimators.bounds import RowNorm, box_of, ranges_by_name
from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated.messages import (
    WEAKEST,
    BasisAnswer,
    BasisQuestion,
    Invitation,
    Message,
    ValuesAnswer,
)
from eigenveil.federated.settings import OwnerSettings
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.inside import Inside
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.planner.stages import Centring, too_few
from eigenveil.privacy.accounting import compose, epsilon_of, split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import NOTHING, Cost, Gaussian
from eigenveil.privacy.guarantee import (
    Guarantee,
    Numerics,
    guarantee_from_dict,
    guarantee_to_dict,
)
from eigenveil.privacy.ledger import Ledger

__all__ = ["Answer", "Records"]

_DIRECTIONS = ("spherical", "tangent")  # which use no length of rows
_REST_SHARE = 0.2  # of mu^2 of the second release, for the variance beside the basis

Answer = tuple[Message, dict[str, Any]]  # and what is noted beside it


class Records:
    """The rows of an owner: read in every round, and charged for before anything of them is seen.

    Parameters
    ----------
    settings : OwnerSettings
        What is public.
    rows : path, array, frame or RowSource
        The records.
    ledger : Ledger or None
        Charged before every draw; None in a simulation.

    """

    def __init__(self, settings: OwnerSettings, rows: Any, ledger: Ledger | None) -> None:
        self.settings, self._ledger = settings, ledger
        self.names, self._rows = _opened(rows, settings)
        if not self._rows.rereadable:
            raise InvalidDataError("both rounds read the rows: give a file or an array")
        self._ranges = settings.bounds
        if isinstance(settings.bounds, Mapping):
            self._ranges = ranges_by_name(settings.bounds, self.names)
        self.scale = _scale(settings, self.n_columns)
        self._priced: tuple[tuple[int, int, str], Cost] | None = None  # the newest: others choose

    @property
    def n_columns(self) -> int:
        """Public."""
        return self._rows.n_columns

    @property
    def n_records(self) -> int:
        """Public: what is replaced keeps it."""
        return public_rows(self._rows)

    def check(self, asked: Invitation) -> None:
        """Refuse, as far as public numbers tell, what could not be answered to the end or paid."""
        terms = (asked.n_components, asked.n_directions, asked.unit)
        if self._priced is None or self._priced[0] != terms:
            self._priced = terms, self._price(asked)
        _, price = self._priced
        if self._ledger is not None:
            unit = self._rows.protects
            self._ledger.check(price, adjacency=Adjacency.REPLACE_ONE, unit=unit)

    def _price(self, asked: Invitation) -> Cost:
        """What both releases will be charged; it follows from public numbers."""
        first = self._pca(asked)._price(self._rows)
        left = _left(self.settings.budget, first)
        if asked.unit == "shares":
            return compose(first, Gaussian(left))
        rows, clip = self._about(np.zeros(self.n_columns))
        some = np.eye(self.n_columns, asked.n_components)  # none is known yet, and all cost as much
        norm = self._norm(left, clip)
        if asked.n_components < self.n_columns:
            beside = self._beside(left, norm)._price(OutsideSource(rows, clip, some))
            first = compose(first, beside)
        inside = self._gauss(self.settings.budget, norm, first)
        return compose(first, inside._price(ProjectedSource(rows, clip, some)))

    def paid(self, name: str) -> bool:
        """Whether the ledger holds a charge for a round."""
        labels = {self._label(name), self._label(f"{name}, beside")}
        entries = () if self._ledger is None else self._ledger.entries
        return any(entry.label in labels for entry in entries)

    def basis(self, asked: BasisQuestion) -> Answer:
        """The first release, and what the second needs of it."""
        settings, sent = self.settings, asked.n_directions
        more = sent > asked.n_components
        self.check(asked)
        pca = self._pca(asked)
        # For both answers: chosen one by one, their costs would add up to more (`filters`).
        pca._charge = None if self._priced is None else self._priced[1]
        pca.fit(self._rows)
        promise = replace(
            pca.privacy_,
            budget=settings.budget,
            bounds=tuple(f"basis: {words}" for words in pca.privacy_.bounds),
            ledger=_receipt(pca.privacy_.ledger),
        )
        answer = BasisAnswer(
            federation=settings.federation,
            owner=settings.owner,
            guarantee=guarantee_to_dict(promise),
            basis=np.ascontiguousarray(pca.components_[:sent].T),
            strengths=_strengths(pca.explained_variance_, sent) if more else np.ones(sent),
        )
        centre = (pca.mean_ / pca.scale_).tolist()
        return answer, {
            "guarantee": answer.guarantee,
            "centre": centre,
            "centred": pca.plan_.centring != "paired",
            "n_components": asked.n_components,
            "unit": asked.unit,
        }

    def values(self, basis: NDArray[np.float64], notes: Mapping[str, Any]) -> Answer:
        """The second release, inside any orthonormal basis."""
        settings, first = self.settings, guarantee_from_dict(notes["guarantee"])
        left = _left(self.settings.budget, first.cost)
        if notes["unit"] == "shares":
            found, promise = self._shares(basis, left, first, notes)
        else:
            # Beside as many directions as columns there is nothing.
            whole = basis.shape[0] == basis.shape[1]
            rest, promise = (0.0, first) if whole else self._rest(basis, left, first, notes)
            found, promise = self._variances(basis, left, promise, notes)
            found = replace(found, rest=rest)
        answer = ValuesAnswer(
            federation=settings.federation,
            owner=settings.owner,
            guarantee=guarantee_to_dict(promise),
            rest=found.rest,
            noise_scale=found.noise_scale,
            centred=found.centred,
            matrix=(found.matrix + found.matrix.T) / 2,
            centre=found.centre,
        )
        return answer, {}

    def _label(self, name: str) -> str:
        """By which the ledger knows a charge of this federation; it makes each once."""
        return f"{self.settings.federation} {name}"

    def _pca(self, asked: Invitation) -> PrivatePCA:
        """The first release, with its share of the budget."""
        settings = self.settings
        first = _first_budget(settings.budget, settings.share)
        sent = asked.n_directions
        more = sent > asked.n_components
        pca = _Basis(
            min(sent + more, asked.n_columns),  # the next one tells how strong these are
            epsilon=first.epsilon,
            delta=first.delta,
            mechanism=settings.mechanism,
            row_norm=None if self._directions else settings.row_norm,
            bounds=self._ranges,
            assume_centered=settings.assume_centered,
            centring=self._centring(asked.unit),
            scale=self.scale,
            lazy=settings.lazy,
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
            ledger=self._ledger,
            random_state=settings.random_state,
        )
        pca._label = self._label("basis")
        return pca

    def _centring(self, unit: str) -> Literal["mean", "located", "paired"] | None:
        """Variances need a centre that is known, which differences of pairs do not have."""
        settings = self.settings
        free = settings.centring is None and not settings.assume_centered
        return "located" if free and unit == "variances" and self._directions else settings.centring

    @property
    def _directions(self) -> bool:
        return self.settings.mechanism in _DIRECTIONS

    def _shares(
        self, basis: NDArray[np.float64], mu: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_Inside", Guarantee]:
        """Of rows scaled to unit length about the first centre, or of differences of pairs."""
        centre, known = np.array(notes["centre"]), bool(notes["centred"])
        step = Inside(mu=mu, basis=basis, paired=not known)
        unit = self._rows.protects
        seed = self.settings.random_state
        gate = Gate(
            step.cost(),
            label=self._label("values"),
            adjacency=before.adjacency,
            ledger=self._ledger,
            noise=SystemSource() if seed is None else SimulationSource(seed + 1),
            protects=unit,
            once=True,
            charge=NOTHING,  # the first answer was charged for both
        )
        noisy = step.run(*self._about(centre), gate)
        found = _Inside(
            matrix=noisy.matrix,
            rest=1 - float(np.trace(noisy.matrix)),
            centre=basis.T @ centre if known else np.zeros(basis.shape[1]),
            centred=known,
            noise_scale=noisy.noise_scale,
        )
        promise = replace(
            before,
            cost=gate.total,
            bounds=(f"none needed for shares: {'' if known else 'pairs of '}rows of unit length",),
            numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
            ledger=gate.receipt,
        )
        return found, _together(before, promise)

    def _rest(
        self, basis: NDArray[np.float64], left: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple[float, Guarantee]:
        """The variance beside the basis, of lengths clipped where that is stated or found."""
        rows, clip = self._about(np.array(notes["centre"]))
        norm = self._norm(left, clip)
        covariance = self._beside(left, norm).fit(OutsideSource(rows, clip, basis))
        promise = replace(covariance.privacy_, budget=self.settings.budget)
        return float(covariance.covariance_[0, 0]), _together(before, promise)

    def _norm(self, left: float, clip: Clip) -> RowNorm:
        """Where lengths are clipped: as stated, privately found, or where stated bounds end.

        The last only where there are too few rows to find any, as it is longer than most rows.
        """
        stated = self.settings.row_norm
        if clip.box is None or stated is not None:
            return "private" if stated is None else stated
        if not too_few(Allowance(left, pure=False).part(_REST_SHARE), self.n_records):
            return "private"
        low, high = clip.box
        centre = 0.0 if clip.centre is None else clip.centre
        return float(np.linalg.norm(np.maximum(high - centre, centre - low)))

    def _beside(self, left: float, norm: RowNorm) -> PrivateCovariance:
        settings = self.settings
        part = _part(left, _REST_SHARE, settings.delta * (1 - settings.share))
        covariance = self._gauss(part, norm)
        covariance.assume_centered, covariance._label = True, self._label("values, beside")
        return covariance

    def _gauss(self, budget: Budget, norm: RowNorm, spent: Cost | None = None) -> PrivateCovariance:
        """A matrix as it is, so that averages have no bias."""
        settings = self.settings
        covariance = _Moments(
            epsilon=budget.epsilon,
            delta=budget.delta,
            mechanism="gauss",
            row_norm=norm,
            assume_centered=settings.assume_centered,
            on_invalid=settings.on_invalid,
            ledger=self._ledger,
            random_state=settings.random_state,
        )
        covariance._label, covariance._spent = self._label("values"), spent
        covariance._charge = NOTHING  # the first answer was charged for both
        return covariance

    def _variances(
        self, basis: NDArray[np.float64], left: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_Inside", Guarantee]:
        """In the units of the data, about a centre that is found anew."""
        centre = np.array(notes["centre"])
        rows, clip = self._about(centre)
        covariance = self._gauss(self.settings.budget, self._norm(left, clip), before.cost)
        covariance.fit(ProjectedSource(rows, clip, basis))
        found = _Inside(
            matrix=covariance.covariance_,
            rest=0.0,
            centre=covariance.location_ + basis.T @ centre,
            centred=True,
            noise_scale=covariance.noise_scale_,
        )
        return found, _together(before, covariance.privacy_)

    def _about(self, centre: NDArray[np.float64]) -> tuple[RowSource, Clip]:
        """Rows in scaled units, and how they are read: about the centre of the first answer."""
        settings, scale = self.settings, self.scale
        box = None
        if self._ranges is not None:
            low, high = box_of(self._ranges, self.n_columns)
            box = (low, high) if scale is None else (low / scale, high / scale)
        clip = Clip(
            row_norm=LARGEST_NORM,
            centre=centre,
            box=box,
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
        )
        return self._rows if scale is None else ScaledSource(self._rows, scale), clip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Inside:
    """What was released inside a basis."""

    matrix: NDArray[np.float64]
    rest: float  # beside the basis
    centre: NDArray[np.float64]
    centred: bool
    noise_scale: float


class _Basis(PrivatePCA):
    """With noise there are as many directions as columns, however few rows an owner has.

    But one row has no pair: that is known before anybody counts on the owner.
    """

    def _centring(self, asked: Asked) -> Centring:
        centring = super()._centring(asked)
        if centring == "paired" and asked.n_rows == 1:
            raise InvalidParameterError(
                "one record has no other to make a pair with: state centring='located' or "
                "assume_centered, or stay away"
            )
        return centring

    def _wanted(self, source: RowSource, n: int | None) -> int:
        return super()._wanted(source, None)


class _Moments(PrivateCovariance):
    """Of lengths that other bounds say nothing about."""

    def _too_few(self) -> InvalidParameterError:
        return InvalidParameterError(
            "too few rows to find their length, which variances need: state row_norm or bounds"
        )


def _strengths(values: NDArray[np.float64], sent: int) -> NDArray[np.float64]:
    """Roots of what eigenvalues are above the first that is not sent, the strongest 1.

    Directions that all owners have but that are none of the leading ones would else count as much.
    """
    above = values[:sent] - (values[sent] if len(values) > sent else 0.0)
    strongest = float(above[0])
    if strongest <= 0:
        return np.ones(sent)
    return np.asarray(np.clip(np.sqrt(np.maximum(above, 0.0) / strongest), WEAKEST, 1.0))


@lru_cache(maxsize=64)
def _first_budget(whole: Budget, share: float) -> Budget:
    """The (epsilon, delta) of ``share`` of mu^2, at that share of delta."""
    assert whole.delta is not None  # the settings have both
    return _part(whole_strength(whole, pure=False), share, whole.delta)


@lru_cache(maxsize=64)
def _left(whole: Budget, first: Cost) -> float:
    """The mu that a budget buys beside a first release."""
    return strength(whole, lambda mu: compose(first, Gaussian(mu)), Inside.name)


def _part(mu: float, share: float, delta: float) -> Budget:
    """The (epsilon, delta) of ``share`` of mu^2, at that share of a delta."""
    (own,) = split(mu, (share,))
    return Budget(epsilon=epsilon_of(Gaussian(own), share * delta), delta=share * delta)


def _together(before: Guarantee, after: Guarantee) -> Guarantee:
    """The promise for what was released before and after."""
    exact = before.numerics is after.numerics is Numerics.EXACT
    receipts = [receipt for receipt in (before.ledger, _receipt(after.ledger)) if receipt]
    return replace(
        after,
        budget=before.budget,
        cost=compose(before.cost, after.cost),
        bounds=(*before.bounds, *(f"values: {words}" for words in after.bounds)),
        numerics=Numerics.EXACT if exact else Numerics.IDEALISED,
        ledger=" and ".join(receipts) or None,
    )


def _receipt(receipt: str | None) -> str | None:
    """Number and hash of an entry, without the name of the ledger's file."""
    if receipt is None:
        return None
    entry, number, _ = receipt.split(" ", 2)
    return f"{entry} {number} {receipt[receipt.rindex('(') :]}"


def _opened(rows: Any, settings: OwnerSettings) -> tuple[tuple[str, ...] | None, RowSource]:
    """Names of the columns, their own or their owner's, and the rows."""
    columns = None if settings.columns is None else tuple(settings.columns)
    source: RowSource
    if is_frame(rows) and settings.unit is None:
        source = ArraySource(as_table(rows), names(rows))
    else:
        by_name = isinstance(rows, (str, Path)) and Path(rows).suffix.lower() != ".npy"
        source = open_rows(rows, columns if by_name else None, settings.unit)
    found = source.feature_names
    if columns is None or found == columns:
        return found, source
    if found is not None or len(columns) != source.n_columns:
        raise InvalidParameterError(
            "columns chooses from CSV and parquet files only: name all columns of this table, in "
            "their order, or leave columns out"
        )
    return columns, source  # the owner's word: it has no names itself


def _scale(settings: OwnerSettings, n_columns: int) -> NDArray[np.float64] | None:
    """One number for each column; `PrivatePCA` checks them before it reads anything."""
    if settings.scale is None:
        return None
    try:
        return np.array(np.broadcast_to(settings.scale, (n_columns,)), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("scale must be one positive number for each column") from None
