"""Paths without links."""

import os
from pathlib import Path

__all__ = ["real_path"]


def real_path(path: str | Path) -> Path:
    """Return the path without links; what is no path at all is found when it is opened."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return Path(path)
