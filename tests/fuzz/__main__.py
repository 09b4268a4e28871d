"""``python -m tests.fuzz``: run many cases, or show one."""

import argparse
import itertools
import os
import sys
import time
from collections import Counter

from tests.fuzz.engine import run
from tests.fuzz.kinds import KINDS, kind_of
from tests.fuzz.workers import results


def main() -> int:
    """Return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this one and show what goes in")
    parser.add_argument("--cases", type=int, default=100_000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--kind", choices=list(KINDS), help="cases of one kind only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    chosen = parser.parse_args()
    if chosen.case is not None:
        return min(1, len(run(chosen.seed, chosen.case, tell=print).findings))
    wanted = (n for n in itertools.count(chosen.first) if chosen.kind in (None, kind_of(n)))
    return _run(chosen.seed, list(itertools.islice(wanted, chosen.cases)), chosen.jobs)


def _run(seed: int, numbers: list[int], jobs: int) -> int:
    begun, done, findings = time.monotonic(), 0, 0
    kinds: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    for number, found in results(seed, numbers, jobs):
        done += 1
        kinds[found.kind] += 1
        codes.update(found.codes)
        for each in found.findings:
            findings += 1
            print(f"FINDING --seed {seed} --case {number} ({found.kind}): {each}\n", flush=True)
        if done % 1000 == 0:
            seconds = time.monotonic() - begun
            print(f"{done:,} cases, {findings} findings, {seconds:.0f} s", file=sys.stderr)
    print(f"{done:,} cases, {findings} findings, {time.monotonic() - begun:.0f} s, seed {seed}")
    print("kinds      ", ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items())))
    print("exit codes ", ", ".join(f"{code}: {count:,}" for code, count in sorted(codes.items())))
    return min(1, findings)


if __name__ == "__main__":
    sys.exit(main())
