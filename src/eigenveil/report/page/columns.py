"""The columns of a release with the means and scales that were released of them."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.report.page.drawings import signed
from eigenveil.report.page.images import draw_image
from eigenveil.report.page.tables import Arrays, times
from eigenveil.report.views import (
    clipping_scale,
    feature_names,
    hidden_variances,
    means_alone,
    standardised,
    unknown_turns,
)

__all__ = ["columns_section"]

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
    return f'{told}<div class="panels images">{draw_image(mean, "Mean, private", image)}</div>'


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
