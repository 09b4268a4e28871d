"""Words that Python, the command line, configuration files and a page say each in their own way.

The rule: an error names what to type as the reader's face takes it. So a message is given in parts,
plain text and phrases, and whoever shows it says which face it is for. What everybody types alike,
or nobody types, is plain text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Face = Literal["python", "shell", "file", "page"]

# Options that a face calls otherwise than Python does.
_SHELL = {"n_components": "k"}
_FILE = {"n_components": "components"}

_PAGE = {
    "n_components": "the number of components",
    "row_norm": "a length of rows",
    "bounds": "ranges of columns",
    "centring": "the way to a centre",
    "columns": "the list of columns",
    "unit": "who is protected",
    "mechanism": "the method",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """What to type, in the words of each face.

    Attributes
    ----------
    python, shell, file : str
        For callers, the command line and the configuration files of a federation. A face that has
        no such option says in plain words what is meant.
    page : str, optional
        For the studio, where nothing is typed; by default as in a file.

    """

    python: str
    shell: str
    file: str
    page: str | None = None


Part = str | Phrase


def said(parts: Iterable[Part], face: Face) -> str:
    """Return the parts of a message as one text, for a face."""
    return "".join(
        part if isinstance(part, str) else getattr(part, face) or part.file for part in parts
    )


def option(name: str, value: str | None = None) -> Phrase:
    """Return an option that every face has, by the name that Python has for it.

    A value is text, which Python and files quote; one in capitals stands for a number.
    """
    shell, file = f"--{_SHELL.get(name, name).replace('_', '-')}", _FILE.get(name, name)
    page = _PAGE.get(name, name.replace("_", " "))
    if value is None:
        return Phrase(python=name, shell=shell, file=file, page=page)
    if value.isupper():
        return Phrase(
            python=f"{name}={value}", shell=f"{shell} {value}", file=f"{file} = {value}", page=page
        )
    return Phrase(
        python=f"{name}={value!r}",
        shell=f"{shell} {value}",
        file=f'{file} = "{value}"',
        page=f"{page} {value!r}",
    )


AS_NUMBER = Phrase(python="as_number", shell="--as-number", file="what is read without its signs")
CENSORED = Phrase(python="censored", shell="--censored", file="what censored cells count as")
DECIMAL = Phrase(python="decimal", shell="--decimal", file="the decimal mark")
DROP = Phrase(python="drop", shell="--drop", file="what is left out")
ENCODE = Phrase(python="encode", shell="--encode", file="how text becomes numbers")
ENCODING = Phrase(python="encoding", shell="--encoding", file="the encoding of the file")

LATIN = Phrase(
    python="encoding='latin-1'", shell="--encoding latin-1", file="another file, saved in UTF-8"
)

NEW_LABEL = Phrase(python="batch='2026-11-15'", shell="--batch 2026-11-15", file="a new label")
RESTORE = Phrase(python="restore()", shell="a call without DATA", file="a call without rows")

UTF_16 = Phrase(
    python="encoding='utf-16'", shell="--encoding utf-16", file="another file, saved in UTF-8"
)

VOUCHER = Phrase(
    python="the fingerprint that you noted or the signer's public key",
    shell="the --fingerprint that you noted or the signer's public --key",
    file="the fingerprint that you noted or the signer's public key",
)

BOUNDS = Phrase(
    python="bounds=(low, high)",
    shell="--bounds LOW,HIGH",
    file="bounds = [low, high]",
    page="ranges of columns",
)

COLUMNS = Phrase(
    python="open_rows(path, columns=[...])",
    shell="--columns a,b",
    file='columns = ["a", "b"]',
    page="the list of columns",
)

REPLACE_ONE = Phrase(
    python="adjacency='replace-one'",
    shell="--adjacency replace-one",
    file="replace-one neighbours",
)

SAME_UNIT = Phrase(
    python="scale='same' if all columns share one unit",
    shell="--scale same if all columns share one unit",
    file="that all columns share one unit",
)

SHOW_SCORES = Phrase(python="show_scores", shell="--show-scores", file="maps of scores")

SINGLE_ROWS = Phrase(
    python="leave groups and unit out",
    shell="leave --unit out",
    file="leave unit out",
    page="protect single rows",
)

THOUSANDS = Phrase(
    python="state decimal='.' or decimal=',' if numbers are written 1,000",
    shell="state --decimal if numbers are written 1,000",
    file="write 1,000 as 1000",
)
