"""Faults of privacy, planted as small changes of the source, each of which the tests must notice.

``make faults`` plants them one after the other in a copy of ``src`` and runs the tests that are
named for each: some of ``make test``, so that what is caught here is caught there.
"""
