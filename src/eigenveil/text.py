"""Names and numbers as people read them: printable, quoted, listed, in percent, rounded.

The rule: whatever somebody else may have named is spelled out before a person sees it. Errors do
so themselves, the command line prints by `eigenveil.cli.printing` alone, pictures and exports take
names from `eigenveil.report.views`.
"""

import difflib
import math
import os
import shlex
from collections.abc import Iterable, Sequence

_ROUNDING = 1e-9  # by which a sum of shares may miss 1


def printable(text: str) -> str:
    """Return the text with characters that a terminal would obey, or not show, spelled out.

    Line breaks are among them: what is printable is one line. Bytes of a file's name that are no
    UTF-8, which Python keeps as half characters, are too.
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def plural(noun: str, number: float) -> str:
    """Return a noun as it follows a number."""
    return noun if number == 1 else f"{noun}s"


def percent(share: float, places: int = 0) -> str:
    """Return a share between 0 and 1 in percent; never 100, or 0, unless it is."""
    nearest = f"{100 * share:.{places}f}"
    if share < 1 - _ROUNDING and float(nearest) >= 100:
        return f">{100 - 10.0**-places:.{places}f} %"
    if share > 0 and float(nearest) <= 0:
        return f"<{10.0**-places:.{places}f} %"
    return f"{nearest} %"


def rounded_up(value: float) -> float:
    """Return a positive number rounded up to three digits."""
    nearest = float(f"{value:.3g}")
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return nearest if nearest >= value else float(f"{nearest + unit:.3g}")


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet that opens a CSV file would compute the cell."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names as one line; no more than fit."""
    shown = ", ".join(printable(name) or "(no name)" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def joined(names: Sequence[str]) -> str:
    """Return names as the command line takes a list of them."""
    return ",".join(name if _is_plain(name) else quoted(name) for name in names)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return the nearest of the names that exist, and all of them."""
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}choose from {listed(names)}"


def quoted(name: str) -> str:
    """Return a name in double quotes, as CSV files write one."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def typed(words: Iterable[str]) -> str:
    """Return words as they are typed in a shell; those that cannot be shown as bytes, $'...'."""
    return " ".join(shlex.quote(word) if word.isprintable() else _as_bytes(word) for word in words)


def _as_bytes(word: str) -> str:
    shown = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\\" else f"\\x{byte:02x}"
        for byte in os.fsencode(word)
    )
    return f"$'{''.join(shown)}'"


def _is_plain(name: str) -> bool:
    """Return whether a name in a list needs no quotes."""
    return name == name.strip() and not set(name) & set(',"=\r\n')
