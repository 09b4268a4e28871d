"""Names as people see them: columns may be called anything."""

__all__ = ["is_formula", "printable"]


def printable(text: str) -> str:
    """The same with characters that a terminal would obey, or not show, spelled out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet that opens a CSV file would compute the cell."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
