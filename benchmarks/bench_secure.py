"""Secure sums beside owners with noise of their own, and beside one pooled table.

Every side is the released path in one process: owners, coordinator, messages, masks. Projector
distance from the truth of a spiked covariance whose mean is not zero, and Frobenius error of
covariances within bounds, means over repeats with their standard errors. t = .7 m owners are
counted on, all m take part. "own noise, centre known" is told the mean. `--time` measures 100
owners of 200 columns from the first message to the release, and the masks alone, by the clock and
by the processor. One thread.
"""

import hashlib
import os
import sys
import time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from threadpoolctl import threadpool_limits

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate
from eigenveil.federated.secure import Member, SecureAgreement, SecureOwner, masked, unmasked
from eigenveil.numerics import subspace_distance
from side_by_side import report

# Owners, rows of each, columns, components, signal, epsilon, delta, repeats; whether owners with
# noise of their own locate their centres, too.
CELLS = [
    (10, 1000, 50, 1, 10.0, 0.5, 0.1, 25, True),
    (10, 1000, 50, 1, 10.0, 0.5, 1e-6, 25, True),
    (20, 2000, 100, 3, 20.0, 0.5, 1e-4, 6, True),
    (100, 200, 50, 1, 10.0, 1.0, 1e-6, 6, False),
    (100, 500, 200, 5, 20.0, 1.0, 1e-6, 2, False),
]
COVARIANCE = (10, 1000, 30, 1.0, 1e-6, 10)  # owners, rows, columns, epsilon, delta, repeats


def key_of(name):
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def summed(tables, honest, seed, **terms):
    """Release by secure sums; its arrays."""
    names = [f"owner-{j:03}" for j in range(len(tables))]
    members = {
        name: Member(key_of(name).public_key().public_bytes_raw().hex(), len(rows))
        for name, rows in zip(names, tables, strict=True)
    }
    agreement = SecureAgreement(
        federation="bench",
        owners=members,
        n_columns=tables[0].shape[1],
        honest=honest,
        quorum=len(tables),
        simulated=True,
        **terms,
    )
    owners = {
        name: SecureOwner(agreement, name, rows, key_of(name), random_state=10_000 * seed + j)
        for j, (name, rows) in enumerate(zip(names, tables, strict=True))
    }
    return simulate(agreement, owners).arrays


def own_noise(tables, epsilon, delta, k, seed, centring):
    """Release by owners who each add noise of their own; the components."""
    names = [f"owner-{j:03}" for j in range(len(tables))]
    owners = {
        name: Owner(
            OwnerSettings(
                owner=name,
                federation="bench",
                epsilon=epsilon,
                delta=delta,
                centring=centring,
                random_state=10_000 * seed + j,
            ),
            rows,
        )
        for j, (name, rows) in enumerate(zip(names, tables, strict=True))
    }
    limits = {
        name: Limits(records=len(rows), epsilon=epsilon, delta=delta, mechanism="spherical")
        for name, rows in zip(names, tables, strict=True)
    }
    agreement = Agreement(
        federation="bench",
        owners=limits,
        n_columns=tables[0].shape[1],
        n_components=k,
        simulated=True,
    )
    return simulate(agreement, owners).arrays["components"]


def spiked(m, n, d, k, signal, seed):
    """Tables with a common mean of length about sqrt(d), and the true directions."""
    rng = np.random.default_rng((seed, 1))
    basis = np.linalg.qr(rng.standard_normal((d, k)))[0].T
    mean = rng.standard_normal(d)
    rows = [
        mean + rng.standard_normal((n, d)) + np.sqrt(signal) * rng.standard_normal((n, k)) @ basis
        for _ in range(m)
    ]
    return rows, mean, basis


def components_cell(m, n, d, k, signal, epsilon, delta, repeats, unknown):
    found = {}
    for seed in range(repeats):
        tables, mean, truth = spiked(m, n, d, k, signal, seed)
        pooled = np.concatenate(tables)
        pca = PrivatePCA(
            k,
            epsilon=epsilon,
            delta=delta,
            mechanism="spherical",
            centring="located",
            random_state=seed,
        )
        budget = {"epsilon": epsilon, "delta": delta}
        sides = {
            "secure": summed(tables, round(0.7 * m), seed, n_components=k, **budget)["components"],
            "pooled": pca.fit(pooled).components_,
            "no privacy": np.linalg.svd(pooled - pooled.mean(axis=0), full_matrices=False)[2][:k],
            "own noise, centre known": own_noise(
                [rows - mean for rows in tables], epsilon, delta, k, seed, "none"
            ),
        }
        if unknown:
            sides["own noise, located"] = own_noise(tables, epsilon, delta, k, seed, "located")
        for side, components in sides.items():
            found.setdefault(side, []).append(subspace_distance(components, truth))
    return line(f"{m} x {n}, {d}, {k}, {epsilon:g}, {delta:g}", found, repeats)


def covariance_cell(m, n, d, epsilon, delta, repeats):
    found = {}
    for seed in range(repeats):
        rng = np.random.default_rng((seed, 2))
        spread = 1 / np.sqrt(np.arange(1, d + 1))
        mean = rng.uniform(-1, 1, d)
        tables = [mean + rng.standard_normal((n, d)) * spread for _ in range(m)]
        pooled = np.concatenate(tables)
        truth = np.cov(pooled.T, bias=True)
        terms = {
            "kind": "covariance",
            "n_components": 1,
            "bounds": ((-4.0,) * d, (4.0,) * d),
            "epsilon": epsilon,
            "delta": delta,
        }
        central = {
            "epsilon": epsilon,
            "delta": delta,
            "bounds": (-4.0, 4.0),
            "mechanism": "cleaned",
        }
        sides = {
            "secure": summed(tables, m * 7 // 10, seed, **terms)["covariance"],
            "secure, t = m": summed(tables, m, seed, **terms)["covariance"],
            "pooled": PrivateCovariance(**central, random_state=seed).fit(pooled).covariance_,
            "secure, told nothing": summed(tables, m * 7 // 10, seed, **{**terms, "bounds": None})[
                "covariance"
            ],
            "pooled, told nothing": PrivateCovariance(
                epsilon=epsilon, delta=delta, random_state=seed
            )
            .fit(pooled)
            .covariance_,
            "own noise, averaged": np.mean(
                [
                    PrivateCovariance(**central, random_state=1000 * seed + j).fit(rows).covariance_
                    for j, rows in enumerate(tables)
                ],
                axis=0,
            ),
        }
        for side, matrix in sides.items():
            found.setdefault(side, []).append(float(np.linalg.norm(matrix - truth)))
    return line(f"covariance {m} x {n}, {d}, {epsilon:g}, {delta:g}", found, repeats)


def line(name, found, repeats):
    told = {"cell": name, "repeats": repeats}
    for side, values in found.items():
        told[side] = float(np.mean(values))
        told[f"{side}, error"] = float(np.std(values) / np.sqrt(len(values)))
    told["secure / pooled"] = told["secure"] / told["pooled"]
    print(told, flush=True)
    return told


def timed():
    """How long 100 owners of 200 columns take, and masks alone."""
    tables, _, _ = spiked(100, 500, 200, 5, 20.0, 0)
    values = np.arange(200 * 201 // 2)
    keys = {f"{j:03}": bytes([j]) * 32 for j in range(1, 100)}
    upload = masked(values, "000", keys)
    sides = {
        "100 owners, d = 200, in all": lambda: summed(
            tables, 70, 0, n_components=5, epsilon=1.0, delta=1e-6
        ),
        "masks, m = 10, d = 200": lambda: masked(values, "000", dict(list(keys.items())[:9])),
        "masks, m = 100, d = 200": lambda: masked(values, "000", keys),
        "unmasking, m = 100, d = 200": lambda: unmasked([upload] * 100),
    }
    rows = []
    for what, side in sides.items():
        clock, processor = time.perf_counter(), time.process_time()
        side()
        spent = {"processor": time.process_time() - processor}
        rows.append({"what": what, "seconds": time.perf_counter() - clock, **spent})
    report("secure_time", rows)


def main():
    rows = [components_cell(*cell) for cell in CELLS]
    report("secure", [dict.fromkeys(rows[0], "") | row for row in rows])
    report("secure_covariance", [covariance_cell(*COVARIANCE)])
    timed()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        timed() if "--time" in sys.argv else main()
