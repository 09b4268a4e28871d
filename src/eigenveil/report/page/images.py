"""Components of images, drawn as images: blue above the mean, amber below."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eigenveil.report.page.drawings import shades, svg

__all__ = ["draw_image", "draw_images"]


def draw_images(components: NDArray[np.float64], which: Sequence[int], image: Sequence[int]) -> str:
    """Return a panel of components, each as an image of a height and a width."""
    panels = (draw_image(components[i], f"Component {i + 1}", image) for i in which)
    return f'<div class="panels images">{"".join(panels)}</div>'


def draw_image(values: NDArray[np.float64], name: str, image: Sequence[int]) -> str:
    """Return one number per pixel as an image, with its name."""
    height, width = image
    largest = float(np.abs(values).max()) or 1.0
    picture = svg(
        width,
        height,
        f"{name} as an image",
        f"{height} x {width} numbers, blue for positive and amber for negative; the largest is "
        f"{largest:.2g}.",
        f'<g shape-rendering="crispEdges"><rect width="{width}" height="{height}" class="void"/>'
        f"{shades((values / largest).reshape(height, width))}</g>",
    )
    return f"<figure><h3>{name}</h3>{picture}</figure>"
