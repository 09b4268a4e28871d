"""Components at the same pure epsilon: ours beside other libraries, on the same rows and bound.

Tables of random rows in the unit ball, centred, of growing width; the digits as they are; and
breast cancer, whose columns have very different units. For all sides these are divided by the
ranges of `eigenveil demo`, round numbers that were not taken from the rows. Peers are told ranges
of the columns and a bound on the length of rows, eigenveil no more than these divisors. The last
table is the same without them: eigenveil is asked for private scales and refuses, peers have no
ranges to be told. One row may be replaced. Each peer lives in an environment of its own,
pinned by ``peers/NAME.txt``, in a folder of ``--environments``, which ``--install`` makes. A cell
has a limit of processor time for all its repeats, and "did not finish" is a result; a peer that did
not is not tried at larger sizes. At delta = 1e-6, our usual promise, stands what Kim, Jung 2025
print and the R package dppca has, from their description. ``captured`` is the share of the variance
of the best k directions: a mean over repeats. Seconds are those of one core.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import eigenveil
from eigenveil import PrivatePCA
from eigenveil.cli.demo import _tables
from eigenveil.exceptions import EigenveilError
from eigenveil.numerics import captured_variance
from kim_jung import all_pairs, kim_jung
from side_by_side import machine, report

PEERS = Path(__file__).with_name("peers")
NAMES = ("diffprivlib", "opendp", "smartnoise-synth")
SIZES = ((2_000, 5), (2_000, 10), (10_000, 50), (10_000, 784))
EPSILON, DELTA = 1.0, 1e-6
MOST_PAIRS = 4_000  # rows of which all pairs are taken


@dataclass(frozen=True, eq=False)
class Cell:
    """Rows, and what sides are told of them."""

    name: str
    rows: np.ndarray
    k: int
    row_norm: float
    repeats: int
    half: float = 0.0  # of the range of every column, from zero on; none where rows are centred
    scale: str | None = None  # what eigenveil is asked for where no ranges are public

    @property
    def ranges(self):
        """Ranges of columns about their middle."""
        return (-self.half, self.half) if self.half else None

    @property
    def told(self):
        """What eigenveil is told: nothing, unless rows are centred in a unit ball."""
        if self.scale is not None:
            return {"scale": self.scale}
        return {} if self.ranges else {"row_norm": self.row_norm, "centring": "none"}


def cells():
    """Random tables of growing width, then real ones."""
    for n, d in SIZES:
        rows = np.random.default_rng(0).standard_normal((n, d)) / np.arange(1, d + 1)
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
        yield Cell(f"random, {n:,} x {d}", rows - rows.mean(axis=0), 2, 1.0, 5)
    digits, cancer = _tables()
    for name, rows, top, k in (
        ("breast cancer in public ranges, 569 x 30", cancer.rows, 1.0, 3),
        ("digits, 1,797 x 64", digits.rows, 16.0, 5),
    ):
        half = top / 2
        yield Cell(name, rows, k, half * np.sqrt(rows.shape[1]), 20, half)
    raw = load_breast_cancer().data
    yield Cell("breast cancer, no ranges, 569 x 30", raw, 3, 0.0, 20, scale="private")


def captured(cell, components):
    """Share of the variance of the best directions."""
    basis = np.linalg.qr(np.asarray(components).T)[0].T
    return captured_variance(basis, np.cov(cell.rows.T, bias=True))


def here(cell, fit, version):
    """What a side does in this process."""
    seconds, found = [], []
    for seed in range(cell.repeats):
        start = time.process_time()
        try:
            components = fit(seed).components_
        except EigenveilError:
            return {"version": version, "seconds": "refused"}
        seconds.append(time.process_time() - start)
        found.append(captured(cell, components))
    return {"version": version, "seconds": statistics.median(seconds), **spread(found)}


def spread(found):
    """Mean of shares, and its standard error."""
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
    return {"captured": float(np.mean(found)), "standard error": float(error)}


def ours(cell, seed, **delta):
    """Our default fit."""
    return PrivatePCA(cell.k, epsilon=EPSILON, random_state=seed, **delta, **cell.told).fit(
        cell.rows
    )


def printed(cell, seed):
    """What Kim, Jung 2025 print, with the mean of all pairs of rows that it starts from."""
    pairs, noise = all_pairs(cell.rows), np.random.default_rng(seed)
    components = kim_jung(pairs, len(cell.rows), cell.k, EPSILON, DELTA, noise)[: cell.k]
    return SimpleNamespace(components_=components)


def peer(name, folder, cell, limit):
    """What one peer did within the limit."""
    if cell.scale is not None:
        return {"seconds": "needs ranges"}
    python = folder / name / "bin" / "python"
    if not python.exists():
        return {"seconds": "not installed"}
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/rows.npy", cell.rows - cell.half)  # about the middle of their ranges
        settings = {"rows": f"{place}/rows.npy", "out": f"{place}/out.npy", "k": cell.k}
        settings |= {"epsilon": EPSILON, "row_norm": cell.row_norm, "ranges": cell.ranges}
        told = Path(place, "settings.json")
        told.write_text(json.dumps({**settings, "repeats": cell.repeats}), "utf-8")
        done = subprocess.run(
            [str(python), str(PEERS / "worker.py"), name, str(told), str(limit)],
            env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"seconds": "did not finish"}
        if done.returncode:
            return {"seconds": "failed"}
        found = [captured(cell, each) for each in np.load(f"{place}/out.npy")]
        return {**json.loads(done.stdout.splitlines()[-1]), **spread(found)}


def install(folder):
    """Environments as they are pinned."""
    for name in NAMES:
        venv.create(folder / name, with_pip=True)
        pip = [str(folder / name / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--requirement", str(PEERS / f"{name}.txt")], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--install", action="store_true", help="make environments, no more")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a cell")
    chosen = parser.parse_args()
    if chosen.install:
        install(chosen.environments)
        return
    warnings.simplefilter("ignore")
    table, gave_up, real = [], set(), False
    for cell in cells():
        version = eigenveil.__version__
        sides = {
            "eigenveil": here(cell, partial(ours, cell), version),
            "eigenveil, delta = 1e-6": here(cell, partial(ours, cell, delta=DELTA), version),
        }
        if cell.scale is None:
            sides["scikit-learn, not private"] = here(
                cell, lambda seed, cell=cell: PCA(cell.k).fit(cell.rows), sklearn.__version__
            )
        if len(cell.rows) <= MOST_PAIRS and cell.scale is None:
            name = "Kim, Jung 2025, as in R dppca, delta = 1e-6"
            sides[name] = here(cell, partial(printed, cell), "")
        if cell.ranges and not real:
            gave_up.clear()  # another kind of table
            real = True
        for name in NAMES:
            sides[name] = {"seconds": "did not finish"}
            if name not in gave_up or cell.scale is not None:
                sides[name] = peer(name, chosen.environments, cell, chosen.limit)
            if sides[name]["seconds"] == "did not finish":
                gave_up.add(name)
        for name, found in sides.items():
            seconds = found["seconds"]
            own = sides["eigenveil"]["seconds"]
            measured = isinstance(seconds, float) and isinstance(own, float)
            ratio = seconds / own if measured else ""
            row = {"library": name, "version": found.get("version", ""), "table": cell.name}
            row |= {"k": cell.k, "repeats": cell.repeats, "seconds": seconds, "times_ours": ratio}
            table.append(row | {key: found.get(key, "") for key in ("captured", "standard error")})
            print(table[-1], file=sys.stderr, flush=True)
    report("peers", table)
    report("machine", [machine()])


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
