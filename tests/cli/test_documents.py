"""The console examples of docs/command_line.md run, in their order, and print what is shown."""

import re
import shlex
from pathlib import Path

import pytest

import eigenveil.planning
from eigenveil import Release
from eigenveil.numerics import SimulationSource
from tests.cli.conftest import invoke

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command_line.md").read_text("utf-8")
ADULT = ROOT.parent / "shared" / "data" / "adult_train.parquet"
MISSING = [
    name
    for name, there in {
        "the planner": hasattr(eigenveil.planning, "recommend"),
        "../shared/data/adult_train.parquet": ADULT.exists(),
    }.items()
    if not there
]


def examples(page=PAGE):
    """Each command of the page, and the lines shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            yield command, shown


def pattern(shown):
    """``...`` stands for anything, a line of it for any lines."""
    lines = [re.escape(line).replace(r"\.\.\.", ".*") for line in shown.splitlines()]
    return "".join(r"(?:.*\n)*" if line == ".*" else rf"{line}\n" for line in lines)


@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
def test_the_page_is_true(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")
    from pyarrow import csv, parquet

    monkeypatch.chdir(tmp_path)
    csv.write_csv(parquet.read_table(ADULT), "adult.csv")
    (options,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    Path("options.toml").write_text(options)
    code = None
    for command, shown in examples():
        if command == "echo $?":
            assert shown == f"{code}\n"
            continue
        words, _, source = command.partition(" < ")
        text = Path(source).read_bytes() if source else None
        program, *arguments = shlex.split(words)
        assert program == "eigenveil"
        with monkeypatch.context() as patched:
            if arguments[0] == "audit":  # a test that fails by chance is seeded
                source = SimulationSource(0)
                patched.setattr("eigenveil.estimators.base.SystemSource", lambda s=source: s)
            result = invoke(*arguments, input=text)
        code = result.exit_code
        assert re.fullmatch(pattern(shown), result.output), f"{command}\n{result.output}"
        assert (code == 0) == ("error: " not in shown)
    Release.verify("adult-release")


def test_the_examples_are_found():
    commands = [command for command, _ in examples()]
    assert len(commands) > 15
    three = [command.split()[1] for command in commands[1:4]]
    assert three == ["plan", "fit", "verify"]


def test_a_pattern_rejects_other_output():
    assert re.fullmatch(pattern("a ... c\n...\nend\n"), "a b c\nx\ny\nend\n")
    assert not re.fullmatch(pattern("a ... c\n...\nend\n"), "a b d\nx\ny\nend\n")
    assert not re.fullmatch(pattern("a\n"), "a\nb\n")
