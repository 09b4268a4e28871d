"""Words that Python, the command line and configuration files say each in their own way.

The rule: an error names what to type as the reader's face takes it. So a message is given in parts,
plain text and phrases, and whoever shows it says which face it is for. What everybody types alike,
or nobody types, is plain text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "BOUNDS",
    "CENSORED",
    "COLUMNS",
    "DROP",
    "ENCODE",
    "ENCODING",
    "LATIN",
    "REPLACE_ONE",
    "SHOW_SCORES",
    "SINGLE_ROWS",
    "Face",
    "Part",
    "Phrase",
    "option",
    "said",
]

Face = Literal["python", "shell", "file"]

# Options that a face calls otherwise than Python does.
_SHELL = {"n_components": "k"}
_FILE = {"n_components": "components"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """What to type, in the words of each face.

    Attributes
    ----------
    python, shell, file : str
        For callers, the command line and the configuration files of a federation. A face that has
        no such option says in plain words what is meant.

    """

    python: str
    shell: str
    file: str


Part = str | Phrase


def said(parts: Iterable[Part], face: Face) -> str:
    """Return the parts of a message as one text, for a face."""
    return "".join(part if isinstance(part, str) else getattr(part, face) for part in parts)


def option(name: str, value: str | None = None) -> Phrase:
    """Return an option that every face has, by the name that Python has for it.

    A value is text, which Python and files quote; one in capitals stands for a number.
    """
    shell, file = f"--{_SHELL.get(name, name).replace('_', '-')}", _FILE.get(name, name)
    if value is None:
        return Phrase(python=name, shell=shell, file=file)
    if value.isupper():
        return Phrase(python=f"{name}={value}", shell=f"{shell} {value}", file=f"{file} = {value}")
    return Phrase(python=f"{name}={value!r}", shell=f"{shell} {value}", file=f'{file} = "{value}"')


CENSORED = Phrase(python="censored", shell="--censored", file="what censored cells count as")
DROP = Phrase(python="drop", shell="--drop", file="what is left out")
ENCODE = Phrase(python="encode", shell="--encode", file="how text becomes numbers")
ENCODING = Phrase(python="encoding", shell="--encoding", file="the encoding of the file")
LATIN = Phrase(
    python="encoding='latin-1'", shell="--encoding latin-1", file="another file, saved in UTF-8"
)
BOUNDS = Phrase(python="bounds=(low, high)", shell="--bounds LOW,HIGH", file="bounds = [low, high]")
COLUMNS = Phrase(
    python="open_rows(path, columns=[...])", shell="--columns a,b", file='columns = ["a", "b"]'
)
REPLACE_ONE = Phrase(
    python="adjacency='replace-one'",
    shell="--adjacency replace-one",
    file="replace-one neighbours",
)
SHOW_SCORES = Phrase(python="show_scores", shell="--show-scores", file="maps of scores")
SINGLE_ROWS = Phrase(
    python="leave groups and unit out", shell="leave --unit out", file="leave unit out"
)
