"""Cells of the made tables where a claim fails today, with the share of statements that hold.

A claim that is no longer failing has to be removed here: `test_made.py` asks for it.
"""

from tests.truth.sweep import Cell

KNOWN: dict[Cell, dict[str, float]] = {
    Cell("units 10 million apart", "default", 1.0): {
        "correlations within 2 deviations": 0.00,
        "correlations within 5 deviations": 0.00,
        "intervals of correlations": 0.00,
    },
    Cell("units 10 million apart", "default", 5.0): {
        "correlations within 2 deviations": 0.00,
        "intervals of correlations": 0.00,
        "error does not grow with epsilon": 0.78,
    },
    Cell("lognormal", "default", 1.0): {
        "intervals of means": 0.78,
        "intervals of variances": 0.50,
        "intervals of correlations": 0.38,
        "intervals of eigenvalues": 0.41,
    },
    Cell("lognormal", "default", 5.0): {
        "intervals of variances": 0.56,
        "intervals of correlations": 0.38,
    },
    Cell("lognormal", "private scales", 1.0): {
        "intervals of variances": 0.41,
        "intervals of correlations": 0.35,
        "intervals of eigenvalues": 0.25,
    },
    Cell("lognormal", "private scales", 5.0): {
        "intervals of variances": 0.50,
        "intervals of correlations": 0.41,
        "intervals of eigenvalues": 0.41,
    },
    Cell("zero inflated", "default", 1.0): {
        "intervals of correlations": 0.29,
        "intervals of eigenvalues": 0.22,
    },
    Cell("zero inflated", "default", 5.0): {
        "intervals of variances": 0.28,
        "intervals of correlations": 0.35,
        "intervals of eigenvalues": 0.09,
    },
    Cell("zero inflated", "private scales", 1.0): {
        "intervals of variances": 0.22,
        "intervals of correlations": 0.23,
        "intervals of eigenvalues": 0.25,
    },
    Cell("zero inflated", "private scales", 5.0): {
        "intervals of variances": 0.25,
        "intervals of correlations": 0.27,
        "intervals of eigenvalues": 0.25,
    },
    Cell("flags", "private scales", 5.0): {
        "intervals of variances": 0.88,
        "intervals of eigenvalues": 0.88,
    },
}
