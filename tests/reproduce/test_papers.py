"""The map from papers to code leads somewhere: names, files and tests exist."""

import re
from pathlib import Path

from eigenveil.papers import ALGORITHMS, figures

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "papers"
ROW = re.compile(
    r"^\| (.+?) \| (.+?) \| `([a-z0-9_/]+\.py)` \| `(tests/[a-z0-9_/]+\.py)` \|$", re.M
)
MAP = (FOLDER / "README.md").read_text("utf-8")


def test_every_row_names_files_that_exist():
    rows = ROW.findall(MAP)
    assert len(rows) > 50
    for what, _, file, test in rows:
        assert (ROOT / "src" / "eigenveil" / file).is_file(), what
        assert (ROOT / test).is_file(), what


def test_quoted_names_are_algorithms():
    quoted = {
        name for _, names, _, _ in ROW.findall(MAP) for name in re.findall(r'"([^"]+)"', names)
    }
    quoted -= {"histograms", "harmonic", "private", "advanced"}  # options
    assert quoted == set(ALGORITHMS)


def test_every_figure_is_spoken_of_on_its_page():
    for name in figures():
        paper = name.partition(":")[0]
        assert name in (FOLDER / f"{paper}.md").read_text("utf-8"), name
