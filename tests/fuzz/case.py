"""One case: what is called, and what may come of it.

The oracle knows no expected output. It knows what no input may cause: a traceback, an internal
error, a hang, another exit code than the documented ones, more than one line of error, a character
that a terminal obeys, a warning, a draft left behind, and a private cell anywhere but in the files
that are said to hold records.
"""

import os
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from click.testing import CliRunner

from eigenveil.cli import main
from eigenveil.exceptions import ColumnsLeftOutWarning, ComponentsWarning, EigenveilError
from tests.fuzz.secrets import quoted_in, shown_in

__all__ = ["Call", "Case", "Command", "Make", "Outcome", "examine"]

SECONDS = 120.0  # of one call, on a busy machine; ordinary ones take milliseconds
CODES = (0, 2, 3, 4, 5, 6, 7, 130)
_TALK = re.compile(  # on standard error, beside an error
    "error: |beware: |hint: |note: |insecure: |interrupted: |stream  |day  |listening on |"
    r"going on after|released already|next: |asked |refused \(|\* may be|\+ idealised|"
    r"\d\d:\d\d:\d\d  |"
    r".*: waiting for|.*: \d+ entr|no connection|connected|not signed: |agreement  "
)
_QUIET = (DeprecationWarning, PendingDeprecationWarning, ResourceWarning)  # not shown to users
_EXPECTED = (ColumnsLeftOutWarning, ComponentsWarning)  # of tables as small as these
_LARGEST = 1 << 22  # bytes of a file that is searched


class Hang(BaseException):
    """A call took too long; no handler of ordinary errors takes it for one."""


@dataclass
class Command:
    """Words of the command line; ``scores`` go to standard output and are not private.

    It runs ``within`` whatever stands in for a network.
    """

    words: tuple[str, ...]
    stdin: bytes = b""
    scores: bool = False
    within: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __str__(self) -> str:
        return f"eigenveil {' '.join(map(repr, self.words))}"


@dataclass
class Call:
    """A function of the library, with a name for people; ``raises`` what else it may raise."""

    name: str
    function: Callable[[], Any]
    raises: tuple[type[BaseException], ...] = ()
    warns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


@dataclass
class Outcome:
    """What came of a step; ``error`` is what a Python call raised."""

    code: int = 0
    stdout: str = ""
    stderr: str = ""
    error: BaseException | None = None
    value: Any = None

    @property
    def succeeded(self) -> bool:
        return self.code == 0 and self.error is None


@dataclass
class Case:
    """Steps in order; ``check`` looks at their outcomes for what is impossible in this case alone.

    ``private`` files, by the start of their names, may hold records.
    """

    steps: list[Command | Call]
    private: tuple[str, ...] = ()
    check: Callable[[list[Outcome]], str | None] = field(default=lambda outcomes: None)


Make = Callable[[Any, Path], Case]  # from randomness and an empty folder


def examine(case: Case, place: Path) -> tuple[list[str], list[Outcome]]:
    """Run a case in its folder, which holds its inputs; return what is wrong, and what came."""
    inputs = {path: path.lstat().st_mtime_ns for path in _files(place)}
    findings: list[str] = []
    outcomes: list[Outcome] = []
    for step in case.steps:
        with _alarm(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                outcome, wrong = _command(step) if isinstance(step, Command) else _call(step)
            except Hang:
                outcome, wrong = Outcome(), [f"hangs: {_innermost()}"]
        known = step.warns if isinstance(step, Call) else ()
        wrong += _warnings(warned, known)
        outcomes.append(outcome)
        findings += [f"{step}: {each}" for each in wrong]
    findings += _left(place, inputs, case.private)
    if not findings and (wrong_case := case.check(outcomes)) is not None:
        findings.append(wrong_case)
    return findings, outcomes


def _command(step: Command) -> tuple[Outcome, list[str]]:
    """Run a command in process; notes of internal errors go into the finding, not to users."""
    inside: list[str] = []

    def noted(error: Exception) -> str:
        inside.append("".join(traceback.format_exception(error)))
        return "internal error"

    with mock.patch("eigenveil.cli._internal", noted), step.within():
        result = CliRunner().invoke(main, list(step.words), input=step.stdin)
    outcome = Outcome(result.exit_code, result.stdout, result.stderr)
    wrong = [f"internal error\n{text}" for text in inside]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        wrong.append("".join(traceback.format_exception(result.exception)))
    if outcome.code not in CODES and not inside:
        wrong.append(f"exit code {outcome.code}: {outcome.stderr}")
    return outcome, wrong + _texts(step, outcome)


def _texts(step: Command, outcome: Outcome) -> list[str]:
    wrong = []
    *lines, rest = outcome.stderr.split("\n")
    errors = [line for line in lines if line.startswith("error: ")]
    refused = step.words[:2] == ("federate", "client") and "refused (" in outcome.stderr
    if outcome.code in CODES[1:-1] and len(errors) != 1 and not refused:
        wrong.append(f"exit code {outcome.code} and {len(errors)} lines of error")
    if outcome.code == 0 and errors:
        wrong.append("an error, and exit code 0")
    usage = outcome.code == 2 and outcome.stderr.startswith("Usage: ")  # a group without a command
    if (rest or not all(map(_TALK.match, lines))) and not usage:
        wrong.append(f"undocumented words on standard error: {outcome.stderr!r}")
    spoken = [*lines, *(() if step.scores else outcome.stdout.split("\n"))]
    if not all(line.isprintable() for line in spoken) and not usage:
        wrong.append(f"prints what a terminal obeys: {outcome.stdout!r} {outcome.stderr!r}")
    if quoted_in(outcome.stderr) or (not step.scores and shown_in(outcome.stdout)):
        wrong.append(f"quotes a cell: {outcome.stdout!r} {outcome.stderr!r}")
    return wrong


def _call(step: Call) -> tuple[Outcome, list[str]]:
    try:
        return Outcome(value=step.function()), []
    except (EigenveilError, *step.raises) as error:
        wrong = []
        seen = "".join(traceback.format_exception(error))  # with what it was raised in place of
        if quoted_in("\n".join(_said(error))) or shown_in(seen):
            wrong.append(f"quotes a cell: {seen}")
        if isinstance(error, EigenveilError) and not str(error).isprintable():
            wrong.append(f"an error of several lines: {str(error)!r}")
        return Outcome(getattr(error, "exit_code", 3), error=error), wrong
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return Outcome(1, error=error), [f"no error of its own\n{text}"]


def _said(error: BaseException | None) -> Iterator[str]:
    """Messages of an error and of those that a traceback would show before it."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _warnings(warned: list[warnings.WarningMessage], known: tuple[str, ...]) -> list[str]:
    return [
        f"warns at {each.filename}:{each.lineno}: {each.message}"
        for each in warned
        if not issubclass(each.category, _QUIET + _EXPECTED)
        and not any(words in str(each.message) for words in known)
    ]


def _files(place: Path) -> list[Path]:
    return [Path(top) / name for top, _, names in os.walk(place) for name in names]


def _left(place: Path, inputs: dict[Path, int], private: tuple[str, ...]) -> list[str]:
    """What is wrong with the files that the steps have written."""
    wrong = []
    for path in _files(place):
        if not path.is_file() or path.lstat().st_mtime_ns == inputs.get(path):
            continue
        if any(part.startswith((".release-", ".eigenveil-")) for part in path.parts) or (
            path.suffix == ".new"
        ):
            wrong.append(f"leaves a draft behind: {path.name}")
        if path.name.startswith(private) and private:
            continue
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("latin-1")
        if shown_in(text) or shown_in(path.name):
            wrong.append(f"writes a cell to {path.relative_to(place)}")
    return wrong


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _innermost() -> str:
    return "".join(traceback.format_exc(limit=-6))
