"""Estimators for scikit-learn: components, covariance, regression, streams, continual releases."""

from eigenveil.doors import lazy_names

_HOMES = {
    "continual": "ContinualCovariance ContinualPCA",
    "covariance": "PrivateCovariance",
    "daily": "DailyEstimator",
    "intervals": "intervals",
    "pca": "PrivatePCA",
    "persons": "Arrival Persons",
    "preprocessing": "PrivatePreprocessor",
    "regression": "PrivateRegression",
    "results": "component_result",
    "state": "DailyProgress State StreamProgress",
    "stream_run": "StreamRun planned",
    "streaming": "StreamingPCA",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
