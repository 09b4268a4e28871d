"""Files and folders that nobody else on a machine may look into.

What owners have answered, and what a server has heard, is each owner's own release: protected, but
not published, and not for everybody with an account.
"""

import os
import stat
from pathlib import Path

from eigenveil.exceptions import StateError

__all__ = ["private_file", "private_folder"]

_OTHERS = 0o077


def private_folder(folder: Path) -> None:
    """Make a folder for its owner alone; refuse one that others can look into."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wide = _is_wide(folder)
    except OSError:
        raise StateError(
            f"cannot make the state folder {folder}: is it a place you may write to?"
        ) from None
    if wide:
        raise StateError(
            f"others can look into {folder}: take their rights away (chmod 700), or choose a "
            "new folder"
        )


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or take the rights of others to it away."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:  # which is not opened: closing it would undo SQLite's locks
        if path.is_file() and _is_wide(path):
            path.chmod(0o600)


def _is_wide(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)
