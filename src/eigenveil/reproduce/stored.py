"""Data sets of the papers' experiments: files that the user has, or those of OpenML.

Nothing is part of the package. A file is looked for where ``--data`` says; its checksum tells
whether it is the one that the papers' pages speak of.
"""

import hashlib
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError
from eigenveil.wording import Phrase

__all__ = ["FILES", "Stored"]

FILES = {
    "mnist.npz": "06af5dfe73b70e3b",
    "lung_gordon2002_251.npz": "da8acf3e1a71bb5e",
    "reuters21578.jsonl.xz": "e12d1ddc7a7c40b0",
}
"""Beginnings of SHA-256 sums."""

_FOLDER = Phrase(python="a path", shell="--data", file="a path")


@dataclass(frozen=True)
class Stored:
    """Where data sets lie; None: nowhere, so that MNIST comes from OpenML and others are lacking.

    ``online`` allows a download by scikit-learn, which keeps it.
    """

    folder: Path | None = None
    online: bool = False

    def has(self, name: str) -> bool:
        """Return whether a data set can be had."""
        return self._path(name) is not None or (self.online and name == "mnist.npz")

    def mnist(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return 60,000 images of 28 x 28 pixels, and their digits."""
        path = self._path("mnist.npz")
        if path is None and self.online:
            return _openml_mnist()
        images, digits = _npz(self._required("mnist.npz"), "x_train", "y_train")
        return images, digits

    def lung(self) -> NDArray[np.float64]:
        """Return 181 patients and 251 genes."""
        (patients,) = _npz(self._required("lung_gordon2002_251.npz"), "X")
        return patients

    def reuters(self) -> list[str]:
        """Return title and body of 19,043 documents."""
        return _documents(self._required("reuters21578.jsonl.xz"))

    def _path(self, name: str) -> Path | None:
        path = None if self.folder is None else self.folder / name
        return path if path is not None and path.is_file() else None

    def _required(self, name: str) -> Path:
        path = self._path(name)
        if path is None:
            raise InvalidDataError(f"no {name}: say with ", _FOLDER, " in which folder it is")
        _check(path, FILES[name])
        return path


@cache
def _check(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(expected):
        raise InvalidDataError(
            f"{path} is another file than the one of that name in docs/papers: its checksum differs"
        )


@cache
def _npz(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    with np.load(path) as stored:
        return tuple(stored[name] for name in names)


@cache
def _documents(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [f"{one['title']} {one['body']}" for one in map(json.loads, lines)]


@cache
def _openml_mnist() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from sklearn.datasets import fetch_openml

    fetch: Callable[..., tuple[NDArray[np.uint8], NDArray[np.uint8]]] = fetch_openml
    images, digits = fetch("mnist_784", version=1, as_frame=False, return_X_y=True)
    return images[:60_000].astype(np.uint8).reshape(-1, 28, 28), digits[:60_000].astype(np.uint8)
