"""Cases in processes of their own: one that dies, or takes all memory, is a finding."""

import multiprocessing
import resource
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection, wait

from threadpoolctl import threadpool_limits

from tests.fuzz.engine import Found, run
from tests.fuzz.kinds import kind_of

__all__ = ["results"]

_MEMORY = 8 << 30  # bytes of address space; whoever wants more is told that there is none
_SPAWN = multiprocessing.get_context("spawn")


def results(seed: int, numbers: list[int], jobs: int) -> Iterator[tuple[int, Found]]:
    """Yield every case with what was found, as they are done."""
    working: dict[Connection, list[int]] = {}  # what is left to a process, the next one first
    for i in range(jobs):
        _start(working, seed, numbers[i::jobs])
    while working:
        for ready in wait(list(working)):
            assert isinstance(ready, Connection)  # nothing else is waited for
            left = working[ready]
            try:
                found = ready.recv()
            except EOFError:
                del working[ready]
                if not left:
                    continue
                found = Found(kind_of(left[0]), ["its process died"], [])
                _start(working, seed, left[1:])
            yield left.pop(0), found


def _start(working: dict[Connection, list[int]], seed: int, numbers: list[int]) -> None:
    if numbers:
        here, there = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_work, args=(there, seed, numbers), daemon=True)
        process.start()
        there.close()
        working[here] = list(numbers)


def _work(pipe: Connection, seed: int, numbers: list[int]) -> None:
    threadpool_limits(1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    planner = import_module("eigenveil.planning.prediction")
    planner._predict = cache(planner._predict.__wrapped__)  # tables of few sizes, over and over
    for number in numbers:
        pipe.send(run(seed, number))
