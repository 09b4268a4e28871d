"""Cells of the made tables where a claim fails today, with the share of statements that hold.

A claim that is no longer failing has to be removed here: `test_made.py` asks for it.
"""

from tests.truth.sweep import Cell

KNOWN: dict[Cell, dict[str, float]] = {
    Cell("normal", "default", 1.0): {
        "correlations within 2 deviations": 0.75,
    },
    Cell("normal", "private scales", 1.0): {
        "correlations within 2 deviations": 0.79,
    },
    Cell("units 10 million apart", "default", 1.0): {
        "correlations within 2 deviations": 0.29,
        "correlations within 5 deviations": 0.43,
        "intervals of eigenvalues": 0.41,
    },
    Cell("units 10 million apart", "default", 5.0): {
        "correlations within 2 deviations": 0.38,
        "intervals of eigenvalues": 0.44,
    },
    Cell("units 10 million apart", "private scales", 5.0): {
        "correlations within 2 deviations": 0.57,
    },
    Cell("dominant column", "default", 1.0): {
        "correlations within 2 deviations": 0.17,
        "intervals of variances": 0.88,
    },
    Cell("dominant column", "default", 5.0): {
        "variances": 0.88,
        "correlations within 5 deviations": 0.88,
    },
    Cell("lognormal", "default", 1.0): {
        "intervals of variances": 0.56,
        "intervals of correlations": 0.45,
        "intervals of eigenvalues": 0.38,
    },
    Cell("lognormal", "default", 5.0): {
        "intervals of correlations": 0.54,
        "intervals of eigenvalues": 0.50,
    },
    Cell("lognormal", "private scales", 1.0): {
        "intervals of variances": 0.62,
        "intervals of correlations": 0.46,
        "intervals of eigenvalues": 0.38,
    },
    Cell("lognormal", "private scales", 5.0): {
        "intervals of variances": 0.62,
        "intervals of correlations": 0.47,
        "intervals of eigenvalues": 0.47,
    },
    Cell("zero inflated", "default", 1.0): {
        "intervals of means": 0.75,
        "intervals of variances": 0.41,
        "intervals of correlations": 0.29,
        "intervals of eigenvalues": 0.25,
    },
    Cell("zero inflated", "default", 5.0): {
        "intervals of variances": 0.53,
        "intervals of correlations": 0.49,
        "intervals of eigenvalues": 0.38,
    },
    Cell("zero inflated", "private scales", 1.0): {
        "intervals of variances": 0.44,
        "intervals of correlations": 0.19,
        "intervals of eigenvalues": 0.34,
    },
    Cell("zero inflated", "private scales", 5.0): {
        "intervals of correlations": 0.46,
        "intervals of eigenvalues": 0.38,
    },
    Cell("flags", "default", 1.0): {
        "intervals of correlations": 0.64,
        "intervals of eigenvalues": 0.72,
    },
    Cell("flags", "private scales", 5.0): {
        "intervals of variances": 0.62,
        "intervals of correlations": 0.71,
        "intervals of eigenvalues": 0.62,
    },
    Cell("missing together", "default", 1.0): {
        "correlations within 2 deviations": 0.83,
        "intervals of variances": 0.38,
        "intervals of correlations": 0.43,
        "intervals of eigenvalues": 0.16,
    },
    Cell("missing together", "default", 5.0): {
        "correlations within 2 deviations": 0.71,
        "correlations within 5 deviations": 0.83,
        "intervals of variances": 0.66,
        "intervals of correlations": 0.42,
        "intervals of eigenvalues": 0.28,
    },
    Cell("missing together", "private scales", 5.0): {
        "correlations within 2 deviations": 0.69,
        "correlations within 5 deviations": 0.82,
        "intervals of variances": 0.50,
        "intervals of correlations": 0.50,
        "intervals of eigenvalues": 0.16,
    },
}
