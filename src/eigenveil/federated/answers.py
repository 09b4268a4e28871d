"""An owner's own answers on its disk, kept so that no question is paid for twice.

Write-ahead: a question is noted as begun, durably, before anything is charged for it; its answer is
kept, durably, before it is sent. The same question gets the kept answer. A question that was begun
and has no answer was interrupted, and what it cost is spent.

One file for each round, replaced as a whole: a line of JSON, then the answer. The secret key of a
step of a secure sum lies beside it until the step is answered. The folder is its owner's alone and
belongs to one federation, one set of settings and one ledger. The ledger names the federation and
the round of every charge: with another folder, or an old copy, an owner finds itself charged for
what it has no answer to, and answers nothing.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenveil.exceptions import StateError
from eigenveil.storage.durable import locked, replace_file, sync
from eigenveil.storage.paths import private_folder, read_regular

_FORMAT = "eigenveil-answers/1"
_BUSY_SECONDS = 60.0  # for which another process is waited for
_TERMS = "terms"
# What is begun under terms: rounds of owners with noise of their own, and steps of secure sums.
_ROUND = re.compile(r"basis|values|(ready|upload)-[0-9]+-[a-z]+")


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A question that was begun, and what came of it.

    Attributes
    ----------
    question : str
        Its digest.
    answer : bytes or None
        What was sent; None where the work was interrupted.
    notes : dict
        What later rounds need to know; released numbers only.

    """

    question: str
    answer: bytes | None
    notes: dict[str, Any]


class Answers:
    """Kept in a folder, or in memory where nothing is at stake.

    Parameters
    ----------
    folder : Path or None
        Made if it is not there.
    terms : mapping
        What the answers are given under, ready for JSON: a folder of other terms is refused.

    """

    def __init__(self, folder: Path | None, terms: Mapping[str, Any]) -> None:
        self._folder = folder
        self._memory: dict[str, bytes] = {}
        self._alone = threading.Lock()
        document = {"format": _FORMAT, **terms}
        self._terms = json.dumps(document, sort_keys=True, allow_nan=False).encode()
        if folder is not None:
            private_folder(folder)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the answers for one question: no other thread or process answers meanwhile."""
        place = self._folder
        among_all = nullcontext() if place is None else locked(place / "answers", _BUSY_SECONDS)
        with self._alone, among_all:
            found = self._read(_TERMS)
            if found is None or not any(map(_ROUND.fullmatch, self._names())):
                self._write(_TERMS, self._terms)
            elif found != self._terms:
                raise StateError(
                    "the state folder belongs to another federation, other settings or another "
                    "ledger: go on with those, or start a new federation, with a new name"
                )
            yield

    def find(self, name: str) -> Kept | None:
        """Return what is known of a round."""
        data = self._read(name)
        if data is None:
            return None
        try:
            line, _, answer = data.partition(b"\n")
            header = json.loads(line)
            done = header["sha256"] is not None
            if done and hashlib.sha256(answer).hexdigest() != header["sha256"]:
                raise ValueError
            return Kept(header["question"], answer if done else None, header["notes"])
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"the file {name!r} of the state folder is damaged: start a new federation; what "
                "this one cost is spent"
            ) from None

    def begin(self, name: str, question: str) -> None:
        """Note a question before anything is charged for it."""
        self._write(name, _line(question, None, {}))

    def keep(self, name: str, question: str, answer: bytes, notes: Mapping[str, Any]) -> None:
        """Note its answer before that is sent."""
        digest = hashlib.sha256(answer).hexdigest()
        self._write(name, _line(question, digest, notes) + answer)

    def forget(self, name: str) -> None:
        """Take a question back for which nothing was charged."""
        if self._folder is None:
            del self._memory[name]
        else:
            (self._folder / name).unlink()

    def hide(self, name: str, secret: bytes) -> None:
        """Keep what nobody else may ever see, for as long as a step needs it."""
        self._write(f"secret-{name}", secret)

    def hidden(self, name: str) -> bytes | None:
        """Return what was hidden; None where it was erased, or never there."""
        return self._read(f"secret-{name}")

    def erase(self, name: str) -> None:
        """Forget what was hidden: its bytes are written over first, as far as a disk does that."""
        secret = self.hidden(name)
        if secret is None:
            return
        if self._folder is not None:
            with (self._folder / f"secret-{name}").open("r+b") as file:
                file.write(bytes(len(secret)))
                file.flush()
                sync(file)
        self.forget(f"secret-{name}")

    def _names(self) -> list[str]:
        return list(self._memory) if self._folder is None else os.listdir(self._folder)

    def _read(self, name: str) -> bytes | None:
        if self._folder is None:
            return self._memory.get(name)
        try:
            return read_regular(self._folder / name)
        except FileNotFoundError:
            return None
        except OSError:
            raise StateError(
                f"cannot read the file {name!r} of the state folder: is it a file you may read?"
            ) from None

    def _write(self, name: str, data: bytes) -> None:
        if self._folder is None:
            self._memory[name] = data
        else:
            replace_file(self._folder / name, data)


def _line(question: str, sha256: str | None, notes: Mapping[str, Any]) -> bytes:
    header = {"question": question, "sha256": sha256, "notes": dict(notes)}
    return json.dumps(header, allow_nan=False).encode() + b"\n"
