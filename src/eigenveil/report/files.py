"""Reports on disk, beside the release folder and never inside it."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release
from eigenveil.release.content import entries_named
from eigenveil.report.displays import (
    CovarianceDisplay,
    LoadingsDisplay,
    ReleaseDisplay,
    ScreeDisplay,
    matplotlib,
)
from eigenveil.report.page.document import render
from eigenveil.report.views import spectrum
from eigenveil.storage.paths import require_new, require_outside, write_new

_MOST_COMPONENTS = 6
_DPI = 200


def write(release: Release, path: str | Path, ledger: Ledger | None = None) -> Path:
    """Write the page of a release to a new file; with its ledger, also what was spent since."""
    path = Path(path)
    require_new(path)
    balance, now = (None, None) if ledger is None else _balances(release, ledger)
    page = render(
        release.guarantee,
        release.as_dict(),
        release.arrays,
        owners=release.owners,
        balance=balance,
        now=now,
    )
    try:
        write_new({path: page.encode()})
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None
    return path


def figures(
    release: Release, folder: str | Path, *, formats: tuple[str, ...] = ("png", "svg")
) -> list[Path]:
    """Write what a release can show as picture files, and return their paths."""
    folder = Path(folder)
    require_outside(folder)
    drawn: list[tuple[str, type[ReleaseDisplay], dict[str, Any]]] = []
    if spectrum(release.kind, release.settings, release.arrays) is not None:
        drawn.append(("scree", ScreeDisplay, {}))
    if release.kind == "covariance":
        drawn.append(("covariance", CovarianceDisplay, {}))
    elif release.kind == "pca":
        clear = np.flatnonzero(release.arrays["distinguishable"] > 0)[:_MOST_COMPONENTS]
        drawn += [(f"loadings-{i + 1}", LoadingsDisplay, {"component": i}) for i in clear.tolist()]
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, display, options in drawn:
            figure = matplotlib("figure").Figure(layout="constrained")
            with warnings.catch_warnings():  # of letters that no font has, or little room
                warnings.simplefilter("ignore", UserWarning)
                shown = display.from_release(release, ax=figure.subplots(), **options)
                figure.set_size_inches(shown.size)
                for form in formats:
                    paths.append(folder / f"{name}.{form}")
                    figure.savefig(paths[-1], dpi=_DPI)
    except OSError:
        raise InvalidParameterError(f"cannot write {folder}: choose a writable place") from None
    return paths


def _balances(release: Release, ledger: Ledger) -> tuple[Balance, Balance]:
    """Return the ledger's balance at the entry that paid for the release, and at present."""
    entries = entries_named(release.guarantee, ledger)
    if not entries:
        raise InvalidParameterError(
            f"{ledger} did not pay for this release: pass the one it names, or none"
        )
    return ledger.balance(entries[-1].number), ledger.balance()
