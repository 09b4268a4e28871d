"""Where rows come from: arrays, .npy files, CSV, parquet, any iterable of chunks."""

from eigenveil.doors import lazy_names

_HOMES = {
    "arrays": "ArraySource Batch",
    "base": "RowSource",
    "circle": "CircleSource circular_mean",
    "csv": "CSVSource",
    "iterables": "IterableSource require_hidden_count",
    "limits": "ChangedSource LimitedSource SquaredSource",
    "npy": "NpySource",
    "open": "is_streamed open_rows",
    "pairs": "PairedSource PairedUnits paired",
    "parquet": "ParquetSource",
    "rowwise": "OutsideSource PresentSource ProjectedSource ScaledSource",
    "samples": "DrawnRow drawn_rows sampled shuffled",
    "tables": "as_table",
    "units": "GroupedSource LabelledSource UnitSource grouped",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
