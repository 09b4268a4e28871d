"""Cells of the made tables where a claim fails today, with the share of statements that hold.

A claim that is no longer failing has to be removed here: `test_made.py` asks for it.
"""

from tests.truth.sweep import Cell

KNOWN: dict[Cell, dict[str, float]] = {
    Cell("normal", "default", 5.0): {
        "intervals of eigenvalues": 0.88,
    },
    Cell("units 10 million apart", "default", 1.0): {
        "correlations within 2 deviations": 0.00,
        "correlations within 5 deviations": 0.00,
        "intervals of correlations": 0.00,
        "intervals of eigenvalues": 0.44,
    },
    Cell("units 10 million apart", "default", 5.0): {
        "correlations within 2 deviations": 0.00,
        "intervals of correlations": 0.00,
        "error does not grow with epsilon": 0.41,
    },
    Cell("dominant column", "default", 1.0): {
        "intervals of means": 0.88,
    },
    Cell("lognormal", "default", 1.0): {
        "intervals of variances": 0.44,
        "intervals of correlations": 0.43,
        "intervals of eigenvalues": 0.44,
    },
    Cell("lognormal", "default", 5.0): {
        "intervals of variances": 0.59,
        "intervals of correlations": 0.36,
    },
    Cell("lognormal", "private scales", 1.0): {
        "intervals of means": 0.75,
        "intervals of variances": 0.47,
        "intervals of correlations": 0.38,
        "intervals of eigenvalues": 0.31,
    },
    Cell("lognormal", "private scales", 5.0): {
        "intervals of variances": 0.50,
        "intervals of correlations": 0.38,
        "intervals of eigenvalues": 0.41,
    },
    Cell("zero inflated", "default", 1.0): {
        "intervals of correlations": 0.34,
        "intervals of eigenvalues": 0.22,
    },
    Cell("zero inflated", "default", 5.0): {
        "intervals of variances": 0.25,
        "intervals of correlations": 0.32,
        "intervals of eigenvalues": 0.09,
    },
    Cell("zero inflated", "private scales", 1.0): {
        "intervals of variances": 0.31,
        "intervals of correlations": 0.28,
        "intervals of eigenvalues": 0.19,
    },
    Cell("zero inflated", "private scales", 5.0): {
        "intervals of variances": 0.19,
        "intervals of correlations": 0.32,
        "intervals of eigenvalues": 0.25,
    },
    Cell("flags", "default", 1.0): {
        "intervals of variances": 0.78,
        "intervals of correlations": 0.79,
    },
    Cell("flags", "private scales", 5.0): {
        "intervals of variances": 0.88,
        "intervals of eigenvalues": 0.88,
    },
    Cell("missing together", "default", 1.0): {
        "correlations within 5 deviations": 0.96,
        "intervals of correlations": 0.44,
        "intervals of eigenvalues": 0.22,
    },
    Cell("missing together", "default", 5.0): {
        "variances": 0.73,
        "correlations within 2 deviations": 0.55,
        "correlations within 5 deviations": 0.79,
        "intervals of variances": 0.66,
        "intervals of correlations": 0.55,
        "intervals of eigenvalues": 0.28,
    },
    Cell("missing together", "private scales", 5.0): {
        "variances": 0.70,
        "correlations within 2 deviations": 0.52,
        "correlations within 5 deviations": 0.78,
        "intervals of variances": 0.69,
        "intervals of correlations": 0.57,
        "intervals of eigenvalues": 0.31,
    },
}
