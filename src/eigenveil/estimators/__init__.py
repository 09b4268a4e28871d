"""scikit-learn faces."""

from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.estimators.regression import PrivateRegression
from eigenveil.estimators.spiked_model import PrivateSpikedModel
from eigenveil.estimators.streaming import StreamingPCA

__all__ = [
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRegression",
    "PrivateSpikedModel",
    "StreamingPCA",
]
