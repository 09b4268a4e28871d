"""Data frames of Spark as sources: every partition sums its own rows, through ``mapInArrow``.

A partition is held in the memory of its worker while it is summed, and its sums travel to the
driver, which adds them. Spark takes one result of a task, however often it is run; the marks of
parts would show a second one. Workers need this package, and ``PYSPARK_PYTHON`` the Python that
has it.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.engines.parts import PartedSource, PartedUnits, PartSum, SumsOfParts, add
from eigenveil.exceptions import EigenveilError, InvalidDataError, UnsupportedNotionError
from eigenveil.privacy.adjacency import Unit

_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean"}


class SparkSource(PartedSource):
    """Rows of a data frame of Spark, all of whose columns hold numbers."""

    def __init__(self, frame: Any) -> None:
        text = [name for name, kind in frame.dtypes if kind not in _NUMBERS]
        if text:
            raise InvalidDataError(
                f"column {text[0]!r} does not hold numbers: select others of the frame"
            )
        super().__init__(len(frame.columns), tuple(frame.columns))
        self._frame = frame
        self._n_parts: int | None = None

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        """Number of partitions, as Spark makes them when they are read."""
        if self._n_parts is None:
            self._n_parts = len(self._of_parts(lambda number, table: None))
        return self._n_parts

    def added(self, what: PartSum) -> SumsOfParts:
        """Return ``what`` of every partition, added up by the driver."""
        return add(*self._of_parts(what.of))

    def part(self, number: int) -> Any:
        """Fetch one partition."""
        empty = np.empty((0, self.n_columns))
        return self._of_parts(lambda i, table: table if i == number else empty)[number]

    def fetched(self, of_part: Callable[[Any, Any], Any], each: Sequence[Any]) -> list[Any]:
        """Return something of every partition, in their order."""
        return self._of_parts(lambda number, table: of_part(table, each[number]))

    def by_person(self, ids: Any, unit: Unit) -> PartedUnits:
        """Refuse: rows of Spark have no order in which ids could lie beside them."""
        raise UnsupportedNotionError(
            "rows of persons are not shuffled on Spark: write the frame as parquet and name the "
            "unit column, or pass a Dask frame with groups"
        )

    def _of_parts(self, of_part: Callable[[int, NDArray[Any]], Any]) -> list[Any]:
        """Return something of every partition by its number; an error of ours is raised again."""
        names = self._frame.columns

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None  # of a task
            number = context.partitionId()
            tables = [_numbers(batch, names) for batch in batches]
            table = np.concatenate([np.empty((0, len(names))), *tables])
            try:
                result = of_part(number, table)
            except EigenveilError as error:
                result = error
            stored = [pyarrow.array([number]), pyarrow.array([pickle.dumps(result)])]
            yield pyarrow.RecordBatch.from_arrays(stored, names=["part", "result"])

        try:
            found = self._frame.mapInArrow(run, "part long, result binary").collect()
        except Exception:  # Spark quotes what a worker raised, which may quote an entry
            raise InvalidDataError(
                "a partition could not be computed: show() the frame to see why"
            ) from None
        if not found:  # a frame without partitions has no rows
            return [of_part(0, np.empty((0, len(names))))]
        results = {row["part"]: pickle.loads(row["result"]) for row in found}
        if sorted(results) != list(range(len(found))):
            raise InvalidDataError("a part of the table was lost or counted twice: run it again")
        for result in results.values():
            if isinstance(result, EigenveilError):
                raise result
        return [results[number] for number in range(len(found))]


def _numbers(batch: Any, names: Sequence[str]) -> NDArray[np.float64]:
    rows = np.empty((batch.num_rows, len(names)))
    for j in range(len(names)):
        rows[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
    return rows
