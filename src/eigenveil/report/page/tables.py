"""Tables of the page, and sizes as it prints them."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

RIGHT = ' class="number"'
Arrays = Mapping[str, NDArray[np.float64]]


def table(facts: Sequence[tuple[str, str]], look: str = "") -> str:
    """Return a table of facts, each with its name."""
    rows = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in facts
    )
    style = f' class="{look}"' if look else ""
    return f"<table{style}><tbody>{rows}</tbody></table>"


def unbroken(text: str) -> str:
    """Return a text whose numbers of percent stay on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def times(*lengths: str) -> str:
    """Return lengths with a multiplication sign between them."""
    return " \N{MULTIPLICATION SIGN} ".join(lengths)
