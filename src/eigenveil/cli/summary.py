"""The facts of a release in a few words, from the release alone."""

from collections.abc import Sequence

import numpy as np

from eigenveil.release.artefact import Release
from eigenveil.report.views import (
    captured_sentence,
    component_agreement,
    component_groups,
    eigenvalues,
    estimand,
    feature_names,
    hidden_variances,
    left_out,
    loadings,
    means_alone,
    spectrum,
    standardised,
    target_name,
    why_left_out,
)
from eigenveil.text import listed, percent, plural

_MOST_OWNERS = 20
_MOST_COMPONENTS, _MOST_LOADINGS = 10, 4
_MOST_COEFFICIENTS, _MOST_TARGETS = 20, 3
_MARGIN = 13  # columns of what a line is about


def distinguishable_components(release: Release) -> int | None:
    """Return how many components, eigenvalues or coefficients stand out from the noise; None
    without a noise law, and where no coefficients were estimated.
    """
    if release.kind == "regression":
        if means_alone(release.settings):
            return None
        ends = release.arrays["interval"][:, :-1]
        return int(np.sum((ends[..., 0] > 0) | (ends[..., 1] < 0)))
    if "distinguishable" in release.arrays:
        return int(np.sum(release.arrays["distinguishable"] > 0))
    floor = release.settings["noise_floor"]
    if not floor:
        return None
    noisy = release.arrays.get("noisy_eigenvalues")
    values = eigenvalues(release.arrays["covariance"]) if noisy is None else noisy
    return int(np.sum(values > floor))


def headline(release: Release) -> str:
    """Return what was released."""
    wide = _columns(release)
    clear = distinguishable_components(release)
    if release.kind == "pca":
        what = f"{_counted(len(release.arrays['components']), 'principal component')} of {wide}"
        trust = _standing(clear, "them")
    elif release.kind == "regression" and means_alone(release.settings):
        what = f"mean or median of {_counted(len(release.arrays['coef']), 'target')} alone"
        trust = "; coefficients were not estimated"
    elif release.kind == "regression":
        targets = _counted(len(release.arrays["coef"]), "target")
        what = f"regression of {targets} on {wide}"
        kept = release.arrays["coef"][:, np.isfinite(release.arrays["scale"])]
        found = f"{clear} of {_counted(kept.size, 'coefficient')}"
        trust = f"; {found} told from zero"
    else:
        what = f"covariance matrix of {wide}"
        trust = _standing(clear, "its eigenvalues")
    return f"{what}, by {release.mechanism}{trust}"


def _columns(release: Release) -> str:
    """Return how many columns a release is about, and which were left out."""
    every = release.settings["n_features"]
    wide = _counted(every, "column")
    out = left_out(release.settings, release.arrays)
    if not out:
        return wide
    return f"{every - len(out):,} of {wide}, without {listed(out)} ({why_left_out(release.arrays)})"


def target(release: Release) -> list[str]:
    """Return which directions were estimated, and how to ask for the others; none of a matrix."""
    if release.owners or release.kind == "regression":
        return []
    if release.kind == "covariance":
        return [f"target       {estimand(release.settings)}"]
    if standardised(release.settings):
        hidden = hidden_variances(release.settings)
        other = "a new stream " if "streaming" in release.proofs else ""
        return [
            "target       components of standardised columns (correlations), of rows pulled in to "
            f"the released limits; --scale same asks {other}for those of columns as they are",
            *([f"hidden       {hidden}"] if hidden else []),
        ]
    found = spectrum(release.kind, release.settings, release.arrays)
    if found is not None and found.of_unit_rows:
        asks = "--row-norm asks for"
        if "streaming" in release.proofs:
            asks = "--row-norm private asks a new stream for"
        unit_rows = "directions of rows scaled to unit length"
        return [f"target       {unit_rows}; {asks} those of the covariance itself"]
    if release.settings["row_norm"] is None:
        return []
    if "streaming" in release.proofs:
        divided = (release.arrays["scale"] != 1).any()
        taken = "divided by the stated scales" if divided else "as they are"
        return [
            f"target       components of columns {taken}, of rows pulled in to the released "
            "distance; --scale private asks a new stream for those of standardised columns"
        ]
    if "horizon" in release.settings:
        return [
            "target       directions of the covariance of clipped rows; without --row-norm those "
            "of unit rows are released, with less noise"
        ]
    return [
        "target       directions of the covariance of clipped rows; --mechanism spherical asks for "
        "those of unit rows, with less noise"
    ]


def components(release: Release) -> list[str]:
    """Return a table of released components, one a line; none of other releases."""
    if release.kind != "pca":
        return []
    share = release.arrays["explained_variance_ratio"]
    name, kept = component_agreement(release.arrays)
    clear, wide = release.arrays["distinguishable"] > 0, len(name) + 2
    lines = [
        f"{'component':<13}{'share':>7}{'together':>11}{name:>{wide}}  largest certain loadings"
    ]
    for i, together in enumerate(np.cumsum(share)[:_MOST_COMPONENTS].tolist()):
        agreed, heavy = "-", "not clear of noise: do not interpret"
        if clear[i]:
            heavy = _loadings(release, i)
            agreed = "not stated" if np.isnan(kept[i]) else percent(float(kept[i]))
        shares = f"{percent(float(share[i]), 1):>7}{percent(min(1.0, together), 1):>11}"
        lines.append(f"{i + 1:<13}{shares}{agreed:>{wide}}  {heavy}")
    if (more := len(share) - _MOST_COMPONENTS) > 0:
        lines.append(f"and {more:,} more: report.html has all")
    if told := captured_sentence(release.settings, release.arrays):
        lines += ["", told]
    return [*lines, *component_groups(release.arrays)]


def coefficients(release: Release) -> list[str]:
    """Return tables of released coefficients with intervals; none of other releases."""
    if release.kind != "regression":
        return []
    if means_alone(release.settings):
        return _means(release)
    lines: list[str] = []
    for target in range(min(_MOST_TARGETS, len(release.arrays["coef"]))):
        lines += ["", *_coefficients(release, target)] if lines else _coefficients(release, target)
    if (more := len(release.arrays["coef"]) - _MOST_TARGETS) > 0:
        lines += ["", f"and {more:,} more {plural('target', more)}: eigenveil export writes all"]
    return lines


def _means(release: Release) -> list[str]:
    """Return one line for each target, where nothing else was estimated."""
    arrays = release.arrays
    count = len(arrays["intercept"])
    names = [target_name(release.settings, i) for i in range(min(count, _MOST_COEFFICIENTS))]
    wide = max(_MARGIN, 2 + max(map(len, names)))
    level = percent(release.settings["interval_level"])
    lines = [f"{'target':<{wide}}{'mean/median':>12}  {level} interval"]
    for i, name in enumerate(names):
        low, high = arrays["interval"][i, -1]
        known = np.isfinite(low) and np.isfinite(high)
        told = f"{low:.4g} to {high:.4g}" if known else "not known"
        lines.append(f"{name:<{wide}}{arrays['intercept'][i]:>12.4g}  {told}")
    if more := count - len(names):
        lines.append(f"and {more:,} more: eigenveil export writes all")
    return [*lines, "a private mean, or median of means, of each target is all that was released"]


def _coefficients(release: Release, target: int) -> list[str]:
    """Return one line for each column in the order of the table, and one for the intercept."""
    arrays = release.arrays
    kept = np.flatnonzero(np.isfinite(arrays["scale"]))
    shown = kept[:_MOST_COEFFICIENTS]
    names = (*feature_names(release.settings, shown), "(intercept)")
    numbers = (*arrays["coef"][target, shown], arrays["intercept"][target])
    ends = arrays["interval"][target, [*shown, -1]]
    called = target_name(release.settings, target)
    wide = max(_MARGIN, 2 + max(map(len, (*names, called))))
    level = percent(release.settings["interval_level"])
    lines = [f"{called:<{wide}}{'coefficient':>12}  {level} interval"]
    for name, number, (low, high) in zip(names, numbers, ends, strict=True):
        clear = low > 0 or high < 0 or name == names[-1]
        told = f"{low:.4g} to {high:.4g}"
        said = told if clear else f"{told:<26}not told from zero"
        lines.append(f"{name:<{wide}}{number:>12.4g}  {said}")
    if not arrays["coef"][target].any():
        lines.append("all coefficients are zero: nothing stands out from the noise")
    if more := len(kept) - len(shown):
        lines.append(f"and {more:,} more: eigenveil export writes all")
    return [line.rstrip() for line in lines]


def _loadings(release: Release, component: int) -> str:
    shown = loadings(release.settings, release.arrays, component, _MOST_LOADINGS)
    pairs = [
        (name, value)
        for name, value, certain in zip(
            shown.names, shown.values.tolist(), shown.certain, strict=True
        )
        if certain or name == shown.names[0]
    ]
    return ", ".join(f"{value:+.2f} {name}" for name, value in pairs)


def headed(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines with a title in the margin of the first."""
    return [f"{'' if i else title:<{_MARGIN}}{line}" for i, line in enumerate(lines)]


def owners(release: Release) -> list[str]:
    """Return who made the release together, one owner a line; none where it has no list."""
    if not release.owners:
        return []
    shown = release.owners[:_MOST_OWNERS]
    wide = max(len(owner.name) for owner in shown)
    lines = [
        f"  {owner.name:<{wide}}  {_counted(owner.n_rows, owner.guarantee.protects.name)}; "
        f"{owner.guarantee.budget}; weight {owner.basis_weight:.3g} in directions, "
        f"{owner.values_weight:.3g} in values{'; simulation' * owner.guarantee.simulated}"
        for owner in shown
    ]
    more = len(release.owners) - len(shown)
    rest = [f"  and {more:,} more: report.html lists all"] if more else []
    return [f"owners       {len(release.owners):,}", *lines, *rest]


def _standing(clear: int | None, those: str) -> str:
    if clear is None:
        return ""
    return f"; {clear} of {those} {'stands' if clear == 1 else 'stand'} out from the noise"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {plural(name, number)}"
