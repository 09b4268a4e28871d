"""Releases that are being made: each is the command that the page shows, in a process of its own.

Its charge and its files are its own affair: it goes on when the page is closed, and when the studio
is. Its options come from a file, its output goes to files, not to a pipe that would break. It is
stopped as on a terminal, by an interrupt. What is said about money is read from its ledger.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from eigenveil.exceptions import BusyError, EigenveilError, InvalidParameterError
from eigenveil.text import printable

if TYPE_CHECKING:
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.privacy.ledger_file import Entry


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
    place : Path
        Where its release will be.
    about : mapping
        What the page wants to remember of it.
    process : Popen
        The command at work.
    err : Path
        Where it writes its progress and its errors.
    started : float
        When, in seconds since the epoch.
    ledger : Ledger
        What it charges.
    entries : tuple of Entry
        What the ledger held before.
    final : mapping, optional
        The status, once the command has ended.

    """

    id: str
    place: Path
    about: Mapping[str, Any]
    process: "subprocess.Popen[bytes]"
    err: Path
    started: float
    ledger: "Ledger"
    entries: tuple["Entry", ...]
    asked_to_stop: bool = False
    final: dict[str, Any] | None = None

    def stop(self) -> None:
        """Interrupt the command, as on a terminal; it says what was spent."""
        if self.process.poll() is None and not self.asked_to_stop:
            self.asked_to_stop = True
            self.process.send_signal(signal.SIGINT)

    def status(self) -> dict[str, Any]:
        """Return how far it is, or how it ended."""
        if self.final is not None:
            return self.final
        code = self.process.poll()
        said = self._said()
        found: dict[str, Any] = {
            "id": self.id,
            "about": dict(self.about),
            "seconds": round(time.time() - self.started, 1),
            "state": "running",
            "stopping": self.asked_to_stop and code is None,
            "progress": said.progress,
        }
        if code is not None:
            self.final = found | self._ended(code, said)
        return self.final or found

    def _ended(self, code: int, said: "_Said") -> dict[str, Any]:
        """Return how the command ended, what it charged, and its release where one is in place."""
        money = self._money(said.charged)
        whole = code == 0 or money["charged"] is True
        if whole and (fingerprint := self._fingerprint()) is not None:
            release = {"name": self.about["output"], "fingerprint": fingerprint}
            return {"state": "released", "release": release, "money": money}
        # An interpreter that is interrupted while it starts ends with a code of its own.
        stopped = code in _INTERRUPTED or (self.asked_to_stop and not said.words)
        words = said.words
        if code == 0:
            words = "the release is not where the run has put it: was it moved?"
        elif not (words or stopped):
            words = f"the run ended with code {code}"
        state = "stopped" if stopped else "failed"
        return {"state": state, "code": code, "words": words, "money": money}

    def _money(self, charged: Sequence[str] | None) -> dict[str, Any]:
        """Return whether this run was charged, None where that is open, and what the ledger says.

        ``charged`` are the hashes of the entries that the run reported, None if it did not.
        """
        name = f"the ledger {printable(self.ledger.path.name)}"
        try:
            entries = self.ledger.entries
            summary = self.ledger.summary()
        except (EigenveilError, OSError):
            words = f"{name} cannot be read: whether it was charged is not known"
            return {"charged": None, "words": words}
        before = len(self.entries)
        if entries[:before] != self.entries:
            return {"charged": None, "words": f"{name} was replaced: look at its history"}
        since = [each for each in entries[before:] if not each.is_note]
        if charged is None:
            if since:
                words = f"{name} was charged meanwhile, by this run or another: look at its history"
                return {"charged": None, "words": words}
            charged = ()
        if not (own := [each for each in since if each.hash in charged]):
            return {"charged": False, "words": f"this run charged nothing to {name}"}
        labels = ", ".join(printable(each.label) for each in own)
        words = f"{name} was charged for {labels} and now has {summary}"
        return {"charged": True, "words": words}

    def _fingerprint(self) -> str | None:
        """Return the fingerprint of the release that the command has put in place."""
        try:
            from eigenveil.release.artefact import Release

            return Release.fingerprint(self.place)
        except (EigenveilError, OSError):
            return None

    def _said(self) -> "_Said":
        """Return what the command has said last."""
        words, progress, charged = "", None, None
        for line in _tail(self.err).splitlines():
            if line.startswith("{"):
                with suppress(ValueError):  # half of a line
                    facts = json.loads(line)
                    if "charged" in facts:
                        charged = facts["charged"]  # None where the run could not tell
                    else:
                        progress = facts
            elif line.startswith(("error: ", "interrupted: ")):
                words = line.partition(": ")[2]
        return _Said(words, progress, charged)


class _Said(NamedTuple):
    """What a command has said: its last words, its progress, and the entries that it charged."""

    words: str
    progress: dict[str, Any] | None
    charged: list[str] | None


class Runs:
    """All runs since the studio began."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._folder: Path | None = None
        self._lock = Lock()

    def start(
        self,
        command: Sequence[str],
        options: Mapping[str, Any],
        folder: Path,
        about: Mapping[str, Any],
        ledger: "Ledger",
    ) -> Run:
        """Start a command of `eigenveil` in a folder, which charges a ledger.

        Its options and its output are files of a private folder.
        """
        with self._lock:  # the limit holds for starts at the same time
            if len(self.unfinished()) >= _MOST_AT_ONCE:
                raise BusyError(f"{_MOST_AT_ONCE} runs are at work: wait for one, or stop one")
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="eigenveil-runs-"))
            entries, id = ledger.entries, secrets.token_hex(8)
            stated, out, err = (self._folder / f"{id}.{end}" for end in ("json", "out", "err"))
            stated.write_text(json.dumps(dict(options)), "utf-8")
            # -P: a file of the folder that is named like a module is none.
            words = [sys.executable, "-P", "-m", "eigenveil", *command, "--config", str(stated)]
            with out.open("xb") as stdout, err.open("xb") as stderr:
                process = subprocess.Popen(
                    [*words, "--json", "--progress"],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
            run = Run(
                id=id,
                place=folder / about["output"],
                about=about,
                process=process,
                err=err,
                started=time.time(),
                ledger=ledger,
                entries=entries,
            )
            self._runs[run.id] = run
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
        return [run.status() for run in reversed(list(self._runs.values()))]

    def unfinished(self) -> list[Run]:
        """Return the runs that are at work."""
        return [run for run in list(self._runs.values()) if run.process.poll() is None]

    def money(self) -> str:
        """Say what the runs have charged, as their ledgers tell."""
        if not self._runs:
            return "no release was started"
        ended = [run["money"] for run in self.overview() if run["state"] != "running"]
        counts = {
            "charged a ledger": sum(one["charged"] is True for one in ended),
            "charged nothing": sum(one["charged"] is False for one in ended),
            "may have charged a ledger": sum(one["charged"] is None for one in ended),
            "still running and may charge a ledger": len(self._runs) - len(ended),
        }
        told = [f"{count} {what}" for what, count in counts.items() if count]
        return f"of the releases that were started, {', '.join(told)}"

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
