"""How large the package may be, and how much of it one fit may run through.

Whoever goes above a limit says why in the changelog, and raises it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import eigenveil

SOURCE = Path(eigenveil.__file__).parent
MOST = {"package": (267, 58_150), "papers": (37, 6_700)}  # files and lines
# Files and functions of a second default fit.
WALKS = {"components": (47, 350), "covariance": (51, 440), "regression": (51, 370)}
TRACE = """
import sys
import numpy as np
import eigenveil
from eigenveil import PrivateCovariance, PrivatePCA, PrivateRegression

random = np.random.default_rng(0)
X = random.standard_normal((4000, 10)) @ random.standard_normal((10, 10)) + 5
y = X @ random.standard_normal(10) + random.standard_normal(4000)
budget = {"epsilon": 1.0, "delta": 1e-6}
FITS = {
    "components": lambda: PrivatePCA(2, **budget).fit(X),
    "covariance": lambda: PrivateCovariance(**budget).fit(X),
    "regression": lambda: PrivateRegression(**budget).fit(X, y),
}
ROOT = eigenveil.__path__[0]
UNNAMED = {"<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<lambda>", "<setcomp>"}
fit, seen = FITS[sys.argv[1]], set()
fit()

def called(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(ROOT) and code.co_name not in UNNAMED:
        seen.add((code.co_filename, code.co_qualname))

for _ in range(3):
    seen.clear()
    sys.setprofile(called)
    fit()
    sys.setprofile(None)
    print(len({file for file, _ in seen}), len(seen))
"""


def test_the_package_is_not_larger_than_it_has_to_be():
    found = {"package": [0, 0], "papers": [0, 0]}
    for path in SOURCE.rglob("*.py"):
        counts = found["papers" if path.relative_to(SOURCE).parts[0] == "papers" else "package"]
        counts[0] += 1
        counts[1] += len(path.read_text("utf-8").splitlines())
    for name, (files, lines) in MOST.items():
        assert found[name][0] <= files, name
        assert found[name][1] <= lines, name


@pytest.mark.parametrize("task", WALKS)
def test_a_default_fit_runs_through_few_functions(task):
    """Python's hash seed and random draws decide about a few calls: the smallest of three."""
    words = [sys.executable, "-W", "ignore", "-c", TRACE, task]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    walks = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    files, functions = WALKS[task]
    assert min(walk[0] for walk in walks) <= files
    assert min(walk[1] for walk in walks) <= functions
