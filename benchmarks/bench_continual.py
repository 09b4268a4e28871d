"""Noise, time and memory of running covariances: a fresh matrix every day of a horizon.

Noise: days of no rows at all, so that what is released is noise alone; the root mean square of its
entries, in units of the isotropic scale, against that of one release of the same budget, both in
one process, and against the stated law. Time and memory: one process for each day, as a scheduled
job has it, with a state on disk; the largest resident set of that process.

    python benchmarks/bench_continual.py [--columns 200] [--runs 5]
"""

import argparse
import math
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import ContinualCovariance
from eigenveil.estimators import DailyProgress, State
from eigenveil.exact import Clip, DailyMoments, day_sensitivity, packed, second_moment, unpacked
from eigenveil.mechanisms import ContinualCov, DailyGate, GaussCov, release
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows
from side_by_side import report

MU, HORIZON = 0.25, 365
SHOWN = (1, 7, 30, 90, 180, 365)
REPLACE = Adjacency.REPLACE_ONE


def size(matrix):
    """Estimate the isotropic scale of noise."""
    d = len(matrix)
    return float((matrix**2).sum()) / (d * (d + 1) / 2)


def noise(d, runs):
    plan, clip = ContinualCov(mu=MU, horizon=HORIZON), Clip(row_norm=1.0)
    nobody = open_rows(np.empty((0, d)))
    squares, single = dict.fromkeys(SHOWN, 0.0), 0.0
    for seed in range(runs):
        gate = DailyGate(
            plan.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(seed)
        )
        moments, drawn = DailyMoments.none(d), []
        for day in range(1, HORIZON + 1):
            moments = moments.and_then(nobody, clip)
            drawn.append(packed(plan.draw(moments, gate).matrix))
            if day in SHOWN:
                squares[day] += size(unpacked(plan.weights(day) @ np.array(drawn)))
        origin = second_moment(open_rows(np.zeros((1, d))), clip, REPLACE)
        alone = release(GaussCov(mu=MU), origin, ledger=None, noise=SimulationSource(1000 + seed))
        single += size(alone.matrix)
    for day in SHOWN:
        measured = math.sqrt(squares[day] / runs)
        stated = plan.noise(day) * day_sensitivity(d, REPLACE)
        yield {
            "columns": d,
            "horizon": HORIZON,
            "day": day,
            "measured": measured,
            "stated": stated,
            "measured_over_stated": measured / stated,
            "single_release": math.sqrt(single / runs),
            "over_single": measured / math.sqrt(single / runs),
        }


def one_day(state, number, d, rows, pipe):
    days = ContinualCovariance(
        horizon=HORIZON, epsilon=1.0, delta=1e-6, row_norm=2 * math.sqrt(d), state=state
    )
    start = time.perf_counter()
    days.partial_fit(rows, batch=f"day {number}")
    seconds = time.perf_counter() - start
    pipe.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def costs(d, n):
    """Time and memory of a day's process, early and late in the horizon."""
    random, processes = np.random.default_rng(0), multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        for day in (1, 2, 30, 180, 365):
            if path.exists():  # the days between, without their processes
                state = State.load(path, DailyProgress)
                days = state.progress
                missing = day - 1 - days.days
                days.sums = np.vstack([days.sums, np.tile(days.sums[-1], (missing, 1))])
                days.drawn = np.vstack([days.drawn, np.tile(days.drawn[-1], (missing, 1))])
                days.attempts += missing
                state.save()
                del state, days
            here, there = processes.Pipe()
            job = processes.Process(
                target=one_day, args=(path, day, d, random.standard_normal((n, d)), there)
            )
            job.start()
            seconds, megabytes = here.recv()
            job.join()
            yield {
                "columns": d,
                "rows_a_day": n,
                "day": day,
                "seconds": seconds,
                "peak_mb": megabytes,
                "state_mb": path.stat().st_size / 2**20,
            }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with threadpool_limits(1):
        report("continual", list(noise(20, given.runs)))
        report("continual_costs", list(costs(given.columns, 2000)))


if __name__ == "__main__":
    main()
