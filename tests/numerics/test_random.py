import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics import SimulationSource, SystemSource

QUERY = np.arange(4)


@pytest.mark.system_noise
def test_system_words_are_uniform_bits():
    words = SystemSource().words(200_000)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=0).astype(int)
    # 64 binomial counts, sd 224: a deviation of 6 sd has probability below 64 * 2e-9.
    assert np.all(np.abs(ones - 100_000) < 6 * 224)


@pytest.mark.system_noise
def test_system_source_never_repeats_across_threads_and_copies():
    source, seen, lock = SystemSource(), [], threading.Lock()

    def draw():
        words = copy.deepcopy(source).words(4).tobytes()
        with lock:
            seen.append(words)

    threads = [threading.Thread(target=draw) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 16


def test_system_source_never_repeats_across_fork():
    if not hasattr(os, "fork"):
        pytest.skip("fork does not exist here")
    code = """
import os, sys
from eigenveil.numerics import SystemSource
source = SystemSource()
source.words(3)
for _ in range(4):
    if os.fork() == 0:
        sys.stdout.write(source.words(2).tobytes().hex() + chr(10))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
print(source.words(2).tobytes().hex())
"""
    lines = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(lines) == len(set(lines)) == 5


def test_a_simulation_is_reproducible_but_never_shares_noise():
    def noise(seed, query):
        return SimulationSource(seed).bound_to(query).words(8).tobytes()

    assert noise(1, QUERY) == noise(1, QUERY)
    assert noise(1, QUERY) != noise(2, QUERY)
    assert noise(1, QUERY) != noise(1, QUERY + 1)  # neighbouring tables
    source = SimulationSource(1)
    draws = {source.bound_to(QUERY).words(8).tobytes() for _ in range(5)}
    draws |= {copy.deepcopy(source).bound_to(QUERY).words(8).tobytes() for _ in range(5)}
    assert len(draws) == 10


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, None, np.random.default_rng(0)])
def test_only_integers_are_seeds(seed):
    with pytest.raises(InvalidParameterError, match="non-negative integer"):
        SimulationSource(seed)


def test_sources_say_what_they_are():
    assert not SystemSource().simulated
    assert SimulationSource(0).simulated
