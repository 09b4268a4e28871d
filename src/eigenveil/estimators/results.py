"""Attributes, settings and arrays of a fit, from released numbers only."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from eigenveil.exceptions import ComponentsWarning
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import proofs_of
from eigenveil.mechanisms.linear import LinearModel, NoisyModel
from eigenveil.messages import SAME_UNIT, option
from eigenveil.numerics.component_law import ComponentGroup, ComponentStatement, mostly_inside
from eigenveil.numerics.noise_law import error_freedom, largest_square
from eigenveil.planning.bounds import StatedBounds
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.release.artefact import Release
from eigenveil.text import percent

if TYPE_CHECKING:
    from eigenveil.mechanisms.centre import CentredResult
    from eigenveil.planning.linear_release import RegressionResult


_MAX_CENTRE_SHARE = 0.1  # of the variance, beyond which the centre's error may pass for it
_SIZES = 0.5  # of the logarithm of a ratio: how well sizes tell directions apart
_MIN_COLUMN_SHARE = 0.5  # of the released variance, in one column
_MIN_COLUMN_RATIO = 10.0  # of its variance to the mean of the other columns
_MIN_FIRST = 0.6  # squared cosine of the first component with the one of its rank
_MIN_FREEDOM = 25  # below it the squared length of an error varies by more than a quarter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentResult:
    """Released components for all columns, in the units of the data.

    Attributes
    ----------
    components, explained_variance, explained_variance_ratio, eigenvalues, reliability, \
distinguishable, mean, scale : arrays
        As `PrivatePCA` describes them; ``eigenvalues`` as the mechanism gave them.
    noise_scale, matrix_floor, noise_floor : float
        Public facts about the noise.
    centre_share : float
        Expected squared error of the centre, over the whole variance.
    single : ComponentStatement, optional
        Agreement of single components with those without noise; None where no law says so.

    """

    components: NDArray[np.float64]
    explained_variance: NDArray[np.float64]
    explained_variance_ratio: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    reliability: NDArray[np.float64]
    distinguishable: NDArray[np.bool_]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    noise_scale: float
    matrix_floor: float
    noise_floor: float
    centre_share: float = 0.0
    single: ComponentStatement | None = None

    @property
    def states_captured(self) -> bool:
        """Whether shares of variance about the released centre say something about the rows.

        Where no component is clear, or the centre may be far off, they are those of its error.
        """
        return bool(self.distinguishable.any()) and self.centre_share <= _MAX_CENTRE_SHARE

    def leading(self, count: int) -> "ComponentResult":
        """Return the first ``count`` components."""
        reliability, clear = self.reliability[:count], self.distinguishable[:count]
        single = None if self.single is None else self.single.leading(count)
        if single is not None:
            clear = clear & mostly_inside(single.mixing, reliability)
        return replace(
            self,
            components=self.components[:count],
            explained_variance=self.explained_variance[:count],
            explained_variance_ratio=self.explained_variance_ratio[:count],
            eigenvalues=self.eigenvalues[:count],
            reliability=reliability,
            distinguishable=clear,
            single=single,
        )

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of an estimator, which end in an underscore."""
        fields = {f"{name}_": getattr(self, name) for name in self.__slots__}
        for name in ("eigenvalues", "centre_share", "single"):
            del fields[f"{name}_"]
        return {**fields, **self._of_single(), "n_components_": len(self.components)}

    def _of_single(self) -> dict[str, Any]:
        """Return the attributes about single components; NaN where nothing is known."""
        if self.single is None:
            k, d = self.components.shape
            groups: tuple[ComponentGroup, ...] = ()
            reproducibility, errors = np.full(k, np.nan), np.full((k, d), np.nan)
        else:
            groups, errors = self.single.groups, self.single.loading_errors
            reproducibility = self.single.reproducibility
        return {
            "reproducibility_": reproducibility,
            "loading_errors_": errors,
            "component_groups_": groups,
        }

    def release(
        self,
        mechanism: str,
        guarantee: Guarantee,
        settings: Mapping[str, Any],
        owners: tuple[Contribution, ...] = (),
        arrays: Mapping[str, NDArray[np.float64]] | None = None,
        proofs: tuple[str, ...] = (),
    ) -> Release:
        """Return the artefact, with further arrays where there are any."""
        floors = {"noise_floor": self.noise_floor, "matrix_floor": self.matrix_floor}
        single = {}
        if self.single is not None:
            single["component_mixing"] = self.single.mixing
            single["loading_errors"] = self.single.loading_errors
        return Release(
            kind="pca",
            mechanism=mechanism,
            guarantee=guarantee,
            proofs=proofs,
            owners=owners,
            settings={**settings, **floors},
            arrays={
                "components": self.components,
                "explained_variance": self.explained_variance,
                "explained_variance_ratio": self.explained_variance_ratio,
                "eigenvalues": self.eigenvalues,
                "reliability": self.reliability,
                "distinguishable": self.distinguishable.astype(np.float64),
                "mean": self.mean,
                "scale": self.scale,
                **single,
                **(arrays or {}),
            },
        )


def component_result(
    noisy: NoisyComponents,
    *,
    centre: NDArray[np.float64],
    centre_error: float,
    scale: NDArray[np.float64],
    shares: bool,
    per_row: float = 1.0,
    variance: float | None = None,
    laplace: bool = False,
) -> ComponentResult:
    """Return what follows from noisy components about a released centre.

    Parameters
    ----------
    noisy : NoisyComponents
        Of the columns that have a finite scale.
    centre, centre_error
        In scaled units; the expected squared error of the centre, in the units of eigenvalues.
    scale : array of shape (n_features,)
        What columns were divided by; infinite for one left out.
    shares : bool
        Whether only shares of variance mean anything, as of rows scaled to unit length.
    per_row : float
        Turns a released sum into a mean.
    variance : float, optional
        That inside all components, in the units of the data, where it was bought.
    laplace : bool
        Whether the centre's error is Laplace noise, of which long errors are more frequent.

    """
    positive = np.maximum(noisy.eigenvalues, 0.0)
    whole = max(noisy.trace, float(positive.sum())) or 1.0
    unit = 1 / whole if shares else per_row
    explained = positive * unit
    if variance is not None:
        explained = positive / (float(positive.sum()) or 1.0) * variance
    kept = np.flatnonzero(np.isfinite(scale))
    freedom = error_freedom(len(kept), laplace=laplace)
    matrix_floor, noise_floor = _floors(noisy, unit, centre_error, freedom)
    if shares:  # which end at 1
        noise_floor = max(matrix_floor, min(1.0, noise_floor))
    components = np.zeros((len(noisy.components), scale.size))
    mean = np.full(scale.size, np.nan if np.isnan(centre).any() else 0.0)
    components[:, kept] = noisy.components
    mean[kept] = centre * scale[kept]
    not_the_centre = _not_the_centre(positive * unit, centre_error)
    reliability = noisy.reliability * not_the_centre
    single, inside = noisy.single, reliability > 0
    if single is not None:
        errors = np.zeros((len(noisy.components), scale.size))
        errors[:, kept] = single.loading_errors
        errors[np.isnan(single.loading_errors).any(axis=1)] = np.nan  # nothing is stated of it
        single = ComponentStatement(single.mixing, errors).reduced(not_the_centre)
        inside = mostly_inside(single.mixing, reliability)
    return ComponentResult(
        components=components,
        explained_variance=explained,
        explained_variance_ratio=positive / whole,
        eigenvalues=positive * unit,
        reliability=reliability,
        distinguishable=distinguishable_components(
            positive * unit,
            inside,
            (matrix_floor, noise_floor),
            centre_error,
            freedom,
        ),
        mean=mean,
        scale=scale,
        noise_scale=noisy.noise_scale * unit,
        matrix_floor=matrix_floor,
        noise_floor=noise_floor,
        centre_share=centre_error / unit / whole if unit else 0.0,
        single=single,
    )


def limits_of(released: "CentredResult[Any]", row_norm: float | None) -> dict[str, Any]:
    """Return the settings that say how many rows were drawn, and how they were limited."""
    settings: dict[str, Any] = {}
    if released.drawn_rows is not None:
        settings["drawn_rows"] = released.drawn_rows
    if row_norm is not None:
        settings["chosen_row_norm"] = float(row_norm)
    if released.column_limit is not None:
        settings["column_limit"] = float(released.column_limit)
    return settings


def noise_of_means(
    level: float | NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on each mean; NaN for a column left out.

    ``level`` is that of scaled columns, of those that were kept where they differ.
    """
    kept = np.isfinite(scale)
    noise = np.full(scale.shape, np.nan)
    noise[kept] = level * scale[kept]
    return noise


def _not_the_centre(values: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """Return how likely each component is another direction than the error of the centre.

    That error adds one direction of about its own expected squared length: likeliest the component
    nearest to it, by the ratio of sizes, and none where all are far larger. Noise may cut a value
    to zero, so a smaller one is never farther than a factor of e**_SIZES.
    """
    if not (error > 0 and values.size):
        return np.ones(values.size)
    with np.errstate(divide="ignore"):
        far = np.log(np.maximum(values, np.finfo(np.float64).tiny) / error) / _SIZES
    weights = np.exp(-(np.maximum(far, -1.0) ** 2) / 2)
    if far[-1] <= 0:  # it is among those released
        return np.asarray(1 - weights / max(float(weights.sum()), np.finfo(np.float64).tiny))
    return np.asarray(1 - weights / max(1.0, float(weights.sum())))


def _floors(
    noisy: NoisyComponents, unit: float, centre_error: float, freedom: float
) -> tuple[float, float]:
    """Return what noise of the matrix alone, and of matrix and centre, rarely exceeds."""
    if noisy.law is not None:
        law = noisy.law.scaled(unit)
        return law.floor(), law.floor(centre_error, freedom)
    matrix = noisy.floor * unit
    if not noisy.floor:
        return matrix, 0.0
    return matrix, floor_without_law(matrix, centre_error, freedom)


def floor_without_law(floor: float, error: float, freedom: float) -> float:
    """Return the eigenvalue that noise and the error of a centre rarely exceed.

    For noise whose law is not known. ``error`` is the expected squared length of the centre's
    error, which adds a direction of its own; ``freedom`` are its degrees of freedom.
    """
    return floor + error * largest_square(freedom)


def distinguishable_components(
    values: NDArray[np.float64],
    inside: NDArray[np.bool_],
    floors: tuple[float, float],
    error: float,
    freedom: float,
) -> NDArray[np.bool_]:
    """Return which components stand out from the noise of the matrix and the error of the centre.

    ``inside`` says which mostly lie in the span of as many components without noise. ``floors``: of
    the matrix, and of matrix and centre. The error of the centre shows as one
    component between the two: most likely the one of its own size. With few degrees of freedom its
    size varies too much to say which.
    """
    matrix, whole = floors
    clear = np.asarray((values > matrix) & inside)
    suspects = np.flatnonzero(clear & (values <= whole))
    if whole > matrix and suspects.size:
        if freedom < _MIN_FREEDOM:
            clear[suspects] = False
        else:
            clear[suspects[np.argmin(np.abs(values[suspects] - error))]] = False
    return clear


def public_settings(
    *,
    n_features: int,
    n_rows: int | None,
    stated: StatedBounds,
    centred: bool,
    on_invalid: str,
    on_missing: str,
    noise_scale: float,
    noise_floor: float,
    reason: str,
    feature_names: Sequence[Any] | NDArray[Any] | None,
    balance: Balance | None,
    encoding: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the settings that every release has."""
    names = None if feature_names is None else [str(name) for name in feature_names]
    return {
        "n_features": int(n_features),
        "n_rows": n_rows,
        **stated.as_dict(),
        "assume_centered": centred,
        "on_invalid": on_invalid,
        "on_missing": on_missing,
        "noise_scale": noise_scale,
        "noise_floor": noise_floor,
        "choice": reason or None,
        "feature_names": names,
        **({} if balance is None else {"ledger": asdict(balance)}),
        **({"encoding": dict(encoding)} if encoding else {}),
    }


def singular_values(variance: NDArray[np.float64], rows: float | None) -> NDArray[np.float64]:
    """Return the root of variance times rows; NaN where their number is private."""
    return np.sqrt(variance * (math.nan if rows is None else rows))


def warn_of_components(estimator: BaseEstimator) -> None:
    """Warn where no component is clear, or one named column decides them by its unit."""
    clear = estimator.distinguishable_
    if not clear.any():
        if estimator.noise_floor_ > 0:  # otherwise nothing is known about the noise
            warning = ComponentsWarning(
                "no component stands out from the noise, so do not interpret any: give more rows "
                "or a larger budget"
            )
            warnings.warn(warning, stacklevel=3)
        return
    _warn_of_mixed(estimator)
    if estimator.scale is not None or not hasattr(estimator, "feature_names_in_"):
        return
    shares = _column_shares(
        estimator.components_[clear], estimator.explained_variance_ratio_[clear]
    )
    column = int(np.argmax(shares))
    if not _dominates(float(shares[column]), shares.size):
        return
    name, share = estimator.feature_names_in_[column], percent(float(shares[column]))
    warning = ComponentsWarning(
        f"the column {str(name)!r} alone holds {share} of the released variance: pass ",
        option("scale", "private"),
        " to standardise columns of different units, or ",
        SAME_UNIT,
    )
    warnings.warn(warning, stacklevel=3)


def _warn_of_mixed(estimator: BaseEstimator) -> None:
    """Warn where even the first component is mostly mixed with others."""
    first = next(iter(estimator.component_groups_), None)
    if first is None or not estimator.reproducibility_[0] < _MIN_FIRST:
        return
    warning = ComponentsWarning(
        f"{first}: read them as a span, not one by one (component_groups_), or give more rows or a "
        "larger budget"
    )
    warnings.warn(warning, stacklevel=4)


def _column_shares(
    components: NDArray[np.float64], ratios: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of the released variance that components have in each column, at least."""
    return np.asarray(np.minimum(1.0, ratios @ components**2))


def _dominates(share: float, columns: int) -> bool:
    """Return whether a column has most of the variance and far more than an average one."""
    others = (1 - share) / max(1, columns - 1)
    return columns > 1 and share > _MIN_COLUMN_SHARE and share > _MIN_COLUMN_RATIO * others


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
        fitted: "RegressionResult",
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
            "n_features": request.n_columns,
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


def regression_numbers(fitted: "RegressionResult") -> RegressionNumbers:
    """Return what follows from a released model: post-processing."""
    model = fitted.model
    p = model.scale.size
    parts = [_in_units(model, target) for target in model.targets]
    coef = np.array([part[0][:p] for part in parts])
    intercept = np.array([part[0][p] for part in parts])
    sampling, noise, centre = (np.array([part[i] for part in parts]) for i in (1, 2, 3))
    half = -float(ndtri((1 - INTERVAL_LEVEL) / 2)) * np.sqrt(sampling + noise)
    interval = np.stack([centre - half, centre + half], axis=-1)
    boxes = fitted.plan.targets.boxes
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
