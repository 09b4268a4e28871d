"""Figures of releases, ledgers and plans, and reports on disk."""

from eigenveil.report.displays.covariance import CovarianceDisplay
from eigenveil.report.displays.files import figures, write
from eigenveil.report.displays.loadings import LoadingsDisplay
from eigenveil.report.displays.plan import PlanDisplay
from eigenveil.report.displays.scree import ScreeDisplay
from eigenveil.report.displays.spend import SpendDisplay

__all__ = [
    "CovarianceDisplay",
    "LoadingsDisplay",
    "PlanDisplay",
    "ScreeDisplay",
    "SpendDisplay",
    "figures",
    "write",
]
