"""No run depends on luck: property tests draw the same examples everywhere, and every test the
same system noise.

Releases draw from the operating system. In tests each item, and each fixture that items share,
gets a stream of its own in place of it, seeded by its name and by ``--noise-seed``: another seed
is another run of the whole suite. Marked ``system_noise`` or ``audit``, a test draws for real.
So do processes that a test starts, unless they are forks.
"""

import hashlib
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from eigenveil.numerics import SystemSource

settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")

threadpool_limits(1)  # the suite runs in several processes
# A background job of a shell ignores the one, a job that outlives its terminal the other.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--noise-seed", type=int, default=0, help="which system noise tests draw (default: 0)"
    )


@contextmanager
def _noise_of(name, config):
    """Draw the system's noise from a stream of this name."""
    seed = hashlib.sha256(f"{config.getoption('--noise-seed')} {name}".encode()).digest()
    bits = np.random.Philox(np.random.SeedSequence(int.from_bytes(seed, "big")))

    def words(self, count):
        return np.asarray(bits.random_raw(count), dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemSource, "words", words)
        yield


@pytest.fixture(autouse=True)
def seeded_system_noise(request):
    """Noise of one test."""
    if any(request.node.get_closest_marker(name) for name in ("audit", "system_noise")):
        yield
        return
    with _noise_of(request.node.nodeid, request.config):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Noise of a fixture that several tests share: the same whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    name = f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"
    with _noise_of(name, request.config):
        return (yield)
