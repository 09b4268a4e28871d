"""Reports for people: figures in the style of scikit-learn's displays, and the HTML page."""

from eigenveil.report.covariance import CovarianceDisplay
from eigenveil.report.files import figures, write
from eigenveil.report.loadings import LoadingsDisplay
from eigenveil.report.plan import PlanDisplay
from eigenveil.report.scree import ScreeDisplay
from eigenveil.report.spend import SpendDisplay

__all__ = [
    "CovarianceDisplay",
    "LoadingsDisplay",
    "PlanDisplay",
    "ScreeDisplay",
    "SpendDisplay",
    "figures",
    "write",
]
