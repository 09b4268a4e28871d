"""What the accuracy benchmarks share: tables, releases on them, and a summary of ratios."""

import json
import lzma
import math
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from eigenveil.datasets import zipf_norms
from eigenveil.exact import Clip, second_moment
from eigenveil.mechanisms import Gate, release
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows

DATA = Path(__file__).parents[2] / "shared" / "data"


class Table:
    """Rows in the unit ball, and what every repetition needs of them."""

    def __init__(self, rows):
        self.rows = rows
        self.n, self.d = rows.shape
        self.query = self.clipped(1.0)
        self.truth = self.query.value.to_float() * self.query.unit
        self.norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        self.moment = lru_cache(lambda tau: self.clipped(tau).value.to_float() / self.n)

    def clipped(self, tau):
        """The second moment of rows clipped at a threshold."""
        return second_moment(open_rows(self.rows), Clip(row_norm=tau), Adjacency.REPLACE_ONE)

    def release(self, mechanism, seed):
        """One draw on the second moment; mechanisms with the same noise share it at one seed."""
        return release(mechanism, self.query, ledger=None, noise=SimulationSource(seed)).matrix

    def run(self, procedure, seed, gate=Gate):
        """All draws of a procedure, and the gate they passed."""
        gate = gate(
            procedure.cost(),
            label=procedure.name,
            adjacency=Adjacency.REPLACE_ONE,
            ledger=None,
            noise=SimulationSource(seed),
        )
        return procedure.run(open_rows(self.rows), Clip(row_norm=1.0), gate), gate

    def oracle(self, noisy):
        """The best eigenvalues for the eigenvectors of a noisy matrix."""
        _, basis = np.linalg.eigh(noisy)
        best = np.maximum(np.einsum("ji,ji->i", basis, self.truth @ basis), 0)
        return (basis * best) @ basis.T

    def error(self, matrix):
        """In Frobenius norm."""
        return float(np.linalg.norm(matrix - self.truth))


def zipf(n, d, bins):
    return Table(zipf_norms(n, d, bins, seed=n + d + bins))


def generated(n, d, tail=None):
    """Rows of spectrum 1/j, three standard deviations from the origin; normal, or Student's t."""
    rng = np.random.default_rng([n, d])
    rows = rng.standard_normal((n, d)) / np.sqrt(np.arange(1.0, d + 1))
    if tail:
        rows /= np.sqrt(rng.chisquare(tail, n) / tail)[:, None]
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return rows @ rotation + 3.0


def present(name):
    """The path of a data set, or None and a word about it."""
    if (DATA / name).is_file():
        return DATA / name
    print(f"left out: no {name} in ../shared/data beside the checkout")
    return None


def mnist():
    """Images as rows, none beyond norm 1."""
    if path := present("mnist.npz"):
        with np.load(path) as stored:
            images = stored["x_train"].reshape(60_000, 784) / (255 * 28.0)
        for n in (5000, 20000, 60000):
            yield Table(images[:n])


def reuters():
    """Words of title and body hashed into columns, rows of norm 1."""
    if path := present("reuters21578.jsonl.xz"):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            stories = [json.loads(line) for line in lines]
        texts = [f"{story['title']} {story['body']}" for story in stories]
        for d in (256, 1024):
            yield Table(HashingVectorizer(n_features=d).transform(texts).toarray())


def means(runs):
    """Mean of every figure over the repetitions that have it."""
    names = runs[0]
    return {name: float(np.mean([run[name] for run in runs if name in run])) for name in names}


def tick():
    print(".", end="", flush=True, file=sys.stderr)


def summarise(results, wanted):
    """Geometric mean and worst cell of each ratio, beside what is wanted of it."""
    for name, target in wanted.items():
        rows = [row for row in results if row[name] != ""]
        worst = max(rows, key=lambda row: row[name])
        middle = math.exp(np.mean([math.log(row[name]) for row in rows]))
        cell = ", ".join(f"{worst[key]}" for key in list(worst)[:5])
        print(f"{name}: geometric mean {middle:.3f}, worst {worst[name]:.3f} ({cell}); {target}")
