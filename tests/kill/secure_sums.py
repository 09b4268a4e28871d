"""An owner in secure sums, asked by a server that shows it one roll for each step."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from eigenveil import Ledger
from eigenveil.federated import Answers, Code, ProtocolError, decode, encode
from eigenveil.federated.secure import Ready, Roll, SecureOwner, Step, SumQuestion, Sums, digest
from tests.federated.secure.parties import agreement, signing_key, tables
from tests.kill.points import append
from tests.kill.witness import draws

__all__ = ["Summed"]

_ROWS = tables(n=40, d=2)
_AGREED = agreement(_ROWS, simulated=False, kind="covariance", bounds=((0.0,) * 2, (20.0,) * 2))
_NAME, _SENT = "east", "sent.witness"


class Summed:
    """Ready, then upload, of every step; what is sent is noted as the server would get it."""

    name, area = "secure sums", "federation"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "uploads that are not kept": lambda: _forget_uploads(),
    }

    def prepare(self, folder: Path) -> None:
        np.save(folder / "rows.npy", _ROWS[_NAME])
        Ledger.create(folder / "ledger", epsilon=20.0, delta=1e-4)
        for step in _AGREED.steps:
            asked = digest(_question(step))
            for other in _AGREED.owners:
                if other != _NAME:
                    (folder / f"{other}-{step.number}").write_bytes(_ready(step, other, asked))

    def attempt(self, folder: Path) -> None:
        owner = SecureOwner(
            _AGREED,
            _NAME,
            folder / "rows.npy",
            signing_key(_NAME),
            Ledger(folder / "ledger"),
            folder / "answers",
            log=lambda line: None,
        )
        for step in _AGREED.steps:
            ready = owner.answer(_question(step))
            append(str(folder / _SENT), f"ready-{step.number} {ready.hex()}".encode())
            if _refusal(ready) is not None:
                continue
            upload = owner.answer(_roll(folder, step, ready))
            append(str(folder / _SENT), f"upload-{step.number} {upload.hex()}".encode())

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        ledger = Ledger(folder / "ledger")
        labels = Counter(entry.label for entry in ledger.entries)
        yield from (f"{times} entries for {label}" for label, times in labels.items() if times > 1)
        drawn: dict[str, set[int]] = {}
        for draw in draws(folder):
            drawn.setdefault(draw.label, set()).add(draw.process)
        for label, processes in drawn.items():
            if len(processes) > 1:
                yield f"{len(processes)} processes have drawn for {label}"
            if label not in labels:
                yield f"drawn for {label} and not paid"
        answers: dict[str, bytes] = {}
        for name, answer in _sent(folder):
            if answers.get(name, answer) != answer and _refusal(answer) is None:
                yield f"two answers to {name}"
            code = _refusal(answer)
            if code is None:
                answers[name] = answer
            elif code is not Code.INTERRUPTED:
                yield f"refused {name} ({code})"
        if ended:
            kept = [path.name for path in folder.glob("answers/*")]  # none before the first
            for name in answers:
                kind, number = name.split("-")
                step = _AGREED.steps[int(number)]
                if kind == "upload" and any(step.name in k and "secret" in k for k in kept):
                    yield f"the key of {name} is still there"


def _question(step: Step) -> bytes:
    return encode(
        SumQuestion(
            federation=_AGREED.federation,
            agreement=_AGREED.digest.hex(),
            step=step.number,
            radius=_AGREED.radius,
            centre=_AGREED.start,
        )
    )


def _ready(step: Step, name: str, asked: bytes) -> bytes:
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    unsigned = Ready(
        federation=_AGREED.federation,
        owner=name,
        agreement=_AGREED.digest.hex(),
        step=step.number,
        question=asked.hex(),
        key=key.hex(),
        signature="0" * 128,
    )
    return encode(replace(unsigned, signature=unsigned.statement.sign(signing_key(name))))


def _roll(folder: Path, step: Step, own: bytes) -> bytes:
    """Return the roll with what the owner has said; the server keeps it before it shows it."""
    said = {name: (folder / f"{name}-{step.number}") for name in _AGREED.owners if name != _NAME}
    answers = {_NAME: own} | {name: path.read_bytes() for name, path in said.items()}
    members = [answers[name] for name in sorted(answers)]
    roll = Roll.of(_AGREED.federation, _AGREED.digest.hex(), step.number, members)
    return encode(roll)


def _sent(folder: Path) -> Iterator[tuple[str, bytes]]:
    path = folder / _SENT
    for line in path.read_text().splitlines() if path.exists() else ():
        name, answer = line.split()
        yield name, bytes.fromhex(answer)


def _refusal(answer: bytes) -> Code | None:
    try:
        decode(answer)
    except ProtocolError as error:
        return None if error.code is Code.MALFORMED else error.code
    return None


def _forget_uploads() -> None:
    """A planted fault: answers are in memory, and a charge is no reason to stay silent."""
    begin, charge = Answers.__init__, Ledger.charge

    def charge_again(self: Any, *arguments: Any, once: bool = False, **options: Any) -> Any:
        return charge(self, *arguments, **options)

    Answers.__init__ = lambda self, folder, terms: begin(self, None, terms)  # type: ignore
    Sums.charged = lambda self, step: None  # type: ignore[method-assign]
    Ledger.charge = charge_again  # type: ignore[method-assign]
