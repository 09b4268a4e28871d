"""Owners that answer by rote, and a transport whose time and faults a test decides."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eigenveil.federated import (
    Agreement,
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Limits,
    ProtocolError,
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    decode,
    encode,
)
from eigenveil.privacy import Adjacency, Budget, Gaussian, Guarantee, guarantee_to_dict

D, K = 6, 2
NAMES = ("east", "north", "west")


def agreement(**changes: Any) -> Agreement:
    """Three owners of six columns; one second for every round."""
    settings: dict[str, Any] = {
        "federation": "test",
        "owners": dict.fromkeys(NAMES, Limits()),
        "n_columns": D,
        "n_components": K,
        "join_seconds": 1.0,
        "answer_seconds": 1.0,
        "again_seconds": 0.25,
    }
    return Agreement(**{**settings, **changes})


def rotated(angle: float) -> np.ndarray[Any, Any]:
    """The first two axes, turned a little."""
    basis = np.eye(D)[:, :K].copy()
    basis[0, 0], basis[2, 0] = np.cos(angle), np.sin(angle)
    return basis


class Stub:
    """An owner that makes up its answers; ``spoil`` changes one before it is sent."""

    def __init__(
        self,
        name: str,
        *,
        records: int = 100,
        epsilon: float = 1.0,
        angle: float = 0.0,
        values: Mapping[str, Any] | None = None,
        spoil: Callable[[str, Any], Any] = lambda kind, answer: answer,
    ) -> None:
        self.name, self.records, self.epsilon, self.angle = name, records, epsilon, angle
        self.spoil = spoil
        self.changes = dict(values or {})  # of its values
        self.asked: list[str] = []
        self.unit = "shares"

    @property
    def guarantee(self) -> dict[str, Any]:
        promise = Guarantee(
            budget=Budget(epsilon=self.epsilon, delta=1e-6),
            cost=Gaussian(0.01),
            adjacency=Adjacency.REPLACE_ONE,
            bounds=("none needed",),
        )
        return guarantee_to_dict(promise)

    def answer(self, question: bytes) -> bytes:
        try:
            asked = decode(question, Invitation, BasisQuestion, ValuesQuestion)
        except ProtocolError as error:
            return encode(Refusal(federation="test", owner=self.name, code=error.code))
        self.asked.append(asked.kind)
        self.unit = getattr(asked, "unit", self.unit)
        said = {"federation": "test", "owner": self.name}
        answer: Any
        if type(asked) is Invitation:
            answer = Declaration(
                **said,
                n_records=self.records,
                epsilon=self.epsilon,
                delta=1e-6,
                mechanism="spherical",
            )
        elif type(asked) is BasisQuestion:
            answer = BasisAnswer(
                **said, guarantee=self.guarantee, basis=rotated(self.angle), strengths=np.ones(K)
            )
        else:
            k = asked.basis.shape[1]
            answer = ValuesAnswer(
                **said,
                rest=1.25 if self.unit == "variances" else 0.2,
                noise_scale=0.1,
                centred=True,
                guarantee=self.guarantee,
                matrix=np.diag([3.0, 2.0][:k]) * (1.0 if self.unit == "variances" else 0.16),
                centre=np.array([1.0, -1.0])[:k],
            )
        if isinstance(answer, ValuesAnswer):
            answer = replace(answer, **self.changes)
        spoiled = self.spoil(asked.kind, answer)
        return spoiled if isinstance(spoiled, bytes) else encode(spoiled)


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Wire:
    """Nodes and who sits there. ``silent`` nodes take questions and say nothing."""

    pause = 0.1

    def __init__(self, owners: Mapping[str, Stub], *, keys: bool = True) -> None:
        self.owners = dict(owners)  # by node
        self.keys = keys
        self.silent: set[str] = set()
        self.queue: list[tuple[str, bytes, bytes | Code]] = []
        self.sent: list[str] = []
        self.withdrawn = 0

    def nodes(self) -> Mapping[str, str | None]:
        return {node: stub.name if self.keys else None for node, stub in self.owners.items()}

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        assert seconds > 0
        for node, question in questions.items():
            self.sent.append(node)
            if node not in self.silent:
                self.queue.append((node, question, self.owners[node].answer(question)))

    def replies(self) -> Iterable[tuple[str, bytes, bytes | Code]]:
        arrived, self.queue = self.queue, []
        return arrived

    def withdraw(self) -> None:
        self.withdrawn += 1
