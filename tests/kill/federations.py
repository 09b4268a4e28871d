"""Federations: an owner that is asked again and again, a server, and both in one process."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from eigenveil import Ledger, Release
from eigenveil.exceptions import QuorumLostError
from eigenveil.federated import (
    Answering,
    Answers,
    BasisQuestion,
    Code,
    Coordinator,
    Event,
    Happening,
    InProcess,
    Invitation,
    Journal,
    Owner,
    OwnerSettings,
    ProtocolError,
    Records,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
    read_server,
    simulate,
)
from eigenveil.release import SUMS
from eigenveil.storage import JOURNAL
from tests.federated.stubs import NAMES, Stub
from tests.kill.artefacts import ROWS, clear, unexplained
from tests.kill.points import append
from tests.kill.witness import draws

__all__ = ["Federation", "Owned", "Served"]

_SENT, _ASKED = "sent.witness", "asked.witness"


# An owner


def _questions(unit: str) -> tuple[bytes, ...]:
    terms: dict[str, Any] = {
        "federation": "test",
        "n_columns": 3,
        "n_components": 1,
        "n_directions": 1,
        "share": 0.8,
        "columns": columns_digest(None),
        "unit": unit,
    }
    values = ValuesQuestion(federation="test", basis=np.eye(3, 1))
    return tuple(map(encode, (Invitation(**terms), BasisQuestion(**terms), values)))


def owner(folder: Path, name: str) -> Owner:
    """Return an owner whose ledger and answers are on disk."""
    settings = OwnerSettings(
        owner=name, federation="test", epsilon=2.0, delta=1e-6, row_norm=9.0, mechanism="spherical"
    )
    ledger = Ledger(folder / f"{name}.ledger")
    answers = folder / f"{name}-answers"
    return Owner(settings, folder / "rows.npy", ledger, answers, log=lambda line: None)


def prepare_owner(folder: Path, name: str) -> None:
    np.save(folder / "rows.npy", np.tile(ROWS, (5, 1)))
    Ledger.create(folder / f"{name}.ledger", epsilon=20.0, delta=1e-6)


def owner_wrongs(folder: Path, name: str) -> Iterator[str]:
    """Say where an owner paid twice, drew twice, drew unpaid, or changed its answer."""
    ledger = Ledger(folder / f"{name}.ledger")
    labels = Counter(entry.label for entry in ledger.entries)
    for label, times in labels.items():
        if times > 1:
            yield f"{name} has {times} entries for {label}"
    if sum(not entry.is_note for entry in ledger.entries) > 1:
        yield f"{name} was charged twice for one federation"
    drawn: dict[str, set[int]] = {}
    for draw in draws(folder):
        if draw.ledger == ledger.path.name:
            drawn.setdefault(draw.label, set()).add(draw.process)
    for label, processes in drawn.items():
        if len(processes) > 1:
            yield f"{len(processes)} processes have drawn for {label}"
        if label not in labels:
            yield f"{name} has drawn for {label} and not paid"


class Owned:
    """An owner that is asked all questions; what it sends is noted as the server would get it."""

    area = "federation"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "answers that are not kept": lambda: _forget_answers(),
    }

    def __init__(self, unit: str) -> None:
        self.name, self._unit = f"owner {unit}", unit

    def prepare(self, folder: Path) -> None:
        prepare_owner(folder, "east")

    def attempt(self, folder: Path) -> None:
        asked = owner(folder, "east")
        for i, question in enumerate(_questions(self._unit)):
            answer = asked.answer(question)
            append(str(folder / _SENT), f"{i} {answer.hex()}".encode())

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        yield from owner_wrongs(folder, "east")
        answers: dict[int, bytes] = {}
        for number, answer in _sent(folder):
            kept = answers.get(number)
            if kept is not None and kept != answer:
                yield f"two answers to question {number}"
            code = _refusal(answer)
            if code is None:
                answers[number] = answer
            elif code not in (Code.INTERRUPTED, Code.OTHER_QUESTION):
                yield f"refused ({code})"


def _sent(folder: Path) -> Iterator[tuple[int, bytes]]:
    path = folder / _SENT
    for line in path.read_text().splitlines() if path.exists() else ():
        number, answer = line.split()
        yield int(number), bytes.fromhex(answer)


def _refusal(answer: bytes) -> Code | None:
    try:
        decode(answer)
    except ProtocolError as error:
        return None if error.code is Code.MALFORMED else error.code
    return None


def _forget_answers() -> None:
    """A planted fault: answers are in memory, and no charge is refused for being there."""
    begin = Answers.__init__
    charge = Ledger.charge

    def charge_again(self: Any, *arguments: Any, once: bool = False, **options: Any) -> Any:
        return charge(self, *arguments, **options)

    Answers.__init__ = lambda self, folder, terms: begin(self, None, terms)  # type: ignore
    Records.paid = lambda self, name: False  # type: ignore[method-assign]
    Ledger.charge = charge_again  # type: ignore[method-assign]


# A server


_SERVER = """\
[federation]
name = "test"
n_columns = {d}
components = {k}
quorum = 2
again_seconds = 60

[server]
address = "127.0.0.1:0"
folder = "journal"
output = "out"

[owners.{first}]
[owners.{second}]
"""


class _Transport(InProcess):
    """Owners in this process; what each was asked is noted."""

    address = "nowhere"

    def __init__(self, owners: Mapping[str, Answering], witness: str) -> None:
        super().__init__(owners)
        self._witness = witness

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        for name, question in questions.items():
            kind = decode(question, Invitation, BasisQuestion, ValuesQuestion).kind
            digest = hashlib.sha256(question).hexdigest()
            append(self._witness, f"{name} {kind} {digest}".encode())
        super().send(questions, seconds)

    def dismiss(self, *, least: float) -> None:
        pass


def _serve(folder: Path, owners: Mapping[str, Answering]) -> None:
    """Run the command of a server, whose network is this process."""
    from eigenveil.cli.federate_run import run_server

    journal = folder / "journal" / JOURNAL
    if not journal.exists() or not Journal.read(journal):
        clear(folder / "out")  # reserved by a process that died before it had begun

    @contextmanager
    def superlink(*_: Any, **__: Any) -> Iterator[_Transport]:
        yield _Transport(owners, str(folder / _ASKED))

    network = ModuleType("eigenveil.federated.flower.server")
    network.superlink = superlink  # type: ignore[attr-defined]
    sys.modules[network.__name__] = network
    run_server(read_server(folder / "server.toml", insecure=True), insecure=True, as_json=False)


class Served:
    """``eigenveil federate server``, with owners that answer by rote."""

    name, area = "server", "federation"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "released before it is saved": lambda: setattr(Coordinator, "save", _save_late),
    }
    _names, _d, _k = NAMES[:2], 6, 2

    def prepare(self, folder: Path) -> None:
        first, second = self._names
        text = _SERVER.format(d=self._d, k=self._k, first=first, second=second)
        (folder / "server.toml").write_text(text)

    def attempt(self, folder: Path) -> None:
        _serve(folder, {name: Stub(name) for name in self._names})

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        out = folder / "out"
        yield from unexplained(out, ended=ended)
        yield from self._journal(folder / "journal" / JOURNAL, out)
        asked: dict[tuple[str, str], set[str]] = {}
        path = folder / _ASKED
        for line in path.read_text().splitlines() if path.exists() else ():
            name, kind, digest = line.split()
            asked.setdefault((name, kind), set()).add(digest)
        for (name, kind), digests in asked.items():
            if len(digests) > 1:
                yield f"{name} was asked {len(digests)} different questions of {kind}"
        if ended:
            yield from self._release(folder)

    def _journal(self, path: Path, out: Path) -> Iterator[str]:
        events = Journal.read(path) if path.exists() else []
        heard = Counter(
            (event.round, event.owner)
            for event in events
            if event.happening in (Happening.JOINED, Happening.ANSWERED)
        )
        for (name, each), times in heard.items():
            if times > 1:
                yield f"{each} was heard {times} times in {name}"
        for event in events:
            if event.happening is Happening.RELEASED and not _is_there(out, event):
                yield "the journal says released, and the release is not there"

    def _release(self, folder: Path) -> Iterator[str]:
        expected = _undisturbed(folder / "server.toml")
        found = {k: v.tobytes() for k, v in Release.load(folder / "out").arrays.items()}
        if found != expected:
            yield "the release is not that of a server that was never killed"


def _is_there(out: Path, event: Event) -> bool:
    return out.exists() and Release.fingerprint(out) == event.data.decode()


@cache
def _arrays(text: str) -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "server.toml"
        path.write_text(text)
        agreed = read_server(path, insecure=True).agreement
    release = simulate(agreed, {name: Stub(name) for name in agreed.owners})
    return {name: array.tobytes() for name, array in release.arrays.items()}


def _undisturbed(config: Path) -> dict[str, bytes]:
    return _arrays(config.read_text())


def _save_late(self: Any, release: Release, place: Path) -> None:
    """A planted fault: the journal says released before the release is saved."""
    fingerprint = hashlib.sha256(release._files()[SUMS]).hexdigest()
    self._note(Event(happening=Happening.RELEASED, data=fingerprint.encode()))
    release.save(place)


# Both


class Federation(Served):
    """A server and two owners with ledgers, all in the process that is killed."""

    name = "federation"
    faults: ClassVar[dict[str, Callable[[], None]]] = {}
    _d, _k = 3, 1

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        for name in self._names:
            prepare_owner(folder, name)

    def attempt(self, folder: Path) -> None:
        try:
            _serve(folder, {name: owner(folder, name) for name in self._names})
        except QuorumLostError:  # who was killed between the charge and its answer does not go on
            append(str(folder / "lost.witness"), b"quorum")

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        lost = (folder / "lost.witness").exists()
        yield from super().check(folder, ended=ended and not lost)
        for name in self._names:
            yield from owner_wrongs(folder, name)

    def _release(self, folder: Path) -> Iterator[str]:
        if len(Release.load(folder / "out").owners) < 2:
            yield "an owner is missing"
