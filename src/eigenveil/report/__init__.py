"""Reports for people: the HTML page, and figures in the style of scikit-learn's displays."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenveil.report.displays import (
        CovarianceDisplay,
        LoadingsDisplay,
        PlanDisplay,
        ScreeDisplay,
        SpendDisplay,
        figures,
        write,
    )

__all__ = [
    "CovarianceDisplay",
    "LoadingsDisplay",
    "PlanDisplay",
    "ScreeDisplay",
    "SpendDisplay",
    "figures",
    "write",
]


def __getattr__(name: str) -> Any:
    # Imported at first use: figures know releases, which know the page beside them.
    if name in __all__:
        return getattr(import_module("eigenveil.report.displays"), name)
    raise AttributeError(f"module 'eigenveil.report' has no attribute {name!r}")
