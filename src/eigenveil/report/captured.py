"""What components hold of the variance, in words."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.text import percent

__all__ = ["captured_brief", "captured_sentence"]

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
