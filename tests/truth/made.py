"""Made tables of the kinds that mechanisms are not tuned on."""

import numpy as np

__all__ = ["TABLES"]

ROWS, COLUMNS = 6000, 8


def normal() -> np.ndarray:
    return _correlated(0) + 3


def units_10_million_apart() -> np.ndarray:
    return (_correlated(1) + 1) * 10.0 ** np.linspace(-3.5, 3.5, COLUMNS)


def dominant_column() -> np.ndarray:
    rows = _correlated(2)
    rows[:, 0] *= 30
    return rows + 2


def lognormal() -> np.ndarray:
    return np.exp(_correlated(3))


def zero_inflated() -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.where(rng.random((ROWS, COLUMNS)) < 0.6, 0.0, np.exp(_correlated(5) + 1))


def flags() -> np.ndarray:
    return (_correlated(6) > np.linspace(0.0, 2.0, COLUMNS)).astype(float)


def counts_of_days() -> np.ndarray:
    """Return counts that grow with a day and a place: skewed, of many sizes, half of them zero."""
    rng = np.random.default_rng(9)
    day, place = rng.integers(0, 400, ROWS), np.exp(rng.standard_normal(ROWS))
    mean = place[:, None] * np.exp(_correlated(10)) * 10.0 ** np.arange(COLUMNS - 2, -2, -1) / 50
    rows = rng.poisson(np.minimum(mean, 1e8)).astype(float)
    rows[:, 0] = day
    return rows


def missing_together() -> np.ndarray:
    """40 % of the rows have nothing in half of the columns: a question that was not asked."""
    rows = _correlated(7) + 3
    skipped = np.random.default_rng(8).random(ROWS) < 0.4
    rows[np.ix_(skipped, np.arange(COLUMNS // 2))] = np.nan
    return rows


def constant_and_rare() -> np.ndarray:
    """Return columns with correlations beside two constants and flags of few rows."""
    rows = _correlated(11)
    rows[:, 4:6] = (3.0, -1.0)
    rows[:, 6:] = np.random.default_rng(12).random((ROWS, 2)) < (0.001, 0.01)
    return rows


def _correlated(seed: int) -> np.ndarray:
    """Return normal rows of unit variances with correlations of many sizes."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(COLUMNS) + 0.5 * rng.standard_normal((COLUMNS, COLUMNS))
    rows = rng.standard_normal((ROWS, COLUMNS)) @ mixing
    return np.asarray(rows / rows.std(axis=0))


TABLES = {
    make.__name__.replace("_", " "): make
    for make in (
        normal,
        units_10_million_apart,
        dominant_column,
        lognormal,
        zero_inflated,
        flags,
        counts_of_days,
        missing_together,
        constant_and_rare,
    )
}
