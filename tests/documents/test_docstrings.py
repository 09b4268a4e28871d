"""Docstrings begin with what a function does, or with what a thing is.

A function's opens with a verb ("Return ...", "Refuse ..."), so not with an article, a preposition,
a pronoun or a question word. That of a class or a property names its object first, so it
does not open with a preposition or a pronoun, which would leave the reader to guess the noun.
Commands are left out: their docstrings are the help that people read.
"""

import ast
from pathlib import Path

import pytest

import eigenveil

SOURCE = Path(eigenveil.__file__).parent
ELLIPTICAL = """
    About Against Along Also Among And As At Because Before Beside Between Both But By For From If
    In Into Its Of On Over Than That Their Theirs They Those These To Under Whose With Without
"""
NO_VERB = """
    A All An Each Everybody Everything How It Nobody Nothing One Some The What When Where Whether
    Which Who Why
"""


def openings(path):
    """Yield the line, the kind and the first words of every docstring in a file."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        words = ast.get_docstring(node)
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if not words or any("command" in each or "group" in each for each in decorators):
            continue
        value = isinstance(node, ast.ClassDef) or any("property" in each for each in decorators)
        yield node.lineno, not value, words.split("\n")[0]


def wrong(path):
    """Return the docstrings of a file that open with the wrong word."""
    return [
        f"{line}: {words}"
        for line, called, words in openings(path)
        if words.split()[0].strip(".,:;") in (ELLIPTICAL + NO_VERB * called).split()
    ]


@pytest.mark.parametrize("package", sorted({p.parent for p in SOURCE.rglob("*.py")}), ids=str)
def test_docstrings_open_with_a_verb_or_a_noun(package):
    found = {
        path.relative_to(SOURCE).as_posix(): wrong(path) for path in sorted(package.glob("*.py"))
    }
    assert not {name: lines for name, lines in found.items() if lines}


def test_a_docstring_without_its_noun_is_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('"""Rows."""\n\n\ndef cost():\n    """Of one batch."""\n')
    assert wrong(path) == ["4: Of one batch."]
    path.write_text('"""Rows."""\n\n\ndef cost():\n    """Return the cost of one batch."""\n')
    assert wrong(path) == []
