"""Real tables as people have them, whole and cut: numeric columns that vary, complete rows."""

from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "shared" / "data"
TARGETS = {
    "k401": "nettfa",
    "cpsmix": "re78",
    "randhie": "mdvis",
    "rwm5yr": "docvis",
    "diamonds": "price",
    "fair": "affairs",
    "airfoil": "y",
    "concrete": "y",
    "pol": "y",
    "protein": "y",
}
CUTS = (500, 1500, 3000, 6000)
MIN_PRESENT = 0.7
SKIPPED = ("star",)  # hardly a row is complete


def real_tables():
    """Return {name: (rows, names of columns)}; nothing where the data are absent."""
    return {name: table for name, table in _all_tables() if name not in SKIPPED}


def cut(rows, size, seed=0):
    """Return so many rows at random, without columns that no longer vary; None if too few."""
    some = cut_table(rows, range(rows.shape[1]), size, seed)
    return None if some is None else some[0]


def cut_table(rows, names, size, seed=0):
    """Return the same with the names of the columns that still vary."""
    if size >= len(rows):
        return None
    chosen = np.random.default_rng(seed).choice(len(rows), size, replace=False)
    return _varying(rows[chosen], names)


def whole_and_cut(cuts=CUTS):
    """Yield name and rows of every table, and of its parts of few rows."""
    for name, (rows, _) in real_tables().items():
        yield name, rows
        for size in cuts:
            some = cut(rows, size)
            if some is not None:
                yield f"{name}/{size}", some


def split(name, rows, names):
    """Return features and target of a table of `TARGETS`."""
    at = names.index(TARGETS[name])
    return np.delete(rows, at, axis=1), rows[:, at]


def _all_tables():
    import pandas as pd

    for path in sorted((DATA / "real").glob("*.parquet")):
        yield path.stem, _numeric(pd.read_parquet(path))
    adult = DATA / "adult_train.parquet"
    if adult.is_file():
        yield "adult", _numeric(pd.read_parquet(adult))
    for path in sorted((DATA / "regression").glob("*.npz")):
        with np.load(path) as stored:
            rows = np.column_stack([stored["X"], stored["y"]]).astype(np.float64)
        names = [*(f"x{j}" for j in range(rows.shape[1] - 1)), "y"]
        yield path.stem, _varying(rows, names)


def _numeric(frame):
    frame = frame.select_dtypes("number")
    frame = frame.loc[:, frame.notna().mean() > MIN_PRESENT].dropna()
    return _varying(frame.to_numpy(np.float64), [str(name) for name in frame.columns])


def _varying(rows, names):
    rows = rows[np.isfinite(rows).all(axis=1)]
    kept = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    return rows[:, kept], [names[j] for j in kept]
