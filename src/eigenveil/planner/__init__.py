"""What a release will be like, from public numbers: its stages, its error, which mechanism."""

from eigenveil.planner.choice import Choice, choose
from eigenveil.planner.predict import (
    Needed,
    Prediction,
    Recommendation,
    foresee,
    needed_epsilon,
    needed_rows,
    predict,
    predictions,
    recommend,
)
from eigenveil.planner.reference import Rate, reference
from eigenveil.planner.scales import default_scale_share, private_scale_share
from eigenveil.planner.situation import Situation, Spiked, spiked

__all__ = [
    "Choice",
    "Needed",
    "Prediction",
    "Rate",
    "Recommendation",
    "Situation",
    "Spiked",
    "choose",
    "default_scale_share",
    "foresee",
    "needed_epsilon",
    "needed_rows",
    "predict",
    "predictions",
    "private_scale_share",
    "recommend",
    "reference",
    "spiked",
]
