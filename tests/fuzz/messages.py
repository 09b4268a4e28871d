"""Messages of a federation near valid ones, to who reads them."""

import json
import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.federated import (
    BasisAnswer,
    BasisQuestion,
    Coordinator,
    Declaration,
    InProcess,
    Invitation,
    Journal,
    Message,
    Owner,
    OwnerSettings,
    ValuesAnswer,
    ValuesQuestion,
    decode,
    encode,
)
from eigenveil.federated.secure import Agreed, Ready, Roll, SumInvitation, SumQuestion, Upload
from tests.federated.stubs import NAMES as OWNERS
from tests.federated.stubs import Clock, D, K, Stub, agreement
from tests.fuzz.case import Call, Case
from tests.fuzz.secrets import NUMBER
from tests.fuzz.stock import conversation, rows
from tests.fuzz.values import dumped, mutated_bytes, mutated_json

__all__ = ["message_case", "odd_message"]

Random = random.Random
_KINDS: tuple[type[Message], ...] = (
    *(Invitation, Declaration, BasisQuestion, BasisAnswer, ValuesQuestion, ValuesAnswer),
    *(SumInvitation, Agreed, SumQuestion, Ready, Roll, Upload),
)


@cache
def _secure_sums() -> tuple[bytes, ...]:
    """Return a message of every kind that a secure sum knows."""
    known: dict[str, Any] = {"federation": "test", "agreement": "0" * 64}
    step = {**known, "step": 0}
    signed = {"owner": "east", "signature": "1" * 128}
    ready = Ready(**step, **signed, question="2" * 64, key="3" * 64)
    masked = np.arange(4, dtype=np.uint64)
    messages: tuple[Message, ...] = (
        SumInvitation(**known),
        Agreed(**known, **signed),
        SumQuestion(**step, radius=1.0, centre=np.ones(3)),
        ready,
        Roll.of("test", "0" * 64, 0, [encode(ready)]),
        Upload(**step, **signed, question="2" * 64, roll="4" * 64, masked=masked),
    )
    return tuple(map(encode, messages))


def odd_message(rng: Random) -> bytes:
    """Return a message with a changed header, changed numbers, or changed bytes."""
    data = rng.choice((*conversation().values(), *_secure_sums()))
    if rng.random() < 0.15:
        return mutated_bytes(rng, data)
    start = 14
    (length,) = struct.unpack_from("<I", data, 10)
    header, numbers = json.loads(data[start : start + length]), data[start + length :]
    if rng.random() < 0.7:
        header = mutated_json(rng, header, rng.choice((1, 1, 2)))
    if numbers and len(numbers) % 8 == 0 and rng.random() < 0.5:
        array = np.frombuffer(numbers, "<f8").copy()
        odd = (np.nan, np.inf, 1e308, -1e308, 0.0, -1.0, 1e-310, 2.0, 1e100)
        array[rng.randrange(array.size)] = rng.choice(odd)
        numbers = array.tobytes()
    elif numbers and rng.random() < 0.1:
        numbers = mutated_bytes(rng, numbers)
    words = dumped(header)
    size = len(words) if rng.random() < 0.95 else rng.choice((0, 2**31, 2**16, len(words) - 1))
    return data[:9] + struct.pack("<BI", rng.choice((1, 1, 1, 1, 2)), size) + words + numbers


def message_case(rng: Random, place: Path) -> Case:
    """A message, to who reads it: the decoder, an owner, a coordinator."""
    match rng.randrange(5):
        case 0 | 1 | 2:
            data = odd_message(rng)
            kinds = rng.sample(_KINDS, rng.randint(1, len(_KINDS)))
            return Case([Call(f"decode({data!r:.300})", lambda: _decoded(data, kinds))])
        case 3:
            questions = [odd_message(rng) for _ in range(3)]
            return Case([Call(f"Owner.answer({questions!r:.600})", lambda: _asked(questions))])
    return Case([Call("Coordinator.run", lambda: _coordinated(rng))])


def _decoded(data: bytes, kinds: list[type[Message]]) -> None:
    """Read a message, the messages inside it, and what was signed."""
    found = decode(data, *kinds)
    if isinstance(found, Roll):
        found.ready()
    if isinstance(found, Ready | Upload):
        _ = found.statement


def _asked(questions: list[bytes]) -> None:
    """Ask an owner of a simulation; whatever comes, it answers in the protocol."""
    settings = OwnerSettings(
        owner="east", federation="test", epsilon=1.0, delta=1e-6, random_state=1
    )
    lines: list[str] = []
    table = np.concatenate([rows(40), rows(40)], axis=1)
    owner = Owner(settings, table, log=lines.append)
    for question in questions:
        answer = owner.answer(question)
        assert answer.startswith(b"EIGENVEIL"), "an owner answers in the protocol"
        assert NUMBER[:6] not in repr(lines), "a line for the owner quotes a cell"


def _coordinated(rng: Random) -> None:
    """Let a coordinator hear owners of whom some answer with anything."""

    class Odd(Stub):
        def answer(self, question: bytes) -> bytes:
            return odd_message(rng) if rng.random() < 0.3 else super().answer(question)

    clock = Clock()
    with Journal() as journal:
        coordinator = Coordinator(agreement(quorum=1), journal, clock=clock, sleep=clock.sleep)
        coordinator.run(InProcess({name: Odd(name) for name in OWNERS}))._files()


assert (D, K) == (6, 2)  # the widths that `_asked` gives its owner
