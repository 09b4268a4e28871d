"""One algorithm, one file; the privacy argument is in the file and in docs/proofs."""

from eigenveil.mechanisms.base import Gate, Mechanism, release
from eigenveil.mechanisms.centred import Centred
from eigenveil.mechanisms.covariance.cleaned import CleanedCov
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.covariance.projection import ProjectedCov
from eigenveil.mechanisms.mean import GaussianMean
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGauss

__all__ = [
    "AnalyzeGauss",
    "Centred",
    "CleanedCov",
    "Gate",
    "GaussCov",
    "GaussianMean",
    "Mechanism",
    "ProjectedCov",
    "release",
]
