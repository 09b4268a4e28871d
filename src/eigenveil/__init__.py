"""Differentially private PCA and covariance estimation."""

from eigenveil.estimators import PrivateCovariance, PrivatePCA
from eigenveil.privacy.ledger import Ledger
from eigenveil.release import Release

__all__ = ["Ledger", "PrivateCovariance", "PrivatePCA", "Release"]
