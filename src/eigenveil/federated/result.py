r"""From the owners' answers to one release: weights, aggregate, model. All of it post-processing.

.. math:: \hat U = \text{top-}k \sum_j w_j U_j U_j', \qquad \hat\Lambda = \sum_j v_j \hat\Lambda_j

The weights come from the numbers that owners declare, as far as the agreement believes them, and
none that nobody vouches for exceeds the agreement's largest: an owner that lies about its records
or budget gains no more than that. Of an owner's records no more are stated than were agreed, and of
what nobody has agreed on it is said that it is the owner's own word. The covariance is the one
within owners: rows are taken about their own owner's centre.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.federated import weights
from eigenveil.federated.aggregate import (
    Assembled,
    assembled,
    in_common,
    leading_basis,
    reliability,
)
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import BasisAnswer, Declaration, ValuesAnswer
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.contribution import Contribution, promise_to_dict
from eigenveil.privacy.cost import Approx
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee, Numerics, guarantee_from_dict
from eigenveil.release.artefact import Release

_MOST_PARTS = 64  # of a cost
_LEAST = 1e-12  # of the largest weight: ratios stay ordinary floats
_FARTHEST = 8.0  # deviations of the noise
_FARTHEST_SIZE = 100.0
_MOST_OF_A_MEDIAN = 1 / 3
_TOO_FEW_TO_TELL = 2  # of two who differ nobody can tell who is wrong


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contributions:
    """What was heard, by owner, and who was left out of which round."""

    declarations: Mapping[str, Declaration]
    bases: Mapping[str, BasisAnswer]
    values: Mapping[str, ValuesAnswer]
    left_out: Mapping[tuple[str, str], Code]


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """Weights of some owners, of sum 1, and whose were cut to the largest."""

    shares: Mapping[str, float]
    cut: tuple[str, ...]


def promised(answer: BasisAnswer | ValuesAnswer) -> Guarantee:
    """Return the promise that came with an answer, or `ProtocolError`.

    Whatever would stop a release later, texts that are too long or a cost nested too deep, is found
    out here, before the answer is taken, and before a long cost is added up.
    """
    try:
        if not _is_short(answer.guarantee.get("cost")):
            raise ProtocolError(Code.OUT_OF_RANGE)
        guarantee = guarantee_from_dict(dict(answer.guarantee))
        promise_to_dict(guarantee)
        with_doubts = replace(guarantee, bounds=(*guarantee.bounds, "one more, of the others"))
        Contribution(
            name=answer.owner, n_rows=1, guarantee=with_doubts, basis_weight=0.0, values_weight=0.0
        )
    except (InvalidParameterError, RecursionError):
        raise ProtocolError(Code.OUT_OF_RANGE) from None
    if guarantee.adjacency is not Adjacency.REPLACE_ONE or guarantee.budget.delta is None:
        raise ProtocolError(Code.OUT_OF_RANGE)
    return guarantee


def _is_short(cost: Any) -> bool:
    """Return whether a cost, as it came, is a leaf or a list of few leaves."""
    parts = cost.get("parts", ()) if isinstance(cost, dict) else None
    return (
        isinstance(parts, (list, tuple))
        and len(parts) <= _MOST_PARTS
        and not any(isinstance(part, dict) and "parts" in part for part in parts)
    )


def check_weight(agreed: Agreement, declared: Declaration) -> None:
    """Refuse a declaration that no weight can be computed from."""
    try:
        weigh(agreed, {declared.owner: declared})
        _noise(agreed, declared)
    except (EigenveilError, ArithmeticError):
        raise ProtocolError(Code.OUT_OF_RANGE, declared.owner) from None


def check_values(agreed: Agreement, declared: Declaration, answer: ValuesAnswer) -> None:
    """Refuse shares that lie farther outside 0 to 1 than the declared noise allows."""
    if agreed.unit == "variances":
        return
    values = np.linalg.eigvalsh(answer.matrix)
    beyond = max(-float(values[0]), float(values.sum()) - 1)
    # What is left after a pure first answer is less than half, by any factor that matters here.
    slack = 1 if declared.mechanism in weights.MECHANISMS else 10
    if beyond > slack * _FARTHEST * len(values) * _noise(agreed, declared):
        raise ProtocolError(Code.OUT_OF_RANGE)


def _noise(agreed: Agreement, declared: Declaration) -> float:
    """Return the most noise that shares have at the declared numbers: pairs, and searches beside
    them.
    """
    whole = whole_strength(Budget(epsilon=declared.epsilon, delta=declared.delta), pure=False)
    return 4 * math.sqrt(2) / (declared.n_records * whole * math.sqrt(1 - agreed.share))


def weigh(
    agreed: Agreement,
    declared: Mapping[str, Declaration],
    *,
    values: Mapping[str, ValuesAnswer] | None = None,
) -> Weighed:
    """Return how much each of some owners counts, for its basis or for its ``values``."""
    numbers = [_believed(agreed, each) for each in declared.values()]
    n, epsilon, delta = (np.array(column) for column in zip(*numbers, strict=True))
    d, k = agreed.n_columns, agreed.n_components
    match agreed.weights:
        case "equal":
            wanted = weights.equal(len(n))
        case "printed":  # of bases; [Fed]'s weights of values need its model
            wanted = weights.printed(n, epsilon, delta, d, k)
        case "predicted" if values is not None:
            wanted = weights.predicted_values(
                n, epsilon, delta, k, share=1 - agreed.share, unit_rows=agreed.unit == "shares"
            )
        case "predicted":
            names = [each.mechanism for each in declared.values()]
            wanted = weights.predicted(n, epsilon, delta, d, k, names, share=agreed.share)
    wanted = np.maximum(wanted, _LEAST * wanted.max())
    if values is not None and len(values) > _TOO_FEW_TO_TELL:
        noise = [values[owner].noise_scale for owner in declared]
        sizes = [float(np.trace(values[owner].matrix)) for owner in declared]
        wanted = wanted * weights.sound(noise) * _alike(np.array(sizes))
    owners = tuple(declared)
    free = agreed.vouched
    most = [1.0 if owner in free else agreed.largest_weight for owner in owners]
    shares, cut = weights.capped(wanted, most)
    return Weighed(
        dict(zip(owners, shares.tolist(), strict=True)),
        tuple(owner for owner, was in zip(owners, cut, strict=True) if was),
    )


def _believed(agreed: Agreement, declared: Declaration) -> tuple[float, float, float]:
    """Return records as far as others vouch for them, epsilon and delta."""
    records = agreed.owners[declared.owner].counted(declared)
    return float(records), declared.epsilon, declared.delta


def aggregate(agreed: Agreement, heard: Contributions) -> NDArray[np.float64]:
    """Return one basis from those that came."""
    weighed = weigh(agreed, _of(heard.declarations, heard.bases))
    answers = [heard.bases[owner] for owner in weighed.shares]
    # Those of most owners, for all: who overstates its own gains nothing.
    strengths = np.median(np.stack([answer.strengths for answer in answers]), axis=0)
    bases = [answer.basis * np.sqrt(strengths) for answer in answers]
    return leading_basis(bases, np.array(list(weighed.shares.values())), agreed.n_components)


def combine(agreed: Agreement, heard: Contributions, basis: NDArray[np.float64]) -> Release:
    """Return the release of a federation: an ordinary one, with a guarantee for each owner."""
    directions = weigh(agreed, _of(heard.declarations, heard.bases))
    inside = weigh(agreed, _of(heard.declarations, heard.values), values=heard.values)
    v = np.array(list(inside.shares.values()))
    answers = [heard.values[owner] for owner in inside.shares]
    rest = max(0.0, _median(np.array([answer.rest for answer in answers]), v))
    pooled = assembled(basis, [answer.matrix for answer in answers], v)
    scale = np.ones(agreed.n_columns) if agreed.scale is None else np.array(agreed.scale)
    centre = basis @ _centre(answers, v)
    noise = float(np.sqrt(np.sum((v * [answer.noise_scale for answer in answers]) ** 2)))
    owners = tuple(_owner(agreed, heard, owner, directions, inside) for owner in heard.declarations)
    return Release(
        kind=agreed.kind,
        mechanism="federated",
        guarantee=FederatedGuarantee.of(owner.guarantee for owner in owners),
        proofs=("federated", "owner"),
        owners=owners,
        settings={
            **_settings(agreed, owners, noise),
            **_centring(agreed, answers),
            "federation": {
                "name": agreed.federation,
                "weights": agreed.weights,
                "largest_weight": agreed.largest_weight,
                "vouched": sorted(agreed.vouched & heard.declarations.keys()),
                "cut": sorted({*directions.cut, *inside.cut}),
                "left_out": [
                    {"owner": owner, "round": name, "code": code.value}
                    for (name, owner), code in sorted(heard.left_out.items())
                    if owner in agreed.owners
                ],
                "compared": {
                    owner: _compared(heard, owner, basis, pooled) for owner in heard.bases
                },
            },
        },
        arrays=_arrays(agreed, pooled, centre, scale, rest)
        | (_trust(heard, directions, pooled) if agreed.kind == "pca" else {}),
    )


def _of(
    declarations: Mapping[str, Declaration], answered: Mapping[str, Any]
) -> dict[str, Declaration]:
    return {owner: declarations[owner] for owner in answered}


def _centre(answers: list[ValuesAnswer], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centre inside the basis, of owners who know theirs: scores need no more.

    A median, so that no single owner can put it anywhere.
    """
    pairs = zip(weights, answers, strict=True)
    known = [(weight, answer.centre) for weight, answer in pairs if answer.centred and weight]
    if not known:
        return np.full(answers[0].centre.size, np.nan)
    shares, centres = zip(*known, strict=True)
    return np.array([_median(column, np.array(shares)) for column in np.stack(centres).T])


def _median(values: NDArray[np.float64], votes: NDArray[np.float64]) -> float:
    """Return the weighted median, in which nobody has more than a third of the weight."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights.capped(votes, _MOST_OF_A_MEDIAN)[0][order])
    i = int(np.searchsorted(below, 0.5 - 2.0**-40))
    exactly = abs(below[i] - 0.5) < 2.0**-40 and i + 1 < len(values)
    return float(values[order[i : i + 1 + exactly]].mean())


def _alike(sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the owners whose variance is within a factor of a hundred of most others'.

    Every owner has one vote: what one declares of itself gives it no other.
    """
    usual = _FARTHEST_SIZE * float(np.median(np.abs(sizes)))
    return np.asarray(np.abs(sizes) <= usual)


def _owner(
    agreed: Agreement, heard: Contributions, owner: str, directions: Weighed, inside: Weighed
) -> Contribution:
    declared, limits = heard.declarations[owner], agreed.owners[owner]
    promise = _promise(agreed, heard, owner)
    if (doubts := limits.doubts(declared)) is not None:
        promise = replace(promise, bounds=(*promise.bounds, doubts))
    return Contribution(
        name=owner,
        guarantee=promise,
        n_rows=limits.counted(declared),
        basis_weight=directions.shares.get(owner, 0.0),
        values_weight=inside.shares.get(owner, 0.0),
    )


def _promise(agreed: Agreement, heard: Contributions, owner: str) -> Guarantee:
    """Return the promise of an owner for all that it was asked.

    One whose answer was not heard, or not taken, may have paid for it all the same, and that there
    is none may tell of its records as much as that: then its whole budget is what can be said.
    """
    if owner in heard.values:  # whose promise covers both answers
        return promised(heard.values[owner])
    declared = heard.declarations[owner]
    whole = Approx(declared.epsilon, declared.delta)
    if owner in heard.bases:
        return replace(promised(heard.bases[owner]), cost=whole)
    return Guarantee(
        budget=Budget(epsilon=declared.epsilon, delta=declared.delta),
        cost=whole,
        adjacency=Adjacency.REPLACE_ONE,
        bounds=("known to the owner alone, as is how much of this it paid: nothing of it is used",),
        numerics=Numerics.IDEALISED,
        simulated=agreed.simulated,
    )


def _trust(
    heard: Contributions, directions: Weighed, pooled: Assembled
) -> dict[str, NDArray[np.float64]]:
    """Return how far the owners agree on each component, and what follows from that.

    As many stand out as directions are shared beyond chance: those with the most agreement.
    """
    w = np.array(list(directions.shares.values()))
    # As many columns of each as there are components: more would agree by chance.
    d, k = pooled.basis.shape
    bases = (heard.bases[owner].basis[:, :k] for owner in directions.shares)
    inside = np.stack([basis.T @ pooled.basis for basis in bases])
    shared = np.einsum("j,jab,jac->bc", w, inside, inside)
    agreement = np.clip(shared.diagonal(), 0.0, 1.0)
    estimated = reliability(agreement, w, d)
    clear = np.zeros(k, dtype=bool)
    most = np.argsort(-agreement, kind="stable")
    clear[most[: in_common(np.linalg.eigvalsh(shared), w, d)]] = True
    clear &= estimated > 0
    return {
        "agreement": agreement,
        "reliability": estimated,
        "distinguishable": clear.astype(np.float64),
    }


def _compared(
    heard: Contributions, owner: str, basis: NDArray[np.float64], pooled: Assembled
) -> dict[str, float]:
    """Return how far an owner's answers are from the result: one that makes them up stands out.

    ``distance``: of its basis, between 0 and 1, the root of the share that lies outside.
    ``variance``: its variance inside the result's basis, over the result's.
    """
    own = heard.bases[owner].basis
    inside = float(np.sum((basis.T @ own) ** 2)) / own.shape[1]
    told = {"distance": math.sqrt(min(1.0, max(0.0, 1 - inside)))}
    whole = float(pooled.eigenvalues.sum())
    if owner in heard.values and whole > 0:
        told["variance"] = float(np.trace(heard.values[owner].matrix)) / whole
    return told


def _settings(agreed: Agreement, owners: Sequence[Contribution], noise: float) -> dict[str, Any]:
    return {
        "n_features": agreed.n_columns,
        "n_rows": sum(owner.n_rows for owner in owners if owner.basis_weight > 0),
        "row_norm": None,
        "bounds": None,
        "assume_centered": None,  # each owner's own, and not told
        "on_invalid": None,
        "noise_scale": noise,  # of a value along the basis, in scaled units
        "noise_floor": 0.0,  # no level of noise tells which directions are those of the rows
        "feature_names": None if agreed.columns is None else list(agreed.columns),
    }


def _centring(agreed: Agreement, answers: list[ValuesAnswer]) -> dict[str, str]:
    """Return how far a centre is known; how each owner found its own is not told."""
    if not any(answer.centred for answer in answers):
        return {"centring": "paired"}
    return {"centring": "inside"} if agreed.n_components < agreed.n_columns else {}


def _arrays(
    agreed: Agreement,
    pooled: Assembled,
    centre: NDArray[np.float64],
    scale: NDArray[np.float64],
    rest: float,
) -> dict[str, NDArray[np.float64]]:
    """Return components, or the matrix in the units of the data.

    The variance beside the basis is spread evenly over the other directions.
    """
    d, k = pooled.basis.shape
    inside = float(pooled.eigenvalues.sum())
    whole = max(1.0, inside) if agreed.unit == "shares" else inside + rest  # of unit rows: 1
    if agreed.kind == "covariance":
        each = rest / (d - k) if k < d else 0.0
        above = np.maximum(pooled.eigenvalues - each, 0.0)
        matrix = Assembled(pooled.basis, above, each).dense() * np.outer(scale, scale)
        held = {"covariance": (matrix + matrix.T) / 2, "location": centre * scale}
        return held | ({"scale": scale} if (scale != 1).any() else {})  # the unit of the noise
    ratio = pooled.eigenvalues / (whole or 1.0)
    return {
        "components": pooled.basis.T,
        "explained_variance": ratio if agreed.unit == "shares" else pooled.eigenvalues,
        "explained_variance_ratio": ratio,
        "mean": centre * scale,
        "scale": scale,
    }
