"""What a fit charges: nothing where it is refused, and a release that can be saved otherwise."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, Release, open_rows
from eigenveil.exceptions import (
    BusyError,
    ColumnsLeftOutWarning,
    EigenveilError,
    UnsupportedNotionError,
)
from eigenveil.papers.spiked import PrivateSpikedModel
from eigenveil.rows import CSVSource

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


OUT_OF_MEMORY = """
import resource, sys
import numpy as np
from eigenveil import Ledger, PrivateCovariance, PrivatePCA, PrivateRegression

ledger = Ledger.create(sys.argv[2], epsilon=900.0, delta=1e-6)
table = np.random.default_rng(0).normal(size=(4000, 1000))
estimator = {"pca": PrivatePCA, "covariance": PrivateCovariance, "regression": PrivateRegression}
private = estimator[sys.argv[1]](epsilon=800.0, delta=1e-6, ledger=ledger)
arguments = (table[:, :-1], table[:, -1]) if sys.argv[1] == "regression" else (table,)
small = [rows[:500, :5] if rows.ndim == 2 else rows[:500] for rows in arguments]
estimator[sys.argv[1]](epsilon=800.0, delta=1e-6).fit(*small)  # whatever is loaded at first
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + 40 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    private.fit(*arguments)
except MemoryError as error:
    print(error)
print(len(ledger.entries))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory is used from /proc")
@pytest.mark.parametrize("estimator", ["pca", "covariance", "regression"])
def test_a_lack_of_memory_shows_before_the_charge(estimator, tmp_path):
    words = [sys.executable, "-c", OUT_OF_MEMORY, estimator, str(tmp_path / "l")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    told, entries = done.stdout.splitlines()
    assert "nothing was charged: choose fewer columns" in told
    assert entries == "0"


def test_a_lack_of_memory_does_not_blame_the_file(tmp_path):
    """Nor does it tell the shape of the rows."""
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 50)

    def full(*arguments):
        np.empty((50, 2**40))  # numpy's words tell the shape

    source = open_rows(tmp_path / "t.csv")
    with (
        pytest.raises(MemoryError, match=r"^out of memory while t\.csv was read$"),
        source._file.one_pass("cannot be read"),
    ):
        full()


class Waiting(CSVSource):
    """Rows that are read once another thread says so."""

    def chunks(self):
        self.begun.set()
        assert self.go_on.wait(60)
        yield from super().chunks()


def test_a_second_thread_is_refused_before_it_is_charged(table, ledger, tmp_path):
    """Of two fits of one estimator, both would be paid for, and one release would be lost."""
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d", comments="")
    rows = Waiting(tmp_path / "t.csv")
    rows.begun, rows.go_on = threading.Event(), threading.Event()
    pca = PrivatePCA(2, **BUDGET, ledger=ledger)
    first = threading.Thread(target=pca.fit, args=(rows,))
    first.start()
    assert rows.begun.wait(60)
    with pytest.raises(BusyError, match="give each thread its own"):
        pca.fit(table)
    assert ledger.entries == ()
    rows.go_on.set()
    first.join()
    assert pca.components_.shape == (2, 4)
    assert len(ledger.entries) == 1
    pca.fit(table)  # now it is free again


def test_charges_of_a_fit_that_fails_are_marked(table, ledger, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(PrivatePCA, "_hold", broken)
    pca = PrivatePCA(2, **BUDGET, ledger=ledger)
    with pytest.raises(ZeroDivisionError):
        pca.fit(table)
    assert [entry.failed for entry in ledger.entries] == [None, 1]


@pytest.mark.filterwarnings("error::eigenveil.exceptions.ColumnsLeftOutWarning")
def test_a_warning_made_an_error_leaves_the_release(ledger):
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.normal(size=(6000, 3)), np.zeros(6000)])
    for private in (
        PrivatePCA(2, **BUDGET, scale="private", ledger=ledger),
        PrivateCovariance(**BUDGET, scale="private", ledger=ledger),
    ):
        with pytest.raises(ColumnsLeftOutWarning):
            private.fit(rows)
        assert private.release_.settings["n_features"] == 4
    assert [entry.failed for entry in ledger.entries] == [None, None]
