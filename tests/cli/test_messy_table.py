"""docs/messy_table.md: from a raw table to a signed release, as a whole."""

import re
import shlex
from pathlib import Path

from tests.cli.conftest import invoke
from tests.cli.test_documents import examples, pattern

PAGE = (Path(__file__).parents[2] / "docs" / "messy_table.md").read_text("utf-8")


def test_the_page_is_true(tmp_path, monkeypatch, capsys):
    """With the noise of the test: it is seeded."""
    monkeypatch.chdir(tmp_path)
    commands = list(examples(PAGE))
    for command, shown in commands:
        program, *arguments = shlex.split(command)
        assert program == "eigenveil"
        result = invoke(*arguments)
        assert result.exit_code == 0, result.output
        assert re.fullmatch(pattern(shown), result.output), f"{command}\n{result.output}"
    assert len(commands) <= 5
    ((script, shown),) = re.findall(r"(?ms)^```py\n(.*?)^```\n\n```\n(.*?)^```", PAGE)
    exec(compile(script, "docs/messy_table.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == shown.splitlines()[:3]
    first_lines = (tmp_path / "patients.csv").read_text("utf-8").splitlines()
    (excerpt,) = re.findall(r"(?ms)^```\n(patient_id,.*?)^```", PAGE)
    lines = excerpt.splitlines()
    assert [first_lines[0], first_lines[1], "...", first_lines[4]] == lines
