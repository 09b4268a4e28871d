"""Private scales of columns: how many lie within a factor of 2, before and now.

Before: counts by powers of two, a false alarm once in a million times, 0.02 to 0.25 of the budget,
and one scale for all columns whose own did not stand out. Both sides see the same tables and pairs,
in one process, at delta = 1e-6. Columns have random units and means of 50 units. "normal" tables
have normal columns; "mixed" ones have, in turn, normal, exponential and lognormal columns, a fair
coin, a column of which one in ten is 1, and a normal column with one value of a billion units.
Persons have one to three rows each; n counts them.

"good" is the share of columns whose scale lies within a factor of 2 of the size it is to have,
"out" that of columns left out, and "wrong" that of columns with another scale. The size is the
standard deviation of a normal column, the step of a column of 0 and 1, and of others what a normal
column with the same median difference would have. "refused": public numbers ruled the run out.

    python benchmarks/bench_scales.py [--draws 20]
"""

import argparse
import math

import numpy as np
from scipy.special import ndtri

from eigenveil.data import Clip, column_counts
from eigenveil.data.norms import _entry_exponents
from eigenveil.data.sources import ArraySource, GroupedSource, paired
from eigenveil.mechanisms import ColumnScale, GaussianNoise
from eigenveil.mechanisms.scalars.column_scale import enough_for_scales, scale_share
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Gaussian
from side_by_side import report

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=1e50)
LOWEST, OCTAVES = -166, 333
WHAT = ("good", "out", "wrong")
NORMAL_MEDIAN = 0.4769  # of half differences of a normal column, in standard deviations


def column(kind, n, rng):
    """Values of a column, and the size that its scale is to have; None for its median."""
    match kind:
        case "normal":
            return rng.normal(size=n), 1.0
        case "exponential":
            return rng.exponential(size=n), None
        case "lognormal":
            return rng.lognormal(size=n), None
        case "coin":
            return (rng.random(n) < 0.5) * 1.0, 1.0
        case "flag":
            return (rng.random(n) < 0.1) * 1.0, 1.0
    values = rng.normal(size=n)
    values[0] = 1e9
    return values, 1.0


KINDS = {
    "normal": ("normal",),
    "mixed": ("normal", "exponential", "lognormal", "coin", "flag", "outlier"),
}


def table(name, n, d, persons, rng):
    """Pairs of rows, or of persons, and the sizes that scales are to have."""
    ids = np.repeat(np.arange(n), rng.integers(1, 4, n) if persons else 1)
    rows, sizes = np.empty((ids.size, d)), np.empty(d)
    for j in range(d):
        values, size = column(KINDS[name][j % len(KINDS[name])], ids.size, rng)
        if size is None:
            half = np.abs(np.diff(rng.permutation(values)[: ids.size // 2 * 2].reshape(-1, 2))) / 2
            size = float(np.median(half)) / NORMAL_MEDIAN
        unit = 10 ** rng.uniform(-3, 5)
        rows[:, j], sizes[j] = unit * (values + 50), unit * size
    source = GroupedSource(ArraySource(rows), ids) if persons else ArraySource(rows)
    return paired(source, REPLACE, rng.permutation), sizes


def octave_counts(pairs):
    """Return pairs by powers of two, for each column."""
    counts = np.zeros((pairs.n_columns, OCTAVES))
    for octaves, seen in _entry_exponents(pairs, CLIP):
        for j in range(pairs.n_columns):
            counts[j] += np.bincount(octaves[seen[:, j], j] - LOWEST, minlength=OCTAVES)
    return counts


def former_scales(counts, mu, rng):
    """Return the scales of octaves that stand out; one for all others together."""
    d = len(counts)
    deviation = math.sqrt(2 * d) / mu
    noisy = (counts + deviation * rng.standard_normal(counts.shape))[:, :-1]
    limit = -float(ndtri(1e-6 / ((d + 1) * 3 * (OCTAVES - 1)))) * deviation
    scales = np.array([former_peak(column, limit) for column in noisy])
    without = np.isinf(scales)
    if without.any():
        scales[without] = former_peak(noisy[without].sum(axis=0), limit * math.sqrt(without.sum()))
    return scales


def former_peak(counts, limit):
    best, place = 1.0, None
    sums = np.append(0.0, np.cumsum(counts))
    for width in (1, 2, 3):
        runs = (sums[width:] - sums[:-width]) / (limit * math.sqrt(width))
        run = int(np.argmax(runs))
        if runs[run] > best:
            best, place = runs[run], run + int(np.argmax(counts[run : run + width]))
    if place is None:
        return math.inf
    near = np.arange(max(0, place - 2), min(place + 3, counts.size))
    weights = np.maximum(counts[near], 0.0)
    return 2.0 ** (1 + weights @ (near + LOWEST - 0.5) / weights.sum())


def former_share(mu, n, d):
    return min(0.25, max(0.02, (30 * math.sqrt(2 * d) / (mu * n)) ** 2))


def judged(scales, sizes):
    """Return the shares of columns that are good, left out and wrong."""
    scales = np.array(scales)
    out = np.isinf(scales)
    good = ~out & (np.abs(np.log2(np.where(out, 1.0, scales) / sizes)) <= 1)
    return float(good.mean()), float(out.mean()), float((~good & ~out).mean())


def measured(name, n, d, epsilon, persons, draws):
    """One row of the table: both sides on the same pairs."""
    rng = np.random.default_rng([n, d, int(10 * epsilon), persons])
    pairs, sizes = table(name, n, d, persons, rng)
    mu = whole_strength(Budget(epsilon=epsilon, delta=1e-6), pure=False)
    share, before = scale_share(Gaussian(mu), n, d), former_share(mu, n, d)
    rows_each = n * mu * math.sqrt(before / (2 * d))
    counts, octaves = column_counts(pairs, CLIP, REPLACE), octave_counts(pairs)
    mechanism = ColumnScale(noise=GaussianNoise(mu=mu * math.sqrt(share)))
    now = [mechanism.perturb(counts, SimulationSource(seed)) for seed in range(draws)]
    then = [former_scales(octaves, mu * math.sqrt(before), rng) for _ in range(draws)]
    cell = {"columns": name, "persons": int(persons), "n": n, "d": d, "epsilon": epsilon}
    for side, part, refused, scales in (
        ("before", before, rows_each * math.sqrt(d) < 24, then),
        ("now", share, not enough_for_scales(Gaussian(mu), n, d), now),
    ):
        cell |= {f"{side} share": round(part, 4), f"{side} refused": int(refused)}
        for what, number in zip(WHAT, judged(scales, sizes), strict=True):
            cell[f"{side} {what}"] = round(number, 4)
    return cell


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args().draws
    cells = [
        measured(name, n, d, epsilon, persons, draws)
        for name in KINDS
        for persons in (False, True)
        for n in (500, 1000, 2000, 5000, 20_000)
        for d in (5, 10, 30)
        for epsilon in (0.5, 1.0, 2.0)
    ]
    report("scales", cells)
    allowed = {s: [cell for cell in cells if not cell[f"{s} refused"]] for s in ("before", "now")}
    for side, ran in allowed.items():
        print(f"{side}: {len(ran)} of {len(cells)} not refused; {told(ran, side)}")
    both = [cell for cell in allowed["before"] if cell in allowed["now"]]
    for side in allowed:
        print(f"{side}, of {len(both)} that neither refuses: {told(both, side)}")


def told(cells, side):
    """Return the mean shares of columns, in words."""
    means = {what: np.mean([c[f"{side} {what}"] for c in cells]) for what in WHAT}
    return ", ".join(f"{what} {mean:.3f}" for what, mean in means.items())


if __name__ == "__main__":
    main()
