"""scikit-learn faces."""

from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA

__all__ = ["PrivateCovariance", "PrivatePCA"]
