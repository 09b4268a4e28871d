"""The same release as a script, and as a notebook: what the options of a command are in Python."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from eigenveil.text import printable

__all__ = ["notebook", "script"]

_ROWS = ("columns", "unit", "drop", "encode", "censored", "as_number", "decimal", "encoding")
_ABOUT = ("title", "purpose", "owner", "approver")
_MODELS = {"fit": "PrivatePCA", "covariance": "PrivateCovariance"}
_OPTIONS = (
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "row_norm",
    "bounds",
    "centring",
    "scale",
    "variances",
    "show_scores",
    "adjacency",
    "on_invalid",
    "on_missing",
)
_WIDTH = 88


def script(command: str, options: Mapping[str, Any]) -> str:
    """Return a Python script that does what a command with these options does."""
    return "\n".join(code for _, code in _parts(command, options)) + "\n"


def notebook(command: str, options: Mapping[str, Any]) -> str:
    """Return the same as a Jupyter notebook, each step with a sentence before it."""
    cells: list[dict[str, Any]] = []
    for words, code in _parts(command, options):
        cells.append({"cell_type": "markdown", "metadata": {}, "source": words})
        cells.append(
            {
                "cell_type": "code",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": code,
            }
        )
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1) + "\n"


def _parts(command: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the steps of a release, each in words and in code."""
    model = _MODELS[command]
    reading: dict[str, Any] = {
        name: options.get(name) for name in _ROWS if options.get(name) not in (None, ())
    }
    for name in ("encode", "censored"):
        if name in reading:
            reading[name] = dict(reading[name])
    if "censored" in reading and "" in reading["censored"]:
        reading["censored"] = reading["censored"][""]
    dates = any(isinstance(how, date) for how in reading.get("encode", {}).values())
    imports = [f"from eigenveil import {model}, open_rows"]
    imports[:0] = ["from datetime import date", ""] if dates else []
    chosen = {
        name: options.get(name)
        for name in _OPTIONS
        if options.get(name) not in (None, False, "auto")
    }
    chosen["ledger"] = str(options["ledger"])
    first = [] if options.get("k") is None else [_code(options["k"])]
    about = {name: options[name] for name in _ABOUT if options.get(name)}
    release = "model.release_"
    if about:
        release = _call(f"{release}.described", [], about)
    key = {} if options.get("sign") is None else {"key": str(options["sign"])}
    saved = _call(f"{release}.save", [_code(str(options["output"]))], key)
    return [
        ("What is needed.", "\n".join(imports)),
        (
            "The table; no row is shown.",
            f"rows = {_call('open_rows', [_code(options['data'])], reading)}",
        ),
        (
            "The release. Running this spends from the ledger, and cannot be undone.",
            f"model = {_call(model, first, chosen)}\nmodel.fit(rows)",
        ),
        (
            "What is promised, and where the release lies.",
            f"print(model.privacy_.sentence())\n{saved}",
        ),
    ]


def _call(name: str, first: list[str], named: Mapping[str, Any]) -> str:
    """Return a call, over several lines where it is long."""
    given = [*first, *(f"{key}={_code(value)}" for key, value in named.items())]
    line = f"{name}({', '.join(given)})"
    if len(line) <= _WIDTH:
        return line
    inside = "".join(f"    {each},\n" for each in given)
    return f"{name}(\n{inside})"


def _code(value: Any) -> str:
    """Return a value as Python writes it."""
    if isinstance(value, date):
        return f"date({value.year}, {value.month}, {value.day})"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_code(key)}: {_code(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_code, value))
        return f"[{inside}]" if isinstance(value, list) or len(value) != 2 else f"({inside})"
    return printable(repr(value))
