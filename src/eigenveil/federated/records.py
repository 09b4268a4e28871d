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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.results import component_result
from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import public_rows
from eigenveil.exact.row_maps import LengthOutside, Project
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, LedgerError
from eigenveil.federated.messages import (
    WEAKEST,
    BasisAnswer,
    BasisQuestion,
    Invitation,
    Message,
    ValuesAnswer,
)
from eigenveil.federated.owner_plans import (
    ADJACENCY,
    OwnerPlans,
    second_strength,
    short_receipt,
    together,
)
from eigenveil.federated.projected_moment import ProjectedMoment
from eigenveil.federated.settings import OwnerSettings
from eigenveil.mechanisms.gate import Gate
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource
from eigenveil.planning.execution import FitResult, execute
from eigenveil.planning.plans import Plan
from eigenveil.planning.request import Request, public_scale
from eigenveil.privacy.accounting import compose, covers
from eigenveil.privacy.cost import NOTHING, Cost, Gaussian
from eigenveil.privacy.guarantee import Guarantee, Numerics, guarantee_from_dict, guarantee_to_dict
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.rows.base import RowSource
from eigenveil.rows.frames import as_table, is_frame, names
from eigenveil.rows.maps import Divide
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.open import open_rows


def open_owned(
    rows: Any, wanted: Iterable[str] | None, unit: str | None
) -> tuple[tuple[str, ...] | None, RowSource]:
    """Return the names of the columns, their own or their owner's, and the rows."""
    columns = None if wanted is None else tuple(wanted)
    source: RowSource
    if is_frame(rows) and unit is None:
        source = ArraySource(as_table(rows), names(rows))
    else:
        by_name = isinstance(rows, (str, Path)) and Path(rows).suffix.lower() != ".npy"
        source = open_rows(rows, columns if by_name else None, unit)
    found = source.schema.feature_names
    if columns is None or found == columns:
        return found, source
    if found is not None or len(columns) != source.n_columns:
        raise InvalidParameterError(
            "columns chooses from CSV and parquet files only: name all columns of this table, in "
            "their order, or leave columns out"
        )
    return columns, source  # the owner's word: it has no names itself


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
        self.names, self._rows = open_owned(rows, settings.columns, settings.unit)
        if not self._rows.rereadable:
            raise InvalidDataError("both rounds read the rows: give a file or an array")
        self._box, self._by_column = Request.ranges(settings.bounds, self.names, self.n_columns)
        self.scale = public_scale(settings.scale, self.n_columns)

    @property
    def n_columns(self) -> int:
        """Public."""
        return self._rows.n_columns

    @property
    def n_records(self) -> int:
        """Public: what is replaced keeps it."""
        return public_rows(self._rows)

    @property
    def _plans(self) -> OwnerPlans:
        return OwnerPlans(
            settings=self.settings,
            n_columns=self.n_columns,
            n_records=self.n_records,
            unit=self._rows.units.protects,
            box=self._box,
            box_by_column=self._by_column,
            scale=self.scale,
        )

    def check(self, asked: Invitation) -> Cost:
        """Return what both answers will be charged, which follows from public numbers.

        Refuse, as far as these tell, what could not be answered to the end or paid.
        """
        price = self._price(asked)
        if self._ledger is not None:
            self._ledger.check(price, adjacency=ADJACENCY, unit=self._rows.units.protects)
        return price

    def _price(self, asked: Invitation) -> Cost:
        first = self._plans.basis(asked).cost
        left = second_strength(self.settings.budget, first)
        if asked.unit == "shares":
            return compose(first, Gaussian(left))
        rows, clip = self._about(np.zeros(self.n_columns))
        some = np.eye(self.n_columns, asked.n_components)  # none is known yet, and all cost as much
        norm = self._plans.norm(left, clip)
        if asked.n_components < self.n_columns:
            outside = self._plans.outside(rows.map(LengthOutside(clip, some)), left, norm)
            first = compose(first, outside.cost)
        inside = self._plans.inside(rows.map(Project(clip, some)), norm, first)
        return compose(first, inside.cost)

    def charged(self, name: str) -> Entry | None:
        """Return the ledger's entry of a round, where it has one."""
        labels = {self._label(name), self._label(f"{name}, beside")}
        entries = () if self._ledger is None else self._ledger.entries
        return next((entry for entry in entries if entry.label in labels), None)

    def basis(self, asked: BasisQuestion) -> Answer:
        """Return the first release, and what the second needs of it."""
        settings, sent = self.settings, asked.n_directions
        more = sent > asked.n_components
        # Charged for both answers: chosen one by one, their costs would add up to more (`filters`).
        fitted = self._executed(
            self._plans.basis(asked), self._rows, "basis", charge=self.check(asked)
        )
        promise = replace(
            fitted.guarantee,
            budget=settings.budget,
            bounds=tuple(f"basis: {words}" for words in fitted.guarantee.bounds),
            ledger=short_receipt(fitted.guarantee.ledger),
        )
        released, unscaled = fitted.result, np.ones(self.n_columns)
        found = component_result(
            released.inner.components,
            centre=released.centre,
            centre_error=released.centre_error,
            scale=unscaled if self.scale is None else self.scale,
            shares=fitted.plan.normalise,
            per_row=fitted.per_row,
        )
        answer = BasisAnswer(
            federation=settings.federation,
            owner=settings.owner,
            guarantee=guarantee_to_dict(promise),
            basis=np.ascontiguousarray(found.components[:sent].T),
            strengths=_strengths(found.explained_variance, sent) if more else np.ones(sent),
        )
        return answer, {
            "guarantee": answer.guarantee,
            # Of pairs of rows, which have none, the origin: variances then find their own.
            "centre": np.nan_to_num(found.mean / found.scale).tolist(),
            "centred": not released.differences,
            "n_components": asked.n_components,
            "unit": asked.unit,
        }

    def values(self, basis: NDArray[np.float64], notes: Mapping[str, Any]) -> Answer:
        """Return the second release, inside any orthonormal basis."""
        settings, first = self.settings, guarantee_from_dict(notes["guarantee"])
        left = second_strength(self.settings.budget, first.cost)
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
        """Return the label by which the ledger knows a charge, which it makes once."""
        return f"{self.settings.federation} {name}"

    def _executed(
        self, planned: Plan, rows: RowSource, name: str, charge: Cost = NOTHING
    ) -> FitResult[Any]:
        """Carry a plan out; by default the first answer was charged for it."""
        return execute(
            planned,
            rows,
            ledger=self._ledger,
            noise=self._noise(),
            label=self._label(name),
            charge=charge,
        )

    def _require_paid(self, cost: Cost) -> None:
        """Refuse an answer that the charge for the first one does not cover."""
        paid = self.charged("basis")
        if self._ledger is not None and (paid is None or not covers(paid.cost, cost)):
            raise LedgerError(
                "the ledger does not hold a charge for both answers: start a new federation"
            )

    def _noise(self, more: int = 0) -> NoiseSource:
        seed = self.settings.random_state
        return SystemSource() if seed is None else SimulationSource(seed + more)

    def _shares(
        self, basis: NDArray[np.float64], mu: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_InsideProcedure", Guarantee]:
        """Release shares of unit rows about the first centre, or of differences of pairs."""
        centre, known = np.array(notes["centre"]), bool(notes["centred"])
        step = ProjectedMoment(mu=mu, basis=basis, paired=not known)
        self._require_paid(compose(before.cost, step.cost()))
        gate = Gate(
            step.cost(),
            label=self._label("values"),
            adjacency=before.adjacency,
            ledger=self._ledger,
            noise=self._noise(more=1),
            protects=self._rows.units.protects,
            once=True,
            charge=NOTHING,  # the first answer was charged for both
        )
        noisy = step.run(*self._about(centre), gate)
        found = _InsideProcedure(
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
        return found, together(before, promise)

    def _rest(
        self, basis: NDArray[np.float64], left: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple[float, Guarantee]:
        """Return the variance outside the basis, of lengths clipped as stated or found."""
        rows, clip = self._about(np.array(notes["centre"]))
        lengths = rows.map(LengthOutside(clip, basis))
        planned = self._plans.outside(lengths, left, self._plans.norm(left, clip))
        self._require_paid(compose(before.cost, planned.cost))
        fitted = self._executed(planned, lengths, "values, beside")
        promise = replace(fitted.guarantee, budget=self.settings.budget)
        return float(fitted.result.inner.matrix[0, 0]), together(before, promise)

    def _variances(
        self, basis: NDArray[np.float64], left: float, before: Guarantee, notes: Mapping[str, Any]
    ) -> tuple["_InsideProcedure", Guarantee]:
        """Return variances in the units of the data, about a centre that is found anew."""
        centre = np.array(notes["centre"])
        rows, clip = self._about(centre)
        inside = rows.map(Project(clip, basis))
        norm = self._plans.norm(left, clip)
        planned = self._plans.inside(inside, norm, before.cost, centred=bool(notes["centred"]))
        self._require_paid(compose(before.cost, planned.cost))
        fitted = self._executed(planned, inside, "values")
        noisy, factor = fitted.result.inner, fitted.result.pair_factor**2
        paired = fitted.result.differences  # which leave the first centre, if there was one
        found = _InsideProcedure(
            matrix=noisy.matrix * factor,
            rest=0.0,
            centre=basis.T @ centre + (0.0 if paired else fitted.result.centre),
            centred=bool(notes["centred"]) or not paired,
            noise_scale=noisy.noise_scale * factor,
        )
        return found, together(before, fitted.guarantee)

    def _about(self, centre: NDArray[np.float64]) -> tuple[RowSource, Clip]:
        """Return rows in scaled units, and how they are read: about the first centre."""
        settings, scale, box = self.settings, self.scale, self._box
        if box is not None and scale is not None:
            box = (box[0] / scale, box[1] / scale)
        clip = Clip(
            row_norm=LARGEST_NORM,
            centre=centre,
            box=box,
            on_invalid=settings.on_invalid,
            on_missing=settings.on_missing,
        )
        return self._rows if scale is None else self._rows.map(Divide(scale)), clip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _InsideProcedure:
    """What was released inside a basis."""

    matrix: NDArray[np.float64]
    rest: float  # beside the basis
    centre: NDArray[np.float64]
    centred: bool
    noise_scale: float


def _strengths(values: NDArray[np.float64], sent: int) -> NDArray[np.float64]:
    """Roots of what eigenvalues are above the first that is not sent, the strongest 1.

    Directions that all owners have but that are none of the leading ones would else count as much.
    """
    above = values[:sent] - (values[sent] if len(values) > sent else 0.0)
    strongest = float(above[0])
    if strongest <= 0:
        return np.ones(sent)
    return np.asarray(np.clip(np.sqrt(np.maximum(above, 0.0) / strongest), WEAKEST, 1.0))
