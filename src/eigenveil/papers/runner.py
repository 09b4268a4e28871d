"""Runs of the papers' figures, seeded and kept, and the data sets that they read.

Nothing is part of the package. A file is looked for where ``--data`` says; its checksum tells
whether it is the one that the papers' pages speak of.

Runs of a figure: seeded, several at a time, kept as they come, and never made twice.

Every finished run is one line of a CSV file. A run's seed follows from the figure, its settings and
its number, so that an interrupted figure goes on where it stopped, with the same numbers. A line
that was cut off by a sudden death is made again.
"""

import csv
import hashlib
import io
import json
import lzma
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from eigenveil.exceptions import InvalidDataError
from eigenveil.messages import Phrase
from eigenveil.papers.claims import Results
from eigenveil.papers.figure import Figure, Scale, Settings, Work
from eigenveil.storage.paths import read_regular

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


Progress = Callable[[int, int], None]  # finished, of how many


@dataclass(frozen=True)
class Task:
    """One run of one cell."""

    figure: str
    panel: str
    cell: int
    settings: Settings
    run: int
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """Return what tells its line from others."""
        return (self.panel, json.dumps(dict(self.settings)), str(self.run), str(self.seed))


def tasks(figure: Figure, scale: Scale, repeats: int, seed: int) -> list[Task]:
    """Return all runs of a figure, the first of every cell first."""
    return [
        Task(figure.name, panel.name, cell, settings, run, seed)
        for run in range(repeats)
        for panel in figure.panels
        for cell, settings in enumerate(panel.cells(scale))
    ]


def run(
    figure: Figure,
    path: Path,
    *,
    scale: Scale,
    repeats: int,
    seed: int = 0,
    jobs: int = 1,
    data: Stored,
    progress: Progress | None = None,
) -> Results:
    """Make the runs that a CSV file lacks, and return all of them.

    Parameters
    ----------
    figure : Figure
        What to run.
    path : Path
        The CSV file; what it holds of these runs is kept.
    scale : {"small", "paper"}
        Which settings.
    repeats : int
        Runs of every cell.
    seed : int
        Another one gives other tables and other noise.
    jobs : int
        Processes.
    data : Stored
        Where data sets lie.
    progress : callable, optional
        Told how many runs are finished.

    """
    wanted = tasks(figure, scale, repeats, seed)
    done = _read(figure, path)
    todo = [task for task in wanted if task.key not in done]
    if progress is not None:
        progress(len(wanted) - len(todo), len(wanted))
    with path.open("a", newline="", encoding="utf-8") as file:
        for count, (task, values) in enumerate(_made(figure.work, todo, jobs, data), start=1):
            # What is judged are the numbers of the file, so that a second call judges the same.
            kept = {name: _rounded(value) for name, value in values.items()}
            done[task.key] = kept
            file.write(_line(figure, task, kept))
            file.flush()
            if progress is not None:
                progress(len(wanted) - len(todo) + count, len(wanted))
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for task in wanted:
        cell = found.setdefault((task.panel, task.cell), {m.name: [] for m in figure.methods})
        for name, one in cell.items():
            one.append(done[task.key].get(name, math.nan))
    arrays: dict[tuple[str, int], Mapping[str, NDArray[np.float64]]] = {
        cell: {name: np.array(one) for name, one in runs.items()} for cell, runs in found.items()
    }
    return Results(figure, scale, arrays)


def _made(
    work: Work, todo: Sequence[Task], jobs: int, data: Stored
) -> Iterator[tuple[Task, Mapping[str, float]]]:
    """Yield finished runs as they come."""
    if jobs == 1 or len(todo) < 2:
        for task in todo:
            yield task, _finished(work, task, data)
        return
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_interruptible
    ) as pool:
        pending = {pool.submit(_finished, work, task, data): task for task in todo}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _interruptible() -> None:
    """Let ctrl-C end a worker at once and in silence: its run will be made again."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _finished(work: Work, task: Task, data: Stored) -> Mapping[str, float]:
    """Make one run, on one core."""
    text = f"{task.figure} {task.panel} {json.dumps(dict(task.settings))} {task.run} {task.seed}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
    with threadpool_limits(1):
        return work(task.settings, seed, data)


def _columns(figure: Figure) -> list[str]:
    return ["panel", *figure.keys, "run", "seed", *(method.label for method in figure.methods)]


def _line(figure: Figure, task: Task, values: Mapping[str, float]) -> str:
    """Return one line, with an end that tells that it is whole."""
    settings = [
        json.dumps(task.settings[key]) if key in task.settings else "" for key in figure.keys
    ]
    numbers = [_text(values.get(method.name)) for method in figure.methods]
    return _csv([task.panel, *settings, task.run, task.seed, *numbers])


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")


def _text(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)


def _csv(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _read(figure: Figure, path: Path) -> dict[tuple[str, ...], Mapping[str, float]]:
    """Return the runs that a file holds, by key; the file then ends with a whole line."""
    header = _csv(_columns(figure))
    text = read_regular(path).decode("utf-8", "replace") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole and not whole.startswith(header):
        raise InvalidDataError(
            f"{path} was written for other methods or settings: remove it, or choose another folder"
        )
    try:
        found = _parsed(figure, whole)
    except (csv.Error, KeyError, RecursionError, StopIteration, TypeError, ValueError):
        raise InvalidDataError(f"{path} holds other things than runs: remove it") from None
    if whole != text or not whole:
        path.write_text(whole or header, "utf-8")
    return found


def _parsed(figure: Figure, text: str) -> dict[tuple[str, ...], Mapping[str, float]]:
    """Return the runs that lines hold, by key."""
    names = {method.label: method.name for method in figure.methods}
    found: dict[tuple[str, ...], Mapping[str, float]] = {}
    for row in csv.DictReader(io.StringIO(text), strict=True):
        if None in row or None in row.values():  # more or fewer cells than columns
            raise ValueError
        settings = {key: json.loads(row[key]) for key in figure.keys if row[key]}
        key = (row["panel"], json.dumps(_ordered(figure, row["panel"], settings)))
        values = {name: float(row[label]) for label, name in names.items() if row[label]}
        found[*key, row["run"], row["seed"]] = values
    return found


def _ordered(figure: Figure, panel: str, settings: Settings) -> Settings:
    """Return settings in the order in which a panel states them."""
    (order,) = (one.cells("paper")[0] for one in figure.panels if one.name == panel)
    return {key: settings[key] for key in order}
