"""The toy's runs, slow enough to be interrupted."""

import time

from tests.reproduce import test_runner


def work(at, seed, data):
    time.sleep(0.15)
    return test_runner.work(at, seed, data)
