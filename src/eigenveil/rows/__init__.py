"""Where rows come from: arrays, .npy files, CSV, parquet, any iterable of chunks."""

from eigenveil.doors import lazy_names

_HOMES = {
    "base": (
        "MappedRows RowMap RowSource Schema Units count_units decided tables with_one_level_each"
    ),
    "column_names": "is_named_like_an_id",
    "columns": "Reading noted_reading parsed_encode",
    "csv": "CSVSource PlainLines plain_reader",
    "derived": (
        "PairedSource PairedUnits ShuffledBatch count_checked drawn_rows paired sampled shuffled"
    ),
    "features": "DaysSince Levels Numbers level_of text_columns",
    "file_guard": "Fingerprint Readings address_of remote_files row_hashes",
    "frames": "as_table is_frame names",
    "ids": "person_label",
    "maps": "Divide ShownSource TakeColumns Unchanged",
    "matrices": "MatrixBatch MatrixChunk MatrixSource",
    "memory": "ArraySource Batch IterableSource require_hidden_count",
    "npy": "NpySource",
    "open": "is_streamed open_rows",
    "units": "GroupedSource LabelledSource grouped",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
