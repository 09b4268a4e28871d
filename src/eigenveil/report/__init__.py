"""Reports for people: the HTML page, and figures in the style of scikit-learn's displays."""

from eigenveil.doors import lazy_names

_HOMES = {
    "displays": (
        "CovarianceDisplay LoadingsDisplay PlanDisplay ScreeDisplay SpendDisplay figures write"
    ),
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
