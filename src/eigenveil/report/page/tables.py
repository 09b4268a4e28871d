"""Tables of the page, and sizes as it prints them."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

__all__ = ["RIGHT", "Arrays", "table", "times"]

RIGHT = ' class="number"'
Arrays = Mapping[str, NDArray[np.float64]]


def table(facts: Sequence[tuple[str, str]]) -> str:
    """Return a table of facts, each with its name."""
    rows = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in facts
    )
    return f"<table><tbody>{rows}</tbody></table>"


def times(*lengths: str) -> str:
    """Return lengths with a multiplication sign between them."""
    return " \N{MULTIPLICATION SIGN} ".join(lengths)
