"""One process at a time in a folder; the system lets the next one in when a process dies."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eigenveil.exceptions import BusyError, InvalidParameterError, StateError
from eigenveil.storage.durable import locked

__all__ = ["alone"]


@contextmanager
def alone(folder: Path, what: str, *, mode: int = 0o777) -> Iterator[None]:
    """Have a folder, made if it is not there, to oneself while the block runs.

    ``what`` is the word for who uses it, and the name of its lock.
    """
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError:
        raise InvalidParameterError(
            f"cannot make the folder {folder}: choose a writable place"
        ) from None
    with ExitStack() as lock:
        try:
            lock.enter_context(locked(folder / what))
        except BusyError:
            raise StateError(
                f"another {what} uses {folder}: wait for it, or stop it first"
            ) from None
        yield
