"""What a fit charges: nothing where it is refused, and a release that can be saved otherwise."""

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release
from eigenveil.estimators import PrivateSpikedModel
from eigenveil.exceptions import EigenveilError, UnsupportedNotionError

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l", epsilon=4.0, delta=1e-6)


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).normal(size=(4000, 4)) * [10.0, 1.0, 1.0, 0.1]


@pytest.mark.parametrize("share", [0.01, 0.8])
def test_a_share_of_variance_with_a_map_of_scores_can_be_saved(table, ledger, tmp_path, share):
    """One component holds the share, and a map has two axes."""
    pca = PrivatePCA(share, **BUDGET, ledger=ledger, show_scores=True).fit(table)
    assert pca.n_components_ == 2
    assert PrivatePCA(share, **BUDGET, random_state=1).fit(table).n_components_ == 1
    pca.release_.save(tmp_path / "release")
    assert Release.load(tmp_path / "release").arrays["score_counts"].ndim == 2


@pytest.mark.parametrize("groups", [None, np.arange(4000) // 2])
@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (PrivatePCA, {"on_missing": "centre"}),
        (PrivateCovariance, {"on_missing": "centre", "row_norm": 5.0}),
        (PrivateCovariance, {}),
    ],
)
def test_pairs_are_refused_before_other_stages_are_paid_for(
    table, tmp_path, estimator, options, groups
):
    unit = "row" if groups is None else "person"
    ledger = Ledger.create(tmp_path / "l", **BUDGET, adjacency="add-remove", unit=unit)
    private = estimator(
        **BUDGET, ledger=ledger, adjacency="add-remove", centring="paired", **options
    )
    with pytest.raises(UnsupportedNotionError, match="need a public number of"):
        private.fit(table, groups=groups)
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("columns", "max_rank"), [(1, 10), (4, 0), (4, -1), (4, 1.5), (4, True), (4, "2")]
)
def test_a_spiked_model_that_cannot_be_is_refused_before_it_is_paid_for(
    table, ledger, columns, max_rank
):
    model = PrivateSpikedModel(5.0, max_rank=max_rank, **BUDGET, ledger=ledger)
    with pytest.raises(EigenveilError):
        model.fit(table[:, :columns])
    assert ledger.entries == ()
