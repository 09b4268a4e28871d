"""Records in, bounded statistics out."""

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.gram import column_squares, count, second_moment, total, trace
from eigenveil.data.norms import column_counts, norm_counts
from eigenveil.data.sources import GroupedSource, RowSource, open_rows
from eigenveil.data.spectrum import (
    along,
    captured,
    eigengap,
    eigenvalues,
    inside,
    leading,
    weighted_eigenvalues,
)

__all__ = [
    "Bounded",
    "Clip",
    "GroupedSource",
    "RowSource",
    "along",
    "captured",
    "column_counts",
    "column_squares",
    "count",
    "eigengap",
    "eigenvalues",
    "inside",
    "leading",
    "norm_counts",
    "open_rows",
    "second_moment",
    "total",
    "trace",
    "weighted_eigenvalues",
]
