"""Persons with one row and with many, and what is summed over them."""

import math
from dataclasses import replace

import numpy as np

from eigenveil.exact import (
    BasisProduct,
    Clip,
    column_counts,
    count,
    moment_columns,
    norm_counts,
    rows_beyond,
    second_moment,
    total,
    trace,
)
from eigenveil.rows import ArraySource, GroupedSource

CLIP = Clip(row_norm=1.0, on_invalid="zero")


def people(d=3):
    """Persons of one row and of many, with rows of every kind."""
    rng, axes = np.random.default_rng(0), np.eye(d)
    return [
        axes[:1],
        -axes[:1],
        np.repeat(axes[:1], 5, axis=0),
        np.repeat(-axes[:1], 300, axis=0),
        np.repeat(axes[1:2], 7, axis=0),
        np.full((1, d), d**-0.5),
        np.full((3, d), -(d**-0.5)),
        np.zeros((1, d)),
        np.zeros((9, d)),
        np.full((4, d), 1e300),
        np.full((2, d), 1e-300),
        np.full((1, d), np.nan),
        np.vstack([axes, np.full((1, d), np.inf)]),
        rng.standard_normal((1, d)),
        rng.standard_normal((40, d)),
        rng.standard_normal((1000, d)) * 1e-3,
        axes[:1] * (1 - 2.0**-19),
    ]


def listed(persons):
    """In the order of persons, so that a fixed order pairs the same ones."""
    ids = np.repeat(np.arange(len(persons)), [len(rows) for rows in persons])
    return GroupedSource(ArraySource(np.vstack(persons)), ids)


def distance(one, other, norm):
    """Between exact sums, in units of the ball."""
    gap = one.value.units - other.value.units
    scale = 2.0**one.value.exponent
    match norm:
        case "linf":
            return int(np.abs(gap).max()) * scale
        case "nuclear":
            return float(np.abs(np.linalg.eigvalsh(gap.astype(float))).sum()) * scale
        case "l1":
            square = gap.ndim == 2 and gap.shape[0] == gap.shape[1]
            return int(np.abs(gap[np.triu_indices(len(gap))] if square else gap).sum()) * scale
    return math.sqrt(sum(int(g) ** 2 for g in gap.ravel().tolist())) * scale


def between(d):
    """Two orthonormal columns, between the first two axes."""
    columns = np.zeros((d, 2))
    columns[:2] = [[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]]
    return columns


STATISTICS = {
    "moment": lambda source, clip, adjacency: second_moment(source, clip, adjacency),
    "trace": lambda source, clip, adjacency: trace(source, clip, adjacency),
    "total": lambda source, clip, adjacency: total(source, replace(clip, lift=0.0), adjacency),
    "norms": lambda source, clip, adjacency: norm_counts(source, clip, adjacency),
    "beyond": lambda source, clip, adjacency: rows_beyond(norm_counts(source, clip, adjacency)),
    "columns": lambda source, clip, adjacency: column_counts(source, clip, adjacency),
    "count": lambda source, clip, adjacency: count(source, clip),
    "products": lambda source, clip, adjacency: moment_columns(
        source, clip, BasisProduct(between(clip.width(3))), adjacency
    ),
}
