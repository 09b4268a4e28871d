"""Interleaved timing of two sides in one process, a table on the screen and a CSV on disk."""

import csv
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def interleave(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every side in turn, so that a busy moment hits all of them; one warm-up each."""
    for side in sides.values():
        side()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    return times


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over repeats of the ratio within each repeat."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def report(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows and keep them as ``results/NAME.csv``."""
    keep(name, rows)
    columns = list(rows[0])
    shown = [[_text(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(columns, *shown, strict=True)]
    print(f"\n{name}")
    for line in [columns, *shown]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def keep(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as ``results/NAME.csv``."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def say(words: str, value: float, limit: float | None = None, where: str = "") -> None:
    """Print a figure, what is wanted of it at most, and whether it is missed."""
    wanted = "" if limit is None else f"; wanted: {limit:g} at most"
    missed = " MISSED" if limit is not None and not value <= limit else ""
    print(f"{words}: {value:.3g}{wanted}{missed}{f' ({where})' if where else ''}")


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def machine() -> dict[str, Any]:
    """Date, processor and versions, to stand beside a table."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        processor = names[0] if names else processor
    packages = ("numpy", "scipy", "scikit-learn", "pyarrow", "dask")
    return {
        "date": date.today().isoformat(),
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
