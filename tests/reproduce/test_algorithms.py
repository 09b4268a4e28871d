"""Named algorithms: each is reached by its name, and releases."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.papers import ALGORITHMS, algorithm

MANY = {"AdaDPO", "TAdaDPO", "k-DP-PCA", "DP-PCA"}  # records that they need


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_name_releases(name):
    """On few rows, which some refuse before anything is charged."""
    entry = algorithm(name)
    rows = np.random.default_rng(0).standard_normal((6000, 4)) * [2.0, 1.5, 0.2, 0.1]
    asked = {"epsilon": 1.0, "delta": 0.01, "mechanism": entry, "random_state": 0}
    if entry.releases == "covariance":
        if not entry.has_gaussian:
            del asked["delta"]
        model = PrivateCovariance(**asked, bounds=(-9, 9), row_norm=6.0).fit(rows)
        assert np.isfinite(model.covariance_).all()
        return
    k = 1 if name in ("DP-PCA", "DP-Ojas") else 2
    norm = {"row_norm": 6.0} if name in ("DP-Gauss-1", "DP-Gauss-2") else {}
    model = PrivatePCA(k, **asked, centring="none", **norm)
    if name in MANY:
        with pytest.raises(InvalidDataError, match="records at least"):
            model.fit(rows)
        return
    assert model.fit(rows).components_.shape == (k, 4)
    assert model.privacy_.simulated


def test_an_unknown_name_lists_the_known():
    with pytest.raises(InvalidParameterError, match="k-DP-Ojas"):
        algorithm("k-DP-Oja")
