"""Reports for people: the HTML page, and figures in the style of scikit-learn's displays."""

from eigenveil.doors import lazy_names

_HOMES = {
    "charts": "Chart Level scree",
    "displays": (
        "GREY NOISE SIGNAL CovarianceDisplay LoadingsDisplay PlanDisplay ScreeDisplay SpendDisplay"
    ),
    "files": "figures write",
    "views": (
        "captured_sentence correlations eigenvalues hidden_variances left_out loadings "
        "spectrum spending"
    ),
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
