"""Where rows come from: arrays, .npy files, CSV, parquet, any iterable of chunks."""

from eigenveil.data.sources.arrays import ArraySource, Batch
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.circle import CircleSource, circular_mean
from eigenveil.data.sources.csv import CSVSource
from eigenveil.data.sources.iterables import IterableSource, require_hidden_count
from eigenveil.data.sources.limits import ChangedSource, LimitedSource, SquaredSource
from eigenveil.data.sources.npy import NpySource
from eigenveil.data.sources.open import is_streamed, open_rows
from eigenveil.data.sources.pairs import PairedSource, PairedUnits, paired
from eigenveil.data.sources.parquet import ParquetSource
from eigenveil.data.sources.rowwise import (
    OutsideSource,
    PresentSource,
    ProjectedSource,
    ScaledSource,
)
from eigenveil.data.sources.samples import DrawnRow, drawn_rows, sampled, shuffled
from eigenveil.data.sources.tables import as_table
from eigenveil.data.sources.units import GroupedSource, LabelledSource, UnitSource, grouped

__all__ = [
    "ArraySource",
    "Batch",
    "CSVSource",
    "ChangedSource",
    "CircleSource",
    "DrawnRow",
    "GroupedSource",
    "IterableSource",
    "LabelledSource",
    "LimitedSource",
    "NpySource",
    "OutsideSource",
    "PairedSource",
    "PairedUnits",
    "ParquetSource",
    "PresentSource",
    "ProjectedSource",
    "RowSource",
    "ScaledSource",
    "SquaredSource",
    "UnitSource",
    "as_table",
    "circular_mean",
    "drawn_rows",
    "grouped",
    "is_streamed",
    "open_rows",
    "paired",
    "require_hidden_count",
    "sampled",
    "shuffled",
]
