"""Seconds of one-pass Oja against two matrix products with each batch, in one process, in turn.

Wanted: at least half the throughput of X Q and X'(X Q) on the same batches, so a ratio of at most
2, at 1000 columns and k = 10, both of products with the basis at its widest, 4k + 20 columns, and
with k columns alone. Oja's basis narrows to k columns once it has settled, before the last batch,
which has two thirds of the rows, where directions are strong; it stays wide where they are faint.
The products read the rows twice, clip nothing and add no noise.
One thread: two threads of a BLAS wait for each other many times in a thin product, which on a
machine that is busy with other work says little about either side.
"""

import os
import statistics

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.exact import Clip
from eigenveil.mechanisms import Gate, Oja
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.rows import open_rows
from side_by_side import interleave, median_ratio, report
from tables import tick

# Rows, columns, components, variance of a strong direction over that of others.
CELLS = [(40_000, 1000, 10, 100.0), (40_000, 1000, 10, 10.0), (100_000, 200, 5, 10.0)]
REPEATS = 9
MU = 1.0
WANTED = 2.0


def table(n, d, k, signal):
    """Noise of variance 1 and k strong directions."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((d, k)))[0]
    rows = rng.standard_normal((n, d))
    rows += np.sqrt(signal - 1) * rng.standard_normal((n, k)) @ basis.T
    return rows


def private(rows, k):
    procedure = Oja(strength=Gaussian(MU), n_components=k)
    gate = Gate(
        procedure.cost(),
        label=procedure.name,
        adjacency=Adjacency.REPLACE_ONE,
        ledger=None,
        noise=SimulationSource(0),
    )
    return procedure.run(open_rows(rows), Clip(row_norm=1.0, normalise=True), gate)


def products(rows, k, width):
    """The same batches, each times a basis and back."""
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((rows.shape[1], width)))[0]
    first = 0
    for size in Oja(strength=Gaussian(MU), n_components=k).sizes(*rows.shape):
        batch = rows[first : first + size]
        first += size
        basis = np.linalg.qr(batch.T @ (batch @ basis))[0]
    return basis


def measured():
    for n, d, k, signal in CELLS:
        rows = table(n, d, k, signal)
        width = Oja(strength=Gaussian(MU), n_components=k).width(d)
        sides = {
            "products": lambda rows=rows, k=k, width=width: products(rows, k, width),
            "products with k columns": lambda rows=rows, k=k: products(rows, k, k),
            "oja": lambda rows=rows, k=k: private(rows, k),
        }
        times = interleave(sides, REPEATS)
        for name, columns in (("products", width), ("products with k columns", k)):
            ratio = median_ratio(times["oja"], times[name])
            yield {
                "rows": n,
                "columns": d,
                "k": k,
                "signal": signal,
                "against": name,
                "basis columns": columns,
                "oja_s": statistics.median(times["oja"]),
                "products_s": statistics.median(times[name]),
                "ratio": ratio,
                "wanted": WANTED,
                "met": ratio <= WANTED,
                "load": round(os.getloadavg()[0], 1),
            }
        tick()


if __name__ == "__main__":
    with threadpool_limits(1):
        report("one_pass_time", list(measured()))
