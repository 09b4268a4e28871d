"""A server that does what it likes, and what can be worked out of what it receives."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from eigenveil.federated import ProtocolError, decode, encode
from eigenveil.federated.secure import Ready, Roll, SecureAgreement, SumQuestion, Upload, digest
from eigenveil.federated.secure import owner as owner_module
from tests.federated.secure.parties import agreement, signing_key, simulated, tables


class Received(NamedTuple):
    """An upload, and the pads in it that no colluder knows."""

    owner: str
    pads: dict[bytes, int]  # by their keys: 1 where it is added, -1 where it is subtracted


def solvable(received: list[Received], owners: Iterable[str], most: int) -> set[str] | None:
    """Return at most so many owners out of whose uploads all pads can be removed, if there are any.

    Pads are unknowns: a combination of uploads in which they cancel shows the combination of what
    they hide. It exists among the uploads of a set of owners where these have fewer independent
    combinations of pads than uploads.
    """
    names = sorted(owners)
    for size in range(1, most + 1):
        for some in combinations(names, size):
            rows = [one for one in received if one.owner in some]
            if not rows:
                continue
            pads = sorted({pad for row in rows for pad in row.pads})
            matrix = np.array([[row.pads.get(pad, 0) for pad in pads] for row in rows])
            if np.linalg.matrix_rank(matrix) < len(rows):
                return set(some)
    return None


class Attack:
    """One federation, some of whose owners belong to the server.

    Parameters
    ----------
    rng : Random
        Decides what is asked.
    colluders : int
        How many owners belong to the server; the rest are real.
    """

    def __init__(self, rng: Random, colluders: int, m: int = 6) -> None:
        rows = tables(m, n=3, d=1, seed=rng.randrange(1 << 30))
        self.agreed: SecureAgreement = agreement(
            rows,
            federation=f"f{rng.randrange(1 << 30)}",
            honest=m - 2,
            quorum=m - 1,
            kind="covariance",
            bounds=((0.0,), (20.0,)),
        )
        names = sorted(rows)
        self.false = set(rng.sample(names, colluders))
        self.honest = {
            name: owner
            for name, owner in simulated(self.agreed, rows, log=lambda line: None).items()
            if name not in self.false
        }
        self._rng = rng
        self.received: list[Received] = []
        self._ready: list[tuple[str, int, bytes, bytes]] = []  # owner, step, question, message
        self._rolls: list[bytes] = []
        self.messages = 0

    def go_on(self, count: int) -> None:
        """Send so many messages of the kinds that could bring something."""
        moves = (self._ask, self._ask, self._call, self._call, self._call, self._repeat)
        for _ in range(count):
            self._rng.choice(moves)()

    def _question(self, step: int) -> bytes:
        """Return one of few questions of a step, so that the same ones meet."""
        return encode(
            SumQuestion(
                federation=self.agreed.federation,
                agreement=self.agreed.digest.hex(),
                step=step,
                radius=10.0,
                centre=np.array([float(self._rng.choice((10, 10, 10, 11)))]),
            )
        )

    def _ask(self) -> None:
        """Ask some, or all, who is ready; not all of them the same."""
        step = self._rng.randrange(2)
        question = self._question(step)
        share = self._rng.choice((0.3, 1.0, 1.0))
        for name, owner in self.honest.items():
            if self._rng.random() < share:
                self._hear_ready(name, step, question, owner.answer(question))
        for name in self.false:
            self._ready.append((name, step, question, self._forged(name, step, question)))

    def _hear_ready(self, name: str, step: int, question: bytes, answer: bytes) -> None:
        self.messages += 1
        try:
            decode(answer, Ready)
        except ProtocolError:
            return
        self._ready.append((name, step, question, answer))

    def _forged(self, name: str, step: int, question: bytes) -> bytes:
        """Return what a colluder signs, with a key of the server."""
        key = X25519PrivateKey.from_private_bytes(self._rng.randbytes(32))
        unsigned = Ready(
            federation=self.agreed.federation,
            owner=name,
            agreement=self.agreed.digest.hex(),
            step=step,
            question=digest(question).hex(),
            key=key.public_key().public_bytes_raw().hex(),
            signature="0" * 128,
        )
        return encode(replace(unsigned, signature=unsigned.statement.sign(signing_key(name))))

    def _call(self) -> None:
        """Show a roll, made so that sets overlap in few owners; not to all the same."""
        if not self._ready:
            return
        step, question = self._rng.choice(self._ready)[1:3]
        fitting = [one for one in self._ready if one[1:3] == (step, question)]
        newest = {name: message for name, *_, message in self._rng.sample(fitting, len(fitting))}
        leave = self._rng.choice((0, 0, 1, 1, 2, 3))
        names = sorted(newest)
        for name in self._rng.sample(names, min(leave, len(names))):
            del newest[name]
        if newest and self._rng.random() < 0.15:  # words of another step, or of somebody else
            stranger = self._rng.choice(self._ready)
            newest[self._rng.choice(sorted(newest))] = stranger[3]
        members = [newest[name] for name in sorted(newest)]
        if not members:
            return
        roll = encode(Roll.of(self.agreed.federation, self.agreed.digest.hex(), step, members))
        self._rolls.append(roll)
        some = self._rng.sample(sorted(self.honest), self._rng.choice((1, 2, len(self.honest))))
        self._show(roll, some)

    def _repeat(self) -> None:
        if self._rolls:
            self._show(self._rng.choice(self._rolls), sorted(self.honest))

    def _show(self, roll: bytes, names: list[str]) -> None:
        for name in names:
            self.messages += 1
            with _noted_pads(self.false) as pads:
                answer = self.honest[name].answer(roll)
            try:
                decode(answer, Upload)
            except ProtocolError:
                continue
            if pads:  # the first time: what is sent again has the same
                self.received.append(Received(name, pads))


@contextmanager
def _noted_pads(known: set[str]) -> Iterator[dict[bytes, int]]:
    """Note the keys that an owner masks with, but those that a colluder has too."""
    pads: dict[bytes, int] = {}
    original = owner_module.masked

    def masked(values: Any, name: str, keys: Any) -> Any:
        for other, key in keys.items():
            if other not in known:
                pads[key] = pads.get(key, 0) + (1 if name < other else -1)
        return original(values, name, keys)

    owner_module.masked = masked
    try:
        yield pads
    finally:
        owner_module.masked = original


def attacked(seed: int, messages: int) -> tuple[int, int, set[str] | None]:
    """Attack federations until so many messages were answered; the first who were undone.

    Returns messages, uploads, and those owners: fewer than the quorum without the colluders.
    """
    rng = Random(seed)
    sent = uploads = 0
    while sent < messages:
        attack = Attack(rng, colluders=rng.choice((0, 1)))
        attack.go_on(12)
        sent += attack.messages
        uploads += len(attack.received)
        most = attack.agreed.quorum - len(attack.false) - 1
        undone = solvable(attack.received, attack.honest, most)
        if undone is not None:
            return sent, uploads, undone
    return sent, uploads, None


if __name__ == "__main__":
    print(attacked(int(sys.argv[2]) if len(sys.argv) > 2 else 1, int(sys.argv[1])))
