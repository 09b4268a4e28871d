"""Property tests draw the same examples everywhere: no run depends on luck or on a cache."""

import signal

from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")

threadpool_limits(1)  # the suite runs in several processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
