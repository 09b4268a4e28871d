"""Checks that the settings of a release agree with its promise, its arrays and each other.

They find careless changes, and releases that state less noise than was paid for. A forger who
changes everything alike passes: only a signature or a noted fingerprint shows who made a release.
Settings of several owners follow from messages that a release does not hold, and are not compared.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.symmetric import GaussianLaw, WishartLaw
from eigenveil.exceptions import AlteredReleaseError
from eigenveil.numerics.component_law import mostly_inside
from eigenveil.numerics.noise_law import NoiseLaw, error_freedom
from eigenveil.privacy.accounting import parts_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.clauses import (
    CENTRE_CLAUSES,
    DRAWN_CLAUSE,
    ENTRIES_CLAUSE,
    MODEL_CLAUSE,
    UNIT_LENGTH_CLAUSE,
    ZEROED_CLAUSE,
    changed_clause,
    clamping_clause,
    clipping_clause,
    drawn_clause,
    entries_clause,
    further_clipping_clause,
    unit_length_clause,
)

if TYPE_CHECKING:
    from eigenveil.release.artefact import Release


_TOLERANCE = 1e-6  # relative, of recomputed noise levels
_PUBLIC_ORIGINS = ("stated by the caller", "a public rule from the stated range")
_PRIVATE_ORIGIN = "chosen privately"
# Mechanisms whose noise on a second moment is one draw of a known law.
_GAUSSIAN = ("analyze-gauss", "spherical", "tangent", "cleaned", "gauss", "projection")
_WISHART = ("wishart",)
_OF_UNIT_ROWS = ("spherical", "tangent")  # whose noise is stated in shares of the released trace


def check_promise(release: "Release") -> None:
    """Raise `VerificationError` where the settings say other things than the promise."""
    settings = release.settings
    told = any("empty cells" in words for words in release.guarantee.bounds)
    # Owners treat their empty cells as each of them says.
    if not release.owners and told != (settings.get("on_missing") == "centre"):
        raise AlteredReleaseError("release.json says two things about empty cells")
    if settings["assume_centered"] and settings.get("centring", "none") != "none":
        raise AlteredReleaseError("release.json says two things about the centre")


def check_consistency(release: "Release") -> None:
    """Raise `VerificationError` at the first contradiction, of a release of this version."""
    try:
        subject = next(_contradictions(release), None)
    except (ArithmeticError, ValueError):
        subject = "numbers that are too large or too small"
    if subject is not None:
        raise AlteredReleaseError(f"release.json contradicts itself about {subject}")


def _contradictions(release: "Release") -> Iterator[str]:
    """Name the subjects on which a release says two things."""
    if not _box_fits(release.settings):
        yield "bounds"
    if release.owners:
        return
    yield from _of_public_numbers(release)
    yield from _of_shares(release)
    if release.kind == "regression":
        yield from _of_record_length(release)
    else:
        yield from _of_members(release)
        yield from _of_clipping(release)
        yield from _of_centre(release)
        yield from _of_noise(release)
    if release.kind == "pca":
        yield from _of_components(release.settings, release.arrays)


def _box_fits(settings: Any) -> bool:
    """Return whether stated ranges are one interval per column."""
    box = settings["bounds"]
    if box is None:
        return True
    if not len(box["low"]) == len(box["high"]) == settings["n_features"]:
        return False
    low, high = _box(box)
    return bool((low <= high).all())


def _box(box: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array(box["low"], np.float64), np.array(box["high"], np.float64)


def _of_public_numbers(release: "Release") -> Iterator[str]:
    settings, guarantee = release.settings, release.guarantee
    if (settings["n_rows"] is None) != (guarantee.adjacency is Adjacency.ADD_REMOVE):
        yield "the number of rows"
    drawn = settings.get("drawn_rows")
    told = {words for words in guarantee.bounds if words.startswith(DRAWN_CLAUSE)}
    if told != (set() if drawn is None else {drawn_clause(drawn)}) or (
        drawn is not None and settings["n_rows"] is not None
    ):
        yield "the number of rows"
    zeroed = any(words.startswith(ZEROED_CLAUSE) for words in guarantee.bounds)
    if settings["on_invalid"] != ("zero" if zeroed else "raise"):
        yield "invalid rows"
    if settings["assume_centered"] is None:
        yield "the centre"
    charged = guarantee.ledger is not None
    if ("ledger" in settings and not charged) or (
        charged and release.proofs and "ledger" not in settings
    ):
        yield "the ledger"
    if "horizon" in settings and not (
        settings.get("day", 0) <= settings["horizon"]
        and any(f"up to day {settings['horizon']} " in words for words in guarantee.bounds)
    ):
        yield "its days"


def _of_shares(release: "Release") -> Iterator[str]:
    settings = release.settings
    shares = settings.get("shares")
    if shares is None:
        return
    if not math.isclose(math.fsum(shares.values()), 1, rel_tol=_TOLERANCE):
        yield "shares of the budget"
    if release.kind == "regression" or not release.proofs:
        return
    stages = {
        "present": settings.get("on_missing") == "centre",
        "scores": "scores" in settings,
        "components": release.kind == "pca" and not _standardises(release),
        "matrix": release.kind == "covariance" or _standardises(release),
    }
    if settings.get("centring") == "located":
        stages["centre"] = True  # also paid for where none was found and pairs were taken
    if "captured" in settings:
        stages["captured"] = True  # also paid for where noise hid it
    if any((stage in shares) != wanted for stage, wanted in stages.items()):
        yield "stages of the budget"


def _standardises(release: "Release") -> bool:
    """Return whether components are those of the correlations of a released covariance."""
    return "correlation" in release.proofs


def _of_members(release: "Release") -> Iterator[str]:
    """Name settings that a release of this kind always has."""
    settings = release.settings
    if not release.proofs:  # of a version that stated less, and saved again
        return
    wanted = {"centring"}
    if release.kind == "pca":
        wanted.add("matrix_floor")
    if "continual" in release.proofs:
        wanted |= {"day", "horizon"}
        if release.kind == "covariance":
            wanted.add("centre_noise")
    elif "streaming" not in release.proofs:
        wanted.add("shares")
        if settings.get("centring") in ("mean", "located") and settings.get("drawn_rows") != 0:
            wanted.add("centre_noise")
    yield from sorted(wanted - settings.keys())


def _of_record_length(release: "Release") -> Iterator[str]:
    """Compare the length that records of a regression are clipped at with the promise."""
    norm = release.settings["row_norm"]
    told = [w for w in release.guarantee.bounds if w.startswith("records longer than ")]
    if [w.split()[3] for w in told] != ([] if norm is None else [f"{norm:.6g}"]):
        yield "row_norm"
    if release.settings["noise_floor"]:
        yield "its noise floor"


def _of_clipping(release: "Release") -> Iterator[str]:
    """Compare ranges and lengths of rows with the words of the promise."""
    settings, words = release.settings, release.guarantee.bounds
    box = settings["bounds"]
    clamped = {w for w in words if w.startswith("entries clamped")}
    if clamped != (set() if box is None else {clamping_clause(*_box(box))}):
        yield "bounds"
    norm, chosen = settings["row_norm"], settings.get("chosen_row_norm")
    if chosen is not None and not {
        clipping_clause(chosen, _PRIVATE_ORIGIN),
        further_clipping_clause(chosen),
    } & set(words):
        yield "chosen_row_norm"
    if chosen is None and any(
        w.startswith("rows ") and w.endswith("(chosen privately)") and "variances" not in w
        for w in words
    ):
        yield "chosen_row_norm"
    origins = (*_PUBLIC_ORIGINS, _PRIVATE_ORIGIN)
    limit, turn = settings.get("column_limit"), release.arrays.get("turn")
    told = {w for w in words if w.startswith(ENTRIES_CLAUSE)}
    said = set()
    if limit is not None and turn is not None:
        scale = release.arrays.get("clipping_scale", release.arrays["scale"])
        said = {entries_clause(limit, float((turn / scale).min()))}
    if told != said or (limit is None) != (turn is None):
        yield "limits of entries"
    share = settings.get("changed_share")
    told = {w for w in words if w.endswith("(a noisy share)")}
    noise = settings.get("changed_share_noise", 0.0)
    persons = release.guarantee.protects.owns_many
    if told != (set() if share is None else {changed_clause(share, noise, of_persons=persons)}):
        yield "the share of changed rows"
    if norm is not None and not {clipping_clause(norm, o) for o in origins} & set(words):
        yield "row_norm"
    distance = settings.get("unit_distance")
    length = UNIT_LENGTH_CLAUSE if distance is None else unit_length_clause(distance)
    if norm is None and not any(length in w or w == MODEL_CLAUSE for w in words):
        yield "row_norm"


def _of_centre(release: "Release") -> Iterator[str]:
    settings, words = release.settings, release.guarantee.bounds
    centring = settings.get("centring")
    if centring is None:
        return
    begin = {
        one for one, start in CENTRE_CLAUSES.items() if any(w.startswith(start) for w in words)
    }
    if "horizon" in settings:  # a mean comes with every running covariance
        if centring != "mean" and (centring == "none") != ("none" in begin):
            yield "the centre"
    elif begin and begin != {centring}:
        yield "the centre"
    name = "mean" if release.kind == "pca" else "location"
    none = centring == "paired" or settings.get("drawn_rows") == 0
    if np.isnan(release.arrays[name]).all() != none:
        yield "the centre"


def _of_noise(release: "Release") -> Iterator[str]:
    """Recompute the noise, and the eigenvalues it may reach, from what was paid for it."""
    settings = release.settings
    scale, floor = settings["noise_scale"], settings["noise_floor"]
    matrix_floor = settings.get("matrix_floor", floor)
    if floor < matrix_floor * (1 - _TOLERANCE) or (floor > 0 and not scale > 0):
        yield "its noise floor"
    law = _law(release)
    if law is None or "shares" not in settings:
        return
    if not scale > 0:
        yield "its noise"
        return
    expected = _paid_noise(release, law)
    if expected is not None and not _close(scale, expected):
        yield "its noise"
    law = law.scaled(scale / law.deviation)
    if not _close(matrix_floor, law.floor()) and "matrix_floor" in settings:
        yield "its noise floor"
    if settings.get("on_missing") == "centre" or settings["n_rows"] is None:
        return  # the error of the centre is stated in other units
    if release.mechanism in _OF_UNIT_ROWS or settings["row_norm"] is None:
        return
    if "centre_noise" not in settings and settings.get("centring") not in ("none", "paired"):
        return
    error = settings.get("centre_noise", 0.0) ** 2 * law.d
    # Earlier versions took Laplace noise of a pure centre for Gaussian noise.
    pure = not parts_of(release.guarantee.cost).mu_squared
    freedoms = {error_freedom(law.d, laplace=laplace) for laplace in (False, pure)}
    if not any(_close(floor, law.floor(error, freedom)) for freedom in freedoms):
        yield "its noise floor"


def _law(release: "Release") -> NoiseLaw | None:
    """Return the law of the noise at some strength, for the columns that were not left out."""
    if "lifted" in release.proofs:  # whose matrix has one more column
        return None
    scale = release.arrays.get("scale", np.ones(release.settings["n_features"]))
    d = int(np.isfinite(scale).sum())
    if d == 0:
        return None
    if release.mechanism in _GAUSSIAN:
        return GaussianLaw(d, 1.0)
    return WishartLaw(d, 1.0) if release.mechanism in _WISHART else None


def _paid_noise(release: "Release", law: NoiseLaw) -> float | None:
    """Return the noise level that the cost buys for the stated length of rows; None if unknown."""
    settings, shares = release.settings, release.settings["shares"]
    radius: float | None = settings.get("chosen_row_norm") or settings["row_norm"]
    rows, paired = settings["n_rows"], settings.get("centring") == "paired"
    corrected = settings.get("on_missing") == "centre" or "levels" in shares
    if radius is None or rows is None or corrected or release.mechanism in _OF_UNIT_ROWS:
        return None
    # Half differences of pairs: half as many records, and twice the variance when stated for rows.
    unit = float(2 * radius**2 / (rows // 2) if paired else radius**2 / rows)
    share: float = shares["components" if release.kind == "pca" else "matrix"]
    parts = parts_of(release.guarantee.cost)
    if parts.rho or parts.delta or bool(parts.pure) == bool(parts.mu_squared):
        return None
    if not parts.pure and isinstance(law, GaussianLaw):
        return math.sqrt(2) * unit / (parts.mu * math.sqrt(share))
    if parts.pure and isinstance(law, WishartLaw):
        return WishartLaw(law.d, math.fsum(parts.pure) * share / (2 * unit)).deviation
    return None


def _of_components(settings: Any, arrays: Any) -> Iterator[str]:
    """Compare which components stand out with their eigenvalues and the noise floor."""
    clear, reliability = arrays["distinguishable"] > 0, arrays["reliability"]
    values = arrays.get("eigenvalues")
    if values is None:
        return
    inside = reliability > 0
    if "component_mixing" in arrays:
        inside = mostly_inside(arrays["component_mixing"], reliability)
    beyond = (values > settings.get("matrix_floor", 0.0)) & inside
    # One that stands out may be taken for the error of the centre, of few columns each that may be.
    missed = beyond & ~clear
    suspects = beyond & (values <= settings["noise_floor"] * (1 + _TOLERANCE))
    wrong = (missed & ~suspects) if missed.sum() < 2 else missed != suspects
    if (clear & ~beyond).any() or wrong.any():
        yield "components that stand out"
    if not _proportional(arrays["explained_variance"], arrays["explained_variance_ratio"]):
        yield "explained variance"


def _proportional(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Return whether two arrays are multiples of each other, up to rounding."""
    largest = max(float(first.max()), np.finfo(np.float64).tiny)
    other = max(float(second.max()), np.finfo(np.float64).tiny)
    return bool((np.abs(first / largest - second / other) <= _TOLERANCE).all())


def _close(stated: float, expected: float) -> bool:
    return math.isclose(stated, expected, rel_tol=_TOLERANCE)
