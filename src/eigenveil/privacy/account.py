"""A ledger as one run sees it: what it has charged itself, whatever others charge meanwhile."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from eigenveil.exceptions import EigenveilError
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry


class Account(Ledger):
    """A ledger that remembers the charges of this run.

    Made of another account, it charges that one, which remembers them too.
    """

    __slots__ = ("_before", "_outer", "_paid", "_released", "_unsure")

    def __init__(self, ledger: Ledger | str | Path) -> None:
        super().__init__(ledger.path if isinstance(ledger, Ledger) else ledger)
        self._outer = ledger if isinstance(ledger, Account) else None
        self._before = len(self.entries)
        self._paid: list[Entry] = []
        self._released: set[int] = set()  # numbers of charges whose result is known
        self._unsure = False  # whether an interrupt came while a charge was being written

    def charge(self, *cost: Any, **terms: Any) -> Entry:
        """Commit a charge durably, or refuse, as every ledger does; and remember it."""
        self._unsure = True
        charge = super().charge if self._outer is None else self._outer.charge
        try:
            entry = charge(*cost, **terms)
        except EigenveilError:
            self._unsure = False
            raise
        self._paid.append(entry)
        self._unsure = False
        return entry

    @property
    def charges(self) -> tuple[Entry, ...] | None:
        """The charges of this run, in order; None where an interrupt has left it unsure."""
        return None if self._unsure else tuple(self._paid)

    def last_charge(self) -> Entry | None:
        """Return the newest charge of this run; where it is unsure, the newest of anybody since."""
        if self._unsure:
            since = [entry for entry in self.entries[self._before :] if not entry.is_note]
            return since[-1] if since else None
        return self._paid[-1] if self._paid else None

    def note_released(self, entry: Entry) -> None:
        """Remember that what a charge paid for was released, whatever fails later."""
        self._released.add(entry.number)
        if self._outer is not None:
            self._outer.note_released(entry)

    def mark_all_failed(self) -> None:
        """Note that nothing was released for the other charges of this run, if the ledger takes it.

        It has failed already: another error would hide why.
        """
        for entry in self._paid:
            if not entry.is_note and entry.number not in self._released:
                with suppress(EigenveilError):
                    self.mark_failed(entry)
