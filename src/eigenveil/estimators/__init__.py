"""scikit-learn faces."""

from eigenveil.doors import lazy_names

_HOMES = {
    "continual": "ContinualCovariance ContinualPCA",
    "covariance": "PrivateCovariance",
    "pca": "PrivatePCA",
    "preprocessing": "PrivatePreprocessor",
    "regression": "PrivateRegression",
    "spiked_model": "PrivateSpikedModel",
    "streaming": "StreamingPCA",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
