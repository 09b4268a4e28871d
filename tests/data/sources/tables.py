"""Tables and files that the tests of several sources share."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import Ledger, PrivateCovariance
from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import open_rows, tables

SECRET = "patient-4711"
NEIGHBOURS = pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
TABLE = np.random.default_rng(3).standard_normal((50, 3)).round(3)


def read(data, **options):
    return np.concatenate(list(open_rows(data, **options).chunks()))


def refused(action):
    """The one line of a refusal, which shows no cell."""
    with pytest.raises(InvalidDataError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


def rows_of(source):
    return np.concatenate([chunk.copy() for chunk in tables(source)])


def stored(folder, kind, rows):
    """A file of these rows; large ones of .npy are not held in memory."""
    path = folder / f"t.{kind}"
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    match kind:
        case "csv":
            frame.to_csv(path, index=False)
        case "parquet":
            frame.to_parquet(path)
        case "npy":
            np.save(path, rows)
    return path


def covariance(folder, adjacency):
    """An estimator that pays from a new ledger, and lets invalid rows contribute nothing."""
    ledger = Ledger.create(folder / "a.ledger", epsilon=1, delta=1e-6, adjacency=adjacency)
    options = {"epsilon": 1, "delta": 1e-6, "row_norm": 9.0, "on_invalid": "zero"}
    return PrivateCovariance(**options, adjacency=adjacency, ledger=ledger)
