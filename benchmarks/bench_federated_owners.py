"""What owners gain together, and what more directions than components add; whole federations.

Every side is the released path: owners, coordinator, weights, two rounds, in one process. "alone"
is the best single owner of the same repetition, with its whole budget. Distances are those of
projectors from the truth: of a spiked covariance, or of the exact answer from all digits.
`directions` is how many each owner sends: k, 2k, 4k. The mean is known, to all sides.
One thread.
"""

import os

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate
from eigenveil.numerics import subspace_distance
from side_by_side import report

DELTA = 1e-6
# Parts of 1,797 digits, epsilon of each, components.
DIGITS = [
    ((0.6, 0.3, 0.1), (1.5, 3.0, 6.0), 2),
    ((0.6, 0.3, 0.1), (1.5, 1.5, 1.5), 2),
    ((0.45, 0.35, 0.2), (1.0, 1.0, 1.0), 2),
    ((0.45, 0.35, 0.2), (2.0, 2.0, 2.0), 5),
    ((0.1,) * 10, (3.0,) * 10, 2),
]
# Owners, rows of each, columns, components, signal, epsilon.
SPIKED = [
    (10, 1000, 50, 1, 10.0, 0.5),
    (100, 200, 50, 1, 10.0, 1.0),
    (20, 2000, 100, 3, 20.0, 0.5),
    (100, 500, 200, 5, 20.0, 1.0),
]
REPEATS = 20


def together(tables, epsilon, k, directions, seed):
    names = [f"owner-{j}" for j in range(len(tables))]
    owners = {
        name: Owner(
            OwnerSettings(
                owner=name,
                federation="bench",
                epsilon=e,
                delta=DELTA,
                centring="none",
                random_state=1000 * seed + j,
            ),
            rows,
        )
        for j, (name, rows, e) in enumerate(zip(names, tables, epsilon, strict=True))
    }
    limits = {
        name: Limits(records=len(rows), epsilon=e, delta=DELTA, mechanism="spherical")
        for name, rows, e in zip(names, tables, epsilon, strict=True)
    }
    agreement = Agreement(
        federation="bench",
        owners=limits,
        n_columns=tables[0].shape[1],
        n_components=k,
        directions=directions,
        simulated=True,
    )
    return simulate(agreement, owners).arrays["components"]


def alone(rows, epsilon, k, seed):
    pca = PrivatePCA(
        k,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="spherical",
        centring="none",
        random_state=seed,
    )
    return pca.fit(rows).components_


def cell(name, tables, epsilon, k, truth):
    """``tables(seed)`` and ``truth(seed)``; one line of the report."""
    found = {"alone": [], "k": [], "2k": [], "4k": []}
    for seed in range(REPEATS):
        rows, exact = tables(seed), truth(seed)
        best = max(range(len(rows)), key=lambda j: (len(rows[j]) * epsilon[j], -j))
        others = range(len(rows)) if len(rows) <= 3 else [best]  # equal owners are one as another
        single = [alone(rows[j], epsilon[j], k, 77 + 1000 * seed + j) for j in others]
        found["alone"].append(min(subspace_distance(one, exact) for one in single))
        for label, factor in (("k", 1), ("2k", 2), ("4k", 4)):
            components = together(rows, epsilon, k, factor * k, seed)
            found[label].append(subspace_distance(components, exact))
    means = {label: float(np.mean(values)) for label, values in found.items()}
    wins = int(np.sum(np.array(found["k"]) < np.array(found["alone"])))
    return {
        "table": name,
        "owners": len(epsilon),
        "components": k,
        "epsilon": epsilon[0] if len(set(epsilon)) == 1 else "/".join(f"{e:g}" for e in epsilon),
        **means,
        "federation_wins": f"{wins} of {REPEATS}",
        "4k/k": means["4k"] / means["k"],
    }


def digits(parts, k):
    images = load_digits().data
    rows = images - images.mean(axis=0)
    exact = np.linalg.svd(rows, full_matrices=False)[2][:k]
    ends = np.rint(np.cumsum(parts) * len(rows)).astype(int)[:-1]

    def tables(seed):
        return np.split(rows[np.random.default_rng(seed).permutation(len(rows))], ends)

    return tables, lambda seed: exact


def spiked(m, n, d, k, signal):
    def truth(seed):
        basis = np.random.default_rng(seed).standard_normal((d, k))
        return np.linalg.qr(basis)[0].T

    def tables(seed):
        rng = np.random.default_rng((seed, 1))
        basis = np.sqrt(signal) * truth(seed)
        return [rng.standard_normal((n, d)) + rng.standard_normal((n, k)) @ basis for _ in range(m)]

    return tables, truth


def main():
    rows = []
    for parts, epsilon, k in DIGITS:
        name = "digits " + "/".join(f"{100 * part:.0f}" for part in parts[:3]) + " %"
        tables, truth = digits(parts, k)
        rows.append(cell(name, tables, epsilon, k, truth))
        print(rows[-1], flush=True)
    for m, n, d, k, signal, epsilon in SPIKED:
        tables, truth = spiked(m, n, d, k, signal)
        rows.append(cell(f"spiked {n} x {d}", tables, (epsilon,) * m, k, truth))
        print(rows[-1], flush=True)
    report("federated_owners", rows)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        main()
