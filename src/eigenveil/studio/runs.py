"""Releases that are being made: each is the command that the page shows, in a process of its own.

Its charge and its files are its own affair: it goes on when the page is closed, and when the studio
is. What it says goes to files, not to a pipe that would break. It is stopped as on a terminal, by
an interrupt, and says itself whether it was charged.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenveil.exceptions import BusyError, EigenveilError, InvalidParameterError

if TYPE_CHECKING:
    from eigenveil.privacy.ledger import Entry, Ledger

__all__ = ["Run", "Runs"]

_MOST_AT_ONCE, _MOST_KEPT = 4, 50
_TAIL = 2**16  # bytes of what a run has said last
_INTERRUPTED = (130, -signal.SIGINT)  # by the command, or before or after it could answer


@dataclass(slots=True, kw_only=True)
class Run:
    """One command, and what it has said so far.

    Attributes
    ----------
    id : str
        Its name.
    words : tuple of str
        The command.
    about : mapping
        What the page wants to remember of it.
    process : Popen
        The command at work.
    out, err : Path
        Where it writes.
    started : float
        When, in seconds since the epoch.
    ledger : Ledger
        What it charges.
    entries : tuple of Entry
        What the ledger held before.

    """

    id: str
    words: tuple[str, ...]
    about: Mapping[str, Any]
    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path
    started: float
    ledger: "Ledger"
    entries: tuple["Entry", ...]
    asked_to_stop: bool = False

    def stop(self) -> None:
        """Interrupt the command, as on a terminal; it says what was spent."""
        if self.process.poll() is None and not self.asked_to_stop:
            self.asked_to_stop = True
            self.process.send_signal(signal.SIGINT)

    def status(self) -> dict[str, Any]:
        """Return how far it is, or how it ended."""
        code = self.process.poll()
        said, progress = self._said()
        found: dict[str, Any] = {
            "id": self.id,
            "about": dict(self.about),
            "seconds": round(time.time() - self.started, 1),
            "state": "running" if code is None else "failed",
            "stopping": self.asked_to_stop and code is None,
            "progress": progress,
        }
        if code == 0:
            found |= {"state": "released", "release": self._released()}
        elif code is not None:
            # An interpreter that is interrupted while it starts ends with a code of its own.
            stopped = code in _INTERRUPTED or (self.asked_to_stop and not said)
            ending = "" if stopped else f"the run ended with code {code}: "
            found |= {
                "state": "stopped" if stopped else "failed",
                "code": code,
                "words": said or f"{ending}{self._charged()}",
            }
        return found

    def _charged(self) -> str:
        """Return what the ledger tells of a run that ended without a word."""
        try:
            untouched = self.ledger.entries == self.entries
        except (EigenveilError, OSError):
            untouched = False
        return (
            "nothing was charged" if untouched else "what was charged is in the ledger: look there"
        )

    def _said(self) -> tuple[str, dict[str, Any] | None]:
        """Return the last line of words, and the last line on progress."""
        words, progress = "", None
        for line in _tail(self.err).splitlines():
            if line.startswith("{"):
                try:
                    progress = json.loads(line)
                except ValueError:  # half of a line
                    continue
            elif line.startswith(("error: ", "interrupted: ")):
                words = line.partition(": ")[2]
        return words, progress

    def _released(self) -> dict[str, Any]:
        """Return where the release is, from what the command printed."""
        told = json.loads(self.out.read_text("utf-8"))
        return {"name": self.about["output"], "fingerprint": told["fingerprint"]}


class Runs:
    """All runs since the studio began."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._folder: Path | None = None

    def start(
        self, words: Sequence[str], folder: Path, about: Mapping[str, Any], ledger: "Ledger"
    ) -> Run:
        """Start a command of `eigenveil` in a folder, which charges a ledger."""
        if sum(run.process.poll() is None for run in self._runs.values()) >= _MOST_AT_ONCE:
            raise BusyError(f"{_MOST_AT_ONCE} runs are at work: wait for one, or stop one")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="eigenveil-runs-"))
        entries = ledger.entries
        id = secrets.token_hex(8)
        out, err = self._folder / f"{id}.out", self._folder / f"{id}.err"
        # -P: a file of the folder that is named like a module is none.
        command = [sys.executable, "-P", "-m", "eigenveil", *words]
        with out.open("xb") as stdout, err.open("xb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        run = Run(
            id=id,
            words=tuple(words),
            about=about,
            process=process,
            out=out,
            err=err,
            started=time.time(),
            ledger=ledger,
            entries=entries,
        )
        self._runs[id] = run
        self._forget()
        return run

    def get(self, id: object) -> Run:
        """Return a run by its name."""
        found = self._runs.get(id) if isinstance(id, str) else None
        if found is None:
            raise InvalidParameterError("no such run: the ledger knows what was charged")
        return found

    def overview(self) -> list[dict[str, Any]]:
        """Return the runs, the newest first, as a page that was closed meanwhile finds them."""
        return [run.status() for run in reversed(self._runs.values())]

    def unfinished(self) -> list[Run]:
        """Return the runs that are at work."""
        return [run for run in self._runs.values() if run.process.poll() is None]

    def remove(self) -> None:
        """Remove what ended runs have said; those at work go on, and keep what they write to."""
        if self._folder is not None and not self.unfinished():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self) -> None:
        """Drop the oldest that have ended."""
        ended = [id for id, run in self._runs.items() if run.process.poll() is not None]
        for id in ended[: max(0, len(self._runs) - _MOST_KEPT)]:
            del self._runs[id]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return file.read().decode("utf-8", errors="replace")
