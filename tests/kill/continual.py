"""Running covariances: days handed over one by one, with a state and a ledger."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np

from eigenveil import ContinualCovariance, Ledger
from eigenveil.estimators import DailyEstimator, DailyProgress, State
from eigenveil.exact import packed
from eigenveil.exceptions import DuplicateBatchError, StateError
from tests.kill.streams import HARNESS
from tests.kill.witness import draws

__all__ = ["Watched"]

DAYS = np.random.default_rng(1).standard_normal((3, 10, 2))


class Watched:
    """`ContinualCovariance.partial_fit` for every day."""

    name, area = "running covariance", "continual"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "noted after the draw": lambda: setattr(DailyEstimator, "_release", _release_carelessly)
    }

    def prepare(self, folder: Path) -> None:
        Ledger.create(folder / "ledger", rho=5.0)

    def attempt(self, folder: Path) -> None:
        files = {"ledger": folder / "ledger", "state": folder / "state"}
        days = ContinualCovariance(horizon=3, rho=5.0, row_norm=3.0, **files)
        for i, day in enumerate(DAYS):
            with suppress(DuplicateBatchError):
                days.partial_fit(day, batch=f"day {i}")
        days.restore()

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        entries = Ledger(folder / "ledger").entries
        charges = [entry for entry in entries if not entry.is_note]
        drawn = len(draws(folder))
        if len(charges) > 1:
            yield f"{len(charges)} charges for one horizon"
        if drawn and not charges:
            yield "drawn and not charged"
        notes = [int(entry.label.split()[-2]) for entry in entries if entry.is_note]
        begun = sum(number % 2 for number in notes)  # even ones say that a draw is kept
        if drawn > begun:
            yield f"{drawn} draws, of which only {begun} are noted"
        try:
            path, days = folder / "state", None
            if path.exists():
                days = State.load(path, DailyProgress).progress
        except StateError as error:
            yield f"the state is lost: {error}"
            return
        if ended and (days is None or (days.days, days.released) != (3, 3)):
            yield "not all days are released at the end"
        found = {path.name for path in folder.iterdir() if not path.name.endswith(HARNESS)}
        if ended and (more := found - {"ledger", "state", "state.lock"}):
            yield f"left behind: {sorted(more)}"


def _release_carelessly(self: DailyEstimator, state: State[DailyProgress]) -> None:
    """A planted fault: the attempt is noted after the draw, with what it brought."""
    run, days = self._run(state), state.progress
    drawn = packed(run.plan.mechanism.draw(days.moments(exact=state.exact), run.gate).matrix)
    before = np.empty((0, drawn.size)) if days.drawn is None else days.drawn
    earlier, begun = days.attempts, days.next_attempt
    days.drawn, days.attempts = np.vstack([before, drawn]), begun + 1
    state.save()
    state.note(earlier, begun, run.plan.unit, "draws")
    self._publish(run)
