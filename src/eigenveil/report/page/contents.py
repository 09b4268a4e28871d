"""Sections of the page: loadings, correlations, coefficients, and the list of columns."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.report import charts
from eigenveil.report.page.regression import regression_section
from eigenveil.report.page.tables import RIGHT, Arrays, times
from eigenveil.report.svg import signed, svg
from eigenveil.report.views import (
    Loadings,
    Spectrum,
    captured_sentence,
    clipping_scale,
    correlations,
    feature_names,
    hidden_variances,
    loadings,
    means_alone,
    standardised,
    unknown_turns,
)
from eigenveil.text import percent

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
        + _panels(
            (f"Component {i + 1}", arrays["components"][i], settings["image"])
            for i in clear.tolist()
        )
    )


def _panels(images: Iterable[tuple[str, NDArray[np.float64], Sequence[int]]]) -> str:
    """Draw numbers as images of a height and a width, each with its name."""
    figures = (
        f"<figure><h3>{name}</h3>{svg(charts.image(values, name, shape))}</figure>"
        for name, values, shape in images
    )
    return f'<div class="panels images">{"".join(figures)}</div>'


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
        f"<figure><h3>Component {one.component + 1}</h3>"
        f"{svg(charts.loadings(one, low, high))}</figure>"
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
        f'<figure class="map">{svg(charts.correlations(shown))}</figure>'
        + (f"<h3>Strongest pairs</h3>{strongest}" if pairs else "")
    )


_MOST = 120  # columns that are listed
_OUT = "left out"


def columns_section(document: Mapping[str, Any], arrays: Arrays) -> str:
    """Return every column with its mean and its scale, as far as they were released."""
    settings = document["settings"]
    if document["kind"] == "regression" and means_alone(settings):
        return ""
    d = settings["n_features"]
    mean, scale = _mean(settings, arrays), _scale(document["kind"], arrays)
    if "image" in settings:
        return _pixels(settings["image"], mean)
    noise = float(settings.get("centre_noise", 0.0))
    units = np.ones(d) if mean is None else clipping_scale(arrays)
    shown = np.arange(min(d, _MOST))
    size = "standard deviation" if standardised(settings) else "scale"
    titles = [title for title, values in (("mean", mean), (size, scale)) if values is not None]
    told = _told(settings, mean, scale)
    turned = np.zeros(d, dtype=bool) if mean is None else unknown_turns(arrays)
    if turned.all():
        told += (
            " Rows are few: a mean is known up to multiples of the number after ±, and stated as "
            "near to zero as that allows."
        )
    elif turned.any():
        told += (
            " Means marked with * are known up to multiples of the number after ±, and stated as "
            "near to zero as that allows; elsewhere it is the standard deviation of the noise."
        )
    elif mean is not None and noise:
        told += (
            " After ± stands the standard deviation of the noise on a mean, and of nothing else: "
            "long tails that were pulled in and empty cells move means too."
        )
    if d > _MOST:
        told += f" The first {_MOST} of {d:,} are listed; release.json and arrays.npz have all."
    look = "" if len(titles) == 2 else ' class="one"'
    head = "".join(f'<span class="number">{title}</span>' for title in titles)
    items = [f'<li class="head{" one" * (len(titles) < 2)}"><span>column</span>{head}</li>']
    for j, name in zip(shown.tolist(), feature_names(settings, shown), strict=True):
        unit = 1.0 if scale is None else float(scale[j])
        error = float(arrays["turn"][j]) if turned[j] else noise * float(units[j])
        mark = "*" if turned[j] and not turned.all() else ""
        numbers = [] if mean is None else [_number(mean[j], error) + mark]
        numbers += [] if scale is None else [_number(unit)]
        if not np.isfinite(unit):
            numbers = [_OUT] * len(numbers)
        cells = "".join(f'<span class="number">{number}</span>' for number in numbers)
        items.append(f"<li{look}><code>{escape(name)}</code>{cells}</li>")
    return f'<p class="small soft">{told}</p><ul class="columns">{"".join(items)}</ul>'


def _pixels(image: Sequence[int], mean: NDArray[np.float64] | None) -> str:
    """Return what the columns of images are, and their mean."""
    told = f'<p class="small soft">Columns are pixels: {times(*map(str, image))}, row by row.</p>'
    if mean is None:
        return told
    return told + _panels([("Mean, private", mean, image)])


def _mean(settings: Mapping[str, Any], arrays: Arrays) -> NDArray[np.float64] | None:
    """Return the released means; None where there are none, or none of whole columns."""
    if (
        settings.get("centring") in ("none", "stated", "paired", "inside")
        or settings["assume_centered"]
    ):
        return None
    found = arrays.get("mean", arrays.get("location"))
    return None if found is None or np.isnan(found).all() else found


def _scale(kind: str, arrays: Arrays) -> NDArray[np.float64] | None:
    """Return what columns were divided by, unless it is 1 throughout."""
    found = arrays.get("scale")
    return None if found is None or (found == 1).all() else found


def _told(
    settings: Mapping[str, Any],
    mean: NDArray[np.float64] | None,
    scale: NDArray[np.float64] | None,
) -> str:
    centre = "Means are private: each has noise."
    if mean is None:
        centre = {
            "stated": "The centre was stated; no mean was released.",
            "located": "Means were not released: a noisy count of rows was too small.",
            "paired": "Means were not released: differences of rows were used.",
            "inside": "Means are known inside the common directions only.",
        }.get(settings.get("centring", "none"), "The origin is the centre, as stated.")
    if scale is None:
        return f"{centre} Columns were used in their own units."
    if standardised(settings):
        hidden = hidden_variances(settings)
        return (
            f"{centre} Standard deviations were released, of rows pulled in to the stated limits: "
            "smaller where tails are long. Each column was divided by its own."
            + (f" {escape(hidden[0].upper() + hidden[1:])}." if hidden else "")
        )
    private = "scale" in settings.get("shares", {})
    how = "Scales were found privately" if private else "Scales were stated"
    return f"{centre} {how}; each column was divided by its scale."


def _number(value: float, noise: float = 0.0) -> str:
    return signed(value, ".4g") + (f" ± {noise:.2g}" if noise else "")
