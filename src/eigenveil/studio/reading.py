"""The tab *Read*: what a release says, verified first; two of them side by side; other formats."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from eigenveil.cli.summary import distinguishable_components, headline
from eigenveil.exceptions import InvalidParameterError
from eigenveil.release import files as release_files
from eigenveil.release.artefact import Release
from eigenveil.release.content import largest_arrays
from eigenveil.release.export import FORMATS
from eigenveil.release.verdict import Verdict
from eigenveil.report.views import (
    captured_sentence,
    coefficients,
    component_agreement,
    component_groups,
    correlations,
    eigenvalues,
    feature_names,
    hidden_variances,
    left_out,
    loading_reach,
    spectrum,
    standardised,
    why_left_out,
)
from eigenveil.storage.archive import zipped
from eigenveil.studio.server import Asked, Studio
from eigenveil.text import listed, printable

_RECEIVED = "received:"
_MOST_COLUMNS, _MOST_COMPONENTS, _MOST_PIXELS = 400, 12, 60
_KINDS = {"csv": "application/zip", "zip": "application/zip"}
# The page that lies in a release has its style inside, and nothing else.
_PAPER = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"


def receive(studio: Studio, asked: Asked) -> dict[str, str]:
    """Return the id of a release that is about to be dropped."""
    return {"id": studio.received.begin()}


def release(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return everything that the page shows of one release."""
    verdict = examine(studio, asked)
    found = verdict.release
    about = found.settings.get("about", {})
    return {
        "name": asked["name"],
        "title": about.get("title"),
        "about": dict(about),
        "kind": found.kind,
        "mechanism": found.mechanism,
        "created": found.created,
        "headline": headline(found),
        "checks": _checks(verdict),
        "fingerprint": verdict.fingerprint,
        "promise": promise_of(found),
        "n_rows": found.settings["n_rows"],
        "n_features": found.settings["n_features"],
        "left_out": _left_out(found),
        "standardised": standardised(found.settings),
        "hidden": hidden_variances(found.settings),
        "clear": distinguishable_components(found),
        "ledger": found.settings.get("ledger"),
        "owners": [
            {"name": printable(owner.name), "sentence": owner.guarantee.sentence()}
            for owner in found.owners
        ],
        "spectrum": _spectrum(found),
        "components": _components(found),
        "measure": _measure(found),
        "groups": component_groups(found.arrays) if found.kind == "pca" else [],
        "captured": captured_sentence(found.settings, found.arrays).replace("+-", "±"),
        "loadings": _loadings(found),
        "map": _map(found),
        "correlations": _correlations(found),
        "coefficients": _coefficients(found),
    }


def examine(studio: Studio, asked: Asked) -> Verdict:
    """Verify the release that was asked for, with a key or a fingerprint where they are given."""
    key, noted = asked.get("key"), asked.get("fingerprint")
    return Release.examine(
        _place(studio, asked.get("name")),
        key=studio.folder.existing(key) if key else None,
        fingerprint="".join(noted.split()) if noted else None,
    )


def promise_of(found: Release) -> dict[str, Any]:
    """Return the words of a promise, all of them the guarantee's own."""
    guarantee = found.guarantee
    return {
        "lead": guarantee.odds(),
        "statements": [list(pair) for pair in guarantee.statements()],
        "simulated": guarantee.simulated,
        "budget": guarantee.budget.as_dict(),
        "unit": guarantee.unit,
    }


def report(studio: Studio, asked: Asked) -> Response:
    """Return the page to print and sign, rendered from the numbers that were checked."""
    verdict = examine(studio, asked)
    return Response(
        verdict.release.page(),
        media_type="text/html",
        headers={"content-security-policy": _PAPER},
    )


def exported(studio: Studio, asked: Asked) -> Response:
    """Return a release in the format of another tool, as a file to download."""
    kind = asked.get("format")
    if kind not in _KINDS:
        raise InvalidParameterError(f"choose a format: {', '.join(_KINDS)}")
    place = _place(studio, asked.get("name"))
    found = examine(studio, asked).release
    stem = "release" if _is_received(asked["name"]) else _plain_name(place.stem)
    if kind == "zip":
        data, name = zipped(release_files.read(place, largest_arrays)), f"{stem}.zip"
    else:
        files = {f"{stem}.{kind}{end}": data for end, data in FORMATS[kind](found).items()}
        # A promise that is not inside goes beside.
        data, name = (
            (zipped(files), f"{stem}-{kind}.zip")
            if len(files) > 1
            else (next(iter(files.values())), f"{stem}.{kind}")
        )
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=_KINDS[kind], headers=headers)


def compare(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return two releases side by side; comparing costs nothing."""
    first, second = (
        examine(studio, {"name": asked.get(name)}).release for name in ("first", "second")
    )
    rows = [
        (name, left, right)
        for (name, left), (_, right) in zip(_facts(first), _facts(second), strict=True)
    ]
    together, why = _agreement(first, second)
    measures = [_measure(found) for found in (first, second)]
    return {"rows": rows, "agreement": together, "measures": measures, "why": why}


def _place(studio: Studio, name: object) -> Path:
    if isinstance(name, str) and _is_received(name):
        return studio.received.place(name.removeprefix(_RECEIVED))
    return studio.folder.existing(name)


def _is_received(name: str) -> bool:
    return name.startswith(_RECEIVED)


def _plain_name(stem: str) -> str:
    """Return a name that a header can hold."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in stem)


def _checks(verdict: Verdict) -> list[dict[str, Any]]:
    """Return what was checked, and what was not, with whether it is good news."""
    signed = verdict.signature is not None
    return [
        {"title": "Files intact", "good": True, "more": "they match SHA256SUMS"},
        {
            "title": (
                "Page matches the files"
                if verdict.page_checked
                else "Page covered by what you noted"
                if verdict.vouched
                else "Page not checked"
            ),
            "good": verdict.page_checked or verdict.vouched,
            "more": verdict.about_page,
        },
        {
            "title": (
                "Signed by the key you trust"
                if signed and verdict.trusted
                else "Signed by a key you have not checked"
                if signed
                else "Not signed"
            ),
            "good": signed and verdict.trusted,
            "more": verdict.about_signature,
        },
    ]


def _spectrum(found: Release) -> dict[str, Any] | None:
    shown = spectrum(found.kind, found.settings, found.arrays)
    if shown is None:
        return None
    most = 40
    return {
        "values": _numbers(shown.values[:most]),
        "clear": shown.clear[:most].tolist(),
        "floor": shown.floor,
        "centre_floor": shown.centre_floor,
        "unit": shown.unit,
        "unit_rows": shown.of_unit_rows,
        "all": len(shown.values),
    }


def _components(found: Release) -> list[dict[str, Any]]:
    if found.kind != "pca":
        return []
    arrays = found.arrays
    return [
        {"share": float(share), "agreement": kept, "clear": bool(clear > 0)}
        for share, kept, clear in zip(
            arrays["explained_variance_ratio"],
            _numbers(component_agreement(arrays)[1]),
            arrays["distinguishable"],
            strict=True,
        )
    ]


def _measure(found: Release) -> str | None:
    """Return the name of the number that says how far noise has left a component as it was."""
    return component_agreement(found.arrays)[0] if found.kind == "pca" else None


def _left_out(found: Release) -> str:
    """Return the columns that the release has nothing about, and why; empty if there are none."""
    out = left_out(found.settings, found.arrays)
    return f"{listed(out)} ({why_left_out(found.arrays)})" if out else ""


def _loadings(found: Release) -> dict[str, Any] | None:
    """Return the columns that weigh most in any of the first components, and their loadings."""
    if found.kind != "pca":
        return None
    arrays = found.arrays
    shown = arrays["components"][:_MOST_COMPONENTS]
    kept = np.flatnonzero(np.isfinite(arrays["scale"]))
    weight = np.abs(shown[:, kept]).max(axis=0)
    columns = np.sort(kept[np.argsort(-weight, kind="stable")[:_MOST_COLUMNS]])
    errors = arrays.get("loading_errors", np.empty((0, arrays["scale"].size)))
    return {
        "columns": feature_names(found.settings, columns),
        "values": [_numbers(row) for row in shown[:, columns]],
        "errors": [_numbers(row[columns]) for row in errors[: len(shown)]],
        "reach": [_numbers(loading_reach(arrays, i)[columns]) for i in range(len(shown))],
        "all": len(kept),
        "left_out": feature_names(
            found.settings, np.flatnonzero(~np.isfinite(arrays["scale"]))[:_MOST_COLUMNS]
        ),
    }


def _map(found: Release) -> dict[str, Any] | None:
    """Return the map of scores, where one was bought."""
    arrays = found.arrays
    if "score_counts" not in arrays:
        return None
    scores = found.settings["scores"]
    noise = float(scores["noise"])
    whole = arrays["score_counts"]
    maps = [_cells("all rows", whole, noise, whole.size)]
    if "kind_score_counts" in arrays:
        each = arrays["kind_score_counts"]
        names = [*map(printable, scores["levels"]), "all other rows"]
        maps += [
            _cells(name, counts, noise / math.sqrt(len(each)), each.size)
            for name, counts in zip(names, each, strict=True)
        ]
    return {
        "maps": maps,
        "column": printable(scores.get("column", "")),
        "reach": _numbers(arrays["score_reach"]),
    }


def _cells(name: str, counts: NDArray[np.float64], noise: float, size: int) -> dict[str, Any]:
    """Return one map, and what noise alone rarely exceeds among so many cells."""
    level = noise * math.sqrt(2 * math.log(max(size, 2)))
    return {"name": name, "counts": [_numbers(row) for row in counts], "level": level}


def _correlations(found: Release) -> dict[str, Any] | None:
    if found.kind != "covariance":
        return None
    shown = correlations(found.settings, found.arrays, _MOST_PIXELS)
    return {
        "columns": shown.names,
        "values": [_numbers(row) for row in shown.values],
        "noise": [_numbers(row) for row in shown.noise],
        "all": shown.n_columns,
        "strongest": [
            [first, second, value, noise] for first, second, value, noise in shown.strongest(12)
        ],
    }


def _coefficients(found: Release) -> list[dict[str, Any]]:
    if found.kind != "regression":
        return []
    shown = [
        coefficients(found.settings, found.arrays, target, _MOST_COLUMNS)
        for target in range(len(found.arrays["coef"]))
    ]
    return [
        {
            "target": one.target,
            "columns": one.names,
            "values": _numbers(one.values),
            "low": _numbers(one.low),
            "high": _numbers(one.high),
            "clear": one.clear.tolist(),
        }
        for one in shown
        if one.names  # none where a mean is all that was released
    ]


def _facts(found: Release) -> list[tuple[str, str]]:
    """Return what two releases are compared by."""
    settings, rows = found.settings, found.settings["n_rows"]
    clear = distinguishable_components(found)
    used = settings["n_features"] - len(left_out(settings, found.arrays))
    return [
        ("Privacy spent", str(found.guarantee.budget)),
        ("Protects", found.guarantee.unit),
        ("Released", found.created[:10]),
        ("Table", "a private number" if rows is None else f"{rows:,}"),
        ("Columns used", f"{used:,} of {settings['n_features']:,}"),
        ("Method", found.mechanism),
        ("Clear of noise", "not known" if clear is None else f"{clear} of {_size(found)}"),
    ]


def _size(found: Release) -> int:
    match found.kind:
        case "pca":
            return len(found.arrays["components"])
        case "regression":
            return int(found.arrays["coef"].size)
    return len(eigenvalues(found.arrays["covariance"]))


def _agreement(first: Release, second: Release) -> tuple[list[dict[str, Any]], str]:
    """Return how far the directions of two releases agree, or why that cannot be said."""
    if first.kind != "pca" or second.kind != "pca":
        return [], "directions are compared for releases of components"
    if first.feature_names is None or first.feature_names != second.feature_names:
        return [], "directions cannot be compared: the releases have other columns"
    left, right = (one.arrays["components"] for one in (first, second))
    both = np.isfinite(first.arrays["scale"]) == np.isfinite(second.arrays["scale"])
    if not both.all():
        count = int((~both).sum())
        return [], (
            f"directions cannot be compared: {count} of the columns are in one release only, as "
            "their scales were not found in the other"
        )
    here, there = (
        _numbers(
            np.where(one.arrays["distinguishable"] > 0, component_agreement(one.arrays)[1], np.nan)
        )
        for one in (first, second)
    )
    # The sign of a component means nothing, and neighbours may have changed places.
    cosines = np.abs(left @ right.T) ** 2
    return [
        {
            "component": i + 1,
            "first": here[i],
            "second": there[i] if i < len(right) else None,
            "nearest": int(np.argmax(cosines[i])) + 1,
            "shared": float(cosines[i].max()),
        }
        for i in range(min(len(left), _MOST_COMPONENTS))
    ], ""


def _numbers(array: NDArray[np.float64]) -> list[float | None]:
    """Return numbers as JSON has them: what is none becomes null."""
    return [float(x) if np.isfinite(x) else None for x in array]
