"""Numbers as people write them: decimal commas, thousands, percent and currency signs.

``1,000`` is a thousand in one country and one in another. Where either mark may be the decimal one,
a number of that form is none until somebody states the mark: guessing from other cells would use
their values.
"""

import math
import re
from typing import Literal

__all__ = ["Decimal", "number", "without_signs"]

Decimal = Literal[".", ","]

_AMBIGUOUS = re.compile(r"[-+]?(?!0)\d{1,3}[.,]\d{3}")
_GROUPED = {
    ".": re.compile(r"[-+]?(?!0)\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ",": re.compile(r"[-+]?(?!0)\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}
_UNIT = (
    "[A-Z]{3}|[$\u00a2-\u00a5\u058f\u060b\u09f2\u09f3\u0e3f\u20a0-\u20cf\ufdfc\uff04\uffe1\uffe5]"
)
_SIGNED = re.compile(  # in parentheses or not, and with a unit on either side of either
    rf"(?:(?:{_UNIT})?\s*(?P<open>\())?\s*(?P<sign>[-+\u2212]?)\s*(?:{_UNIT})?\s*"
    rf"(?P<inner>[-+\u2212]?)\s*(?P<digits>[\d.,](?:[\d.,\s'\u2019]*[\d.,])?)\s*"
    rf"(?:{_UNIT}|[%\u2030])?\s*(?:(?P<close>\))\s*(?:{_UNIT}|[%\u2030])?)?"
)
_SPACED = re.compile(r"(?<=\d)[\s'\u2019](?=\d{3}(?!\d))")


def number(cell: str, decimal: Decimal | Literal["either"] | None = None) -> float:
    """Return the number that a cell holds; NaN where it holds none.

    With a stated ``decimal`` mark the other one separates thousands. Without one the point is
    decimal; where it may be ``"either"``, 1,000 and 1.000 are no numbers.
    """
    text = cell
    if decimal is not None:
        text = cell.strip()
        if decimal == "either":
            if _AMBIGUOUS.fullmatch(text):
                return math.nan
        elif _GROUPED[decimal].fullmatch(text):
            text = text.replace("." if decimal == "," else ",", "")
        elif decimal == "," and "." in text:
            return math.nan
        if decimal != "." and "." not in text:
            text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return math.nan


def without_signs(cell: str) -> str:
    """Return a number without percent or currency signs and spaces; any other cell as it is.

    ``13.5%`` becomes 13.5, and an amount in parentheses is negative.
    """
    found = _SIGNED.fullmatch(cell.strip())
    if found is None or bool(found["open"]) != bool(found["close"]):
        return cell
    signs = found["sign"] + found["inner"] + ("-" if found["open"] else "")
    if len(signs) > 1:
        return cell
    return signs.replace("\u2212", "-") + _SPACED.sub("", found["digits"])
