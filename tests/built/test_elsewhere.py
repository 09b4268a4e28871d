"""A release is read and checked without Python, by the scripts in docs/elsewhere."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from eigenveil import Release

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "release" / "stored" / "0.1.0"
SCRIPTS = ROOT / "docs" / "elsewhere"
pytestmark = pytest.mark.built
KINDS = ("components", "covariance", "regression")
R = pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not installed")
JULIA = pytest.mark.skipif(shutil.which("julia") is None, reason="julia is not installed")
LANGUAGES = [
    pytest.param(["Rscript", "--vanilla", str(SCRIPTS / "read_release.R")], marks=R, id="R"),
    pytest.param(["julia", str(SCRIPTS / "read_release.jl")], marks=JULIA, id="Julia"),
]


def unpacked(name, folder):
    with zipfile.ZipFile(STORED / f"{name}.zip") as archive:
        archive.extractall(folder / name)
    return folder / name


def run(*command):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("program", LANGUAGES)
def test_scripts_say_what_the_release_says_and_refuse_what_was_changed(program, tmp_path):
    for name in KINDS:
        done = run(*program, unpacked(name, tmp_path))
        assert done.returncode == 0, done.stderr
        assert Release.load(STORED / f"{name}.zip").guarantee.sentence() in done.stdout
    changed = tmp_path / "components" / "report.html"
    changed.write_text(changed.read_text("utf-8") + " ", "utf-8")
    done = run(*program, tmp_path / "components")
    assert done.returncode == 1
    assert "does not match SHA256SUMS" in done.stderr
    (tmp_path / "covariance" / "more.txt").write_text("")
    done = run(*program, tmp_path / "covariance")
    assert done.returncode == 1
    assert "one more" in done.stderr


@R
def test_numbers_in_r_are_those_in_python(tmp_path):
    folder = unpacked("components", tmp_path)
    code = (
        f'source("{SCRIPTS / "read_release.R"}"); release <- read_release("{folder}"); '
        "scores <- transform_rows(release, matrix(c(5, 8, 5, 5, 5, 7), 2)); "
        "cat(jsonlite::toJSON(list(arrays = release$arrays, scores = scores), digits = NA))"
    )
    done = run("Rscript", "--vanilla", "-e", code)
    assert done.returncode == 0, done.stderr
    found, release = json.loads(done.stdout), Release.load(STORED / "components.zip")
    for name, values in release.arrays.items():
        np.testing.assert_allclose(np.asarray(found["arrays"][name]), values, rtol=1e-12)
    rows = np.array([[5.0, 5.0, 5.0], [8.0, 5.0, 7.0]])
    np.testing.assert_allclose(found["scores"], release.transform(rows), atol=1e-12)


@JULIA
def test_numbers_in_julia_are_those_in_python(tmp_path):
    for name in KINDS:
        folder = unpacked(name, tmp_path)
        code = (
            f'include("{SCRIPTS / "read_release.jl"}"); release = read_release("{folder}"); '
            "for (name, values) in release.arrays; "
            # The first index counts fastest in Julia: Fortran's order.
            'println(name, " ", join(size(values), ","), " ", join(vec(values), ",")); end'
        )
        done = run("julia", "-e", code)
        assert done.returncode == 0, done.stderr
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        release = Release.load(STORED / f"{name}.zip")
        assert set(found) == set(release.arrays)
        for array, values in release.arrays.items():
            shape, numbers = found[array].split(" ")
            read = np.array([float(each) for each in numbers.split(",")])
            shape = tuple(int(part) for part in shape.split(","))
            np.testing.assert_array_equal(read.reshape(shape, order="F"), values)


@JULIA
def test_julia_reads_json_as_python_does(tmp_path):
    odd = {'a\n"b\\': [1, -2.5e-3, True, None, [], {}], "größe \U0001f600 \x1b": {"": " x "}}
    (tmp_path / "odd.json").write_text(json.dumps(odd, indent=1), "utf-8")
    (tmp_path / "raw.json").write_text(json.dumps(odd, ensure_ascii=False), "utf-8")
    (tmp_path / "bad.json").write_text('{"a": 1,, "b": 2}')
    code = (
        f'include("{SCRIPTS / "read_release.jl"}"); '
        f'read_in(name) = parse_json(read(joinpath("{tmp_path}", name), String)); '
        'odd = read_in("odd.json"); @assert odd == read_in("raw.json"); '
        '@assert odd["a\\n\\"b\\\\"] == Any[1, -0.0025, true, nothing, Any[], Dict()]; '
        '@assert odd["größe \U0001f600 \\e"] == Dict("" => " x "); '
        'read_in("bad.json")'
    )
    done = run("julia", "-e", code)
    assert done.returncode == 1
    assert "release.json is not JSON" in done.stderr
