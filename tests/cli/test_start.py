"""Help comes before anything heavy is imported."""

import subprocess
import sys

import pytest

from eigenveil.cli import _COMMANDS
from tests.cli.conftest import fails, invoke

HEAVY = {"numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "sqlite3"}
ASK = """
import sys
from eigenveil.cli import main
for words in {words!r}:
    try:
        main([*words, "--help"])
    except SystemExit as done:
        assert done.code == 0
print(sorted({heavy!r} & set(sys.modules)))
"""


def test_no_help_imports_numbers():
    inner = [["ledger", "init"], ["ledger", "export"], ["federate", "server"], ["federate", "keys"]]
    words = [[], *([name] for name in _COMMANDS), *inner]
    code = ASK.format(words=words, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_of_the_table_is_there(name):
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert f"{name} " in result.stdout


def test_without_arguments_help_is_shown():
    result = invoke()
    assert result.exit_code == 2
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["--nonsense"], ["fit"], ["fit", "x.csv", "--nonsense"], ["ledger", "x"]],
)
def test_usage_errors_are_one_line_too(words):
    assert "--help" in fails(2, *words)


def test_internal_errors_show_no_message(monkeypatch):
    """What an unforeseen error says could quote a record."""
    from eigenveil.release import Release

    def broken(folder, **options):
        raise ValueError("could not convert string to float: 'a record'")

    monkeypatch.setattr(Release, "examine", broken)
    message = fails(1, "inspect", "folder")
    assert "record" not in message
    assert "ValueError in test_start.py line" in message
