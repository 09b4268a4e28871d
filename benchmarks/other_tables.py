"""Images, text, categories and made tables: the kinds of rows that real tables lack."""

import json
import lzma
import re
import zlib

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from tables import generated, present

STORIES, WORD_COLUMNS = 10_000, 64


def other_tables():
    """Yield name and rows, every column varying."""
    yield from images()
    yield from measurements()
    yield from made()
    yield from categories()
    if path := present("reuters21578.jsonl.xz"):
        yield "text", word_counts(path)


def images():
    digits = load_digits().data
    yield "digits", digits[:, np.ptp(digits, axis=0) > 0]
    if path := present("mnist.npz"):
        with np.load(path) as stored:
            pixels = stored["x_train"][:20_000].astype(np.float64)
        yield "mnist, middle", pixels[:10_000, 6:22, 6:22].reshape(10_000, 256)
        flat = pixels.reshape(len(pixels), 784)
        yield "mnist, 182 pixels", flat[:, np.argsort(-flat.std(axis=0))[:182]]


def measurements():
    cancer = load_breast_cancer().data
    yield "breast cancer", cancer
    yield "breast cancer in ranges", cancer / np.abs(cancer).max(axis=0)


def made():
    """Yield tables of known laws."""
    rng = np.random.default_rng(7)
    yield "normal, 50 columns", generated(20_000, 50)
    yield "t5, 50 columns", generated(20_000, 50, 5)
    yield "normal, 10 columns", rng.standard_normal((5000, 10)) @ rng.standard_normal((10, 10))
    low = rng.standard_normal((8000, 3)) @ rng.standard_normal((3, 40))
    yield "low rank", low + 0.1 * rng.standard_normal((8000, 40))
    mixing = 0.8 * np.eye(12) + 0.2 * rng.standard_normal((12, 12))
    yield "lognormal", np.exp(rng.standard_normal((6000, 12)) @ mixing)
    costs = np.exp(rng.standard_normal((6000, 10)) + 1)
    yield "zero-inflated", np.where(rng.random((6000, 10)) < 0.6, 0.0, costs)
    centres = 3 * rng.standard_normal((5, 20))
    yield "clusters", centres[rng.integers(0, 5, 8000)] + rng.standard_normal((8000, 20))
    mixed = rng.standard_normal((6000, 8)) @ (np.eye(8) + 0.3)
    yield "units 10^7 apart", mixed * 10.0 ** np.linspace(-3.5, 3.5, 8)
    rows = rng.standard_normal((6000, 10))
    rows[:, 0] *= 30
    yield "one dominant column", rows + 2


def categories():
    rng = np.random.default_rng(8)
    yield "flags", (rng.random((6000, 12)) < np.linspace(0.05, 0.5, 12)).astype(float)
    yield "sparse flags", (rng.random((10_000, 60)) < 0.02).astype(float)
    yield "one-hot", np.eye(6)[rng.integers(0, 6, 10_000)]


def word_counts(path):
    """Words of Reuters stories hashed into columns, rows of norm 1."""
    rows = np.zeros((STORIES, WORD_COLUMNS))
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for row, line in zip(rows, lines, strict=False):
            story = json.loads(line)
            for word in re.findall(r"[a-z]+", f"{story['title']} {story['body']}".lower()):
                row[zlib.crc32(word.encode()) % WORD_COLUMNS] += 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]
