"""The facts of a release in a few words, from the release alone."""

import numpy as np

from eigenveil.release import Release

__all__ = ["headline", "owners", "promise", "standing_out"]

_MOST_OWNERS = 20
_MARGIN = "\n" + " " * 13


def standing_out(release: Release) -> int | None:
    """How many components, or eigenvalues, stand out from the noise; None without a noise law."""
    if "distinguishable" in release.arrays:
        return int(np.sum(release.arrays["distinguishable"] > 0))
    floor = release.settings["noise_floor"]
    if not floor:
        return None
    noisy = release.arrays.get("noisy_eigenvalues")
    values = np.linalg.eigvalsh(release.arrays["covariance"]) if noisy is None else noisy
    return int(np.sum(values > floor))


def headline(release: Release) -> str:
    """What was released."""
    wide = _counted(release.settings["n_features"], "column")
    clear = standing_out(release)
    if release.kind == "pca":
        what = f"{_counted(len(release.arrays['components']), 'principal component')} of {wide}"
        trust = _standing(clear, "them")
    else:
        what = f"covariance matrix of {wide}"
        trust = _standing(clear, "its eigenvalues")
    return f"{what}, by {release.mechanism}{trust}"


def promise(release: Release) -> str:
    """The guarantee's own words, one clause a line."""
    return f"guarantee    {_MARGIN.join(release.guarantee.lines())}"


def owners(release: Release) -> list[str]:
    """Who made the release together, one owner a line; none where it has no such list."""
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
    return f"{number:,} {name}{'s' * (number != 1)}"
