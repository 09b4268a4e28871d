"""A slice of ``make kill``; by ``make audit`` the faults that it must find, too.

Processes of their own: they fork.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kill.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
KILLS = 13

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


def kill(*words):
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_killed_processes_lose_nothing_and_spend_nothing_twice():
    told = re.search(r"^([\d,]+) kills, 0 findings", kill("--kills", KILLS), re.MULTILINE)
    assert told is not None
    assert int(told[1].replace(",", "")) >= KILLS - len(SCENARIOS)


@pytest.mark.audit
def test_every_planted_fault_is_found():
    planted = {scenario.area for scenario in SCENARIOS if scenario.faults}
    assert planted == {scenario.area for scenario in SCENARIOS}
    told = kill("--faults")
    assert told.count(": found: ") == sum(len(scenario.faults) for scenario in SCENARIOS)
