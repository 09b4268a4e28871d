"""What every private cell carries, and how it is found again wherever it must not be."""

import random
import re

__all__ = ["NUMBER", "TEXT", "number_cell", "quoted_in", "shown_in", "text_cell"]

NUMBER, TEXT = "739184265", "Zq4711Xk"
_GAP = "[.,_]?"
_WHOLE = re.compile(f"{_GAP.join(NUMBER)}|{TEXT}", re.IGNORECASE)
_ROUNDED = re.compile(_GAP.join(NUMBER[:6]))
_HASH = re.compile("[0-9a-f]{16,}")


def number_cell(rng: random.Random) -> str:
    """Return a number whose digits begin with the secret ones."""
    digits = f"{NUMBER}{rng.randrange(100):02}"
    place = rng.randrange(1, len(digits))
    sign, power = rng.choice(("", "", "-")), rng.choice(("", "", "", f"e{rng.randint(-9, 9)}"))
    return f"{sign}{digits[:place]}.{digits[place:]}{power}"


def text_cell(rng: random.Random) -> str:
    """Return a word with the secret text in it."""
    return f"{rng.choice(('', 'Ms ', '#'))}{TEXT}{rng.randrange(100)}"


def shown_in(text: str) -> bool:
    """Whether a cell is quoted in a text that may hold other long numbers: the whole secret is."""
    return _WHOLE.search(text) is not None


def quoted_in(message: str) -> bool:
    """Whether a message quotes a cell, or a number rounded from one; hashes are no numbers."""
    return shown_in(message) or _ROUNDED.search(_HASH.sub("", message)) is not None
