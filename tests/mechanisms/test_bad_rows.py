"""A row that stops a run stops it before anything is charged, where rows can be read again."""

import numpy as np
import pytest

from eigenveil import Ledger, PrivatePCA
from eigenveil.exceptions import InvalidDataError


@pytest.mark.parametrize("mechanism", ["oja", "adaptive-oja", "tangent-oja", "power"])
@pytest.mark.parametrize("form", ["array", "csv"])
def test_a_bad_row_costs_nothing(tmp_path, mechanism, form):
    rows = np.random.default_rng(0).standard_normal((3000, 3))
    rows[-1, 1] = np.nan
    data = rows
    if form == "csv":
        data = tmp_path / "rows.csv"
        np.savetxt(data, rows, delimiter=",", header="a,b,c", comments="")
    ledger = Ledger.create(tmp_path / "ledger", epsilon=3, delta=1e-5)
    pca = PrivatePCA(1, epsilon=3, delta=1e-5, mechanism=mechanism, centring="none", ledger=ledger)
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        pca.fit(data)
    assert ledger.entries == ()
