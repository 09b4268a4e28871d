"""Streams whose clipping radius grows: what they state is of rows clipped at the last one."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import StreamingPCA
from eigenveil.estimators import state as stream_state
from eigenveil.exceptions import ComponentsWarning
from eigenveil.mechanisms import PrivateDistances
from tests.estimators.streams import BUDGET

SEEDS = range(5)


def one_long_column(n=6500, seed=0):
    """Return rows whose first column has nearly all variance, a few of them far from the rest."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, 9)) * 10
    rows[:, 0] = 3000 + 1500 * np.clip(random.standard_t(3, n), -6, 6)
    return rows


def with_far_rows(n=20_000, seed=0):
    """Return rows of which one in twenty is far away and holds half of the variance."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, 20))
    far = random.random(n) < 0.05
    rows[far, 0] += 20 * random.choice([-1, 1], far.sum())
    return rows


def clipped_share(pca, rows):
    """Return the share of the first component of rows clipped at the released radius."""
    about = rows - pca.mean_
    lengths = np.linalg.norm(about, axis=1, keepdims=True)
    about = about * np.minimum(1, pca.row_norm_ / lengths)
    return np.sum((about @ pca.components_[0]) ** 2) / np.sum(about**2)


@pytest.mark.parametrize("batch_size", [None, 500])
def test_the_stated_share_is_that_of_rows_at_the_released_radius(batch_size):
    """Steps at smaller radii had less noise and outweighed later ones: .03 to .9 was stated."""
    rows = one_long_column()
    for seed in SEEDS:
        pca = StreamingPCA(3, **BUDGET, batch_size=batch_size, random_state=seed).fit(rows)
        assert pca.distinguishable_[0]
        truth = clipped_share(pca, rows)
        assert truth > 0.95
        assert truth - 0.3 < pca.explained_variance_ratio_[0] < truth + 0.1


def test_large_batches_find_rows_that_the_first_one_could_not_see(monkeypatch):
    """One row in twenty: noise hides as many in the first batch."""
    counts, found = [], PrivateDistances.run

    def run(search, source, about, gate):
        counts.append(len(source.records))
        return found(search, source, about, gate)

    monkeypatch.setattr(PrivateDistances, "run", run)
    rows = with_far_rows()
    for seed in SEEDS:
        pca = StreamingPCA(1, **BUDGET, random_state=seed).fit(rows)
        truth = clipped_share(pca, rows)
        assert truth > 0.4
        assert pca.explained_variance_ratio_[0] == pytest.approx(truth, abs=0.1)
        assert abs(pca.components_[0, 0]) > 0.99
    first = min(counts)
    assert sum(count > first for count in counts) == len(SEEDS)  # one batch of each stream
    assert max(counts) > 5 * first


def test_a_last_batch_that_is_not_full_is_clipped_like_the_one_before():
    """It is too small to make up for what a larger radius leaves out of earlier ones."""
    rows = one_long_column()
    for seed in SEEDS:
        pca = StreamingPCA(1, **BUDGET, random_state=seed).partial_fit(rows[:5700])
        assert pca.n_buffered_ > 0
        before = pca.row_norm_
        assert pca.finish().row_norm_ == before


def test_batches_of_one_size_are_clipped_for_what_they_are_worth_together():
    """Noise on their mean falls as the root of their number: the radius grows more slowly."""
    rows = one_long_column()
    norms = {
        size: np.median(
            [
                StreamingPCA(1, **BUDGET, batch_size=size, random_state=i).fit(rows).row_norm_
                for i in SEEDS
            ]
        )
        for size in (None, 80)
    }
    assert norms[80] < norms[None]


def test_a_state_without_the_present_radius_goes_on(tmp_path, monkeypatch):
    """States of earlier versions note the radius of the last batch alone."""
    rows, path = one_long_column(), tmp_path / "state"
    asked = {**BUDGET, "random_state": 1, "state": path}
    StreamingPCA(1, **asked).partial_fit(rows[:4000], batch="first")
    noted = stream_state._noted_bounds

    def earlier(bounds):
        return {name: value for name, value in noted(bounds).items() if name != "reach"}

    with monkeypatch.context() as older:
        older.setattr(stream_state, "_noted_bounds", earlier)
        StreamingPCA(1, **asked).partial_fit(rows[:1], batch="one row")
    stream = stream_state.State.load(path, stream_state.StreamProgress).progress
    assert stream.bounds.reach == stream.bounds.clipped
    pca = StreamingPCA(1, **asked).partial_fit(rows[4001:], batch="rest").finish()
    assert pca.distinguishable_[0]
    assert pca.explained_variance_ratio_[0] > 0.7


@pytest.mark.filterwarnings("default::eigenveil.exceptions.ComponentsWarning")
class TestWarnings:
    """The same as of tables, once components are final."""

    def table(self):
        names = ["days", *(f"c{i}" for i in range(8))]
        return pd.DataFrame(one_long_column(), columns=names)

    def test_a_column_with_most_of_the_variance_is_named_at_the_end(self, recwarn):
        pca = StreamingPCA(1, **BUDGET, random_state=0).partial_fit(self.table())
        assert not recwarn.list
        with pytest.warns(ComponentsWarning, match="the column 'days' alone holds") as caught:
            pca.finish()
        assert caught[0].filename == __file__
        with pytest.warns(ComponentsWarning, match="the column 'days' alone holds") as caught:
            StreamingPCA(1, **BUDGET, random_state=0).fit(self.table())
        assert caught[0].filename == __file__

    def test_stated_scales_are_not_doubted(self, recwarn):
        scale = [1000.0, *[10.0] * 8]
        StreamingPCA(1, **BUDGET, scale=scale, random_state=0).fit(self.table())
        assert not [w for w in recwarn.list if "alone holds" in str(w.message)]

    def test_no_clear_component_is_said(self):
        rows = np.random.default_rng(0).standard_normal((4000, 9))
        with pytest.warns(ComponentsWarning, match="no component stands out from the noise"):
            StreamingPCA(1, **BUDGET, random_state=0).fit(rows)
