"""The wheel installs and runs in a clean environment, far from the repository: make wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.built


def run(*command, cwd):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """Return the folder of programs of an environment that has the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    programs = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    yield programs
    shutil.rmtree(folder)


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"eigenveil"}
    assert "eigenveil/py.typed" in names
    assert "eigenveil/release/release-1.schema.json" in names
    assert "eigenveil/report/page/page.css" in names
    assert {f"eigenveil/studio/static/{name}" for name in ("index.html", "studio.js")} <= {*names}
    assert not [name for name in names if "test" in name.lower() or "__pycache__" in name]


def test_the_metadata_name_licence_readme_and_extras(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "# eigenveil" in metadata.get_payload()
    extras = set(metadata.get_all("Provides-Extra"))
    assert {"all", "dask", "docs", "federated", "parquet", "plot", "sign"} <= extras


def test_a_release_is_made_and_verified_without_the_repository(programs, tmp_path):
    where = run(programs / "python", "-c", "import eigenveil; print(eigenveil.__file__)", cwd="/")
    assert str(ROOT) not in where
    eigenveil = programs / "eigenveil"
    run(eigenveil, "sample", "patients.csv", cwd=tmp_path)
    columns = ["--drop", "admitted,sex,ward", "--scale", "private", "--on-missing", "centre"]
    budget = ["--k", "3", "--epsilon", "1", "--delta", "1e-6", "--unit", "patient_id"]
    run(eigenveil, "fit", "patients.csv", *budget, *columns, "-o", "release", cwd=tmp_path)
    assert "release: intact" in run(eigenveil, "verify", "release", cwd=tmp_path)
    assert "epsilon" in run(eigenveil, "inspect", "release", cwd=tmp_path)


@pytest.mark.parametrize("name", ["fit", "regress", "stream", "federate", "report", "reproduce"])
def test_commands_show_their_help_without_any_extra(programs, name, tmp_path):
    assert "Usage:" in run(programs / "eigenveil", name, "--help", cwd=tmp_path)
