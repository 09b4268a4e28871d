"""Which source files a job walks through, in order: the pictures of docs/architecture.md.

``python -m tests.architecture`` prints the walks; with ``--write`` it draws them into the page.

A job runs twice, the second time under a profiler, so that imports are no part of a walk. A *step*
is a call from one file into another. Files of the cellar are counted and not drawn. Properties and
methods are questions to a value that is carried along, such as a request, a plan or a source, and
are answered where its class is defined; a function of a module is work that is done there. So a
walk *returns* to a file where functions of its module are called from two different files.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner

import eigenveil
from eigenveil import PrivatePCA, StreamingPCA
from eigenveil.cli import main
from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate

SOURCE = Path(eigenveil.__file__).parent
# What privacy means and costs, numbers, rows up to their exact and bounded sums, and the gate.
CELLAR = ("privacy/", "numerics/", "data/", "mechanisms/base.py")
WORDS = ("exceptions.py", "text.py", "wording.py")  # of messages
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = np.random.default_rng(0).standard_normal((3000, 6)) * [4, 3, 1, 1, 1, 1]


@dataclass
class Walk:
    """A traced job.

    Attributes
    ----------
    files : list of str
        All files that were touched, in the order of the first call into each.
    entered : dict of str to str
        The file of the floor from which a file was entered first; "" for the caller.
    functions : dict of str to set of str
        By file, the files from which functions of its module were called.

    """

    files: list[str] = field(default_factory=list)
    entered: dict[str, str] = field(default_factory=dict)
    functions: dict[str, set[str]] = field(default_factory=dict)

    @property
    def floor(self) -> list[str]:
        """Return the files above the cellar, in order."""
        return [file for file in self.files if is_floor(file)]

    @property
    def cellar(self) -> list[str]:
        """Return the files of the cellar, in order."""
        return [file for file in self.files if not is_floor(file)]

    @property
    def returns(self) -> dict[str, set[str]]:
        """Return files of the floor that are entered from two files or more, and from which."""
        several = {file: callers for file, callers in self.functions.items() if len(callers) > 1}
        return {file: callers for file, callers in several.items() if is_floor(file)}


def is_floor(file: str) -> bool:
    """Return whether a file stands above the cellar."""
    return not file.startswith(CELLAR) and file not in WORDS


def trace(job: Callable[[], Any]) -> Walk:
    """Run a job twice, and follow the second run: with numpy, as where nothing is compiled."""
    with patch("eigenveil.numerics.kernels.library", lambda: None):
        return _followed(job)


def _followed(job: Callable[[], Any]) -> Walk:
    job()
    walk = Walk()

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (file := _file(frame)) is not None:
            _note(walk, frame, file)

    sys.setprofile(follow)
    try:
        job()
    finally:
        sys.setprofile(None)
    return walk


def _note(walk: Walk, frame: FrameType, file: str) -> None:
    above = frame.f_back
    while above is not None and (_file(above) is None or not is_floor(str(_file(above)))):
        if _file(above) == file:  # it is there already
            return
        above = above.f_back
    caller = "" if above is None else str(_file(above))
    if caller == file:
        return
    if file not in walk.entered:
        walk.files.append(file)
        walk.entered[file] = caller
    if "." not in frame.f_code.co_qualname:
        walk.functions.setdefault(file, set()).add(caller)


def _file(frame: FrameType) -> str | None:
    return None if frame.f_code.co_name == "<module>" else _inside(frame.f_code.co_filename)


@cache
def _inside(name: str) -> str | None:
    """Return the path of a source file inside the package, None for others."""
    path = Path(name)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else None


def fit() -> None:
    """Fit with every default."""
    PrivatePCA(2, **BUDGET).fit(ROWS)


def command() -> None:
    """Release by the command line, and verify what was written."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "rows.npy", Path(folder) / "out"
        np.save(table, ROWS)
        asked = ["--k", "2", "--epsilon", "1", "--delta", "1e-6", "-o"]
        for words in (["fit", table, *asked, out], ["verify", out]):
            done = CliRunner().invoke(main, [str(word) for word in words])
            assert done.exit_code == 0, done.output


def stream() -> None:
    """Feed a stream that is kept in a state, and finish it."""
    with tempfile.TemporaryDirectory() as folder:
        pca = StreamingPCA(2, **BUDGET, state=Path(folder) / "state")
        for day, rows in enumerate(np.array_split(ROWS, 2)):
            pca.partial_fit(rows, batch=str(day))
        pca.finish()


def federation() -> None:
    """Run both rounds among three owners."""
    names = ("north", "south", "west")
    settings = {"federation": "walk", **BUDGET, "random_state": 0}
    agreement = Agreement(
        federation="walk",
        n_columns=6,
        n_components=2,
        owners=dict.fromkeys(names, Limits()),
        simulated=True,
    )
    owners = {
        name: Owner(OwnerSettings(owner=name, **settings), rows)
        for name, rows in zip(names, np.array_split(ROWS, 3), strict=True)
    }
    simulate(agreement, owners)


JOBS: dict[str, Callable[[], None]] = {
    "fit": fit,
    "command": command,
    "stream": stream,
    "federation": federation,
}


def drawing(name: str, walk: Walk, first: Walk) -> str:
    """Return a walk as a mermaid picture: every file under the one that entered it first.

    Other jobs than a fit show what they add to it: files of its walk are one box.
    """
    lines = ["flowchart LR"]
    shared = set() if name == "fit" else set(first.floor)
    number = {file: f"f{i}" for i, file in enumerate(walk.floor)}
    step = 0
    for file in walk.floor:
        if file in shared:
            continue
        step += 1
        lines.append(f'  {number[file]}["{step}. {file.removesuffix(".py")}"]')
    for file in walk.floor:
        caller = walk.entered[file]
        if file in shared and (not caller or caller in shared):
            continue
        source = "walk" if caller in shared else number[caller] if caller else "caller([caller])"
        line = f"  {source} --> {'walk' if file in shared else number[file]}"
        if line not in lines:
            lines.append(line)
    if inside := len(shared & set(walk.floor)):
        lines.append(f'  walk[["{inside} of the files of a fit"]]')
    return "\n".join(lines)


def numbers(walk: Walk) -> str:
    """Return how many files a walk touches, in words."""
    return f"{len(walk.floor)} files, and {len(walk.cellar)} of the cellar"


def drawn(page: str, walks: dict[str, Walk]) -> str:
    """Return the page with the pictures of these walks between its marks."""
    for name, walk in walks.items():
        begin, end = f"<!-- walk: {name} -->\n", "<!-- end -->"
        start = page.index(begin) + len(begin)
        stop = page.index(end, start)
        picture = drawing(name, walk, walks["fit"])
        text = f"{numbers(walk)}.\n\n```mermaid\n{picture}\n```\n"
        page = page[:start] + text + page[stop:]
    return page
