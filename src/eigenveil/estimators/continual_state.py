"""Where a running covariance is kept between days, so that it survives the process.

The state is PRIVATE: it holds the exact second moment of every day. It is one file
(`eigenveil.storage.state_file`), readable by its owner only and replaced as a whole, so that a
crash leaves the old or the new one.

Write-ahead: the second moment of a day and the number of the attempt are on disk, and noted in the
ledger where there is one, before noise is drawn; what was drawn is on disk before it is published.
A day that a crash cut off between the two is drawn again: nobody has seen the earlier draw. That
a draw is kept has a number of its own, noted before it is published, so that no copy of the state
from before can draw the day again. Proof: docs/proofs/continual.md.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.daily_moments import DailyMoments
from eigenveil.exceptions import DuplicateBatchError, StateError
from eigenveil.mechanisms.continual import DailyGate
from eigenveil.privacy.adjacency import ROW, Unit
from eigenveil.storage.durable import locked, replace_file, unchanged
from eigenveil.storage.paths import read_regular, real_path, require_outside
from eigenveil.storage.state_file import decode_arrays, pack_state, unpack_state
from eigenveil.wording import NEW_LABEL, RESTORE

__all__ = ["DailyState", "kept_days"]

_FORMAT = "eigenveil-days/2"
_READ = (_FORMAT, "eigenveil-days/1")  # the latter has digests of rows, which nothing needs
_NOTICE = (
    "PRIVATE: holds the exact second moment of every day. Keep it like the table itself, publish "
    "only what release_ saves."
)
_KINDS: dict[str, tuple[type, ...]] = {
    "settings": (dict,),
    "ledger": (str, type(None)),
    "name": (str,),
    "entry": (str, type(None)),
    "attempts": (int,),
    "count": (int,),
    "exact": (bool,),
    "labels": (list,),
    "persons": (dict,),
}


@dataclass(slots=True, kw_only=True, eq=False)
class DailyState:
    """What came on every day, and what was released. Private.

    Attributes
    ----------
    settings : dict
        What it was begun with; public.
    ledger, entry : str or None
        The name of the ledger that pays, and the hash of the entry that paid.
    name : str
        A random one, by which the ledger knows it.
    attempts : int
        Where draws stand: a begun one takes the next odd number, a kept one the even number after.
    count : int
        Rows, or persons on each day, so far.
    exact : bool
        Whether numerics were exact so far.
    labels : list of str
        Of days that came.
    persons : dict of int
        On how many days each person came, by a hash of the id.
    sums : array of shape (days, d (d + 1)/2) or None
        The second moments of days.
    drawn : array of shape (days, d (d + 1)/2) or None
        What was released; one day shorter where a draw was cut off.
    gate : DailyGate or None
        The allotment; not part of the file.
    process : int
        The process that has it in memory; not part of the file.
    path, found
        Where it is kept, and the digest of what lies there; None for one in memory.

    """

    settings: dict[str, Any]
    ledger: str | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    entry: str | None = None
    attempts: int = 0
    count: int = 0
    exact: bool = True
    labels: list[str] = field(default_factory=list)
    persons: dict[str, int] = field(default_factory=dict)
    sums: NDArray[np.int64] | None = None
    drawn: NDArray[np.float64] | None = None
    gate: DailyGate | None = None
    process: int = field(default_factory=os.getpid)
    path: Path | None = None
    found: str | None = None

    @property
    def days(self) -> int:
        """Number of days that came."""
        return 0 if self.sums is None else len(self.sums)

    @property
    def released(self) -> int:
        """Number of days that were released."""
        return 0 if self.drawn is None else len(self.drawn)

    @property
    def moments(self) -> DailyMoments:
        """The second moments of days."""
        assert self.sums is not None  # a day came
        return DailyMoments(self.sums, self.count, self.exact)

    @property
    def next_attempt(self) -> int:
        """The number of a draw that begins now: odd."""
        return self.attempts + 1 + self.attempts % 2

    @property
    def merged_ids(self) -> bool:
        """Whether 7 and 0007 were one person from the start, as in days of this version."""
        return self.settings.get("ids") != "text"

    def require_new(self, label: str | None) -> None:
        """Refuse a label that came before."""
        if label is not None and label in self.labels:
            raise DuplicateBatchError(
                "a day of this label came before, and each record is used once: name new "
                "records otherwise, ",
                NEW_LABEL,
                "; what was released last comes again from ",
                RESTORE,
            )

    def save(self) -> None:
        """Replace the state durably, where it has a path."""
        if self.path is None:
            return
        noted = {name: getattr(self, name) for name in _KINDS}
        arrays = {"sums": self.sums, "drawn": self.drawn}
        there = {name: array for name, array in arrays.items() if array is not None}
        data = pack_state({"format": _FORMAT, "notice": _NOTICE, **noted}, there)
        with unchanged(self.path, self.found):
            replace_file(self.path, data)
        self.found = hashlib.sha256(data).hexdigest()

    @classmethod
    def load(cls, path: Path) -> "DailyState":
        """Read the file, or refuse one that is not whole."""
        try:
            data = read_regular(path)
            document, packed = unpack_state(data, path.name)
            arrays = decode_arrays(packed)
            if document["format"] not in _READ:
                raise ValueError
            state = cls(
                **{name: document[name] for name in _KINDS},
                sums=arrays.get("sums"),
                drawn=arrays.get("drawn"),
                path=path,
                found=hashlib.sha256(data).hexdigest(),
            )
            _require_possible(state)
        except MemoryError:
            raise
        except Exception:  # of odd files there is no end of ways to fail
            raise StateError(
                f"{path.name} is not a whole state of days: start anew with records that were not "
                "in it; an older copy would draw on days twice"
            ) from None
        return state


@contextmanager
def kept_days(state: str | Path) -> Iterator[tuple[Path, DailyState | None]]:
    """Lock a state; yield its path without links, and what lies there, None where it is new."""
    path = real_path(state)  # under one name only is it one state
    require_outside(path)
    with locked(path):
        if path.is_file() and os.lstat(path).st_nlink > 1:
            raise StateError(
                f"{path.name} has several names (hard links), under each of which it would be "
                "another state: keep one of them"
            )
        yield path, DailyState.load(path) if os.path.lexists(path) else None


def _require_possible(state: DailyState) -> None:
    """Raise `ValueError` for what nobody can have noted; all that follows relies on it."""
    for name, kinds in _KINDS.items():
        if type(getattr(state, name)) not in kinds:
            raise ValueError
    width, names = state.settings.get("width"), state.settings.get("feature_names")
    d, horizon = state.settings.get("n_features"), state.settings.get("horizon")
    most, begun = state.settings.get("days_per_group"), state.sums is not None
    unit = Unit(*state.settings["unit"]) if begun else ROW
    possible = (
        all(isinstance(word, str) for word in (*state.labels, *(names or ())))
        and (type(most) is int or (most is None and not state.persons))
        and all(type(days) is int and 1 <= days <= (most or 0) for days in state.persons.values())
        and state.settings.get("ids") in (None, "text", "numbers")
        and state.attempts >= 0
        and state.count >= 0
        and begun == (width is not None)
        and (state.drawn is None or begun)
    )
    if begun and possible:
        possible = (
            type(width) is int
            and type(d) is int
            and type(horizon) is int
            and d <= width <= d + 1
            and (names is None or (type(names) is list and len(names) == d))
            and (unit.column is None or type(unit.column) is str)
            and "feature_names" in state.settings
            and _is_table(state.sums, np.int64, width)
            and (state.drawn is None or _is_table(state.drawn, np.float64, width))
            and 1 <= state.days <= horizon
            and state.released in (state.days, state.days - 1)
            and state.attempts >= state.released
        )
    if not possible:
        raise ValueError


def _is_table(array: Any, kind: type, width: int) -> bool:
    triangle = width * (width + 1) // 2
    typed = array.dtype == kind and array.ndim == 2 and array.shape[1] == triangle
    return bool(typed and np.isfinite(array).all())
