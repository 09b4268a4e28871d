"""``eigenveil reproduce``: names, files, refusals."""

import json

import pytest

from tests.cli.conftest import fails, invoke


def test_the_list_names_figures_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = invoke("reproduce", "--list").stdout
    assert "spiked:fig1" in shown
    assert "needs mnist.npz" in shown
    assert invoke("reproduce").stdout == shown
    rows = json.loads(invoke("reproduce", "--list", "--json").stdout)
    assert {"name", "source", "claims", "data"} == set(rows[0])
    assert list(tmp_path.iterdir()) == []


def test_a_figure_leaves_runs_a_picture_and_verdicts(tmp_path):
    pytest.importorskip("matplotlib")
    words = ["reproduce", "spiked:fig3", "--repeats", 2, "-o", tmp_path]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "small"
    assert sorted(path.name for path in folder.iterdir()) == [
        "spiked-fig3.csv",
        "spiked-fig3.json",
        "spiked-fig3.png",
    ]
    assert (folder / "spiked-fig3.csv").read_text().count("\n") == 11
    assert "holds (Algorithm 1: " in result.stdout
    found = json.loads((folder / "spiked-fig3.json").read_text())
    assert found["repeats"] == 2
    assert "sample PCA (not private)" in found["methods"]
    again = invoke(*words, "--json")
    assert json.loads(again.stdout) == [found]


def test_mistakes_are_one_line(tmp_path):
    assert "--list" in fails(2, "reproduce", "spiked:fig99")
    assert "--data" in fails(3, "reproduce", "spiked:fig4", "-o", tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "--output" in fails(2, "reproduce", "spiked:fig3", "-o", blocked)
    fails(2, "reproduce", "spiked:fig3", "--repeats", 0)
    other = tmp_path / "file.npz"
    other.write_text("")
    (tmp_path / "mnist.npz").write_text("another file")
    message = fails(3, "reproduce", "spiked:fig4", "-o", tmp_path / "out", "--data", tmp_path)
    assert "checksum" in message
