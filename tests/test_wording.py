"""What to type is said as each face takes it, and names what is really there."""

import ast
import copy
import inspect
import json
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import eigenveil
from eigenveil.cli import main
from eigenveil.estimators import (
    ContinualCovariance,
    PrivateCovariance,
    PrivatePCA,
    PrivateRegression,
    StreamingPCA,
)
from eigenveil.exceptions import BoundsRequiredError, EigenveilError, InvalidParameterError
from eigenveil.federated import Agreement, Code, ProtocolError
from eigenveil.federated.configuration import _CLIENT, _OWNER, _SERVER
from eigenveil.mechanisms import LazyMechanism
from eigenveil.messages import BOUNDS, Phrase, option
from eigenveil.planning import Situation, predict
from eigenveil.privacy import Budget, Ledger
from eigenveil.release.export import export
from eigenveil.rows import IterableSource, open_rows

SOURCES = Path(eigenveil.__file__).parent


def parameters(*functions: Callable[..., Any]) -> set[str]:
    return {name for each in functions for name in inspect.signature(each).parameters}


def options(command: click.Command) -> set[str]:
    """Return the options of a command and of those below it."""
    found = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= options(below)
    return found


def command(*names: str) -> click.Command:
    found: click.Command = main
    for name in names:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None, f"no command {' '.join(names)}"
        found = below
    return found


KEYS = {key for part in (*_SERVER.values(), *_CLIENT.values(), _OWNER) for key in part}
CALLABLE = {
    "open_rows": open_rows,
    "Ledger": Ledger,
    "Ledger.create": Ledger.create,
    "IterableSource": IterableSource,
    "restore": StreamingPCA.restore,
}
PARAMETERS = parameters(
    PrivatePCA,
    PrivatePCA.fit,
    PrivateCovariance,
    PrivateRegression,
    StreamingPCA,
    StreamingPCA.partial_fit,
    ContinualCovariance,
    Situation,
    LazyMechanism,
    export,
    Agreement,
    *CALLABLE.values(),
)


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Find the calls of functions of these names in the sources, and where they stand."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in names:
                    yield f"{path.relative_to(SOURCES)}:{node.lineno}", node


def text(node: ast.expr) -> str:
    """Return a string as written, with X for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "X"


def phrases() -> Iterator[tuple[str, Phrase]]:
    for place, call in calls("Phrase"):
        if any(text(word.value) != "X" for word in call.keywords):  # others are those of `option`
            yield place, Phrase(**{word.arg or "": text(word.value) for word in call.keywords})


def names(words: str, assigned: str) -> list[str]:
    """Return the options that words name: those with a value, or all of it if it is one word."""
    return [words] if re.fullmatch(r"[a-z_]+", words) else re.findall(assigned, words)


@pytest.mark.parametrize(
    ("phrase", "python", "shell", "file"),
    [
        (option("row_norm"), "row_norm", "--row-norm", "row_norm"),
        (option("row_norm", "R"), "row_norm=R", "--row-norm R", "row_norm = R"),
        (
            option("row_norm", "private"),
            "row_norm='private'",
            "--row-norm private",
            'row_norm = "private"',
        ),
        (option("n_components"), "n_components", "--k", "components"),
        (
            option("mechanism", "adaptive-oja"),
            "mechanism='adaptive-oja'",
            "--mechanism adaptive-oja",
            'mechanism = "adaptive-oja"',
        ),
    ],
)
def test_every_face_has_its_words(phrase, python, shell, file):
    assert phrase == Phrase(python=python, shell=shell, file=file, page=phrase.page)
    assert not re.search(r"--|_|=", phrase.page)  # where nothing is typed
    error = BoundsRequiredError("state ", phrase, "\nor not")
    assert str(error) == error.said("python") == f"state {python}\\nor not"
    assert error.said("shell") == f"state {shell}\\nor not"
    assert error.said("file") == f"state {file}\\nor not"


def test_options_are_there_in_every_face():
    """A renamed option trips this."""
    faces = {
        False: (parameters(PrivatePCA, open_rows), options(command("fit")), KEYS),
        True: (parameters(PrivateRegression), options(command("regress")), None),
    }
    found = 0
    for place, call in calls("option"):
        if ast.unparse(call.func) != "option" or place.startswith("cli/options.py"):
            continue  # of click
        assert isinstance(call.args[0], ast.Constant), place
        named = option(call.args[0].value)
        python, shell, file = faces[re.search("regress|/linear", place) is not None]
        assert named.python in python, place
        assert named.shell in shell, place
        assert file is None or named.file in file, place  # no federation regresses
        found += 1
    assert found > 50


def test_phrases_name_what_is_there():
    everywhere, found = options(main), 0
    for place, phrase in phrases():
        for called in re.findall(r"([A-Za-z_.]+)\(", phrase.python):
            assert called in CALLABLE or called == "X", place
        for name in names(phrase.python, r"\b([a-z_]+)="):
            assert name in PARAMETERS, place
        known = everywhere
        if "eigenveil " in phrase.shell:
            words = re.findall(r"eigenveil ([a-z]+)(?: ([a-z]+)\b)?", phrase.shell)[0]
            known = options(command(*filter(None, words)))
        for name in re.findall(r"(?<!\S)--?[a-z][a-z-]*", phrase.shell):
            assert name in known, place
        for name in names(phrase.file, r"\b([a-z_]+) = "):
            assert name in KEYS, place
        found += 1
    assert found > 15


DIFFER = re.compile(
    r"\b(?:row_norm|on_invalid|on_missing|n_components)\b"
    r"|\b(?:adjacency|centring|mechanism|scale|bounds|unit|batch|columns|values)="
    r"|\bLedger[.(]|\bopen_rows\b|\bleave groups\b"
)


def test_what_faces_write_in_different_ways_is_a_phrase():
    """Plain text names no option, but those of mechanisms, which are Python's alone."""
    errors = [name for name in vars(eigenveil.exceptions) if name.endswith("Error")]
    for place, call in calls(*errors, "read_once"):
        plain = "".join(text(part) for part in call.args)
        if place.startswith(("cli/", "studio/command.py")):
            continue
        plain = plain.replace("mechanism=Spiked(model=", "").replace("--insecure", "")
        assert not DIFFER.search(plain), place
        assert "--" not in plain, place
    for face in ("rows", "saving"):  # which federations use as well
        for place, call in calls(*errors):
            if place.startswith(f"cli/{face}.py"):
                plain = "".join(text(part) for part in call.args)
                assert not re.search(r"(?<!\S)--?[a-z]", plain), place


def every_error() -> Iterator[EigenveilError]:
    kinds = [EigenveilError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind is not ProtocolError:
            yield kind("state ", BOUNDS, " or not")
    yield ProtocolError(Code.SHAPE, "east")


def test_copies_say_the_same():
    for error in every_error():
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(other) is type(error)
            assert vars(other) == vars(error)
            assert [other.said(face) for face in ("python", "shell", "file")] == [
                error.said(face) for face in ("python", "shell", "file")
            ]


def test_an_error_about_an_error_keeps_its_phrases(tmp_path):
    from eigenveil.federated import built as _built

    def build() -> None:
        raise InvalidParameterError("state ", option("row_norm", "private"))

    with pytest.raises(InvalidParameterError) as caught:
        _built(tmp_path / "east.toml", build)
    assert caught.value.said("file") == 'east.toml: state row_norm = "private"'


def test_what_a_mechanism_refuses_is_worded_by_whoever_tells(tmp_path):
    asked = Situation(task="pca", n=20, d=5, k=2, budget=Budget(epsilon=1, delta=1e-6), row_norm=1)
    refused = predict(asked, "spherical")
    assert not refused.serves
    assert refused.why == str(refused.refusal)
    assert "leave row_norm out, or choose mechanism='analyze-gauss'" in refused.why
    words = "leave --row-norm out, or choose --mechanism analyze-gauss"
    assert words in refused.refusal.said("shell")
    each = predict(replace(asked, row_norm=None, assume_centered=True), "deflation")
    assert "for each of its components" in each.why
    assert "choose --mechanism " in each.refusal.said("shell")

    size = ["--rows", "20", "--columns-count", "5", "--k", "2", "--row-norm", "1"]
    plan = ["plan", *size, "--epsilon", "1", "--delta", "1e-6"]
    assert words in CliRunner().invoke(main, plan).stdout
    found = json.loads(CliRunner().invoke(main, [*plan, "--json"]).stdout)
    (row,) = (one for one in found["predictions"] if one["mechanism"] == "spherical")
    assert words in row["why"]
    assert row["serves"] is False
    assert "refusal" not in row
