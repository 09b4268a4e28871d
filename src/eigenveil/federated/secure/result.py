r"""From noisy totals to the next question, and at the end to a release. All of it post-processing.

Components: distances and a mean of clipped rows, twice, lead to a centre; the sum of x x' over
unit rows about it has isotropic noise of scale :math:`s \sqrt{|U|}`, s the share of one owner and U
the set of the step, and is what `spherical` releases from one table. A covariance: the sums of
`elliptical` about such a centre. About pairs inside owners there is no centre.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.results import component_result
from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.exceptions import NothingFoundError
from eigenveil.federated.script import Heard
from eigenveil.federated.secure.agreement import SecureAgreement, Step
from eigenveil.federated.secure.sums import unpacked
from eigenveil.mechanisms.components import leading
from eigenveil.mechanisms.distances import NoisyDistances, gaussian_sum, noise_rows
from eigenveil.mechanisms.elliptical import combined
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.cost import Gaussian
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.release.artefact import Release

_PROOFS = ("secure_statement", "secure_sums")
_SURE = 6.0  # deviations of a trace


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """One sum as everybody may know it.

    Attributes
    ----------
    step : Step
        What was summed.
    units : array of int
        Whole multiples of the grid.
    members : tuple of str
        Whose it is.
    centre, radius
        Of the question.

    """

    step: Step
    units: NDArray[np.int64]
    members: tuple[str, ...]
    centre: NDArray[np.float64]
    radius: float

    @property
    def values(self) -> NDArray[np.float64]:
        """The sum in the units of the statistic."""
        return self.units.astype(np.float64) * math.ldexp(1.0, self.step.noise.grid)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The sum as a symmetric matrix."""
        d = self.step.noise.columns
        return unpacked(self.units, d).astype(np.float64) * math.ldexp(1.0, self.step.noise.grid)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, on the diagonal of a matrix."""
        return self.step.noise.deviation(len(self.members))


def asked_next(
    agreed: SecureAgreement, totals: Sequence[Total]
) -> tuple[NDArray[np.float64], float]:
    """Return the centre and the radius of the next step."""
    if not totals:
        return agreed.start, agreed.radius
    last, following = totals[-1], agreed.steps[totals[-1].step.number + 1]
    centre = last.centre
    if last.step.kind == "mean":
        centre = centre + last.values * (last.radius / _records(agreed, last))
        if agreed.box is not None:
            centre = np.clip(centre, *agreed.box)
    searches = [total for total in totals if total.step.kind == "distances"]
    if following.kind in ("distances", "directions"):
        return centre, last.radius
    return centre, _clipping_radius(agreed, searches[-1], following)


def _records(agreed: SecureAgreement, total: Total) -> int:
    return sum(agreed.owners[owner].records for owner in total.members)


def _distances(agreed: SecureAgreement, total: Total) -> NoisyDistances:
    """Return the distances that stand out from the noise; with bounds there may be none."""
    rows = _records(agreed, total)
    found = NoisyDistances.of(total.values, total.deviation, rows, gaussian_sum)
    if not (found.found or agreed.bounds):
        raise NothingFoundError(
            "no distance of rows stands out from the noise; the budget is spent: agree on bounds, "
            "on variance = 'within', or on a larger epsilon"
        )
    return found


def _clipping_radius(agreed: SecureAgreement, search: Total, following: Step) -> float:
    """Return where the noise of the step that comes next and its loss are least together."""
    found = _distances(agreed, search)
    if not found.found:
        return agreed.radius
    deviation, d = following.noise.deviation(len(search.members)), agreed.n_columns
    if following.kind == "mean":
        radius = found.clipping(deviation * math.sqrt(d) / found.rows, 1)
    else:
        strength = Gaussian(following.noise.sensitivity / deviation)
        radius = found.clipping(noise_rows(strength, d, Adjacency.REPLACE_ONE) / found.rows, 2)
    widest = LARGEST_NORM if agreed.bounds is None else 2 * agreed.radius
    return min(max(SMALLEST_NORM, radius), widest)


def combine(agreed: SecureAgreement, totals: Sequence[Total], heard: Heard) -> Release:
    """Return the release: an ordinary one, with a promise that counts on honest owners."""
    last = totals[-1]
    n = _records(agreed, last)
    if last.step.kind == "pairs":
        n = sum(agreed.owners[owner].records // 2 for owner in last.members)
    owners = _owners(agreed, totals, heard)
    guarantee = FederatedGuarantee.of(owner.guarantee for owner in owners)
    scale = np.ones(agreed.n_columns) if agreed.scale is None else np.array(agreed.scale)
    settings = _settings(agreed, totals, heard, owners)
    if agreed.kind == "covariance":
        return _covariance(agreed, totals, scale, guarantee, owners, settings)
    centred = last.step.kind == "directions"
    found = component_result(
        leading(_noisy(last, n), agreed.n_components),
        centre=last.centre if centred else np.zeros(agreed.n_columns),
        centre_error=_centre_error(agreed, totals) if centred else 0.0,
        scale=scale,
        shares=True,
    )
    settings |= {"noise_scale": found.noise_scale, "centring": "located" if centred else "paired"}
    return found.release("secure-sums", guarantee, settings, owners, proofs=_PROOFS)


def _noisy(total: Total, n: int) -> NoisyMatrix:
    """Return a second moment, of unit rows or of clipped ones, with the law of its noise."""
    unit = total.radius**2 / n if total.step.kind == "moment" else 1 / n
    law = GaussianLaw(len(total.matrix), total.deviation * unit)
    return NoisyMatrix(total.matrix * unit, law.scale, law)


def _squared_error(agreed: SecureAgreement, totals: Sequence[Total]) -> float:
    """Return the expected squared error of the last centre."""
    mean = next(total for total in reversed(totals) if total.step.kind == "mean")
    error = mean.deviation * mean.radius / _records(agreed, mean)
    return float(agreed.n_columns * error**2)


def _centre_error(agreed: SecureAgreement, totals: Sequence[Total]) -> float:
    """Return the same as a share of the squared distance."""
    search = next(total for total in reversed(totals) if total.step.kind == "distances")
    return min(1.0, _squared_error(agreed, totals) * _inverse(agreed, search))


def _inverse(agreed: SecureAgreement, search: Total) -> float:
    """Return the mean of one over the squared distance."""
    found = _distances(agreed, search)
    return found.mean_power(-2) if found.found else agreed.radius**-2


def _covariance(
    agreed: SecureAgreement,
    totals: Sequence[Total],
    scale: NDArray[np.float64],
    guarantee: FederatedGuarantee,
    owners: tuple[Contribution, ...],
    settings: dict[str, Any],
) -> Release:
    last = totals[-1]
    n, error = _records(agreed, last), _squared_error(agreed, totals)
    search, rows = totals[-3:-1]
    found = combined(_noisy(rows, n), _noisy(last, n), error, _inverse(agreed, search))
    assert found.law is not None  # there is noise
    assert found.noisy_eigenvalues is not None  # and it was cleaned
    arrays = {
        "covariance": found.matrix * np.outer(scale, scale),
        "location": last.centre * scale,
        "noisy_eigenvalues": found.noisy_eigenvalues[::-1],
        **({"scale": scale} if (scale != 1).any() else {}),
    }
    return Release(
        kind="covariance",
        mechanism="secure-sums",
        guarantee=guarantee,
        proofs=_PROOFS,
        settings={
            **settings,
            "noise_scale": found.noise_scale,
            "noise_floor": found.law.floor(error),
            "centring": "located",
        },
        arrays=arrays,
        owners=owners,
    )


def _owners(
    agreed: SecureAgreement, totals: Sequence[Total], heard: Heard
) -> tuple[Contribution, ...]:
    """Return a promise for everybody who has agreed, and how much of the last sum is theirs."""
    last = totals[-1]
    whole = _records(agreed, last)
    promise = Guarantee(
        budget=agreed.budget,
        cost=agreed.cost,
        adjacency=Adjacency.REPLACE_ONE,
        bounds=_bounds(agreed),
        simulated=agreed.simulated,
        ledger=None if agreed.simulated else "the ledger of each owner, one entry for each sum",
        protects=ROW if agreed.unit is None else Unit("person", agreed.unit),
        honest=agreed.promise,
    )
    weights = {owner: agreed.owners[owner].records / whole for owner in last.members}
    return tuple(
        Contribution(
            name=owner,
            n_rows=agreed.owners[owner].records,
            guarantee=promise,
            basis_weight=weights.get(owner, 0.0),
            values_weight=weights.get(owner, 0.0),
        )
        for owner in heard.answers["join"]
    )


def _bounds(agreed: SecureAgreement) -> tuple[str, ...]:
    clamped = () if agreed.bounds is None else ("entries clamped to the agreed bounds",)
    if agreed.kind == "covariance":
        needed = () if clamped else ("none needed",)
        return (*clamped, *needed, "rows clipped where noisy distances say")
    pairs = "differences of pairs of rows" if agreed.variance == "within" else "rows"
    return (*clamped, f"none needed for directions: {pairs} scaled to unit length")


def _settings(
    agreed: SecureAgreement,
    totals: Sequence[Total],
    heard: Heard,
    owners: Sequence[Contribution],
) -> dict[str, Any]:
    box = None
    if agreed.bounds is not None:
        box = {"low": list(agreed.bounds[0]), "high": list(agreed.bounds[1])}
    return {
        "n_features": agreed.n_columns,
        "n_rows": sum(owner.n_rows for owner in owners if owner.basis_weight > 0),
        "row_norm": totals[-1].radius if agreed.kind == "covariance" else None,
        "bounds": box,
        "assume_centered": False,
        "on_invalid": None,  # each owner's own, and not told
        "shares": {f"{t.step.kind} {t.step.number}": t.step.share for t in totals},
        "feature_names": None if agreed.columns is None else list(agreed.columns),
        "secure": {
            "name": agreed.federation,
            "agreement": agreed.digest.hex(),
            "variance": agreed.variance,
            "sums": [
                {
                    "step": total.step.name,
                    "share": total.step.share,
                    "owners": list(total.members),
                }
                for total in totals
            ],
            "left_out": [
                {"owner": owner, "round": name, "code": code.value}
                for (name, owner), code in sorted(heard.left_out.items())
                if owner in agreed.owners
            ],
            "doubt": _doubt(agreed, totals[-1]),
        },
    }


def _doubt(agreed: SecureAgreement, total: Total) -> str | None:
    """Say so where unit rows do not add up: somebody has sent something else.

    The trace is the number of rows with a direction, or of pairs, but for the noise.
    """
    if total.step.kind == "moment":
        return None
    rows = _records(agreed, total)
    if total.step.kind == "pairs":
        rows = sum(agreed.owners[owner].records // 2 for owner in total.members)
    excess = float(np.trace(total.matrix)) - rows
    if abs(excess) <= _SURE * total.deviation * math.sqrt(agreed.n_columns) + 0.01 * rows:
        return None
    return (
        "unit rows do not add up to their number: some rows have no direction, or an owner has "
        "sent something else"
    )
