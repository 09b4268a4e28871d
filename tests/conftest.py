"""Property tests draw the same examples everywhere: no run depends on luck or on a cache."""

from hypothesis import settings

settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")
