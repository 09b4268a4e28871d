"""Private scales of columns: how many lie within a factor of 2 of the deviation, before and now.

Before: counts by powers of four, the scale at their peak, 0.02 to 0.4 of the budget. Both sides see
the same tables and pairs, in one process, at delta = 1e-6. Columns have random units and means of
50 units. "normal" tables have normal columns; "mixed" ones have, in turn, normal, exponential and
lognormal columns, a fair coin, a column of which one in ten is 1, and a normal column with one
value of a billion units. Persons have one to three rows each; n counts them.

"good" is the share of columns whose scale lies within a factor of 2 of their standard deviation
(without that one value), "out" that of columns left out, and "wrong" that of columns with another
scale. "refused": public numbers ruled the run out.

    python benchmarks/bench_scales.py [--draws 20]
"""

import argparse
import math

import numpy as np
from scipy.special import ndtri

from eigenveil.exact import Clip, column_counts
from eigenveil.exact.histograms import _entry_exponents
from eigenveil.mechanisms import ColumnScale, Gate, GaussianNoise, enough_for_scales, scale_share
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Budget, Gaussian, whole_strength
from eigenveil.rows import ArraySource, GroupedSource, paired
from side_by_side import report

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=1e50)
FORMER = np.arange(-83, 84)  # powers of four
WHAT = ("good", "out", "wrong")


def column(kind, n, rng):
    """Values of a column, and its standard deviation."""
    match kind:
        case "exponential":
            values = rng.exponential(size=n)
        case "lognormal":
            values = rng.lognormal(size=n)
        case "coin":
            values = (rng.random(n) < 0.5) * 1.0
        case "flag":
            values = (rng.random(n) < 0.1) * 1.0
        case _:
            values = rng.normal(size=n)
    deviation = values.std()
    if kind == "outlier":
        values[0] = 1e9
    return values, deviation


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
        unit = 10 ** rng.uniform(-3, 5)
        rows[:, j], sizes[j] = unit * (values + 50), unit * size
    source = GroupedSource(ArraySource(rows), ids) if persons else ArraySource(rows)
    return paired(source, REPLACE, rng.permutation), sizes


def former_counts(pairs):
    """Return pairs by powers of four, for each column."""
    counts = np.zeros((pairs.n_columns, FORMER.size))
    for octaves, seen in _entry_exponents(pairs, CLIP):
        brackets = (octaves + 1) // 2 - FORMER[0]
        for j in range(pairs.n_columns):
            counts[j] += np.bincount(brackets[seen[:, j], j], minlength=FORMER.size)
    return counts


def former_scales(counts, mu, rng):
    """Return the scales at the peaks that stand out."""
    d = len(counts)
    deviation = math.sqrt(2 * d) / mu
    noisy = (counts + deviation * rng.standard_normal(counts.shape))[:, :-1]
    limit = -float(ndtri(former_alarm(d))) * deviation
    return np.array([former_peak(column, limit) for column in noisy])


def former_alarm(d):
    return 1e-4 / (3 * (FORMER.size - 1) * d)


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
    near = np.arange(max(0, place - 1), min(place + 2, counts.size))
    weights = np.maximum(counts[near], 0.0)
    return 2.0 ** (1 + weights @ (2 * FORMER[near] - 1) / weights.sum())


def former_share(mu, n, d):
    limit = -float(ndtri(former_alarm(d)) + ndtri(0.05 / d)) * math.sqrt(2 * d)
    return min(0.4, max(0.02, (limit / (mu * 0.45 * (n // 2))) ** 2))


def found_scales(step, counts, seed):
    """Return the scales of one draw."""
    noise = SimulationSource(seed)
    gate = Gate(
        step.cost(),
        label="bench",
        adjacency=REPLACE,
        ledger=None,
        noise=noise,
        protects=counts.protects,
    )
    return step.find(counts, gate).scale


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
    counts, fours = column_counts(pairs, CLIP, REPLACE), former_counts(pairs)
    step = ColumnScale(first=GaussianNoise(mu=mu * math.sqrt(share)))
    now = [found_scales(step, counts, seed) for seed in range(draws)]
    then = [former_scales(fours, mu * math.sqrt(before), rng) for _ in range(draws)]
    cell = {"columns": name, "persons": int(persons), "n": n, "d": d, "epsilon": epsilon}
    cell["refused"] = int(not enough_for_scales(Gaussian(mu), n, d))
    for side, part, scales in (("before", before, then), ("now", share, now)):
        cell[f"{side} share"] = round(part, 4)
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
    allowed = [cell for cell in cells if not cell["refused"]]
    for side in ("before", "now"):
        print(f"{side}: {len(allowed)} of {len(cells)} not refused; {told(allowed, side)}")


def told(cells, side):
    """Return the mean shares of columns, in words."""
    means = {what: np.mean([c[f"{side} {what}"] for c in cells]) for what in WHAT}
    return ", ".join(f"{what} {mean:.3f}" for what, mean in means.items())


if __name__ == "__main__":
    main()
