"""All conformance cases, collected from the tests of the mechanisms.

A module of ``tests/mechanisms`` ends with its ``CASES``; whoever adds one inherits every check.
"""

import importlib
import pkgutil

import tests.mechanisms

TABLE = [
    case
    for info in pkgutil.iter_modules(tests.mechanisms.__path__, "tests.mechanisms.")
    for case in getattr(importlib.import_module(info.name), "CASES", ())
]


def named(name):
    """Return the case of this name."""
    (case,) = (case for case in TABLE if case.name == name)
    return case
