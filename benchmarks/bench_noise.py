"""Lattice noise on a 2000 x 2000 symmetric matrix, in samples a second on one core.

Wanted: at least 4 million. Beside it numpy's float64 normals (attackable), for orientation.
"""

import statistics

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.exact import LAPLACE, add_noise, add_symmetric_gaussian, grid_exponent
from eigenveil.numerics import FixedPoint, SystemSource
from side_by_side import interleave, report

D, SIGMA, REPEATS = 2000, 6.9, 11
SAMPLES = D * (D + 1) // 2


def main():
    query = FixedPoint(np.zeros((D, D), dtype=np.int64), -36)
    flat = FixedPoint(np.zeros(SAMPLES, dtype=np.int64), -36)
    floats = np.random.default_rng(0)
    source = SystemSource()
    with threadpool_limits(1):
        times = interleave(
            {
                "lattice Gaussian, symmetric matrix": lambda: add_symmetric_gaussian(
                    query, SIGMA, source
                ),
                "lattice Laplace, vector": lambda: add_noise(
                    flat, SIGMA, source, law=LAPLACE, grid=grid_exponent(SIGMA, -36)
                ),
                "float64 normals, vector (not private)": lambda: floats.standard_normal(SAMPLES),
            },
            REPEATS,
        )
    report(
        "noise",
        [
            {
                "side": name,
                "samples": SAMPLES,
                "median_s": statistics.median(seconds),
                "million_per_s": SAMPLES / statistics.median(seconds) / 1e6,
            }
            for name, seconds in times.items()
        ],
    )


if __name__ == "__main__":
    main()
