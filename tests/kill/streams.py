"""Streams: days of records, fed in Python or by the command line, with a state and a ledger."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from eigenveil import Ledger, StreamingPCA
from eigenveil.estimators import State, StreamProgress, StreamRun
from eigenveil.exceptions import DuplicateBatchError, InvalidDataError, StateError
from tests.kill.artefacts import clear, drafts, run_command, unexplained
from tests.kill.witness import draws

__all__ = ["Days", "DaysByCommand", "DaysOfPersons"]

DAYS = np.random.default_rng(0).standard_normal((6, 25, 3)) * [3, 1, 1] + 5


class Days:
    """`StreamingPCA.partial_fit` for every day, then `finish`."""

    name, area = "stream days", "stream"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "noted after the draw": lambda: setattr(StreamRun, "step", _step_carelessly),
        "rows never removed": lambda: setattr(State, "sweep", lambda state: None),
    }

    days = DAYS
    _beside: ClassVar[frozenset[str]] = frozenset()  # files that may be there

    def prepare(self, folder: Path) -> None:
        Ledger.create(folder / "ledger", rho=50.0)

    def attempt(self, folder: Path) -> None:
        pca = _stream(folder)
        if self._finished(folder):
            pca.restore()
            return
        for i, day in enumerate(self.days):
            with suppress(DuplicateBatchError):
                pca.partial_fit(day, batch=f"day {i}")
        pca.finish()

    def _finished(self, folder: Path) -> bool:
        state = folder / "state"
        return state.exists() and State.load(state, StreamProgress).progress.finished

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        drawn = draws(folder)
        yield from used_twice(drawn)
        ledger = Ledger(folder / "ledger")
        charges = [entry for entry in ledger.entries if not entry.is_note]
        if len(charges) > 1:
            yield f"{len(charges)} charges for one stream"
        if drawn and not charges:
            yield "drawn and not charged"
        try:
            yield from self._accounts(folder, ended=ended)
        except StateError as error:
            yield f"the state is lost: {error}"

    def _arrived(self, state: State[StreamProgress]) -> int:
        """Return how many records the labels of a stream stand for."""
        return len(state.labels) * int(self.days.shape[1])

    def _accounts(self, folder: Path, *, ended: bool) -> Iterator[str]:
        """Every record that came waits or is spent; the next call leaves nothing else behind."""
        left = {"ledger", "state.lock"}
        if (folder / "state").exists():
            state = State.load(folder / "state", StreamProgress)
            stream = state.progress
            left |= {"state"} if stream.rows is None else {"state", stream.rows["file"]}
            arrived = self._arrived(state)
            held = stream.spent + stream.buffered
            if held != arrived or stream.used > stream.spent:
                yield f"{arrived} records came, {stream.spent} are spent, {stream.buffered} wait"
            if ended and not (stream.finished and stream.spent == arrived):
                yield "not all records are accounted for at the end"
        elif ended:
            yield "there is no state at the end"
        found = {path.name for path in folder.iterdir() if not path.name.endswith(HARNESS)}
        found = {name for name in found if not name.startswith(".release-")}  # of releases
        if ended and (more := found - left - self._beside):
            yield f"left behind: {sorted(more)}"


class DaysOfPersons(Days):
    """Days on which persons come again, of whom two records are taken at most."""

    name = "stream persons"
    faults: ClassVar[dict[str, Callable[[], None]]] = {}
    visits: ClassVar[list[Any]] = [np.roll(np.arange(25) % 20, day) for day in range(6)]

    def prepare(self, folder: Path) -> None:
        Ledger.create(folder / "ledger", rho=50.0, unit="person")

    def attempt(self, folder: Path) -> None:
        pca = _stream(folder, max_arrivals=2, centring="none")
        if self._finished(folder):
            pca.restore()
            return
        for i, (day, ids) in enumerate(zip(self.days, self.visits, strict=True)):
            with suppress(DuplicateBatchError):
                pca.partial_fit(day, batch=f"day {i}", groups=ids)
        for more in count(1):
            try:
                pca.finish()
                return
            except InvalidDataError:  # each batch was lost to a death: others have to come
                with suppress(DuplicateBatchError):
                    others = 20 * more + np.arange(20)
                    pca.partial_fit(self.days[0][:20], batch=f"more {more}", groups=others)

    def _arrived(self, state: State[StreamProgress]) -> int:
        days = sum(label.startswith("day") for label in state.labels)
        return 20 * (min(2, days) + len(state.labels) - days)


HARNESS = (".witness", ".harness")


def _stream(folder: Path, **options: Any) -> StreamingPCA:
    files = {"ledger": folder / "ledger", "state": folder / "state"}
    return StreamingPCA(1, rho=50.0, batch_size=20, **files, **options)


def used_twice(drawn: list[Any]) -> Iterator[str]:
    """Say which records two processes have drawn on."""
    spans = {(draw.process, draw.records.start, draw.records.stop) for draw in drawn}
    for process, start, stop in spans:
        for other, first, last in spans:
            if process < other and start < last and first < stop:
                yield f"records {max(start, first)} to {min(stop, last)} were drawn on twice"


def _step_carelessly(run: StreamRun, size: int) -> None:
    """A planted fault: records are noted as spent after the draw, with what it brought."""
    progress = run.state.progress
    run.use(progress.take(size))
    progress.used += size
    assert run.gate.entry is not None  # a ledger pays
    run.state.entry = run.gate.entry.hash
    run.keep(True)


class DaysByCommand(Days):
    """``eigenveil stream`` for every day, of which one is released at once, then ``--finish``."""

    name = "stream commands"
    faults: ClassVar[dict[str, Callable[[], None]]] = {}
    days = DAYS.reshape(3, 50, 3)
    _beside = frozenset({"day0.npy", "day1.npy", "day2.npy", "early", "out.zip"})

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        for i, day in enumerate(self.days):
            np.save(folder / f"day{i}.npy", day)

    def attempt(self, folder: Path) -> None:
        state, out, early = folder / "state", folder / "out.zip", folder / "early"
        words = ("--state", state, "--ledger", folder / "ledger", "--k", 1, "--rho", 50)
        words += ("--batch-size", 20)
        clear(early)
        for i in range(len(self.days)):
            if not state.exists() or f"day{i}.npy" not in State.load(state, StreamProgress).labels:
                released = ("-o", early) if i == 1 else ()
                run_command("stream", folder / f"day{i}.npy", *words, *released)
        clear(out)
        if not out.exists():
            run_command("stream", "--finish", *words, "-o", out)
        _stream(folder).restore()

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        yield from super().check(folder, ended=ended)
        yield from unexplained(folder / "out.zip", ended=ended)
        yield from unexplained(folder / "early", ended=False)
        if ended:
            yield from drafts(folder / "out.zip")
