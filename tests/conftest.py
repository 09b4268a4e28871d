"""Property tests draw the same examples everywhere: no run depends on luck or on a cache."""

from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")

threadpool_limits(1)  # the suite runs in several processes
