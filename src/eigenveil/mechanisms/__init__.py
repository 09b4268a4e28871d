"""One algorithm, one file; the privacy argument is in the file and in docs/proofs."""

from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise
from eigenveil.mechanisms.base import Gate, Mechanism, Procedure, release
from eigenveil.mechanisms.centred import Centred, Uncentred
from eigenveil.mechanisms.covariance.adaptive import AdaptiveCov
from eigenveil.mechanisms.covariance.adaptive_cleaned import AdaptiveCleanedCov
from eigenveil.mechanisms.covariance.cleaned import CleanedCov
from eigenveil.mechanisms.covariance.coinpress import CoinPressCov
from eigenveil.mechanisms.covariance.exponential import BinghamDirection, ExponentialCov
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.covariance.projection import ProjectedCov
from eigenveil.mechanisms.covariance.separate import SeparateCov
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.covariance.zero import ZeroCov
from eigenveil.mechanisms.lifted import HomogeneousRows
from eigenveil.mechanisms.located import LocatedCentre
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.paired import Paired
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOjaPCA
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGaussPCA
from eigenveil.mechanisms.pca.boxed_oja import BoxedOjaPCA
from eigenveil.mechanisms.pca.deflation import DeflationPCA
from eigenveil.mechanisms.pca.dp_pca import TruncatedMeanPCA
from eigenveil.mechanisms.pca.exponential import ExponentialPCA
from eigenveil.mechanisms.pca.gap_projector import GapProjectorPCA
from eigenveil.mechanisms.pca.inside import ProjectedMoment
from eigenveil.mechanisms.pca.laplace import LaplacePCA
from eigenveil.mechanisms.pca.oja import OjaPCA
from eigenveil.mechanisms.pca.power import PowerPCA
from eigenveil.mechanisms.pca.shuffled_oja import ShuffledOjaPCA
from eigenveil.mechanisms.pca.spherical import SphericalPCA
from eigenveil.mechanisms.pca.spiked import SpikedPCA, SpikedProjector, SpikedValues
from eigenveil.mechanisms.pca.staged import ComponentStages, Further, Variances
from eigenveil.mechanisms.pca.tangent import ProductNoise, TangentPCA
from eigenveil.mechanisms.pca.tangent_oja import TangentOjaPCA
from eigenveil.mechanisms.pca.wishart import WishartPCA
from eigenveil.mechanisms.ranged import PrivateRadiusClip
from eigenveil.mechanisms.scalars.captured import Captured, CapturedVariance
from eigenveil.mechanisms.scalars.column_scale import ColumnScale, FoundScales
from eigenveil.mechanisms.scalars.gap import PrivateGap
from eigenveil.mechanisms.scalars.histogram import StabilityHistogram
from eigenveil.mechanisms.scalars.leading import PrivateEigenvalues
from eigenveil.mechanisms.scalars.levels import PrivateLevels
from eigenveil.mechanisms.scalars.noise_variance import PrivateNoiseVariance
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.mechanisms.scalars.radius import PrivateRadius
from eigenveil.mechanisms.scalars.rank import PrivateRank
from eigenveil.mechanisms.scalars.score_histogram import ScoreHistogram
from eigenveil.mechanisms.scalars.sparse_vector import SparseVector
from eigenveil.mechanisms.scalars.spread import PrivateSpread
from eigenveil.mechanisms.scalars.threshold import ClippingThreshold
from eigenveil.mechanisms.scalars.trace import PrivateTrace
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.mechanisms.scaled import Scaled
from eigenveil.mechanisms.truncated_mean import TruncatedMean

__all__ = [
    "AdaptiveCleanedCov",
    "AdaptiveCov",
    "AdaptiveOjaPCA",
    "AnalyzeGaussPCA",
    "BinghamDirection",
    "BoxedOjaPCA",
    "Captured",
    "CapturedVariance",
    "Centred",
    "CleanedCov",
    "ClippingThreshold",
    "CoinPressCov",
    "ColumnScale",
    "ComponentStages",
    "DeflationPCA",
    "ExponentialCov",
    "ExponentialPCA",
    "FoundScales",
    "Further",
    "GapProjectorPCA",
    "Gate",
    "GaussCov",
    "GaussianNoise",
    "HomogeneousRows",
    "LapCov",
    "LaplaceNoise",
    "LaplacePCA",
    "LocatedCentre",
    "Mechanism",
    "OjaPCA",
    "Paired",
    "PowerPCA",
    "PrivateEigenvalues",
    "PrivateGap",
    "PrivateLevels",
    "PrivateMean",
    "PrivateNoiseVariance",
    "PrivateQuantile",
    "PrivateRadius",
    "PrivateRadiusClip",
    "PrivateRank",
    "PrivateSpread",
    "PrivateTrace",
    "PrivateVariances",
    "Procedure",
    "ProductNoise",
    "ProjectedCov",
    "ProjectedMoment",
    "Scaled",
    "ScoreHistogram",
    "SeparateCov",
    "ShuffledOjaPCA",
    "SparseVector",
    "SphericalPCA",
    "SpikedPCA",
    "SpikedProjector",
    "SpikedValues",
    "StabilityHistogram",
    "TangentOjaPCA",
    "TangentPCA",
    "TruncatedMean",
    "TruncatedMeanPCA",
    "Uncentred",
    "Variances",
    "WishartCov",
    "WishartPCA",
    "ZeroCov",
    "release",
]
