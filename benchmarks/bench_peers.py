"""Components at the same pure epsilon: ours beside other libraries, on the same rows and bound.

Rows in the unit ball, centred; one of them may be replaced. Each peer lives in an environment of
its own, pinned by ``peers/NAME.txt``, in a folder of ``--environments``, which ``--install`` makes.
A cell has a time limit, and "did not finish" is a result; one that did not is not tried at larger
sizes. ``captured`` is the share of the variance of the best k directions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.decomposition import PCA

import eigenveil
from eigenveil import PrivatePCA
from side_by_side import machine, report

PEERS = Path(__file__).with_name("peers")
NAMES = ("diffprivlib", "opendp", "smartnoise-synth")
SIZES = ((2_000, 5), (2_000, 10), (10_000, 50), (10_000, 784))
K, EPSILON = 2, 1.0


def rows_of(n, d):
    """Rows with decaying variances, pulled into the unit ball."""
    rows = np.random.default_rng(0).standard_normal((n, d)) / np.arange(1, d + 1)
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    return rows - rows.mean(axis=0)


def captured(rows, components):
    """Share of the variance of the best directions."""
    best = np.linalg.eigvalsh(rows.T @ rows)[::-1][:K].sum()
    basis = np.linalg.qr(np.asarray(components).T)[0]
    return float(np.sum((rows @ basis) ** 2) / best)


def timed(fit):
    """The least of three times, and the last result."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        result = fit()
        found.append(time.perf_counter() - start)
    return min(found), result


def peer(name, folder, rows, limit):
    """What one peer did within the limit."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        return {"seconds": "not installed"}
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/rows.npy", rows)
        words = [name, f"{place}/rows.npy", str(K), str(EPSILON), f"{place}/out.npy"]
        try:
            done = subprocess.run(
                [str(python), str(PEERS / "worker.py"), *words],
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"seconds": "did not finish"}
        if done.returncode:
            return {"seconds": "failed"}
        found = json.loads(done.stdout.splitlines()[-1])
        return {**found, "captured": captured(rows, np.load(f"{place}/out.npy"))}


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
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a cell")
    chosen = parser.parse_args()
    if chosen.install:
        install(chosen.environments)
        return
    warnings.simplefilter("ignore")
    table, gave_up = [], set()
    for n, d in SIZES:
        rows = rows_of(n, d)
        cell = {"rows": n, "columns": d, "k": K, "epsilon": EPSILON}
        own, model = timed(
            lambda rows=rows: PrivatePCA(
                K, epsilon=EPSILON, row_norm=1.0, centring="none", random_state=0
            ).fit(rows)
        )
        plain, exact = timed(lambda rows=rows: PCA(K).fit(rows))
        sides = {
            "eigenveil": {
                "seconds": own,
                "version": eigenveil.__version__,
                "captured": captured(rows, model.components_),
            },
            "scikit-learn, not private": {
                "seconds": plain,
                "version": sklearn.__version__,
                "captured": captured(rows, exact.components_),
            },
        }
        for name in NAMES:
            if name in gave_up:
                sides[name] = {"seconds": "did not finish"}
                continue
            sides[name] = peer(name, chosen.environments, rows, chosen.limit)
            if sides[name]["seconds"] == "did not finish":
                gave_up.add(name)
        for name, found in sides.items():
            seconds = found["seconds"]
            ratio = seconds / own if isinstance(seconds, float) else ""
            row = {"library": name, "version": found.get("version", ""), **cell}
            row |= {"seconds": seconds, "times_ours": ratio, "captured": found.get("captured", "")}
            table.append(row)
            print(row, file=sys.stderr, flush=True)
    report("peers", table)
    report("machine", [machine()])


if __name__ == "__main__":
    main()
