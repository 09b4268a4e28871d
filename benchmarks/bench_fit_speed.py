"""Default fits of this tree beside those of an older commit.

The older tree is taken out of the repository (``git archive``) and imported by a process of its
own, as is this one. Both stay alive and fit in turns; a fit is timed inside its process. Compared
are seconds of the processor, which other programs on the machine hardly stretch. Wanted: ratios of
about 1 where both run the same mechanism: what ``"auto"`` chooses may have become another one,
which costs what it costs. Standardised components may take twice the time of components in private
scales, which they replaced. ``--commit`` names the older tree, ``--repeats`` how often a side fits.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from side_by_side import median_ratio, report

ROOT = Path(__file__).parents[1]
BEFORE = "9c1039b"  # the last commit before the ground floor was rebuilt
BEFORE_STANDARDISED = "bf68ee3"  # the last commit before components were standardised
SIZES = ((3000, 10), (10_000, 20), (10_000, 50), (10_000, 100), (30_000, 200), (100_000, 50))
STANDARDISED = {
    f"standardised components, {n:,} x {d}": (
        f"PrivatePCA(3, epsilon=1.0, delta=1e-6, scale='private')|{n}|{d}"
    )
    for n, d in SIZES
}
JOBS = {
    "components, 1,000 x 10": "PrivatePCA(3, epsilon=1.0, delta=1e-6)|1000|10",
    "components, 2,000 x 64": "PrivatePCA(5, epsilon=1.0, delta=1e-6)|2000|64",
    "components, 20,000 x 100": "PrivatePCA(5, epsilon=1.0, delta=1e-6)|20000|100",
    "covariance, 20,000 x 100": "PrivateCovariance(rho=0.1, row_norm=12.0)|20000|100",
    "covariance, cleaned, 20,000 x 100": (
        "PrivateCovariance(rho=0.1, row_norm=12.0, mechanism='cleaned')|20000|100"
    ),
    "components, spherical, 2,000 x 64": (
        "PrivatePCA(5, epsilon=1.0, delta=1e-6, mechanism='spherical')|2000|64"
    ),
    "pure components, 2,000 x 20": "PrivatePCA(3, epsilon=2.0)|2000|20",
}
WORKER = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from eigenveil import PrivateCovariance, PrivatePCA
for line in sys.stdin:
    model, n, d = line.strip().split("|")
    d = int(d)
    rows = np.random.default_rng(0).standard_normal((int(n), d)) / np.sqrt(np.arange(1, d + 1)) + 1
    fit = eval(model).fit
    start, cpu = time.perf_counter(), time.process_time()
    fit(rows)
    print(time.process_time() - cpu, time.perf_counter() - start, flush=True)
"""


def worker(source):
    """A process that fits with the package in ``source``."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    return subprocess.Popen(
        [sys.executable, "-c", WORKER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def seconds(process, job):
    """Seconds of the processor, and on the clock, of one fit."""
    process.stdin.write(f"{job}\n")
    process.stdin.flush()
    return tuple(map(float, process.stdout.readline().split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit")
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    rows = []
    for commit, jobs in ((BEFORE, JOBS), (BEFORE_STANDARDISED, STANDARDISED)):
        rows += timed(chosen.commit or commit, jobs, chosen.repeats)
    report("fit_speed", rows)


def timed(commit, jobs, repeats):
    """Rows of the table: fits of this tree beside those of another commit."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        before_source = Path(folder) / "src"
        data = before_source / "eigenveil" / "data"
        if (data / "build_rows.py").exists():
            build = "import build_rows; build_rows.build()"
            subprocess.run([sys.executable, "-c", build], cwd=data, check=True)
        with worker(ROOT / "src") as now, worker(before_source) as before:
            for name, job in jobs.items():
                times = {"now": [], "before": []}
                for turn in range(-1, repeats):  # the first warms up
                    sides = [("now", now), ("before", before)]
                    for side, process in sides if turn % 2 else sides[::-1]:
                        found = seconds(process, job)
                        if turn >= 0:
                            times[side].append(found[0])
                rows.append(
                    {
                        "fit": name,
                        "commit": commit,
                        "before_ms": 1000 * sorted(times["before"])[repeats // 2],
                        "now_ms": 1000 * sorted(times["now"])[repeats // 2],
                        "ratio": median_ratio(times["now"], times["before"]),
                        "ratio_of_least": min(times["now"]) / min(times["before"]),
                        "repeats": repeats,
                    }
                )
            now.stdin.close()
            before.stdin.close()
    return rows


if __name__ == "__main__":
    main()
