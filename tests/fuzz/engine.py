"""Run one case by its number."""

import os
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.case import Command, examine
from tests.fuzz.kinds import KINDS, kind_of

__all__ = ["Found", "run"]

_SHOWN = 4000  # bytes of an input file


@dataclass
class Found:
    """What a case was, what is wrong with it, and the exit codes of its steps."""

    kind: str
    findings: list[str]
    codes: list[int]


def run(seed: int, number: int, tell: Callable[[str], None] | None = None) -> Found:
    """Make a case in a folder of its own and examine it; ``tell`` what goes in and comes out."""
    kind = kind_of(number)
    rng = random.Random(f"{seed} {number}")
    before = Path.cwd()
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        os.chdir(place)
        try:
            case = KINDS[kind][0](rng, place)
        except Exception:  # of the generator itself
            return Found(kind, [f"cannot be made\n{traceback.format_exc()}"], [])
        if tell is not None:
            _show(place, tell)
        findings, outcomes = examine(case, place)
        if tell is not None:
            for step, outcome in zip(case.steps, outcomes, strict=True):
                stdin = f" < {step.stdin!r}" if isinstance(step, Command) and step.stdin else ""
                tell(f"call {step}{stdin}")
                tell(f"     exit code {outcome.code}, {outcome.error!r}, {outcome.value!r:.300}")
                tell(f"     {outcome.stdout!r}\n     {outcome.stderr!r}")
            for finding in findings:
                tell(f"FINDING {finding}")
        return Found(kind, findings, [outcome.code for outcome in outcomes])
    finally:
        os.chdir(before)
        shutil.rmtree(place, ignore_errors=True)


def _show(place: Path, tell: Callable[[str], None]) -> None:
    for path in sorted(place.rglob("*")):
        if path.is_symlink() or not path.is_file():
            tell(f"file {path.relative_to(place)}: {'a link' if path.is_symlink() else 'no file'}")
        else:
            data = path.read_bytes()
            tell(f"file {path.relative_to(place)}, {len(data):,} bytes: {data[:_SHOWN]!r}")
