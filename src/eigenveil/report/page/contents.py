"""Sections with the release itself: loadings, a map of correlations, or coefficients."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from eigenveil.report.captured import captured_sentence
from eigenveil.report.page.drawings import draw_correlations, draw_loadings, signed
from eigenveil.report.page.images import draw_images
from eigenveil.report.page.regression import regression_section
from eigenveil.report.page.tables import RIGHT, Arrays
from eigenveil.report.views import Loadings, Spectrum, correlations, loadings
from eigenveil.text import percent

__all__ = ["captured_paragraph", "contents", "heaviest"]

_MOST_COMPONENTS = 6  # whose loadings are drawn
_MOST_ROWS, _MOST_NAMED = 20, 4  # components in a table, columns named of each
_MOST_PAIRS = 5  # of columns, in words beside their map
_ROUNDING = 1e-9  # by which a correlation of 1 may exceed it


def contents(
    document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None
) -> tuple[str, str]:
    """Return the title and the content of the section with what was released."""
    if document["kind"] == "pca":
        settings = document["settings"]
        shares = _shares(settings, arrays)
        if "image" in settings:
            return "What the components look like", shares + _images(settings, arrays)
        return "Which columns weigh most", shares + _loadings(settings, arrays)
    if document["kind"] == "regression":
        return regression_section(document["settings"], arrays)
    return "Which columns go together", _map(document, arrays, noisy)


def _shares(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the shares of variance of the components, and the columns that weigh most in them."""
    share, clear = arrays["explained_variance_ratio"], arrays["distinguishable"] > 0
    together = np.minimum(np.cumsum(share), 1.0)
    rows = []
    for i in range(min(len(share), _MOST_ROWS)):
        made_of = '<span class="soft">not clear of noise: do not interpret</span>'
        if clear[i]:
            made_of = heaviest(settings, arrays, i)
        cells = zip(("share", "together"), (share[i], together[i]), strict=True)
        numbers = "".join(
            f'<td class="number" data-label="{label}">{escape(percent(float(value), 1))}</td>'
            for label, value in cells
        )
        rows.append(
            f'<tr><th scope="row">{i + 1}</th><td class="full">{made_of}</td>{numbers}</tr>'
        )
    rest = f"<p>The first {_MOST_ROWS} of {len(share):,}.</p>" * (len(share) > _MOST_ROWS)
    return (
        '<table class="shares"><thead><tr><th scope="col">no.</th><th scope="col">'
        "largest certain loadings</th>"
        f'<th scope="col"{RIGHT}>share of variance</th><th scope="col"{RIGHT}>together</th>'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"
        f"{captured_paragraph(settings, arrays)}"
    )


def captured_paragraph(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return what the components hold of the variance; nothing where it was not released."""
    told = captured_sentence(settings, arrays)
    return f"<p>{escape(told.replace('+-', '±'))}</p>" if told else ""


def heaviest(settings: Mapping[str, Any], arrays: Arrays, component: int) -> str:
    """Return the columns that weigh most in a component, and more than noise makes them."""
    shown = loadings(settings, arrays, component, _MOST_NAMED)
    pairs = list(zip(shown.names, shown.values.tolist(), strict=True))
    clear = [pair for pair, sure in zip(pairs, shown.certain, strict=True) if sure] or pairs[:1]
    return ", ".join(f"{signed(value)} {escape(name)}" for name, value in clear)


def _images(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the components that stand out, as images."""
    clear = np.flatnonzero(arrays["distinguishable"] > 0)[:_MOST_COMPONENTS]
    if clear.size == 0:
        return "<p>No component stands out from the noise, so none is drawn.</p>"
    return (
        '<p class="small soft">Each pixel is a column. Blue and amber are opposite signs, and '
        "arbitrary as a whole; the strongest colour is the largest loading.</p>"
        + draw_images(arrays["components"], clear.tolist(), settings["image"])
    )


def _loadings(settings: Mapping[str, Any], arrays: Arrays) -> str:
    """Bars for the columns of the leading components that stand out."""
    clear = np.flatnonzero(arrays["distinguishable"] > 0)
    if clear.size == 0:
        return "<p>No component stands out from the noise, so no loadings are drawn.</p>"
    drawn = [loadings(settings, arrays, i) for i in clear[:_MOST_COMPONENTS].tolist()]
    errors = [np.zeros(1) if one.errors is None else np.nan_to_num(one.errors) for one in drawn]
    zone = 0.0 if drawn[0].errors is not None else min(float(one.reach[0]) for one in drawn)
    pairs = list(zip(drawn, errors, strict=True))
    low = min(-zone, *(float((one.values - error).min()) for one, error in pairs))
    high = max(zone, *(float((one.values + error).max()) for one, error in pairs))
    rest = f" The first {_MOST_COMPONENTS} that stand out are drawn." * (len(drawn) < clear.size)
    fewer = len(drawn[0].names) < drawn[0].n_columns
    which = f"The {len(drawn[0].names)} largest of {drawn[0].n_columns:,}" if fewer else "All"
    panels = "".join(
        f"<figure><h3>Component {one.component + 1}</h3>{draw_loadings(one, low, high)}</figure>"
        for one in drawn
    )
    return (
        f'<p class="small soft">{which} loadings of each component that stands out. The sign of a '
        f"component is arbitrary.{rest} {_noise_drawn(drawn)}</p>"
        f'<div class="panels">{panels}</div>'
    )


def _noise_drawn(drawn: Sequence[Loadings]) -> str:
    """Explain how drawings of loadings show noise."""
    if drawn[0].errors is None:
        return (
            "The hatched zone shows how far noise reaches if it is spread evenly over the columns. "
            "Bars that end inside it are grey."
        )
    return (
        "Lines are one standard error to either side: how far noise has moved a loading from that "
        "of the same component without noise. Bars within three of them are grey: their sign is "
        "not certain."
    )


def _map(document: Mapping[str, Any], arrays: Arrays, noisy: Spectrum | None) -> str:
    """Return the covariance as a map of correlations, and its strongest pairs in words."""
    shown = correlations(document["settings"], arrays)
    zero = noisy is None and "owners" not in document
    if zero or not (arrays["covariance"].diagonal() > 0).any():
        return "<p>The released matrix has no positive variance, so no map is drawn.</p>"
    notes = []
    if len(shown.names) < shown.n_columns:
        notes.append(
            f"The {len(shown.names)} columns with the largest released variance, of "
            f"{shown.n_columns:,}, are drawn."
        )
    if np.isnan(shown.values.diagonal()).any():
        notes.append("Columns whose released variance cannot be told from noise are blank.")
    if (np.abs(shown.values) > 1 + _ROUNDING).any():
        notes.append("Some lie beyond ±1, which only noise can cause, and are drawn as ±1.")
    if noisy is not None and not noisy.clear.any():
        notes.append("No eigenvalue stands above the noise: what the map shows may be noise.")
    pairs = "".join(
        f'<tr><th scope="row">{escape(a)}</th><td>{escape(b)}</td>'
        f'<td class="number">{signed(value)} ± {noise:.2f}</td></tr>'
        for a, b, value, noise in shown.strongest(_MOST_PAIRS)
    )
    strongest = (
        '<table><thead class="small"><tr><th scope="col">column</th><th scope="col">and column</th>'
        '<th scope="col" class="number">correlation ± noise</th></tr></thead>'
        f"<tbody>{pairs}</tbody></table>"
    )
    return (
        "<p>Released covariances divided by released standard deviations; blue columns rise "
        f"together, amber ones against each other. {' '.join(notes)}</p>"
        f'<figure class="map">{draw_correlations(shown)}</figure>'
        + (f"<h3>Strongest pairs</h3>{strongest}" if pairs else "")
    )
