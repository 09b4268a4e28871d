"""The repository itself: style, types, layers, and documents that run."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.planner.few import few_simulations

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples():
    for page in PAGES:
        for i, code in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            yield pytest.param(code, id=f"{page.relative_to(ROOT)}-{i}")


@pytest.mark.parametrize("code", list(examples()))
def test_examples_in_documents_run(code, tmp_path, monkeypatch, capsys):
    """In this process, so that they draw the noise of the test; a warning is an error."""
    monkeypatch.chdir(tmp_path)
    with few_simulations():
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


def test_links_between_documents_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_one_version_everywhere():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert version("eigenveil") == declared
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_fits_one_screen():
    (code,) = BLOCK.findall(README)
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    assert len(README.splitlines()) <= 120
    assert (ROOT / "docs" / "digits.png").stat().st_size < 100_000


def test_the_readme_shows_what_its_lines_print(tmp_path, monkeypatch, capsys):
    """But for numbers that noise may change."""
    (code,), (shown,) = BLOCK.findall(README), re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    first, second = capsys.readouterr().out.splitlines()
    assert first == shown.splitlines()[0]
    released = [float(number) for number in second.strip("[]").split()]
    printed = [float(number) for number in shown.splitlines()[1].strip("[]").split()]
    # Reliability varies by about 0.02 from release to release: ten times that never happens.
    assert all(abs(a - b) < 0.2 for a, b in zip(released, printed, strict=True))


def test_the_shell_lines_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^eigenveil .*$", README, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["sample", "fit", "verify"]
    for line in lines:
        result = invoke(*shlex.split(line)[1:])
        assert result.exit_code == 0, result.output


def test_noise_enters_in_one_place():
    """`perturb` is called by the gate, and by a mechanism that hands on its own call."""
    callers = {
        path.relative_to(ROOT / "src" / "eigenveil").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if ".perturb(" in path.read_text("utf-8")
    }
    handing_on = [
        "mechanisms/additive.py",
        "mechanisms/analyze_gauss.py",
        "mechanisms/captured.py",
        "mechanisms/cleaned.py",
        "mechanisms/column_scale.py",
        "mechanisms/component_stages.py",
        "mechanisms/continual.py",
        "mechanisms/distances.py",
        "mechanisms/rank.py",
        "mechanisms/score_map.py",
        "papers/covrev/adaptive.py",
        "papers/covrev/baselines.py",
        "papers/kpca/coordinate_bins.py",
        "papers/kpca/gap_projector.py",
    ]
    assert callers == {"mechanisms/gate.py", *handing_on}
    randomness = {
        path.relative_to(ROOT / "src" / "eigenveil")
        for path in (ROOT / "src").rglob("*.py")
        if "np.random" in path.read_text("utf-8")
    }
    # The noise, generators of test tables, and simulations, which release nothing.
    released = {path.name for path in randomness if path.parts[0] != "papers"}
    assert released == {"random.py", "patients.py", "generators.py"}


def test_simulations_cannot_charge_a_ledger():
    """Gates of reproduced figures are made in one place, without a ledger."""
    folder = ROOT / "src" / "eigenveil" / "papers"
    estimator = folder / "spiked" / "estimator.py"  # a release like others
    for path in {*folder.rglob("*.py")} - {estimator}:
        text = path.read_text("utf-8")
        assert not re.search(r"\bLedger\b", text), path.name
        assert ("Gate(" in text) == (path.name == "simulation.py"), path.name
    assert "ledger=None" in (folder / "simulation.py").read_text("utf-8")


def test_floating_point_noise_is_declared():
    """Whatever draws floats says that its numerics are not exact."""
    sampler = re.compile(
        r"import .*\b(?:draw_bingham|two_sided_wishart|LazyGaussian|normals|uniforms)\b"
    )
    package = ROOT / "src" / "eigenveil"
    files = [*package.glob("mechanisms/*.py"), *package.glob("papers/*/*.py")]
    users = [path for path in files if sampler.search(path.read_text("utf-8"))]
    declared = {
        "analyze_gauss": "return not self.lazy",
        "gate": "numbers that no row has to do with",
        "exponential": "exact: ClassVar[bool] = False",
        "shuffled_oja": "exact: ClassVar[bool] = False",
        "tangent": "exact: ClassVar[bool] = False",
        "wishart": "exact: ClassVar[bool] = False",
    }
    assert {path.stem for path in users} == set(declared)
    for path in users:
        assert declared[path.stem] in path.read_text("utf-8")


def test_importing_the_package_is_light():
    code = "import sys, eigenveil; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
