"""Coefficients in the units of the data, intervals, and the artefact of a regression."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.mechanisms.gate import proofs_of
from eigenveil.mechanisms.linear import LinearModel, NoisyModel
from eigenveil.planning.linear_release import RegressionResult
from eigenveil.release.artefact import Release

__all__ = ["INTERVAL_LEVEL", "RegressionNumbers", "regression_numbers"]

INTERVAL_LEVEL = 0.9  # how often an interval is to cover


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionNumbers:
    """Released regressions of q targets on p features, in the units of the data.

    Attributes
    ----------
    coef : array of shape (q, p)
        Zero for a feature that was left out.
    intercept : array of shape (q,)
        What is predicted where all features are zero.
    interval : array of shape (q, p + 1, 2)
        Ends of intervals, that of the intercept last; infinite where nothing tells its error.
    noise_share : array of shape (q, p)
        Share of the squared widths that is noise.
    location, scale : arrays of shape (p,)
        What features were taken about and divided by.

    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    interval: NDArray[np.float64]
    noise_share: NDArray[np.float64]
    location: NDArray[np.float64]
    scale: NDArray[np.float64]

    def release(
        self,
        fitted: RegressionResult,
        *,
        feature_names: Sequence[Any] | NDArray[Any] | None,
        target_names: Sequence[str] | None,
        shares: Mapping[str, float],
    ) -> Release:
        """Return the artefact."""
        request = fitted.plan.request
        gram = fitted.model.gram
        box = request.box
        settings: dict[str, Any] = {
            "n_features": request.n_features,
            "n_rows": fitted.n_rows,
            "row_norm": fitted.model.row_norm,
            "bounds": None if box is None else {"low": box[0].tolist(), "high": box[1].tolist()},
            "assume_centered": request.centred,
            "on_invalid": request.on_invalid,
            "on_missing": request.on_missing,
            "noise_scale": 0.0 if gram is None else gram.noise_scale,
            "noise_floor": 0.0,
            "choice": None,
            "shares": dict(shares),
            "interval_level": INTERVAL_LEVEL,
            "feature_names": None if feature_names is None else [str(n) for n in feature_names],
            "target_names": None if target_names is None else list(target_names),
        }
        if fitted.balance is not None:
            settings["ledger"] = asdict(fitted.balance)
        return Release(
            kind="regression",
            mechanism=fitted.plan.procedure.name,
            guarantee=fitted.guarantee,
            proofs=proofs_of(fitted.plan.procedure),
            settings=settings,
            arrays={
                "coef": self.coef,
                "intercept": self.intercept,
                "interval": self.interval,
                "noise_share": self.noise_share,
                "location": self.location,
                "scale": self.scale,
            },
        )


def regression_numbers(fitted: RegressionResult) -> RegressionNumbers:
    """Return what follows from a released model: post-processing."""
    model = fitted.model
    p = model.scale.size
    parts = [_in_units(model, target) for target in model.targets]
    coef = np.array([part[0][:p] for part in parts])
    intercept = np.array([part[0][p] for part in parts])
    sampling, noise, centre = (np.array([part[i] for part in parts]) for i in (1, 2, 3))
    half = -float(ndtri((1 - INTERVAL_LEVEL) / 2)) * np.sqrt(sampling + noise)
    interval = np.stack([centre - half, centre + half], axis=-1)
    boxes = fitted.plan.request.target_boxes
    if boxes is not None and fitted.plan.means_alone:
        interval[:, p] = np.clip(interval[:, p], *(np.array(boxes)[:, [i]] for i in (0, 1)))
    whole = sampling + noise
    told = np.isfinite(whole) & (whole > 0)
    share = np.divide(noise, whole, out=np.ones_like(whole), where=told)
    return RegressionNumbers(
        coef=coef,
        intercept=intercept,
        interval=interval,
        noise_share=share[:, :p],
        location=model.centre,
        scale=model.scale,
    )


def _in_units(model: LinearModel, target: NoisyModel) -> tuple[NDArray[np.float64], ...]:
    """Return coefficients and intercept; the variances from sampling and from noise of what their
    intervals are about, infinite for a column that was left out; and that itself.
    """
    p, kept = model.scale.size, np.flatnonzero(np.isfinite(model.scale))
    change = np.zeros((p + 1, 1 + kept.size))  # from coefficients on records
    change[kept, 1 + np.arange(kept.size)] = 1 / model.scale[kept]
    change[p, 0] = model.lift
    change[p, 1:] = -model.centre[kept] / model.scale[kept]
    noise = np.full(p + 1, np.inf)
    if model.gram is None or not target.noise.any():  # no stage: the offset is the model
        numbers = np.zeros(p + 1)
        numbers[p] = target.offset
        noise[p] = target.offset_error
        return numbers, np.zeros(p + 1), noise, numbers
    numbers, middle = change @ target.coefficients, change @ target.middle
    for each in (numbers, middle):
        each[p] += target.offset
    known = np.isfinite(target.noise)
    sampling, found = (
        np.maximum(np.einsum("ij,jk,ik->i", change, covariance, change), 0.0)
        for covariance in (target.sampling, np.where(known, target.noise, 0.0))
    )
    some = np.append(kept, p) if known.all() else kept  # or an intercept that nothing bounds
    noise[some] = found[some]
    return numbers, sampling, noise, middle
