"""Streams of tests: budgets, tables, and what was charged."""

import itertools

import numpy as np

from eigenveil.privacy import Composed

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
STRONG = {"rho": 200.0}  # mu = 20: batches of 32 records and a centre of as many
_numbers = itertools.count(1)


def table(n=2000, d=5, shift=4.0, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    rows[:, 0] *= 6.0
    return rows + shift


def label():
    """Return a label that nothing had before."""
    return f"arrival {next(_numbers)}"


def charges(ledger):
    return [entry for entry in ledger.entries if entry.cost != Composed(())]
