"""What the command line prints: the one place from which text reaches a terminal.

A received folder, a column or a label may be called anything, line breaks and escape sequences
included. A line that names one could fake the next one. So no other module of the command line
calls `click.echo`; a test sees to it.
"""

import json
from typing import Any

import click

from eigenveil.text import printable

__all__ = ["say", "say_json"]


def say(*lines: object, err: bool = False) -> None:
    """Print one line for each argument, with everything a terminal would obey spelled out."""
    for line in lines:
        click.echo(printable(str(line)), err=err)


def say_json(document: Any) -> None:
    """Print one JSON document; JSON escapes what is no ASCII, all but one control character."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))
