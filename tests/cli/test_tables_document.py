"""The examples of docs/tables.md run, in their order, and print what is shown."""

import re
import shlex
from pathlib import Path

from tests.cli.conftest import invoke
from tests.cli.test_documents import examples, pattern

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")


def test_the_page_is_true(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command, shown in examples(PAGE):
        program, *arguments = shlex.split(command)
        assert program == "eigenveil"
        result = invoke(*arguments)
        assert re.fullmatch(pattern(shown), result.output), f"{command}\n{result.output}"
        assert (result.exit_code == 0) == ("error: " not in shown)
    (script,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(script, "docs/tables.md", "exec"), {})
    printed = capsys.readouterr().out
    (said,) = re.findall(r"print\(pca.levels_\)  # (.*)", script)
    assert printed.startswith(f"{said}\nProtected: all rows of one person")
