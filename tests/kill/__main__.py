"""``python -m tests.kill``: kill processes until so many have died, and say what is wrong."""

import argparse
import itertools
import sys
import time
from typing import Any

from tests.kill.harness import stories
from tests.kill.scenarios import SCENARIOS

_MOST = 400  # stories after which a planted fault should have been found


def main() -> int:
    """Return 1 where something was found, or a planted fault was not."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--area", help="ledger, release, stream or federation")
    parser.add_argument("--scenario", help="one of an area, by its name")
    parser.add_argument("--faults", action="store_true", help="plant faults, which must be found")
    chosen = parser.parse_args()
    wanted = [
        each
        for each in SCENARIOS
        if chosen.area in (None, each.area) and chosen.scenario in (None, each.name)
    ]
    return _plant(wanted, chosen.seed) if chosen.faults else _run(wanted, chosen.kills, chosen.seed)


def _run(wanted: list[Any], kills: int, seed: int) -> int:
    begun, total, findings = time.monotonic(), 0, 0
    for place, scenario in enumerate(wanted):
        part = (kills - total) // (len(wanted) - place)
        killed = told = 0
        for story in stories(scenario, seed):
            killed, told = killed + story.kills, told + 1
            for finding in story.findings:
                findings += 1
                print(f"FINDING {scenario.name}, story {story.seed}: {finding}", flush=True)
            if killed >= part:
                break
        total += killed
        seconds = time.monotonic() - begun
        print(f"{scenario.name}: {killed:,} kills in {told:,} stories, {seconds:.0f} s", flush=True)
    print(f"{total:,} kills, {findings} findings, {time.monotonic() - begun:.0f} s, seed {seed}")
    return min(1, findings)


def _plant(wanted: list[Any], seed: int) -> int:
    missed = 0
    for scenario in wanted:
        for fault in scenario.faults:
            told = itertools.islice(stories(scenario, seed, fault), _MOST)
            found = next((story for story in told if story.findings), None)
            missed += found is None
            words = "NOT FOUND" if found is None else f"found: {found.findings[0]:.100}"
            print(f"{scenario.name}, {fault}: {words}", flush=True)
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main())
