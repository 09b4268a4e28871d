"""A real browser before a real studio; skipped with a reason where none is installed."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.browser.driving import Page, chromium, missing

ROWS = 4000
NAMES = ("age", "height", "weight", "pulse", "sodium", "urea")


def pytest_collection_modifyitems(items):
    why = missing()
    for item in items:
        if why and "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=why))


@contextmanager
def serving(folder, *words):
    """Start `eigenveil studio` in a folder, and yield the address that it prints."""
    command = [sys.executable, "-m", "eigenveil", "studio", "--no-browser", *words]
    server = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield server.stdout.readline().split()[1]
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()


@pytest.fixture
def folder(tmp_path):
    """A folder with a table that every release finds something in, whatever its noise.

    At 4,000 persons and an epsilon of 0.5 or more the searches of a release succeed but with a
    probability far below one in a million (`mechanisms/scalars/distances`).
    """
    place = tmp_path / "clinic"
    place.mkdir()
    rng = np.random.default_rng(5)
    rows = np.round(rng.standard_normal((ROWS, 6)) @ np.diag([9, 7, 5, 1, 1, 1]) + 60, 2)
    with (place / "sample.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient_id", "ward", *NAMES])
        writer.writerows([i, "north", *row] for i, row in enumerate(rows.tolist()))
    return place


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all journeys."""
    profile = tmp_path_factory.mktemp("profile")
    with chromium(profile) as driver:
        yield driver
    for _ in range(20):  # it may still be writing
        shutil.rmtree(profile, ignore_errors=True)
        if not profile.exists():
            break
        time.sleep(0.1)


@pytest.fixture
def page(browser, folder):
    """The studio, just opened on the sample table."""
    with serving(folder, "sample.csv") as address:
        page = Page(browser, address)
        page.open()
        yield page
        page.close_others()
