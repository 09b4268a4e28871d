"""What was drawn, noted at the gate and independently of all that is tested.

A draw is noted when its noise is about to be added: whatever paid for it must be there by then.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenveil.mechanisms import Gate
from tests.kill.points import append

__all__ = ["Draw", "draws", "watch"]

_NAME = "draws.witness"
_draw = Gate.draw


@dataclass(frozen=True)
class Draw:
    """By which process, for which charge of which ledger, on which records (None: all)."""

    process: int
    ledger: str
    label: str
    records: range | None


class _Noted:
    """A step that notes when it is taken."""

    def __init__(self, step: Any, note: bytes, path: str) -> None:
        self._step, self._note, self._path = step, note, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def perturb(self, query: Any, noise: Any) -> Any:
        append(self._path, self._note)
        return self._step.perturb(query, noise)


def watch(folder: Path) -> None:
    """Note the draws of this process in a file of the folder."""
    path = str(folder / _NAME)

    def draw(gate: Gate, step: Any, query: Any) -> Any:
        records = query.records
        span = "" if records is None else f"{records.start} {records.stop}"
        ledger = "" if gate._ledger is None else gate._ledger.path.name
        note = f"{os.getpid()}\t{ledger}\t{gate._label}\t{span}"
        return _draw(gate, _Noted(step, note.encode(), path), query)

    Gate.draw = draw  # type: ignore[method-assign]


def draws(folder: Path) -> list[Draw]:
    """Return what was noted, in order."""
    path = folder / _NAME
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        process, ledger, label, span = line.split("\t")
        records = range(*map(int, span.split())) if span else None
        found.append(Draw(int(process), ledger, label, records))
    return found
