"""What a release will be like, from public numbers: its stages, its error, which mechanism."""

from eigenveil.doors import lazy_names

_HOMES = {
    "choice": "Choice choose",
    "predict": (
        "Needed Prediction Recommendation foresee needed_epsilon needed_rows predict "
        "predictions recommend"
    ),
    "reference": "Rate reference",
    "scales": "default_scale_share private_scale_share",
    "situation": "Situation Spiked spiked",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
