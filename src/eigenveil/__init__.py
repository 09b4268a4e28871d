"""Differentially private PCA and covariance estimation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenveil.estimators import (
        ContinualCovariance,
        ContinualPCA,
        PrivateCovariance,
        PrivatePCA,
        PrivatePreprocessor,
        PrivateRegression,
        StreamingPCA,
    )
    from eigenveil.estimators.intervals import intervals
    from eigenveil.papers.spiked.model import SpikedModel
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.release import Release
    from eigenveil.rows import open_rows

__all__ = [
    "ContinualCovariance",
    "ContinualPCA",
    "Ledger",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivatePreprocessor",
    "PrivateRegression",
    "Release",
    "SpikedModel",
    "StreamingPCA",
    "intervals",
    "open_rows",
]

# Imported at first use: the command line starts before scikit-learn is needed.
_HOMES = {
    "ContinualCovariance": "eigenveil.estimators",
    "ContinualPCA": "eigenveil.estimators",
    "Ledger": "eigenveil.privacy.ledger",
    "PrivateCovariance": "eigenveil.estimators",
    "PrivatePCA": "eigenveil.estimators",
    "PrivatePreprocessor": "eigenveil.estimators",
    "PrivateRegression": "eigenveil.estimators",
    "StreamingPCA": "eigenveil.estimators",
    "intervals": "eigenveil.estimators.intervals",
    "SpikedModel": "eigenveil.papers.spiked.model",
    "Release": "eigenveil.release",
    "open_rows": "eigenveil.rows",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # half of the time that help takes

        return version("eigenveil")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'eigenveil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
