"""A ledger that is created, charged and read, while another process charges it too."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from eigenveil.exceptions import BudgetExceededError, LedgerError, StateError
from eigenveil.privacy import Adjacency, Gaussian, Ledger
from tests.kill.points import append

__all__ = ["Charges", "Rivals"]

_RELEASED = "released.witness"


class Charges:
    """Charges, each followed by a release; notes; one charge that is made once; a lost line end."""

    name, area = "ledger charges", "ledger"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "release before the charge": lambda: setattr(Charges, "_charge_first", False),
        "a line in pieces": lambda: setattr(Charges, "_in_pieces", True),
        "a charge forgotten with its line end": lambda: _need_line_ends(),
    }
    _charge_first, _in_pieces = True, False

    def prepare(self, folder: Path) -> None:
        pass

    def attempt(self, folder: Path) -> None:
        if self._in_pieces:
            _write_ends_first()
        path = folder / "ledger"
        try:
            ledger = Ledger(path)
        except LedgerError:  # none yet, or the beginning of one
            ledger = Ledger.create(path, epsilon=50.0, delta=1e-6)
        for i in range(3):
            label = f"{os.getpid()}-{i}"
            self._release(folder, label, lambda label=label: _charge(ledger, label))
        if not self._in_pieces:  # a planted append that knows of whole lines only
            self._edit(path)
        with suppress(BudgetExceededError):
            self._release(folder, "once", lambda: _charge(ledger, "once", once=True))
        for stop in (10, 20):
            try:
                ledger.advance("s", stop - 10, stop)
            except StateError:  # noted by a process that was killed
                continue
        assert ledger.left()[1] > 0

    def _edit(self, path: Path) -> None:
        """Save the ledger as some editors do, without its last line end."""
        with path.open("r+b") as file:
            file.truncate(len(path.read_bytes().rstrip(b"\n")))

    def _release(self, folder: Path, label: str, charge: Callable[[], None]) -> None:
        if self._charge_first:
            charge()
        append(str(folder / _RELEASED), label.encode())
        if not self._charge_first:
            charge()

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        path, witness = folder / "ledger", folder / _RELEASED
        released = witness.read_text().split() if witness.exists() else []
        try:
            ledger = Ledger(path)
        except LedgerError as error:
            if ended or released or (path.exists() and b"\n" in path.read_bytes()):
                yield f"the ledger cannot be read: {error}"
            return
        charged = Counter(entry.label for entry in ledger.entries)
        for label in set(released) - charged.keys():
            yield f"released and not charged: {label}"
        for label, times in charged.items():
            if times > 1:
                yield f"charged {times} times: {label}"


def _charge(ledger: Ledger, label: str, *, once: bool = False) -> None:
    ledger.charge(Gaussian(1e-3), label=label, adjacency=Adjacency.REPLACE_ONE, once=once)


def _write_ends_first() -> None:
    """A planted fault: the end of a line is on disk before its beginning."""
    from eigenveil.privacy import ledger_file

    def append_in_pieces(file, end, line):  # type: ignore[no-untyped-def]
        file.seek(end)
        file.write(b" " * (len(line) - 1) + b"\n")
        file.flush()
        file.seek(end)
        file.write(line)
        file.flush()

    ledger_file.append = append_in_pieces


def _need_line_ends() -> None:
    """A planted fault: a last line without its line end is taken for one that was cut off."""
    from eigenveil.privacy import ledger_file

    ledger_file._is_whole = lambda line: False


class Rivals(Charges):
    """The same, and another process that is never killed charges at the same time."""

    name = "ledger rivals"
    faults: ClassVar[dict[str, Callable[[], None]]] = {}

    def prepare(self, folder: Path) -> None:
        Ledger.create(folder / "ledger", epsilon=50.0, delta=1e-6)

    def _edit(self, path: Path) -> None:
        """Leave the file alone: an editor takes no lock, and the rival may be writing."""

    def rival(self, folder: Path) -> None:
        """Charge as an ordinary process does; whoever was killed must not stand in its way."""
        ledger = Ledger(folder / "ledger")
        for i in range(2):
            label = f"{os.getpid()}-{i}"
            _charge(ledger, label)
            append(str(folder / _RELEASED), label.encode())
