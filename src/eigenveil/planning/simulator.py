"""One mechanism, calibrated for a situation and simulated on an assumed table.

Nothing of a mechanism is written again: its plan is that of a fit, and it runs on assumed rows
through a stand-in of the gate (`rehearsal`).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import EigenveilError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms.additive import PrivateMean, vector_noise
from eigenveil.mechanisms.one_pass import OnePass
from eigenveil.mechanisms.power import Power
from eigenveil.mechanisms.registry import LazyMechanism, Mechanism
from eigenveil.numerics.metrics import subspace_distance
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.planning.assumed import AssumedTable
from eigenveil.planning.choice import plan_of
from eigenveil.planning.plans import Plan
from eigenveil.planning.rehearsal import BatchRehearsal, rehearse, with_drawn_rows
from eigenveil.planning.request import Situation
from eigenveil.planning.shares import centre_shares
from eigenveil.privacy.accounting import part
from eigenveil.privacy.cost import Allotment, Gaussian, Pure

MAX_COLUMNS = 20_000  # whose square matrices fit an ordinary machine: 3.2 GB each

# Directions that are simulated: as a rule, where each is drawn by itself, and with a basis.
_DIRECTIONS, _FEW_DIRECTIONS, _BASIS_DIRECTIONS = 80, 32, 200
_BRACKET = 2**0.25  # by how much a median distance, the upper end of a bracket, is too large
_FAR = math.sqrt(2)  # distance of rows from a start that lies as far from the centre as they do
_NOTHING_CAPTURED = 1.0  # error of a release that ends without finding anything

Matrix = NDArray[np.float64]


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A mechanism does not serve a situation.

    Attributes
    ----------
    error : EigenveilError
        What a fit would raise; it says why, in public numbers.

    """

    def __init__(self, error: EigenveilError) -> None:
        super().__init__(error)
        self.error = error


class Unpredicted(Exception):  # noqa: N818 - an answer, not an error
    """A mechanism serves a situation, but too little is known to predict its error."""


class Simulated(NamedTuple):
    """What one simulated release is like.

    Attributes
    ----------
    error : float
        Share of variance lost, or relative error of a matrix.
    distance : float
        Of components: that of the projectors.
    reliability : tuple of float
        Of components: what the release would state of each; empty where it states nothing.

    """

    error: float
    distance: float
    reliability: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Simulator:
    """A plan, and the directions on which it is simulated.

    Raises
    ------
    Refused
        Where the mechanism cannot serve the situation.
    Unpredicted
        Where it can, but nothing is predicted.

    """

    situation: Situation
    plan: Plan
    table: AssumedTable

    @classmethod
    def of(
        cls, situation: Situation, entry: Mechanism, asked: Situation | None = None
    ) -> "Simulator":
        """Calibrate as a fit does; ``asked`` as in `plan_of`."""
        try:
            planned = plan_of(situation, entry, asked)
            _check_size(planned)
        except EigenveilError as error:
            raise Refused(error) from None
        if situation.n is None:
            raise Unpredicted("the number of rows is private: assume one to predict an error")
        if entry.unpredicted:
            raise Unpredicted(entry.unpredicted)
        if isinstance(entry, OnePass):
            table = AssumedTable.of(situation, _BASIS_DIRECTIONS, leading=_DIRECTIONS // 2)
        else:
            most = max(_FEW_DIRECTIONS, 4 * (situation.k or 1)) if entry.slow else _DIRECTIONS
            table = AssumedTable.of(situation, most)
        return cls(situation, with_drawn_rows(planned, situation.n), table)

    @property
    def rows(self) -> int:
        """Number of rows; a guess where it is private."""
        assert self.situation.n is not None  # `of` has checked
        return self.situation.n

    def simulate(self, noise: NoiseSource) -> "Simulated":
        """Return what one release is like."""
        try:
            if isinstance(self.plan.entry, OnePass):
                return Simulated(*self._compared(*self._in_batches(noise), noise))
            truth, released = rehearse(
                self.plan,
                self.table,
                n=self.rows,
                length=self._length,
                offset=self._offset,
                reach=self._reach,
                noise=noise,
            )
        except NothingFoundError:
            nothing = (0.0,) * self.table.k
            return Simulated(_NOTHING_CAPTURED, math.sqrt(2 * self.table.k), nothing)
        if self.situation.task == "pca":
            found = released.inner.components
            missing = self.table.k - len(found.reliability)  # where columns are left out
            reliable = (*found.reliability.tolist(), *[0.0] * missing)
            return Simulated(*self._compared(truth, found.components, noise), reliable)
        per_row = 1.0 if released.noisy_count is None else 1 / released.noisy_count
        error = self.table.error(released.inner.matrix * per_row - truth)
        return Simulated(error / self._norm, 0.0)

    def _compared(self, truth: Matrix, found: Matrix, noise: NoiseSource) -> tuple[float, float]:
        """Return the share of variance lost, and the distance of the projectors."""
        table = self.table
        if self.plan.centring == "paired" and not self.plan.entry.standardises:
            # The table has the sums of its pairs beside their differences.
            other = table.sample(self.rows / 2 / table.stretch, noise)
            truth = truth / np.trace(truth) + other.moment(np.diag(table.values))
        values, best = top_eigenpairs(truth, table.k)
        lost = 1 - float(np.einsum("ij,ij->", found @ truth, found)) / float(values.sum())
        return max(0.0, lost), subspace_distance(found, best)

    @property
    def _length(self) -> float:
        """Root mean square length of a row, in units of the bound on rows."""
        return self.situation.assumed_spread

    @property
    def _offset(self) -> float:
        """How far the centre lies from the start: as far as rows vary, where it is sought."""
        return self._length if self.plan.centring == "located" else 0.0

    @property
    def _reach(self) -> float | None:
        """Where rows are clipped, in units of their length; None for unit rows."""
        if self.plan.normalise:
            return None
        stated = 1 / self._length
        return stated

    @property
    def _norm(self) -> float:
        """Frobenius norm of what is wanted, root mean square over tables."""
        energy = float(self.table.whole @ self.table.whole)
        return self._length**2 * math.sqrt(energy + (energy + 1) / self.rows)

    def _in_batches(self, noise: NoiseSource) -> tuple[Matrix, Matrix]:
        """Simulate a release that reads the rows once, about a centre that is off."""
        method = self.plan.inner(self.plan.strength)
        assert isinstance(method, OnePass)  # of such an entry
        rehearsal = BatchRehearsal(
            method,
            self.table,
            n=max(1, self.plan.n_differences or self.rows),
            d=self.situation.d,
            reach=self._reach,
        )
        error = normals(noise, (self.table.d,)) * self._centre_deviation()
        truth, found = rehearsal.run(error, noise)
        return truth * self._length**2, found

    def _centre_deviation(self) -> float:
        """Return that of the centre in one simulated direction, in units of the length of rows."""
        situation, centring = self.situation, self.plan.centring
        if centring in ("none", "paired"):
            return 0.0
        deviation = partial(_mean_deviation, situation)
        stated = situation.start / self._length
        strength = self.plan.strength
        whole: Allotment = Pure(strength) if self.plan.pure else Gaussian(strength)
        if centring == "mean":
            share = self.plan.shares["centre"]
            return deviation(part(whole, share), stated) * math.sqrt(self.table.stretch)
        error, reach = 0.0, _BRACKET * _FAR
        for share in centre_shares(self.plan)[1:]:
            error = deviation(part(whole, share), reach)
            reach = _BRACKET * math.sqrt(1 + situation.d * error**2)
        return error * math.sqrt(self.table.stretch)


def _mean_deviation(situation: Situation, allotment: Allotment, reach: float) -> float:
    """Return the standard deviation of an entry of a private mean of rows within ``reach``."""
    assert situation.n is not None  # nothing is predicted without it
    mean = PrivateMean(noise=vector_noise(allotment))
    return mean.deviation(situation.d, situation.adjacency) * reach / situation.n


def _check_size(planned: Plan) -> None:
    """Refuse matrices that do not fit an ordinary machine."""
    d, entry = planned.request.n_columns, planned.entry
    method = planned.inner(planned.strength) if planned.components else None
    if isinstance(method, (OnePass, Power)):
        width = method.width(d)
        if d * width > MAX_COLUMNS**2:
            raise InvalidParameterError(
                f"needs matrices of {d:,} x {width:,} entries: ask for fewer columns or components"
            )
    elif d > MAX_COLUMNS and not (planned.lazy or entry.batches):
        fewer = "columns or components" if isinstance(entry, LazyMechanism) else "columns"
        raise InvalidParameterError(
            f"needs a matrix of {d:,} x {d:,} entries: ask for fewer {fewer}"
        )
