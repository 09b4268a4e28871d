"""Exact Gram matrix against row clipping plus a plain float64 product. Wanted: ratio <= 1.5."""

import statistics

import numpy as np

from eigenveil.exact import Clip, second_moment
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows
from side_by_side import interleave, median_ratio, report

REPEATS = 15


def plain(rows, norm):
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    clipped = rows * np.minimum(1.0, norm / lengths)[:, None]
    return clipped.T @ clipped


def main():
    results = []
    for n, d in ((100_000, 200), (20_000, 1000)):
        rows = np.random.default_rng(0).standard_normal((n, d))
        norm = float(np.sqrt(d))
        clip = Clip(row_norm=norm)
        centred = Clip(
            row_norm=norm, centre=np.full(d, 0.1), box=(np.full(d, -9.0), np.full(d, 9.0))
        )
        times = interleave(
            {
                "plain": lambda rows=rows, norm=norm: plain(rows, norm),
                "exact": lambda rows=rows, clip=clip: second_moment(
                    open_rows(rows), clip, Adjacency.REPLACE_ONE
                ),
                "exact, centre and box": lambda rows=rows, clip=centred: second_moment(
                    open_rows(rows), clip, Adjacency.REPLACE_ONE
                ),
            },
            REPEATS,
        )
        for name in ("exact", "exact, centre and box"):
            results.append(
                {
                    "rows": n,
                    "columns": d,
                    "side": name,
                    "plain_s": statistics.median(times["plain"]),
                    "exact_s": statistics.median(times[name]),
                    "ratio": median_ratio(times[name], times["plain"]),
                }
            )
    report("gram", results)


if __name__ == "__main__":
    main()
