"""The one place from which text reaches a terminal: print lines and JSON, escaped and wrapped.

A received folder, a column or a label may be called anything, line breaks and escape sequences
included. A line that names one could fake the next one. So no other module of the command line
calls `click.echo`; a test sees to it.

On a terminal, and there alone, lines are broken at its width, below the column that their last part
begins in, and words that a reader looks for have a colour. Commands to copy stay whole.
"""

import json
import re
import shutil
import sys
from textwrap import wrap
from typing import Any

import click

from eigenveil.text import printable

_COMMANDS = ("next", "first", "open")  # lines that are to be copied
_NARROWEST = 24  # columns of a terminal that leave room for a column of text
_MARGIN = 13  # columns of what a line is about
_LABEL = re.compile(r"([a-z]{2,11}) {2,}(?=\S)")
_GAP = re.compile(r"\S {2,}(?=\S)")  # before the last part of a line
_LOUD = {"error": "red", "beware": "yellow", "interrupted": "yellow", "hint": "cyan"}
_LOUD_WORD = re.compile(r"(error|interrupted|hint|beware)(?=: )|beware(?=  )")


def say(*lines: object, err: bool = False) -> None:
    """Print one line for each argument, with everything a terminal would obey spelled out."""
    width = _terminal_width(err)
    for line in lines:
        text = printable(str(line))
        click.echo(text if width is None else _for_terminal(text, width), err=err)


def _terminal_width(err: bool) -> int | None:
    """Return the number of columns of the terminal that is written to; None where it is none."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def _for_terminal(line: str, width: int) -> str:
    """Return a line broken at a width, with its label in colour."""
    found = _LABEL.match(line)
    label = found[1] if found is not None and found.end() == _MARGIN else ""
    broken = line if label in _COMMANDS else _broken(line, width)
    if loud := _LOUD_WORD.match(line):
        return click.style(loud[0], fg=_LOUD[loud[0]], bold=True) + broken[loud.end() :]
    return click.style(label, bold=True) + broken[len(label) :] if label else broken


def _broken(line: str, width: int) -> str:
    """Return a line of at most a width, continued below its last part."""
    if len(line) <= width or not line.strip():
        return line
    indent = len(line) - len(line.lstrip())
    for gap in _GAP.finditer(line, 0, max(0, width - _NARROWEST)):
        indent = gap.end()
    head, tail = line[:indent], line[indent:]
    room = max(_NARROWEST, width - indent)
    parts = wrap(tail, room, break_long_words=False, break_on_hyphens=False)
    return head + f"\n{' ' * indent}".join(parts)


def say_json(document: Any) -> None:
    """Print one JSON document; JSON escapes what is no ASCII, all but one control character."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))
