"""``eigenveil sample``: the table that the documents use."""

from eigenveil.datasets import Patients

from .conftest import fails, invoke


def test_sample_writes_the_same_table_every_time(tmp_path):
    for name in ("a.csv", "b.csv"):
        result = invoke("sample", tmp_path / name, "--rows", 30)
        assert result.exit_code == 0, result.output
        assert "nobody in it exists" in result.stdout
    text = (tmp_path / "a.csv").read_text("utf-8")
    assert text == (tmp_path / "b.csv").read_text("utf-8")
    header, *records = [line.split(",") for line in text.splitlines()]
    assert tuple(header) == Patients().names
    assert records == list(Patients(30).records())


def test_sample_overwrites_nothing(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("mine")
    assert "exists already: choose a new name" in fails(2, "sample", table)
    assert table.read_text() == "mine"
    assert "give a name in .csv" in fails(2, "sample", tmp_path / "a.xlsx")
