"""The walk of a default fit is short and straight, and the pictures of walks are true."""

import re
from pathlib import Path

import pytest

from tests.architecture.walk import JOBS, drawn, trace

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_FILES = 23  # of the floor


@pytest.fixture(scope="module")
def walks():
    return {name: trace(job) for name, job in JOBS.items()}


def test_a_default_fit_touches_few_files(walks):
    assert len(walks["fit"].floor) <= MOST_FILES, walks["fit"].floor


def test_a_default_fit_never_returns(walks):
    assert not walks["fit"].returns


def test_the_order_is_that_of_the_work(walks):
    """A request, a choice, a plan, its execution, a result, a release."""
    steps = [
        "estimators/pca.py",
        "estimators/tables.py",
        "mechanisms/request.py",
        "planner/choice.py",
        "mechanisms/planning.py",
        "mechanisms/stages.py",
        "mechanisms/execute.py",
        "estimators/results.py",
        "release/artefact.py",
    ]
    assert [file for file in walks["fit"].floor if file in steps] == steps


def test_the_tracer_sees_a_return():
    """A file whose functions two others call is found; one that is asked for a value is not."""

    def job():
        from eigenveil.mechanisms import vector_noise
        from eigenveil.privacy import Gaussian
        from eigenveil.text import plural  # of the cellar: no part of the floor

        plural("row", 2)
        vector_noise(Gaussian(1.0))

    walk = trace(job)
    assert walk.floor == ["mechanisms/additive.py"]
    assert walk.returns == {}
    walk.functions["mechanisms/additive.py"].add("planner/choice.py")
    assert set(walk.returns) == {"mechanisms/additive.py"}


def test_the_picture_of_a_fit_is_its_walk(walks):
    page = PAGE.read_text("utf-8")
    assert drawn(page, {"fit": walks["fit"]}) == page, "python -m tests.architecture --write"


@pytest.mark.parametrize("name", JOBS)
def test_every_file_that_is_drawn_is_touched(walks, name):
    picture = PAGE.read_text("utf-8").split(f"<!-- walk: {name} -->")[1].split("<!-- end -->")[0]
    shown = [f"{file}.py" for file in re.findall(r'\["\d+\. ([^"]+)"\]', picture)]
    assert len(shown) > 5
    assert set(shown) <= set(walks[name].floor)
