"""Sections on how far noise reaches: eigenvalues beside its level, and agreement of components."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from eigenveil.report.charts import scree
from eigenveil.report.page.regression import interval_section
from eigenveil.report.page.tables import Arrays
from eigenveil.report.svg import draw_bar, svg
from eigenveil.report.views import (
    Spectrum,
    component_agreement,
    component_groups,
    standardised,
)
from eigenveil.text import percent

_MOST_BARS, _MOST_NARROW = 40, 20
_MOSTLY_RELIABLE = 0.5  # share of a component
_ROUNDING = 1e-9  # of the largest eigenvalue: below it a sign means nothing
_NO_ONE_LEVEL = (
    "<p>Each owner added noise of its own, so there is no one eigenvalue that noise alone would "
    "reach.</p>"
)

_OF_SINGLE = (
    "Noise turns directions, and mixes those of similar variance. Reproducibility is the expected "
    "squared cosine between a component and the one of the same rank that the same rows give "
    "without noise: 100 % means that noise changed nothing. Rows are taken as this release saw "
    "them. It does not say how far another sample of people, or another release, would agree."
)
_OF_SPAN = (
    "Noise turns directions. Reliability is the share of each component that is expected to "
    "survive: 100 % means that it lies in the span of the components without noise. Directions of "
    "similar variance may mix, which does not count as an error."
)
_IN_PRIVATE_UNITS = (
    " It is about columns in units of their private scales. Another release may find other scales, "
    "and so weigh columns in another way."
)


def trust(document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None) -> str:
    """Return the section on what noise alone would show, and on what it left of components."""
    if document["kind"] == "regression":
        return interval_section(document["settings"], arrays)
    if document["kind"] == "pca":
        if noisy is not None:
            levels = _levels(noisy)
        elif "owners" in document:
            levels = _NO_ONE_LEVEL
        else:
            levels = (
                "<p>This mechanism releases directions, not a noisy second moment, so there is no "
                "eigenvalue that noise alone would reach.</p>"
            )
        settings = document["settings"]
        scaled = "scale" in settings.get("shares", {}) and not standardised(settings)
        unit_rows = noisy is not None and noisy.of_unit_rows
        return levels + _agreement(arrays, unit_rows=unit_rows, private_scales=scaled)
    if noisy is None and "owners" in document:
        return _NO_ONE_LEVEL
    if noisy is None:
        return (
            "<p>This is the zero matrix, which says nothing about the records. If a location was "
            "released with it, that has noise and was paid for.</p>"
        )
    return _levels(noisy)


def _levels(noisy: Spectrum) -> str:
    """Return the eigenvalues beside what noise alone produces, in words and drawn."""
    values, floor, whole = noisy.values, noisy.floor, noisy.centre_floor
    above = int(np.sum(values > floor))
    if above == len(values):
        verdict = "Every released eigenvalue lies above that."
    elif above == 0:
        verdict = "No released eigenvalue does: they cannot be told from noise."
    else:
        do = "does" if above == 1 else "do"
        others = "other" if above == len(values) - 1 else "others"
        verdict = (
            f"{above} of the {len(values)} released ones {do}; the {others} cannot be told from "
            "noise."
        )
    rest = f" The largest {_MOST_BARS} are drawn." if len(values) > _MOST_BARS else ""
    if negative := int(np.sum(values < -_ROUNDING * np.abs(values).max())):
        are = "is" if negative == 1 else "are"
        rest += f" {negative} {are} negative, which only noise can cause."
    source = "in the matrix and in its centre"
    if whole > floor:
        source = "in the matrix"
        verdict += f" The error of the centre may add one component of up to {whole:.4g}"
        taken = np.flatnonzero((values > floor) & (values <= whole) & ~noisy.clear)
        verdict += f": number {taken[0] + 1} is taken for it." if taken.size else "."
    return (
        f"<p>Noise alone, {source}, produces an eigenvalue above {floor:.4g} about once in a "
        f"hundred releases. {verdict}{rest}</p>"
        f"<figure>{svg(scree(noisy, _MOST_BARS))}"
        f"{svg(scree(noisy, _MOST_NARROW), narrow=True)}<figcaption>Eigenvalues in "
        f"{noisy.unit}.</figcaption></figure>"
    )


def _agreement(arrays: Arrays, *, unit_rows: bool, private_scales: bool) -> str:
    """Return how much of each component is left, in words and as bars."""
    about = (
        " It is about noise alone. Every row was scaled to the same length, so that far rows count "
        "no more than near ones. Where a few rows hold most of the variance, ordinary PCA finds "
        "other components; a release with a row norm, stated or private, aims at those."
    )
    clear = arrays["distinguishable"] > 0
    name, values = component_agreement(arrays)
    shown = values[:_MOST_BARS]
    rest = f" The first {_MOST_BARS} are shown." if len(values) > _MOST_BARS else ""
    bars = "".join(
        f'<tr><th scope="row"><span class="word">component </span>{i + 1}</th>'
        f"<td>{draw_bar(value if value >= 0 else 0.0, bool(clear[i]))}</td>"
        f'<td class="number">{escape(percent(value)) if clear[i] and value >= 0 else "-"}</td>'
        f'<td class="verdict {"soft" if clear[i] else "no"}">'
        f"{'clear' if clear[i] else 'not clear'}</td></tr>"
        for i, value in enumerate(shown.tolist())
    )
    if "agreement" in arrays:
        about = (
            " It is estimated from how far the owners' answers agree, as their noise is "
            "independent. What one owner alone knows is not counted. A component is clear if "
            "owners agree on it better than unrelated answers would, about once in a hundred times."
        )
        if (values[~clear] > _MOSTLY_RELIABLE).any():
            about += (
                " Where components are half as many as columns or more, even unrelated answers "
                "nearly agree. There a reliable component may not be clear."
            )
    what, column = _OF_SPAN, "share of the direction that survives the noise"
    if name == "reproducibility":
        what, column = _OF_SINGLE, "agreement with the same component without noise"
    groups = "".join(
        f"<p>{escape(told[0].upper() + told[1:])}.</p>" for told in component_groups(arrays)
    )
    return (
        f'<h3>{name.capitalize()}</h3><p class="small soft">{what} Hatched components cannot be '
        "told from noise."
        f"{about if unit_rows or 'agreement' in arrays else ''}"
        f"{_IN_PRIVATE_UNITS if private_scales else ''}{rest}</p>"
        '<table class="bars"><thead class="small"><tr><th scope="col">'
        f'<span class="word">component</span></th><th scope="col">{column}</th>'
        '<td class="number"></td><td class="verdict"></td></tr></thead>'
        f"<tbody>{bars}</tbody></table>{groups}"
    )
