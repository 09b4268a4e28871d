"""Messages of the library in the words of the command line."""

import re

__all__ = ["in_keys", "in_options"]

_OPTIONS = "adjacency|centring|mechanism|on_invalid|on_missing|row_norm|scale"
_WORDS = (
    (r"open_rows\(path, columns=\[\.\.\.\]\)", "--columns a,b"),
    (
        r"Ledger\.create\(path, \.\.\., unit='person'\) or eigenveil ledger init \S+ person",
        "eigenveil ledger init FILE --unit person --epsilon E --delta D",
    ),
    (r"pass groups to fit, or unit with a file", "give --unit COLUMN"),
    (r"Ledger\.create\(path, \.\.\.\)", "eigenveil ledger init FILE --epsilon E --delta D"),
    (r"transform with one made by PrivatePCA", "give one made by fit"),
    (r"^n must be", "--rows must be"),
    (r"^d must be", "--columns-count must be"),
    (r"^k must be", "--k must be"),
    (r"^format must be one of", "--format must be one of"),
    (r"open it with Ledger\(path\)", "choose another name, or go on with that one"),
    (r"pass batch='\.\.\.'", "name them, --batch NAME,"),
    (r"\bbounds=\(low, high\)", "--bounds LOW,HIGH"),
    (r"\bvariances=True\b", "--variances"),
    (r"\bmechanism=\w+\(lazy=False\)", "--set lazy=false"),
    (rf"\b({_OPTIONS})='?([A-Za-z][\w-]*+)'?(?!\()", r"--\1 \2"),
    (r"(?<!-)\b(row_norm|on_invalid|on_missing)\b", r"--\1"),
    (r"(?:--)?\bn_components\b", "--k"),
)


def in_options(message: str) -> str:
    """``row_norm=R`` as ``--row-norm R``, and so on."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return re.sub(r"--[a-z]+(?:_[a-z]+)+", lambda found: found[0].replace("_", "-"), message)


def in_keys(message: str) -> str:
    """The same for a configuration file, whose keys are called as the library calls them."""
    message = re.sub(r"--(columns|unit)\b", r"\1", message)
    for pattern, words in _WORDS:
        if "Ledger" in pattern:
            message = re.sub(pattern, words, message)
    return re.sub(r" with -o\b", " as output", message)
