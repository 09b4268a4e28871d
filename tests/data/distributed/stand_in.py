"""A stand-in for a data frame of Spark: partitions, read anew by whoever asks for them."""

import sys
from types import ModuleType, SimpleNamespace

import pyarrow as pa

__all__ = ["Frame", "without_spark"]


class _TaskContext:
    number = 0

    @classmethod
    def get(cls):
        return SimpleNamespace(partitionId=lambda: cls.number)


def without_spark(monkeypatch):
    """Let tasks find what they import of Spark."""
    module = ModuleType("pyspark")
    module.TaskContext = _TaskContext
    monkeypatch.setitem(sys.modules, "pyspark", module)


class Frame:
    """Rows in partitions, which ``partitions()`` makes anew for every job."""

    schema = None

    def __init__(self, columns, partitions):
        self.columns = list(columns)
        self.dtypes = [(name, "double") for name in columns]
        self._partitions = partitions

    def mapInArrow(self, run, schema):  # noqa: N802 - as Spark calls it
        return SimpleNamespace(collect=lambda: list(self._results(run)))

    def _results(self, run):
        for number, rows in enumerate(self._partitions()):
            _TaskContext.number = number
            batch = pa.RecordBatch.from_arrays(list(map(pa.array, rows.T)), names=self.columns)
            for found in run(iter([batch])):
                yield from found.to_pylist()
