"""What is done with a release: scores, pages, figures, signatures."""

import csv
import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import eigenveil.report
from eigenveil import Ledger, Release
from eigenveil.cli import folders as export
from eigenveil.release import export as library
from tests.cli.conftest import fails, invoke

reports = pytest.mark.skipif(
    not hasattr(eigenveil.report, "write"), reason="needs eigenveil.report.write"
)


@pytest.fixture(scope="module")
def released(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    ledger = Ledger.create(folder / "a.ledger", epsilon=2, delta=1e-6)
    words = ["--columns", "gain,age,hours", "--k", 2, "--epsilon", 1, "--delta", 1e-6]
    result = invoke("fit", files.csv, *words, "--ledger", ledger.path, "-o", folder / "pca")
    assert result.exit_code == 0, result.output
    words = ["--columns", "gain,age", "--row-norm", 30, "--epsilon", 1]
    invoke("covariance", files.csv, *words, "-o", folder / "covariance")
    return folder


@pytest.fixture
def expected(files, released):
    arrays = Release.load(released / "pca").arrays
    rows = files.rows[:, [2, 0, 1]] / arrays["scale"]
    return (rows - arrays["mean"] / arrays["scale"]) @ arrays["components"].T


class TestTransform:
    def test_standard_output(self, files, released, expected):
        for data, text in ((files.csv, None), ("-", files.csv.read_bytes())):
            result = invoke("transform", released / "pca", data, input=text)
            assert result.exit_code == 0, result.output
            header, *lines = result.stdout.splitlines()
            assert header == "component_1,component_2"
            scores = np.array([line.split(",") for line in lines], dtype=float)
            np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
            assert "not private" in result.stderr

    @pytest.mark.parametrize("form", ["csv", "npy", "parquet"])
    def test_files(self, form, files, released, expected, tmp_path):
        output = tmp_path / f"scores.{form}"
        result = invoke("transform", released / "pca", files.csv, "-o", output)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        match form:
            case "csv":
                scores = np.loadtxt(output, delimiter=",", skiprows=1)
            case "npy":
                scores = np.load(output)
            case "parquet":
                parquet = pytest.importorskip("pyarrow.parquet")
                scores = np.column_stack(parquet.read_table(output).columns)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
        fails(2, "transform", released / "pca", files.csv, "-o", output)

    def test_mistakes(self, files, released, tmp_path):
        (tmp_path / "other.csv").write_text("gain,age,hour\n1,2,3\n")
        words = ["transform", released / "pca"]
        assert "did you mean 'hour'" in fails(3, *words, tmp_path / "other.csv")
        assert "in .csv" in fails(2, *words, files.csv, "-o", tmp_path / "x.txt")
        message = fails(2, "transform", released / "covariance", files.csv)
        assert "give one made by fit" in message
        fails(5, "transform", tmp_path, files.csv)

    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_a_column_is_kept_beside_them(self, form, files, released, expected, tmp_path):
        output = tmp_path / f"scores.{form}"
        data = getattr(files, form) if form == "csv" or files.parquet.exists() else files.csv
        words = ["transform", released / "pca", data, "--keep", "job"]
        result = invoke(*words, "-o", output)
        assert result.exit_code == 0, result.output
        jobs = [row["job"] for row in csv.DictReader(files.csv.read_text().splitlines())]
        if form == "csv":
            header, *rows = csv.reader(output.read_text().splitlines())
        else:
            table = pytest.importorskip("pyarrow.parquet").read_table(output)
            header, rows = table.column_names, list(zip(*table.to_pydict().values(), strict=True))
        assert list(header) == ["job", "component_1", "component_2"]
        assert [row[0] for row in rows] == jobs
        scores = np.array([row[1:] for row in rows], dtype=float)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)

    def test_what_cannot_be_kept(self, files, released, tmp_path):
        words = ["transform", released / "pca"]
        assert "did you mean 'job'" in fails(3, *words, files.csv, "--keep", "jobs")
        assert "another one" in fails(2, *words, files.csv, "--keep", "age")
        assert "save the table as CSV" in fails(2, *words, files.npy, "--keep", "job")
        assert "numbers alone" in fails(2, *words, files.csv, "--keep", "job", "-o", "s.npy")

    def test_half_written_scores_do_not_stay(self, files, released, tmp_path, monkeypatch):
        """A row that cannot be used stops the scores, and leaves no file that looks complete."""
        lines = files.csv.read_text().splitlines()
        (tmp_path / "bad.csv").write_text("\n".join([*lines, "x,x,x,x"]) + "\n")
        result = invoke(
            "transform", released / "pca", tmp_path / "bad.csv", "-o", tmp_path / "s.csv"
        )
        assert result.exit_code == 3, result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert not (tmp_path / "s.csv").exists()

    def test_another_number_of_columns_is_one_line(self, released, tmp_path):
        np.save(tmp_path / "wide.npy", np.ones((5, 4)))
        message = fails(3, "transform", released / "pca", tmp_path / "wide.npy")
        assert "have 4 columns, those of the release 3" in message
        fails(3, "transform", released / "pca", tmp_path / "wide.npy", "-o", tmp_path / "s.csv")
        assert not (tmp_path / "s.csv").exists()


def test_a_fit_shows_its_components(files, tmp_path):
    """A line for each: shares, what noise leaves of it, columns that weigh more than noise."""
    words = [files.csv, "--columns", "gain,age,hours", "--epsilon", 900, "--delta", 1e-6]
    result = invoke("fit", *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    title = next(i for i, line in enumerate(lines) if line.startswith("component  "))
    table = [line.split(maxsplit=7) for line in lines[title + 1 : title + 4]]
    release = Release.load(tmp_path / "r")
    assert [row[0] for row in table] == ["1", "2", "3"]
    shares = release.arrays["explained_variance_ratio"]
    for i, row in enumerate(table):
        assert float(row[1]) == pytest.approx(100 * shares[i], abs=0.051)
        assert float(row[3].lstrip(">")) == pytest.approx(100 * shares[: i + 1].sum(), abs=0.11)
    assert "age" in table[0][-1]  # by far the widest column
    assert f"open         {tmp_path / 'r' / 'report.html'}" in lines
    assert table[0][-1] in invoke("inspect", tmp_path / "r").stdout


def test_a_component_that_is_noise_has_no_loadings(files, tmp_path):
    words = [files.csv, "--columns", "gain,age,hours", "--epsilon", 0.01, "--delta", 1e-6]
    words += ["--scale", "same"]
    result = invoke("fit", *words, "-o", tmp_path / "r.zip")
    assert result.stdout.count("not clear of noise: do not interpret") == 3
    assert "open  " not in result.stdout


class TestReport:
    def test_the_page_inside(self, released):
        result = invoke("report", released / "pca")
        assert result.stdout == f"{released / 'pca' / 'report.html'}\n"

    @reports
    def test_a_new_page_with_figures(self, released, tmp_path):
        page, figures = tmp_path / "page.html", tmp_path / "figures"
        options = ["--ledger", released / "a.ledger", "-o", page, "--figures", figures]
        result = invoke("report", released / "pca", *options)
        assert result.exit_code == 0, result.output
        sentence = dict(Release.load(released / "pca").guarantee.statements())
        assert sentence["Spent"] in page.read_text("utf-8")
        shown = result.stdout.splitlines()
        assert shown[0] == str(page)
        assert set(shown[1:]) == {str(path) for path in figures.iterdir()}
        assert "exists already" in fails(2, "report", released / "pca", "-o", page)

    def test_a_ledger_needs_a_new_page(self, released):
        message = fails(2, "report", released / "pca", "--ledger", released / "a.ledger")
        assert "-o PAGE.html" in message


def test_verify_with_a_key(released, tmp_path):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization

    key = ed25519.Ed25519PrivateKey.generate()
    Release.load(released / "pca").save(tmp_path / "signed", key=key)

    def public(key, name):
        content = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    right = public(key, "right.pem")
    wrong = public(ed25519.Ed25519PrivateKey.generate(), "wrong.pem")
    for command in ("verify", "inspect"):
        result = invoke(command, tmp_path / "signed", "--key", right)
        assert result.exit_code == 0, result.output
        assert "the key you gave" in result.stdout
        assert "not signed" in invoke(command, released / "pca").stdout
    fails(5, "verify", tmp_path / "signed", "--key", wrong)
    fails(5, "verify", released / "pca", "--key", right)


class TestSign:
    def test_sign_and_verify(self, released, tmp_path):
        pytest.importorskip("cryptography")
        shutil.copytree(released / "pca", tmp_path / "copy")
        keys = [tmp_path / "one.pem", tmp_path / "two.pem"]
        for key in keys:
            assert "keep it secret" in invoke("keygen", key).stdout
            assert key.stat().st_mode & 0o077 == 0
        assert "signed by" in invoke("sign", tmp_path / "copy", "--key", keys[0]).stdout
        assert invoke("verify", tmp_path / "copy", "--key", f"{keys[0]}.pub").exit_code == 0
        fails(5, "verify", tmp_path / "copy", "--key", f"{keys[1]}.pub")
        assert "signed already" in fails(2, "sign", tmp_path / "copy", "--key", keys[1])

    def test_mistakes(self, released, tmp_path):
        pytest.importorskip("cryptography")
        from eigenveil.release import generate_key

        generate_key(tmp_path / "locked.pem", password="x")
        words = ["sign", released / "pca", "--key"]
        assert "protected by a password" in fails(2, *words, tmp_path / "locked.pem")
        fails(3, *words, tmp_path / "locked.pem.pub")
        fails(3, *words, tmp_path / "none.pem")
        assert "exists already" in fails(2, "keygen", tmp_path / "locked.pem")
        fails(2, "keygen", tmp_path / "none" / "key.pem")
        assert not (released / "pca" / "SIGNATURE").exists()


class TestExport:
    def test_formats_are_those_of_the_library(self):
        assert set(export.FORMATS) == set(library.FORMATS)

    @pytest.mark.parametrize("form", export.FORMATS)
    def test_files(self, form, released, tmp_path):
        pytest.importorskip("pyarrow" if form == "parquet" else "csv")
        written = invoke("export", released / "pca", tmp_path / "x", "--format", form)
        assert written.exit_code == 0, written.output
        assert set(written.stdout.splitlines()) == {str(path) for path in tmp_path.iterdir()}
        assert str(tmp_path / "x") in written.stdout.splitlines()

    def test_the_ending_says_the_format(self, released, tmp_path):
        invoke("export", released / "covariance", tmp_path / "x.csv")
        with (tmp_path / "x.csv").open(newline="") as stream:
            assert next(csv.reader(stream)) == ["feature", "gain", "age"]

    def test_mistakes(self, released, tmp_path):
        words = ["export", released / "pca"]
        assert "--format must be one of" in fails(2, *words, tmp_path / "x.xml")
        fails(2, *words, tmp_path / "x", "--format", "xml")
        assert "spoil" in fails(2, *words, released / "pca" / "x.csv")
        assert "made by eigenveil fit" in fails(
            2, "export", released / "covariance", tmp_path / "x", "--format", "plink"
        )
        fails(5, "export", tmp_path, tmp_path / "x.csv")
        assert list(tmp_path.iterdir()) == []
        Release.verify(released / "pca")


def test_parquet_from_the_program_itself(released, tmp_path):
    """pandas is kept out of it: pyarrow is content with that, and nothing waits for the import."""
    parquet = pytest.importorskip("pyarrow.parquet")
    words = [sys.executable, "-X", "importtime", "-m", "eigenveil", "export"]
    done = subprocess.run(
        [*words, released / "pca", tmp_path / "x.parquet"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    assert parquet.read_table(tmp_path / "x.parquet").column_names[0] == "feature"
    assert "pyarrow.parquet" in done.stderr
    assert "pandas.core" not in done.stderr


def test_no_command_writes_into_a_release(files, asked, released):
    folder = released / "pca"
    (folder.parent / "link").symlink_to(folder)
    for inside in (folder, folder / "deep", folder.parent / "link"):
        for words in (
            ["transform", folder, files.csv, "-o", inside / "s.csv"],
            ["ledger", "init", inside / "a.ledger", "--epsilon", 1],
            ["ledger", "export", released / "a.ledger", "-o", inside / "a.csv"],
            ["report", folder, "-o", inside / "page.html"],
            ["report", folder, "--figures", inside / "figures"],
            ["export", folder, inside / "x.csv"],
            ["fit", files.csv, *asked, "-o", inside / "r"],
            ["plan", files.npy, "--epsilon", 1, "--figure", inside / "a.png"],
            ["keygen", inside / "key.pem"],
            ["sample", inside / "a.csv"],
        ):
            assert "is a release folder" in fails(2, *words)
    Release.verify(folder)


def test_a_sums_file_alone_makes_no_release(files, released, tmp_path):
    """As downloads have it."""
    (tmp_path / "SHA256SUMS").write_text("")
    result = invoke("transform", released / "pca", files.csv, "-o", tmp_path / "s.csv")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("verb", ["verify", "inspect"])
def test_no_release_writes_lines_of_its_own(verb, released, tmp_path):
    """A folder whose sums are right could claim to be signed."""
    shutil.copytree(released / "pca", tmp_path / "forged")
    document = json.loads((tmp_path / "forged" / "release.json").read_text())
    document["mechanism"] = "tangent), signed by us, the key you gave\n\x1b[8m"
    (tmp_path / "forged" / "release.json").write_text(json.dumps(document))
    lines = [
        f"{hashlib.sha256((tmp_path / 'forged' / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("release.json", "arrays.npz", "report.html")
    ]
    (tmp_path / "forged" / "SHA256SUMS").write_text("".join(lines))
    message = fails(5, verb, tmp_path / "forged")
    assert "mechanism is not written as it should be" in message
    assert "\x1b" not in message
