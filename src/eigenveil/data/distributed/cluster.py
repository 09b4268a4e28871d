"""A table in files that the workers of a cluster read themselves, row group by row group."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eigenveil.data.sources.base import RowSource
from eigenveil.exceptions import InvalidDataError, MissingExtraError

__all__ = ["connected", "on_cluster"]


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Work on the cluster whose scheduler listens at an address, such as ``tcp://host:8786``."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise MissingExtraError("a cluster needs Dask: pip install 'eigenveil[dask]'") from None
    try:
        # Not the default one: what it sets for a process is left behind where nobody answers.
        client: Any = Client(address, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        raise InvalidDataError(
            "no scheduler of Dask answers at this address: check it, such as tcp://host:8786"
        ) from None
    with client, client.as_current(), dask.config.set(scheduler=client):
        yield


def on_cluster(source: RowSource) -> RowSource:
    """Return the rows of parquet files as parts that workers read, who must see the same files."""
    from eigenveil.data.distributed.dask import FileParts

    if source.undecided:
        raise InvalidDataError("levels of categories are not found on a cluster: state them")
    parts = source.plain.parts()
    if parts is None:
        raise InvalidDataError("workers read parquet files that they all see: save the table so")
    rows = FileParts(source.plain, parts)
    return rows.by_label(source.protects) if source.protects.owns_many else rows
