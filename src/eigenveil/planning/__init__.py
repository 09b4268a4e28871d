"""What a release will be like, from public numbers: its stages, its error, which mechanism."""

from eigenveil.doors import lazy_names

_HOMES = {
    "assumed": "AssumedTable isotropic",
    "bounds": "box_of by_column",
    "category_search": "LEVEL_SHARE",
    "choice": "Choice choose",
    "linear_plan": "RegressionPlan",
    "plans": "free_centring",
    "predict_regression": "RegressionSituation needed_regression_epsilon needed_regression_rows",
    "prediction": (
        "Needed Prediction Recommendation default_scale_share foresee needed_epsilon "
        "needed_rows predict predictions private_scale_share recommend"
    ),
    "real_tables": "added_loss",
    "reference_rates": "Rate reference",
    "request": "Situation Spiked spiked",
    "shares": "clips divided searchable",
    "sufficient": "what_would_do",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
