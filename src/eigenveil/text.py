"""Names as people see them: columns, files and folders may be called anything.

The rule: whatever somebody else may have named is spelled out before a person sees it. Errors do
so themselves, the command line prints by `eigenveil.cli.printing` alone, pictures and exports take
names from `eigenveil.report.views`.
"""

__all__ = ["is_formula", "percent", "plural", "printable"]

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


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet that opens a CSV file would compute the cell."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
