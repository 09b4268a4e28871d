"""Releases: saved to a folder or a zip, signed, and made by a command that charges a ledger."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from eigenveil import Ledger, PrivatePCA, Release
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms import Gate
from eigenveil.storage import is_empty, reservation
from tests.kill.witness import draws

__all__ = ["Commands", "Regressions", "Saves", "clear", "drafts", "run_command", "unexplained"]

ROWS = np.random.default_rng(0).standard_normal((60, 3)) * [3, 2, 1]


@cache
def released() -> Release:
    """Return a release to save; made before any process is forked."""
    return PrivatePCA(1, rho=5.0, random_state=0).fit(ROWS).release_


def run_command(*words: object) -> None:
    """Run a command of the command line in this process, or raise what it ends in."""
    from eigenveil.cli import main

    try:
        main([str(word) for word in words], prog_name="eigenveil")
    except SystemExit as end:
        if end.code:
            raise AssertionError(f"exit code {end.code}: {words}") from None


def clear(out: Path) -> None:
    """Remove a name that a killed run had reserved, as the documents say."""
    if is_empty(out):
        out.rmdir() if out.is_dir() else out.unlink()


def unexplained(out: Path, *, ended: bool) -> Iterator[str]:
    """Say what is wrong where a release should be: whole, absent or an empty reservation."""
    if is_empty(out) or not out.exists():
        if ended:
            yield f"{out.name} is not there at the end"
        return
    try:
        Release.load(out)
    except EigenveilError as error:
        yield f"{out.name} is neither whole nor absent: {error}"


def drafts(out: Path) -> Iterator[str]:
    """Say what killed saves have left beside a release that the last one did not remove.

    Whoever is killed between the release and the end leaves an empty folder.
    """
    name = hashlib.sha256(out.name.encode()).hexdigest()[:16]
    left = [path.name for path in out.parent.glob(f".release-{name}-*") if not is_empty(path)]
    if left:
        yield f"drafts are left: {left}"


def uncharged(folder: Path, ledger: Ledger) -> Iterator[str]:
    """Say which draws no charge covers: a process draws on charges of its own."""
    drawn: dict[str, set[int]] = {}
    for draw in draws(folder):
        drawn.setdefault(draw.label, set()).add(draw.process)
    for label, processes in drawn.items():
        charges = sum(entry.label == label and not entry.is_note for entry in ledger.entries)
        if charges < len(processes):
            yield f"{len(processes)} releases of {label} and {charges} charges"


class Saves:
    """`Release.save`, and `Release.sign` afterwards."""

    area = "release"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "written in place": lambda: setattr(reservation.Reservation, "fill", _fill_in_place),
    }

    def __init__(self, out: str) -> None:
        self._out = out
        self.name = f"release save {out}"

    def prepare(self, folder: Path) -> None:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
        pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        (folder / "key.pem").write_bytes(pem)
        released()

    def attempt(self, folder: Path) -> None:
        out = folder / self._out
        clear(out)
        if not out.exists():
            released().save(out)
        if Release.examine(out).signature is None:
            Release.sign(out, folder / "key.pem")

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        yield from unexplained(folder / self._out, ended=ended)
        if ended:
            yield from drafts(folder / self._out)
            if Release.examine(folder / self._out).signature is None:
                yield "not signed at the end"


class Commands:
    """``eigenveil fit -o`` with a ledger."""

    area = "release"
    faults: ClassVar[dict[str, Callable[[], None]]] = {
        "draw before the charge": lambda: _draw_first(),
    }

    def __init__(self, out: str) -> None:
        self._out = out
        self.name = f"release fit {out}"

    def prepare(self, folder: Path) -> None:
        np.save(folder / "rows.npy", ROWS)
        Ledger.create(folder / "ledger", epsilon=500.0, delta=1e-4)

    def attempt(self, folder: Path) -> None:
        out = folder / self._out
        clear(out)
        if out.exists():  # the last process got so far
            return
        self.run(folder, "--delta", 1e-7, "--ledger", folder / "ledger", "-o", out)

    def run(self, folder: Path, *files: object) -> None:
        kind = ("--k", 1, "--mechanism", "spherical", "--epsilon", 0.1)
        run_command("fit", folder / "rows.npy", *kind, *files)

    def check(self, folder: Path, *, ended: bool) -> Iterator[str]:
        ledger = Ledger(folder / "ledger")
        yield from uncharged(folder, ledger)
        yield from unexplained(folder / self._out, ended=ended)
        if ended:
            yield from drafts(folder / self._out)
            receipt = Release.load(folder / self._out).guarantee.ledger or ""
            if not any(f"(hash {entry.hash[:16]})" in receipt for entry in ledger.entries):
                yield "no entry of the ledger paid for the release"


class Regressions(Commands):
    """``eigenveil regress -o`` with a ledger: all stages, or a mean alone."""

    def __init__(self, out: str, epsilon: float) -> None:
        super().__init__(out)
        self._epsilon = epsilon
        self.name = f"release regress {out}"

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        np.savetxt(folder / "rows.csv", ROWS, delimiter=",", header="a,b,y", comments="")

    def run(self, folder: Path, *files: object) -> None:
        kind = ("--target", "y", "--target-bounds", "-5,5", "--means-alone")
        run_command("regress", folder / "rows.csv", *kind, "--epsilon", self._epsilon, *files)


def _fill_in_place(place: Any, content: Any) -> None:
    """A planted fault: what is being written has the name of the whole."""
    place.leave_room()
    if place.path.is_dir():
        for name, data in content.items():
            (place.path / name).write_bytes(data)
    else:
        place.path.write_bytes(reservation.zipped(content))


def _draw_first() -> None:
    """A planted fault: the ledger is charged when the noise is there."""
    inner, commit = Gate.draw, Gate._commit

    def draw(gate: Gate, step: Any, query: Any) -> Any:
        result = inner(gate, step, query)
        commit(gate)
        return result

    Gate.draw = draw  # type: ignore[method-assign]
    Gate._commit = lambda gate: None  # type: ignore[method-assign]
