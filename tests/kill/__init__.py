"""Processes killed before, in the middle of and after every change of a file; then what is left.

A story is a folder, and processes that do what a user would do there: each is killed, and the next
one goes on, until one comes to the end. `points` says where a process can die, `witness` what it
had drawn by then, and the scenarios what must hold after every death.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: threads do not survive a fork
os.environ.setdefault("OMP_NUM_THREADS", "1")
