"""Plans of few simulations, for tests of what does not depend on how well they agree."""

import importlib
from contextlib import contextmanager

import pytest


@contextmanager
def few_simulations(count=2):
    """Two releases of each mechanism instead of forty."""
    predicting = importlib.import_module("eigenveil.planning.prediction")
    predicting._predict.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "_FEW", count)
        patch.setattr(predicting, "_RELEASES", (count, count))
        patch.setattr(predicting, "_BATCHED", (count, count))
        yield
    predicting._predict.cache_clear()
