"""An owner's part of a secure sum: a bounded statistic of its rows, and its share of the noise.

What one share alone costs is ``sqrt(t)`` times what the sum costs if t owners are honest: whoever
draws one hides it among the others (`eigenveil.federated.secure`). Proof:
docs/proofs/shared_noise.md.

Centre and radius of a question may be anything: a row is clipped, or scaled to unit length, before
it is added, so what one record moves is known whatever they are. What a step costs is agreed on
before the first, and does not depend on what earlier ones have shown.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded, Norm
from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import public_rows, second_moment, sums_are_exact, total
from eigenveil.exact.histograms import norm_counts
from eigenveil.exact.lattice import GAUSSIAN, add_noise
from eigenveil.exact.symmetric import add_symmetric_gaussian
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.federated.owner import ColumnsError
from eigenveil.federated.records import open_owned
from eigenveil.federated.secure.agreement import SecureAgreement, Step
from eigenveil.federated.secure.messages import SumQuestion
from eigenveil.mechanisms.analyze_gauss import directions
from eigenveil.mechanisms.centre import drawn_pairs
from eigenveil.mechanisms.gate import Gate
from eigenveil.numerics.random import NoiseSource
from eigenveil.planning.bounds import OnInvalid, OnMissing
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.privacy.shared_noise import SharedNoise
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShare:
    """Add one share of a noise to a query. Fields are public, never data."""

    name: ClassVar[str] = "noise-share"
    exact: ClassVar[bool] = True
    noise: SharedNoise

    def cost(self) -> Cost:
        """Cost of the sum if as many owners are honest as the noise counts on."""
        return Gaussian(self.noise.mu())

    def alone(self) -> Cost:
        """Cost of this share if nobody else keeps its own secret."""
        return Gaussian(self.noise.mu(1))

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.int64]:
        """Return whole multiples of the grid: a vector, or the upper triangle of a matrix."""
        shared = self.noise
        shape = (shared.columns,) * (2 if shared.symmetric else 1)
        norm: Norm = "frobenius" if shared.symmetric else "l2"
        if query.value.units.shape != shape or query.sensitivity(norm) > shared.sensitivity:
            raise InvalidParameterError("the share was calibrated for another query")
        value = query.value.refined(shared.grid)  # counts too: rounding is part of the proof
        if shared.symmetric:
            return packed(
                add_symmetric_gaussian(value, shared.scale, noise, grid=shared.grid).units
            )
        return add_noise(value, shared.scale, noise, law=GAUSSIAN, grid=shared.grid).units


def packed(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def unpacked(entries: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """Return the symmetric matrix of an upper triangle."""
    matrix = np.zeros((d, d), dtype=np.int64)
    upper = np.triu_indices(d)
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


_ADJACENCY = Adjacency.REPLACE_ONE  # how many records an owner has is in the agreement


class Sums:
    """The rows of an owner, read for every step, and the ledger that is charged before.

    Parameters
    ----------
    agreement : SecureAgreement
        What is summed.
    name : str
        Of the owner.
    rows : path, array, frame or RowSource
        The records.
    ledger : Ledger or None
        Charged before every draw; None in a simulation.
    noise : NoiseSource
        Where random bits come from.
    on_invalid, on_missing
        As in `PrivatePCA`.

    """

    def __init__(
        self,
        agreement: SecureAgreement,
        name: str,
        rows: Any,
        ledger: Ledger | None,
        noise: NoiseSource,
        *,
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
    ) -> None:
        self._agreement, self._name = agreement, name
        self._ledger, self._noise = ledger, noise
        self._on_invalid, self._on_missing = on_invalid, on_missing
        names, source = open_owned(rows, agreement.columns, agreement.unit)
        if not source.rereadable:
            raise InvalidDataError("every step reads the rows: give a file or an array")
        if not sums_are_exact():  # as the agreement promises for every owner
            raise InvalidDataError(
                "this machine's BLAS does not add up integers exactly: install another numpy"
            )
        self._names, self._rows = names, source
        if agreement.scale is not None and source.n_columns == agreement.n_columns:
            self._rows = source.map(Divide(np.array(agreement.scale)))

    def check(self) -> None:
        """Refuse, as far as public numbers tell, what could not be answered to the end or paid."""
        agreed = self._agreement
        if self._rows.n_columns != agreed.n_columns or (
            None not in (agreed.columns, self._names) and self._names != agreed.columns
        ):
            raise ColumnsError("this table has other columns than agreed: compare their names")
        found, known = public_rows(self._rows), agreed.owners[self._name].records
        if found != known:
            raise InvalidParameterError(
                f"the agreement has {known:,} records for {self._name} and the table {found:,}: "
                "agree on the right number"
            )
        if self._ledger is None:
            return
        left = [step for step in agreed.steps if self.charged(step) is None]
        self._ledger.check_all(
            [(step.cost, step.alone) for step in left],
            adjacency=_ADJACENCY,
            unit=self._rows.units.protects,
        )

    @property
    def _groups(self) -> int | None:
        """How many persons the agreement says the owner has; None where it protects rows."""
        own = self._agreement.owners[self._name].records
        return own if self._rows.units.protects.owns_many else None

    def charged(self, step: Step) -> Entry | None:
        """Return the ledger's entry of a step, where it has one."""
        entries = () if self._ledger is None else self._ledger.entries
        return next((entry for entry in entries if entry.label == self._label(step)), None)

    def look(self, step: Step, asked: SumQuestion) -> None:
        """Read the rows as the step will, so that what stops it is known before the roll."""
        if step.kind == "pairs":
            for chunk, _ in self._rows.unit_tables():
                self._clip(asked).check(chunk)
        else:
            self._query(step, self._clip(asked))

    def share(self, step: Step, asked: SumQuestion) -> NDArray[np.int64]:
        """Charge the ledger, then return the owner's sum with its share of the noise."""
        gate = Gate(
            step.cost,
            label=self._label(step),
            adjacency=_ADJACENCY,
            ledger=self._ledger,
            noise=self._noise,
            protects=self._rows.units.protects,
            once=True,
            alone=step.alone,
            groups=self._groups,
        )
        clip = self._clip(asked)
        if step.kind == "pairs":
            pairs, _ = drawn_pairs(self._rows, clip, gate)
            about = directions(replace(clip, centre=None, box=None))
            query = second_moment(pairs, about, _ADJACENCY)
        else:
            query = self._query(step, clip)
        return gate.draw(NoiseShare(noise=step.noise), query)

    def _query(self, step: Step, clip: Clip) -> Bounded:
        source: RowSource = self._rows
        match step.kind:
            case "distances":
                return norm_counts(source, replace(clip, row_norm=LARGEST_NORM), _ADJACENCY)
            case "mean":
                return total(source, clip, _ADJACENCY)
            case "directions":
                return second_moment(source, directions(clip), _ADJACENCY)
            case _:
                return second_moment(source, clip, _ADJACENCY)

    def _clip(self, asked: SumQuestion) -> Clip:
        return Clip(
            row_norm=asked.radius,
            centre=asked.centre,
            box=self._agreement.box,
            on_invalid=self._on_invalid,
            on_missing=self._on_missing,
        )

    def _label(self, step: Step) -> str:
        """Return the label by which the ledger knows a charge, which it makes once."""
        return f"{self._agreement.federation} {step.name} (if {self._agreement.honest} are honest)"
