"""Cells of the made tables where a claim fails today, with the share of statements that hold.

A claim that is no longer failing has to be removed here: `test_made.py` asks for it.
"""

from tests.truth.sweep import Cell

KNOWN: dict[Cell, dict[str, float]] = {
    Cell("missing together", "default", 1.0): {
        "correlations within 2 deviations": 0.74,
        "intervals of correlations": 0.81,
    },
    Cell("missing together", "default", 5.0): {
        "variances": 0.52,
        "correlations within 2 deviations": 0.50,
        "correlations within 5 deviations": 0.76,
        "intervals of correlations": 0.83,
        "intervals of eigenvalues": 0.28,
    },
    Cell("missing together", "private scales", 1.0): {
        "correlations within 2 deviations": 0.74,
        "intervals of correlations": 0.81,
    },
    Cell("missing together", "private scales", 5.0): {
        "variances": 0.52,
        "correlations within 2 deviations": 0.50,
        "correlations within 5 deviations": 0.76,
        "intervals of correlations": 0.83,
        "intervals of eigenvalues": 0.28,
    },
}
