"""Numbers for the pictures and sentences about a release, from released arrays and settings.

The page and the figures draw the same numbers; they are prepared here, once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.cleaning import correlation_noise, entry_noise
from eigenveil.numerics.component_law import SIGN_ERRORS, ComponentStatement
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.clauses import KNOWN_TURN
from eigenveil.text import listed, percent, printable

_BITS = 40  # of an eigenvalue, counted from the largest one
_LARGEST_CORRELATION = 99.99  # beyond 1 it is noise, and says no more by being larger
UNIT_ROWS = "share of variance of unit rows"
Arrays = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Released eigenvalues beside what noise alone produces.

    Attributes
    ----------
    values : array
        Eigenvalues, largest first.
    clear : array of bool
        Which of them stand above the noise.
    floor : float
        What noise in the matrix rarely exceeds.
    centre_floor : float
        The same with the error of the centre, which may add one component.
    unit : str
        What the values are measured in.

    """

    values: NDArray[np.float64]
    clear: NDArray[np.bool_]
    floor: float
    centre_floor: float
    unit: str

    @property
    def of_unit_rows(self) -> bool:
        """Whether rows were scaled to the same length."""
        return self.unit == UNIT_ROWS


def spectrum(kind: str, settings: Mapping[str, Any], arrays: Arrays) -> Spectrum | None:
    """Return the spectrum of a release, or None where noise alone reaches no known level."""
    whole = float(settings["noise_floor"])
    floor = float(settings.get("matrix_floor", whole))
    if floor == 0 or kind == "regression":
        return None
    if kind == "pca":
        values, clear = arrays["eigenvalues"], arrays["distinguishable"] > 0
    else:
        if "noisy_eigenvalues" in arrays:  # what noise alone exceeds is known of these
            values = arrays["noisy_eigenvalues"]
        else:
            values = eigenvalues(arrays["covariance"])
        clear = values > floor
    if standardised(settings):
        unit = "variance of standardised columns"
    elif kind == "pca" and settings["row_norm"] is None:
        unit = UNIT_ROWS
    elif "scale" in arrays and (arrays["scale"] != 1).any():
        unit = "variance of scaled columns"
    else:
        unit = "variance (squared column units)"
    return Spectrum(values, clear, floor, whole, unit)


def estimand(settings: Mapping[str, Any]) -> str:
    """Return what a released matrix is an estimate of."""
    if settings["noise_scale"] == 0:
        return "nothing: it is the zero matrix, the best answer where noise hides everything"
    if "changed_share" in settings:
        share, noise = settings["changed_share"], settings["changed_share_noise"]
        told = f"{percent(min(max(0.0, share), 1.0), 1)} +- {percent(noise, 1)}"
        return (
            "the covariance of your rows; those beyond the released limits were pulled in to "
            f"them: {told}"
        )
    length = settings.get("chosen_row_norm") or settings["row_norm"]
    if length is None:
        return "the covariance of your rows"
    return (
        f"the covariance of your rows; those farther than {length:.6g} from the centre were "
        "pulled in to it"
    )


def unknown_turns(arrays: Arrays) -> NDArray[np.bool_]:
    """Return columns of which the mean is known up to whole turns only: circles were too short."""
    scale = clipping_scale(arrays)
    if "turn" not in arrays:
        return np.zeros(len(scale), dtype=bool)
    return np.asarray(arrays["turn"] / scale < KNOWN_TURN)


def clipping_scale(arrays: Arrays) -> NDArray[np.float64]:
    """Return the scales of columns in which rows were centred and limited."""
    unscaled = np.ones(len(arrays["mean"] if "mean" in arrays else arrays["location"]))
    return arrays.get("clipping_scale", arrays.get("scale", unscaled))


def eigenvalues(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the eigenvalues of a symmetric matrix, largest first, as every machine finds them.

    Machines differ in the last digits, and of a zero in all of them: these are cut off.
    """
    exponent = math.frexp(max(float(matrix.max()), -float(matrix.min())))[1]
    with np.errstate(over="ignore"):
        values = np.linalg.eigvalsh(np.ldexp(matrix, -exponent))[::-1]
        kept = np.ldexp(np.rint(np.ldexp(values, _BITS)) + 0.0, exponent - _BITS)
    largest = np.finfo(np.float64).max
    return np.asarray(np.clip(kept, -largest, largest))


def component_agreement(arrays: Arrays) -> tuple[str, NDArray[np.float64]]:
    """Return how far components agree with those without noise, and the name of that number.

    With single components where the release says so, with the span of all otherwise.
    """
    single = _single(arrays)
    if single is None:
        return "reliability", arrays["reliability"]
    return "reproducibility", single.reproducibility


def component_groups(arrays: Arrays) -> list[str]:
    """Return sentences about components that stand out and cannot be told apart."""
    single = _single(arrays)
    if single is None:
        return []
    clear = arrays["distinguishable"] > 0
    return [
        str(group)
        for group in single.groups
        if clear[group.first - 1 : group.last].any()
        and not (group.closed and group.first == group.last)
    ]


def _single(arrays: Arrays) -> ComponentStatement | None:
    if "component_mixing" not in arrays:
        return None
    return ComponentStatement(arrays["component_mixing"], arrays["loading_errors"])


@dataclass(frozen=True, slots=True, eq=False)
class Loadings:
    """The columns that weigh most in one component.

    Attributes
    ----------
    component : int
        Its index.
    names : tuple of str
        Columns, the heaviest first.
    values : array
        Their loadings.
    n_columns : int
        How many columns have one.
    reach : array
        How far noise may move each loading: beyond it, the sign is certain. Three standard errors;
        where there are none, about the largest loading that noise puts on any column:
        ``sqrt(2 log(2 d))`` times its root mean square, ``sqrt((1 - reliability)/d)``.
    errors : array or None
        Standard error of each loading, where the release has them.

    """

    component: int
    names: tuple[str, ...]
    values: NDArray[np.float64]
    n_columns: int
    reach: NDArray[np.float64]
    errors: NDArray[np.float64] | None = None

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Which loadings lie beyond the reach of noise."""
        return np.asarray(np.abs(self.values) > self.reach)


def loadings(
    settings: Mapping[str, Any], arrays: Arrays, component: int, most: int = 12
) -> Loadings:
    """Return the heaviest ``most`` loadings of one component."""
    kept = np.flatnonzero(np.isfinite(arrays["scale"]))  # the others were left out
    weights = arrays["components"][component]
    heaviest = kept[np.argsort(-np.abs(weights[kept]), kind="stable")[:most]]
    names = feature_names(settings, heaviest)
    reach = loading_reach(arrays, component)[heaviest]
    errors = arrays["loading_errors"][component, heaviest] if "loading_errors" in arrays else None
    return Loadings(component, names, weights[heaviest], kept.size, reach, errors)


def loading_reach(arrays: Arrays, component: int) -> NDArray[np.float64]:
    """Return how far noise may move each loading of a component, as `Loadings` describes it."""
    if "loading_errors" in arrays:
        return np.asarray(SIGN_ERRORS * arrays["loading_errors"][component])
    kept = np.isfinite(arrays["scale"])
    d = int(kept.sum())
    noise = 1 - min(1.0, max(0.0, float(arrays["reliability"][component])))
    return np.where(kept, math.sqrt(noise / d * 2 * math.log(2 * d)), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """A released covariance as correlations.

    Attributes
    ----------
    columns : array of int
        Which columns are shown, in the order of the table.
    names : tuple of str
        Their names.
    values : array
        Correlations, none of them beyond 100; NaN beside a column whose released variance noise
        alone could have.
    noise : array
        Standard deviation of the noise on each, to first order.
    n_columns : int
        How many columns the release has.

    """

    columns: NDArray[np.intp]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    noise: NDArray[np.float64]
    n_columns: int

    def strongest(self, count: int) -> list[tuple[str, str, float, float]]:
        """Return the pairs of different columns that go together most, or against one another.

        With the standard deviation of the noise on each.
        """
        first, second = np.triu_indices(len(self.columns), 1)
        values = self.values[first, second]
        size = np.where(np.isnan(values), 0.0, np.abs(values))
        order = np.argsort(-size, kind="stable")[:count]
        return [
            (
                self.names[first[i]],
                self.names[second[i]],
                float(values[i]),
                float(self.noise[first[i], second[i]]),
            )
            for i in order
            if size[i] > 0
        ]


def correlations(settings: Mapping[str, Any], arrays: Arrays, most: int = 60) -> Correlations:
    """Return the correlations of all columns, or of the ``most`` with the largest released
    variance.
    """
    covariance = arrays["covariance"]
    variance = covariance.diagonal()
    shown = np.sort(np.argsort(-variance, kind="stable")[:most])
    scale = arrays["scale"] if "scale" in arrays else np.ones(len(variance))
    with np.errstate(over="ignore", invalid="ignore"):  # noise may be of any size
        noise = settings["noise_scale"] * np.where(np.isfinite(scale), scale, 0.0) ** 2
        of_entries = arrays.get("covariance_noise", entry_noise(noise))
        among = np.ix_(shown, shown)
        level = correlation_noise(covariance[among], of_entries[among])
        spread = np.sqrt(np.where(np.isnan(level.diagonal()), np.nan, variance[shown]))
        values = covariance[among] / np.outer(spread, spread)
    values = np.clip(values, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
    return Correlations(shown, feature_names(settings, shown), values, level, len(covariance))


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Coefficients of one target, each times the scale of its column so that they compare.

    Attributes
    ----------
    target : str
        Name of the target.
    names : tuple of str
        Columns, those farthest from zero first, in half widths of their intervals.
    values, low, high : arrays
        Coefficients and the ends of their intervals.
    noise_share : array
        Share of the squared widths that is noise.
    n_columns : int
        How many columns have a coefficient.

    """

    target: str
    names: tuple[str, ...]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    noise_share: NDArray[np.float64]
    n_columns: int

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Which intervals leave zero out."""
        return np.asarray((self.low > 0) | (self.high < 0))


def coefficients(
    settings: Mapping[str, Any], arrays: Arrays, target: int, most: int = 24
) -> Coefficients:
    """Return the ``most`` coefficients of one target that stand out most, of those measured."""
    measured = np.isfinite(arrays["interval"][target, :-1]).all(axis=-1)
    kept = np.flatnonzero(np.isfinite(arrays["scale"]) & measured)
    scale = arrays["scale"][kept]
    with np.errstate(over="ignore"):  # noise may be of any size
        values = arrays["coef"][target, kept] * scale
        low, high = (arrays["interval"][target, kept, end] * scale for end in (0, 1))
    largest = np.finfo(np.float64).max
    values, low, high = (np.clip(numbers, -largest, largest) for numbers in (values, low, high))
    half = np.maximum(high / 2 - low / 2, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        order = np.argsort(-np.abs(values / half), kind="stable")[:most]
    return Coefficients(
        target=target_name(settings, target),
        names=feature_names(settings, kept[order]),
        values=values[order],
        low=low[order],
        high=high[order],
        noise_share=arrays["noise_share"][target, kept[order]],
        n_columns=kept.size,
    )


def feature_names(settings: Mapping[str, Any], columns: NDArray[np.intp]) -> tuple[str, ...]:
    """Return names of columns; as scikit-learn calls them where they have none."""
    names = settings["feature_names"]
    if names is None:
        return tuple(f"x{i}" for i in columns)
    return tuple(printable(names[i]) for i in columns)


def left_out(settings: Mapping[str, Any], arrays: Arrays) -> tuple[str, ...]:
    """Return the columns without a private scale, or whose variance noise hides."""
    out = np.zeros(settings["n_features"], dtype=bool)
    box = settings.get("bounds")
    if "scale" in settings.get("shares", {}):
        out |= np.isinf(arrays.get("scale", out))
    if "scale" in arrays and "covariance" in arrays and arrays["covariance"].any():
        constant = False if box is None else np.equal(box["low"], box["high"])  # as stated
        out |= (arrays["covariance"].diagonal() == 0) & ~np.asarray(constant)
    return feature_names(settings, np.flatnonzero(out))


def standardised(settings: Mapping[str, Any]) -> bool:
    """Return whether components are those of standardised columns."""
    return "hidden_columns" in settings


def hidden_variances(settings: Mapping[str, Any]) -> str:
    """Return which columns have a standard deviation that noise hides; empty if there are none."""
    hidden = np.array(settings.get("hidden_columns", []), dtype=np.intp)
    if not hidden.size:
        return ""
    names, their = listed(feature_names(settings, hidden)), "its" if hidden.size == 1 else "their"
    return f"noise hides the variance of {names}: {their} loadings are rough"


def why_left_out(arrays: Arrays) -> str:
    """Return why a release has nothing about some columns."""
    hidden = np.isfinite(arrays.get("scale", np.zeros(1))).all()
    return "variance hidden by noise" if hidden else "no scale found"


def means_alone(settings: Mapping[str, Any]) -> bool:
    """Return whether a regression has one number for each target, and no coefficients."""
    return "gram" not in settings.get("shares", {})


def target_name(settings: Mapping[str, Any], target: int) -> str:
    """Return the name of a target; its number where it has none."""
    names = settings.get("target_names")
    return f"target {target + 1}" if names is None else printable(names[target])


def spending(balance: Balance, now: Balance | None = None) -> list[tuple[str, float]]:
    """Return parts of a ledger's budget, in order of time; they sum to what was granted.

    Costs compose to less than their sum, so a part is what the total grew by.
    """
    latest = balance if now is None else now
    parts = [
        ("spent before", balance.spent_before),
        ("this release", balance.spent - balance.spent_before),
    ]
    if now is not None:
        parts.append(("spent since", now.spent - balance.spent))
    return [*parts, ("not spent", max(0.0, latest.granted - latest.spent))]


_FINE = 0.005  # standard error below which a tenth of a percent is shown


def captured_brief(settings: Mapping[str, Any]) -> str:
    """Return the share of variance that components hold; empty where none was released."""
    found = settings.get("captured")
    if found is None:
        return ""
    return f"holding {_with_error(found['share'], found['share_noise'])} of the variance"


def captured_sentence(
    settings: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]
) -> str:
    """Return what components hold of the variance, and of what the best as many hold.

    Empty where that was not released.
    """
    found = settings.get("captured")
    if found is None or "components" not in arrays:
        return ""
    count = len(arrays["components"])
    these = "This component holds" if count == 1 else f"These {count:,} components hold"
    best = "one" if count == 1 else f"{count:,}"
    share = _with_error(found["share"], found["share_noise"])
    of_best = _with_error(found["of_best"], found["of_best_noise"])
    return (
        f"{these} {share} of the variance of {_rows(settings, arrays)}, and {of_best} of what any "
        f"{best} could."
    )


def _rows(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]) -> str:
    """Return which rows the shares are about, as the release saw them."""
    filled = ", missing values filled with the centre" * (settings.get("on_missing") == "centre")
    if "row_norm" in settings["captured"]:
        length = settings["captured"]["row_norm"]
        return f"rows of standardised columns pulled in to {length:.6g}{filled}"
    length = settings.get("chosen_row_norm") or settings["row_norm"]
    scale = arrays["scale"]
    scaled = " of scaled columns" * bool((scale[np.isfinite(scale)] != 1).any())
    if settings.get("centring") == "paired":
        clipped = " of unit length" if length is None else ", pulled in"
        return f"differences of pairs of rows{scaled}{clipped}{filled}"
    if length is None:
        return f"unit rows{scaled}{filled}"
    return f"rows{scaled} pulled in to {length:.6g}{filled}"


def _with_error(share: float, noise: float) -> str:
    places = int(noise < _FINE)
    return f"{percent(share, places)} +- {percent(noise, places)}"
