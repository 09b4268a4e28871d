"""scikit-learn faces."""

from eigenveil.estimators.continual import ContinualCovariance, ContinualPCA
from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.estimators.preprocessing import PrivatePreprocessor
from eigenveil.estimators.regression import PrivateRegression
from eigenveil.estimators.spiked_model import PrivateSpikedModel
from eigenveil.estimators.streaming import StreamingPCA

__all__ = [
    "ContinualCovariance",
    "ContinualPCA",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivatePreprocessor",
    "PrivateRegression",
    "PrivateSpikedModel",
    "StreamingPCA",
]
