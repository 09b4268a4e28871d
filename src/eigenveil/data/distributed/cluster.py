"""A table in files that the workers of a cluster read themselves, row group by row group."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from eigenveil.data.sources.base import RowSource
from eigenveil.exceptions import InvalidDataError, MissingExtraError

__all__ = ["connected", "on_cluster"]


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Work on the cluster whose scheduler listens at an address, such as ``tcp://host:8786``."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("a cluster needs Dask: pip install 'eigenveil[dask]'") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError):
        raise InvalidDataError(
            "no scheduler of Dask answers at this address: check it, such as tcp://host:8786"
        ) from None
    with client:
        yield


def on_cluster(source: RowSource) -> RowSource:
    """Return the rows of parquet files as parts that workers read, who must see the same files."""
    from dask.delayed import delayed

    from eigenveil.data.distributed.dask import DaskSource

    rows = source.plain
    parts = rows.parts()
    if parts is None:
        raise InvalidDataError("workers read parquet files that they all see: save the table so")
    if not source.protects.owns_many:
        return DaskSource([delayed(part) for part in parts], rows.n_columns, rows.feature_names)
    read = [delayed(_labelled, nout=2)(part) for part in parts]
    tables = DaskSource([each[0] for each in read], rows.n_columns, rows.feature_names)
    return tables.by_person([each[1] for each in read], source.protects)


def _labelled(part: Any) -> tuple[Any, list[Hashable]]:
    """Return the rows of a part, and whose they are."""
    import numpy as np

    chunks, labels = [np.empty((0, part.n_columns))], []
    for chunk, some in part.labelled_chunks():
        chunks.append(chunk)
        labels += some
    return np.concatenate(chunks), labels
