"""Stories: a scenario, a folder, and processes of which all but the last are killed."""

import gc
import io
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from eigenveil.exceptions import EigenveilError
from tests.kill.points import Points, append
from tests.kill.witness import watch

__all__ = ["Scenario", "Story", "stories"]

_LIMIT = 120.0  # s for one process, on a busy machine
_LATER = 0.55  # probability that the process after a killed one is killed too
_MOMENT = 0.15  # that a process is killed at a random moment, not at a point
_FAILED, _PASSED = "failed.harness", "passed.harness"


class Scenario(Protocol):
    """What a user does in a folder, again after every death."""

    name: str
    area: str
    faults: dict[str, Callable[[], None]]  # by name: what is wrong then

    def prepare(self, folder: Path) -> None:
        """Make what is there beforehand."""

    def attempt(self, folder: Path) -> None:
        """Go on from whatever an earlier process left, to the end."""

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        """Say what is wrong with what was left, after a death or at the end."""


@dataclass
class Story:
    """How often processes were killed in a folder, and what is wrong there."""

    scenario: str
    seed: str
    kills: int = 0
    findings: list[str] = field(default_factory=list)


def stories(scenario: Any, seed: int, fault: str | None = None) -> Iterator[Story]:
    """Tell stories without end: the first death is at one point after the other."""
    _warm_up(scenario)
    points = _count(scenario, fault)
    number = 0
    while True:
        rng = random.Random(f"{seed} {scenario.name} {number}")
        yield _tell(scenario, rng, number % points + 1, points, f"{seed} {number}", fault)
        number += 1


def _warm_up(scenario: Any) -> None:
    """Attempt it once in this process: what is imported and calibrated here, no child does again.

    Frozen, it is not visited by a child's collector either, which would copy its memory.
    """
    nowhere = io.StringIO()
    with (
        tempfile.TemporaryDirectory(prefix="kill-") as place,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        scenario.prepare(Path(place))
        scenario.attempt(Path(place))
    gc.freeze()


def _count(scenario: Any, fault: str | None) -> int:
    """Return how many points an undisturbed attempt passes."""
    with tempfile.TemporaryDirectory(prefix="kill-") as place:
        folder = Path(place)
        scenario.prepare(folder)
        if not _attempted(scenario, folder, 0, None, fault):
            raise AssertionError(f"{scenario.name} does not even work undisturbed: {_why(folder)}")
        return int((folder / _PASSED).read_text())


def _tell(
    scenario: Any, rng: random.Random, first: int, points: int, seed: str, fault: str | None
) -> Story:
    story = Story(scenario.name, seed)
    folder = Path(tempfile.mkdtemp(prefix="kill-"))
    try:
        scenario.prepare(folder)
        fatal, ended = first, False
        while not ended:
            moment = rng.random() if fatal and rng.random() < _MOMENT else None
            ended = _attempted(scenario, folder, fatal, moment, fault)
            if not ended and (folder / _FAILED).exists():
                story.findings.append(f"the next process failed: {_why(folder)}")
                return story
            story.kills += not ended
            try:
                story.findings += scenario.check(folder, ended=ended)
            except EigenveilError as error:
                story.findings.append(f"what is left cannot be read: {error}")
            if story.findings:
                return story
            fatal = rng.randint(1, points) if rng.random() < _LATER else 0
        return story
    finally:
        shutil.rmtree(folder)


def _why(folder: Path) -> str:
    return (folder / _FAILED).read_text() if (folder / _FAILED).exists() else "it was killed"


def _attempted(
    scenario: Any, folder: Path, fatal: int, moment: float | None, fault: str | None
) -> bool:
    """Let a process of its own try, and kill it; return whether it came to its end."""
    rival = _rival(scenario, folder) if hasattr(scenario, "rival") else None
    child = os.fork()
    if child == 0:
        _work(scenario, folder, 0 if moment is not None else fatal, fault)
    if moment is not None:  # most attempts are over after a tenth of a second
        time.sleep(moment * 0.1)
        os.kill(child, signal.SIGKILL)
    ended = _waited(child, folder)
    return (rival is None or _waited(rival, folder)) and ended


def _waited(child: int, folder: Path) -> bool:
    """Wait for a process; return whether it came to its end, and note one that never would."""
    deadline = time.monotonic() + _LIMIT
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            append(str(folder / _FAILED), b"it hangs")
            return False
        time.sleep(0.0005)
    return os.WIFEXITED(ended[1]) and os.WEXITSTATUS(ended[1]) == 0


def _rival(scenario: Any, folder: Path) -> int:
    """Start a process that is never killed."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        scenario.rival(folder)
        code = 0
    except BaseException:
        append(str(folder / _FAILED), traceback.format_exc().encode())
    finally:
        os._exit(code)


def _work(scenario: Any, folder: Path, fatal: int, fault: str | None) -> None:
    """Try, in a process of its own; it never returns."""
    points, code = Points(fatal), 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        watch(folder)
        if fault is not None:
            scenario.faults[fault]()
        points.install()
        scenario.attempt(folder)
        append(str(folder / _PASSED), str(points.passed).encode())
        code = 0
    except BaseException:
        append(str(folder / _FAILED), traceback.format_exc().encode())
    finally:
        os._exit(code)
