"""Owners with valid keys and bad manners, all in one process, for the tests of faults.

``python -m tests.federated.standins FOLDER ADDRESS NAME...``; a name is that of a key in the
folder and says what its owner does. Two of them wait for a file in the folder before they answer.
"""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated import Code, Owner, OwnerSettings, Records, Refusal, encode, serve
from eigenveil.privacy import Ledger
from tests.federated.stubs import D, Stub

SECRET = "SECRET42"  # in what must not get further than the server's door


class Bomb:
    """Unpickled, it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


class Broken(Records):
    """Fails on its records."""

    def basis(self, *asked: Any) -> Any:
        raise RuntimeError(f"row 7 holds {SECRET}")


def holding(field: str, number: float) -> Callable[[Any], bytes]:
    """The answer with another first number, past the checks of who makes one."""

    def change(answer: Any) -> bytes:
        getattr(answer, field).flat[0] = number
        return encode(answer)

    return change


def waiting(file: Path) -> Callable[[Any], Any]:
    def wait(answer: Any) -> Any:
        while not file.exists():
            time.sleep(0.05)
        return answer

    return wait


def narrow(answer: Any) -> Any:
    return replace(answer, basis=answer.basis[:, :1], strengths=answer.strengths[:1])


def standin(name: str, folder: Path) -> Any:
    """Who spoils one answer, by the kind of the question."""
    if name == "broken":
        settings = OwnerSettings(owner=name, federation="test", epsilon=1, delta=1e-6)
        ledger = Ledger.create(folder / "broken.ledger", epsilon=1, delta=1e-6)
        rows = np.ones((100, D))
        broken = Owner(settings, rows, ledger, folder / "broken-answers")
        broken._records = Broken(settings, rows, ledger)
        return broken
    refusal = encode(Refusal(federation="test", owner=name, code=Code.INTERNAL))
    word = SECRET.encode()
    declared: list[int] = []

    def other_records(answer: Any) -> Any:
        declared.append(answer.n_records * 10 ** len(declared))
        return replace(answer, n_records=declared[-1])

    asked, change = {
        "nan": ("basis-question", holding("basis", np.nan)),
        "skew": ("basis-question", holding("basis", 0.5)),
        "shape": ("basis-question", narrow),
        "garbage": ("basis-question", lambda _: word + os.urandom(1000)),
        "pickle": ("basis-question", lambda _: pickle.dumps((SECRET, Bomb(folder / "exploded")))),
        "text": ("basis-question", lambda _: refusal.replace(b"internal", word)),
        "gate": ("basis-question", waiting(folder / "open")),
        "late": ("values-question", waiting(folder / "wake")),
        "wild": ("values-question", holding("centre", 1e300)),
        "liar": ("invitation", lambda answer: replace(answer, n_records=10**12)),
        "fickle": ("invitation", other_records),
    }[name]
    return Stub(name, spoil=lambda kind, answer: change(answer) if kind == asked else answer)


def serving(name: str, folder: Path, address: str) -> threading.Thread:
    """A thread in which an owner answers until it is told to stop, or the server is gone."""
    owner = standin(name, folder)
    files = {"root_certificate": folder / "authority.pem", "key": folder / f"{name}.key"}

    def run() -> None:
        with suppress(FederationConnectionError):
            serve(owner, address, **files)

    return threading.Thread(target=run, daemon=True)


if __name__ == "__main__":
    threads = [serving(name, Path(sys.argv[1]), sys.argv[2]) for name in sys.argv[3:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
