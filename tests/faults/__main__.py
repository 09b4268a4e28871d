"""``python -m tests.faults``: plant each fault in a copy of the source, and see who notices."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.planted import FAULTS, SOURCE

_FAILED = 1  # what pytest returns where tests ran and some failed


def main() -> int:
    """Return 1 where a fault was not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="faults whose names hold these words")
    chosen = parser.parse_args()
    wanted = [fault for fault in FAULTS if chosen.only in fault.name]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        missed = [
            fault.name
            for fault, told in zip(wanted, pool.map(_seen, wanted), strict=True)
            if not told
        ]
    print(f"{len(wanted)} faults, {len(missed)} missed", *missed, sep="\n  ")
    return min(1, len(missed))


def _seen(fault) -> bool:
    """Whether the tests named for a fault fail with it."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "src", SOURCE.name)
        # Without the compiled passes over rows, beside which those of numpy would be idle.
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "rows-*.so"))
        place = copy / fault.file
        place.write_text(fault.planted(place.read_text("utf-8")), "utf-8")
        words = ["-p", "no:cacheprovider", "-n", "0", "-x", "-q", "-rf", "--tb=no", *fault.tests]
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=SOURCE.parents[1],
            env={**os.environ, "PYTHONPATH": str(copy.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
    said = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    seen = ran.returncode == _FAILED
    word = "caught" if seen else f"MISSED (pytest returned {ran.returncode})"
    by = f" by {said[0].split(' - ')[0].removeprefix('FAILED ')}" if seen else ""
    print(f"{fault.name}: {word}{by}, {time.monotonic() - begun:.0f} s", flush=True)
    return seen


if __name__ == "__main__":
    sys.exit(main())
