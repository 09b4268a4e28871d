"""What tests of estimators share."""

import pytest

from eigenveil import PrivateCovariance, PrivatePCA

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BOTH = pytest.mark.parametrize("estimator", [PrivatePCA, PrivateCovariance])
ADJACENCIES = pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
SECRET = 98765.4321
