"""What cases of mechanisms share that use rows in batches."""

import math
from dataclasses import replace

import numpy as np

from eigenveil.exact import OUTSIDE_SCALE, BasisProduct, update_counts
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms import NoisyComponents
from eigenveil.papers.kpca import TruncatedMean
from eigenveil.privacy import Gaussian
from eigenveil.rows import Batch
from tests.conformance import case


def columns(d):
    """Of a one-pass basis at k = 1."""
    return case.turned(d)[:12].T


def one_pass(clip):
    """In fixed company: batches before, the rows, and others beside them in their batch."""

    def run(mechanism, rows, adjacency, gate):
        return mechanism.run(case.open_rows(batched(mechanism, rows, 2)), clip, gate)

    return run


def batched(mechanism, rows, before):
    """The last batch ends with the rows; so many come before."""
    size = mechanism.batch_size
    company = np.random.default_rng(5).standard_normal(
        (before * size + -len(rows) % size, rows.shape[1])
    )
    return np.vstack([company, rows])


def update_distances(rows, adjacency):
    return update_counts(
        Batch(rows, 0), case.DIRECTIONS, BasisProduct(columns(rows.shape[1])), adjacency
    )


def adaptive(kind):
    """Batches large enough for a radius; a sixteenth of mu^2 goes into it."""

    def build(mu, d, k):
        part = mu / math.sqrt(1 + 1 / 16)
        return kind(strength=Gaussian(part), n_components=k, batch_size=math.ceil(257 / part))

    return build


def found(run):
    """A refusal is an outcome like any other."""

    def found(mechanism, rows, adjacency, gate):
        try:
            return run(mechanism, rows, adjacency, gate)
        except NothingFoundError:
            d, k = rows.shape[1], mechanism.n_components
            return NoisyComponents(np.eye(d)[:k], np.zeros(k), 0.0, 0.0, None, np.zeros(k))

    return found


def estimate(iterate):
    return case.upper(iterate.image @ iterate.basis.T)


def truncated(epsilon, d, k):
    """Blocks enough to agree more often than not: the company of the rows is all alike."""
    mean = TruncatedMean.build(epsilon, 0.1, "basic")
    return replace(mean, spread=replace(mean.spread, zeta=0.5))


def with_truncated(mechanism):
    """The mechanism with that mean."""
    vars(mechanism)["mean"] = truncated(mechanism.epsilon, None, None)
    return mechanism


def among(rows, n, first):
    """The rows in public company, n in all."""
    lengths = np.resize([0.5, 0.6], n - len(rows))
    company = lengths[:, None] * np.eye(rows.shape[1])[0]
    return np.vstack([rows, company] if first else [company, rows])


def one_batch(mechanism, rows, adjacency, gate):
    return case.procedure(mechanism, among(rows, mechanism.batch_size, first=True), adjacency, gate)


PRINTED = {  # half of (epsilon, delta) on histograms, half on a Gaussian mean
    "strength_of": lambda cost: 2 * cost.parts[1].epsilon,
    "ledger": {"epsilon": 50.0, "delta": 0.5},
    "trials": 200,
    "shows": False,
    "adjacencies": (case.REPLACE,),
    "persons": False,
}

ONE_PASS = {
    "read": case.components,
    "norm": "l2",
    # Up to 12 columns, whose coordinates are rounded.
    "sensitivity": {
        case.REPLACE: lambda d: math.sqrt(2) + OUTSIDE_SCALE * math.sqrt(min(d, 12)) * 2.0**-18
    },
    "worst_pair": case.two_directions,
    "adjacencies": (case.REPLACE,),
    "persons": False,
}

COUNTED_PART = {  # a radius comes first
    "norm": "linf",
    "sensitivity": case.ONE,
    "worst_pair": case.long_and_short,
    "trials": 500,
    "shows": False,
}
