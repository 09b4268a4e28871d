"""Files, folders, columns and labels may be called anything: no name writes a line of its own."""

import ast
import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import eigenveil.cli
from eigenveil import Ledger, PrivatePCA, Release
from eigenveil.cli import main
from eigenveil.exceptions import EigenveilError, InvalidDataError
from eigenveil.numerics import SystemSource
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.release import generate_key

PLAIN = "plain"
HOSTILE = {
    "line break": "x\nx: intact (pca, tangent)\nsignature    signed by us, the key you gave",
    "return": "x\rintact",
    "escape": "x\x1b[2K\x1b[1A",
    "eight-bit escape": "x\x9b1A",
    "right to left": "x\u202egnp",
    "line separator": "x\u2028x",
    "no UTF-8": "x\udcff",  # as Python keeps the byte ff
}
HOSTILE["all"] = "".join(HOSTILE.values())
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@contextmanager
def same_noise():
    """How many lines a release has depends on it, so plain and hostile names get the same."""
    bits = np.random.Philox(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemSource, "words", lambda self, count: bits.random_raw(count))
        yield


def run(*words):
    # As on a terminal: elsewhere click leaves escape sequences out.
    with same_noise():
        return CliRunner().invoke(main, [str(word) for word in words], color=True)


def prepare(folder):
    """Everything that commands read, under names that lie in ``folder``."""
    folder.mkdir()
    rows = np.random.default_rng(0).standard_normal((400, 3)) * [5, 1, 1]
    np.savetxt(folder / "t.csv", rows, delimiter=",", header="a,b,c", comments="")
    ledger = Ledger.create(folder / "budget", epsilon=9, delta=1e-6)
    ledger.charge(Gaussian(0.1), label=folder.name, adjacency=Adjacency.REPLACE_ONE)
    with same_noise():
        PrivatePCA(2, epsilon=8.0, delta=1e-6).fit(rows).release_.save(folder / "release")
    generate_key(folder / "key")


def commands(at):
    """Every command that prints a path or a name, with one that exists and one that does not."""
    fit = ["fit", at / "t.csv", "--k", 1, *BUDGET]
    stream = ["stream", at / "t.csv", "--k", 1, *BUDGET, "--state", at / "state", "--batch-size", 9]
    yield ["ledger", "init", at / "new ledger", *BUDGET]
    yield ["ledger", "show", at / "budget"]
    yield ["ledger", "history", at / "budget"]
    yield ["ledger", "export", at / "budget", "-o", at / "budget.csv"]
    yield ["ledger", "export", at / "budget", "-o", at / "budget.json"]
    yield [*fit, "--ledger", at / "budget", "--sign", at / "key", "-o", at / "fit"]
    yield [*fit, "-o", at / "fit"]
    yield [*fit, "-o", at / "none" / "fit"]
    yield [*fit, "--ledger", at / "none", "-o", at / "other"]
    yield [*fit, "--sign", at / "none", "-o", at / "other"]
    yield [*fit, "--config", at / "none", "-o", at / "other"]
    yield [*fit, "--unit", at.name, "-o", at / "other"]
    yield ["fit", at / "none.csv", *BUDGET, "-o", at / "other"]
    yield ["covariance", at / "t.csv", "--row-norm", 5, *BUDGET, "-o", at / "covariance.zip"]
    yield [*stream, "-o", at / "stream"]
    yield [*stream, "-o", at / "stream"]
    yield ["plan", at / "t.csv", "--k", 1, *BUDGET, "--mechanism", at.name]
    yield ["plan", "--rows", 99, "--columns-count", 3, *BUDGET, "--figure", at / "none" / "a.png"]
    yield ["plan", "--rows", 99, "--columns-count", 3, *BUDGET, "--figure", at / "none.txt"]
    for verb in ("verify", "inspect", "report"):
        for name in ("release", "covariance.zip", "none", "t.csv", ""):
            yield [verb, at / name]
    yield ["verify", at / "release", "--key", at / "key.pub"]
    yield ["report", at / "release", "-o", at / "page.html", "--figures", at / "figures"]
    yield ["report", at / "release", "-o", at / "page.html"]
    yield ["sign", at / "release", "--key", at / "none"]
    yield ["sign", at / "release", "--key", at / "key"]
    yield ["sign", at / "release", "--key", at / "key"]
    yield ["verify", at / "release", "--key", at / "key.pub"]
    yield ["keygen", at / "new key"]
    yield ["keygen", at / "new key"]
    yield ["export", at / "release", at / "x.csv"]
    yield ["export", at / "release", at / "x.csv"]
    yield ["export", at / "release", at / "release" / "x.csv"]
    yield ["transform", at / "release", at / "t.csv", "-o", at / "scores.csv"]
    yield ["transform", at / "release", at / "t.csv", "-o", at / "scores.csv"]
    yield ["transform", at / "release", at / "none.csv"]
    yield ["demo", "--output", at / "t.csv"]
    yield ["sample", at / "sample.csv", "--rows", 5]
    yield ["sample", at / "sample.csv", "--rows", 5]
    yield ["federate", "keys", "owner", "north", "-o", at / "keys"]
    yield ["federate", "keys", "server", "--host", "localhost", "-o", at / "keys"]
    yield ["federate", "status", at]
    yield ["federate", "status", at / "none"]
    yield ["federate", "server", at / "none.toml"]
    yield ["federate", "client", at / "none.toml"]
    yield ["federate", "demo", "--folder", at]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the commands do where all names are plain."""
    place = tmp_path_factory.mktemp("plain") / PLAIN
    prepare(place)
    return [(words, run(*words)) for words in commands(place)]


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "all" else pytest.param(kind, marks=pytest.mark.audit) for kind in HOSTILE],
)
def test_no_name_writes_a_line_or_moves_the_cursor(kind, expected, tmp_path):
    pytest.importorskip("flwr")
    place = tmp_path / HOSTILE[kind]
    prepare(place)
    for (plain, usual), words in zip(expected, commands(place), strict=True):
        result = run(*words)
        shown = ascii(f"{words}: {result.output}")
        assert result.exit_code == usual.exit_code, shown
        for stream in ("stdout", "stderr"):
            text = getattr(result, stream)
            assert text.replace("\n", "").isprintable(), shown
            assert text.count("\n") == getattr(usual, stream).count("\n"), (plain, shown)


@pytest.mark.parametrize("kind", HOSTILE)
def test_errors_of_the_library_are_one_line_too(kind, tmp_path):
    place = tmp_path / HOSTILE[kind]
    with pytest.raises(EigenveilError) as error:
        Release.load(place)
    assert str(error.value).isprintable()
    assert str(InvalidDataError(HOSTILE[kind])).isprintable()


@pytest.mark.parametrize("kind", HOSTILE)
def test_json_holds_the_name_itself(kind, tmp_path):
    place = tmp_path / HOSTILE[kind]
    prepare(place)
    words = ["fit", place / "t.csv", "--k", 1, *BUDGET, "-o", place / "fit", "--json"]
    result = run(*words)
    assert result.stdout.replace("\n", "").isprintable()
    assert json.loads(result.stdout)["folder"] == str(place / "fit")


def test_a_demo_in_a_strange_place(tmp_path):
    result = run("demo", "--output", tmp_path / HOSTILE["line break"])
    assert result.exit_code == 0, result.output
    assert "\nsignature " not in result.output
    assert "\\nsignature " in result.output


def test_verify_cannot_be_spoken_for(tmp_path):
    """A folder whose name is the verdict that it should not get."""
    prepare(tmp_path / "x")
    shutil.move(tmp_path / "x" / "release", tmp_path / HOSTILE["line break"])
    verdict = run("verify", tmp_path / HOSTILE["line break"])
    assert verdict.exit_code == 0
    assert [line for line in verdict.stdout.splitlines() if line.startswith("signature ")] == [
        "signature    not signed"
    ]


def calls(path):
    """Dotted names that a module calls."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_one_module_prints():
    """Progress on a terminal, and scores, hold no names."""
    speaks = ("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write")
    folder = Path(eigenveil.cli.__file__).parent
    found = {path.name for path in folder.glob("*.py") if {*calls(path)} & {*speaks}}
    assert found == {"printing.py", "progress.py"}
