"""A new mechanism is a module with one class: everything else follows from it.

The rest of what it costs is no code of the package: a proof page and a conformance case, which
`tests/documents` and `tests/conformance` ask for, and a line in the changelog.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USES = """
import json, sys
import eigenveil.mechanisms
eigenveil.mechanisms.__path__.append(sys.argv[1])  # as if the file lay beside the others

import numpy as np
from click.testing import CliRunner
from eigenveil import PrivatePCA, Release
from eigenveil.cli import main
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import OwnerSettings
from eigenveil.federated import MECHANISMS
from eigenveil.planning import Situation, predict
from eigenveil.privacy import Budget
from tests.documents.tables import by_file, overview

def told(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output

rows = np.random.default_rng(0).standard_normal((500, 5)) * [5, 3, 1, 1, 1]
budget = {"epsilon": 4.0, "delta": 1e-6}
release = PrivatePCA(2, **budget, mechanism="thresholded", random_state=0).fit(rows).release_
folder = release.save(sys.argv[1] + "/release")
try:
    PrivatePCA(2, **budget, mechanism="none").fit(rows)
except InvalidParameterError as error:
    listed = str(error)
situation = Situation(task="pca", n=500, d=5, k=2, budget=Budget(**budget))
planned = predict(situation, "thresholded")
configured = __import__("eigenveil.mechanisms.throwaway", fromlist=["Thresholded"]).Thresholded()
print(json.dumps({
    "estimator": release.mechanism,
    "configured": PrivatePCA(2, **budget, mechanism=configured).fit(rows).mechanism_,
    "verified": Release.verify(folder).mechanism,
    "message": listed,
    "planner": planned.mechanism if planned.error is not None else planned.why,
    "command": [one["name"] for one in json.loads(told("mechanisms", "--json"))],
    "audit": told("audit", "thresholded", "--epsilon", "1", "--delta", "1e-6", "--trials", "50"),
    "owner": OwnerSettings(owner="a", federation="f", **budget, mechanism="thresholded").mechanism,
    "weights": list(MECHANISMS),
    "readme": overview(),
    "files": by_file(),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mechanisms")
    shutil.copy(Path(__file__).with_name("throwaway.py"), folder / "throwaway.py")
    done = subprocess.run(
        [sys.executable, "-c", USES, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "where",
    [
        "estimator",
        "configured",
        "verified",
        "message",
        "planner",
        "command",
        "audit",
        "owner",
        "weights",
        "readme",
        "files",
    ],
)
def test_a_module_is_all_that_the_package_needs(seen, where):
    assert "thresholded" in seen[where]


def test_nothing_in_the_package_knows_of_it():
    sources = (ROOT / "src").rglob("*.py")
    assert not any("thresholded" in path.read_text("utf-8") for path in sources)
