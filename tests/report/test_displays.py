"""Displays draw the numbers of the release, and leave matplotlib as they found it."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidParameterError, MissingExtraError
from eigenveil.privacy import Adjacency, Composed, Gaussian
from eigenveil.report import (
    GREY,
    NOISE,
    SIGNAL,
    CovarianceDisplay,
    LoadingsDisplay,
    PlanDisplay,
    ScreeDisplay,
    SpendDisplay,
)
from tests.release.samples import HOSTILE, components, covariance

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROWS = np.random.default_rng(0).standard_normal((60, 4))
MATRIX = np.array([[4.0, 2.0, -1.0], [2.0, 4.0, 0.0], [-1.0, 0.0, 1.0]])


@pytest.fixture(autouse=True)
def closed_figures():
    settings = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == settings
    plt.close("all")


def drawn(display):
    """The display after everything was laid out, which raises where it cannot be."""
    display.figure_.canvas.draw()
    return display


def colours(bars):
    return [to_hex(bar.get_facecolor()) for bar in bars]


def words(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_scree_plot_draws_eigenvalues_and_the_floor():
    release = components(np.eye(3), [3, 0.12, 0.05], clear=[1, 0, 0], noise_floor=0.2)
    shown = drawn(ScreeDisplay.from_release(release))
    assert [bar.get_height() for bar in shown.bars_] == [3, 0.12, 0.05]
    assert colours(shown.bars_) == [SIGNAL, GREY, GREY]
    assert [set(line.get_ydata()) for line in shown.levels_] == [{0.1}, {0.2}]
    assert words(shown.ax_) == [
        "clear of noise",
        "not clear",
        "what noise alone rarely exceeds",
        "with the error of the centre",
    ]
    assert shown.ax_.get_ylabel() == "variance (squared column units)"
    assert shown.ax_.get_title() == "What stands above the noise"
    assert shown.figure_ is shown.ax_.figure


def test_the_scree_plot_cuts_long_spectra_and_keeps_the_legend_off_the_line():
    values = np.linspace(2, 0.01, 50)
    shown = drawn(ScreeDisplay.from_release(covariance(np.eye(50), noisy=values, noise_floor=3.0)))
    assert len(shown.bars_) == 40
    assert words(shown.ax_)[0] == "not clear"
    legend = shown.ax_.get_legend().get_window_extent()
    assert legend.y0 > shown.ax_.transData.transform((0, 3.0))[1]


def test_a_release_without_a_floor_has_no_scree_plot():
    with pytest.raises(InvalidParameterError, match="LoadingsDisplay"):
        ScreeDisplay.from_release(components(np.eye(2), [1, 1], noise_floor=0.0, matrix_floor=0.0))


def test_loadings_are_drawn_with_their_names():
    release = components(
        [[0.8, -0.6, 0.02]], [3], reliability=[0.999], feature_names=["a", "b", "c"]
    )
    shown = drawn(LoadingsDisplay.from_release(release))
    assert [bar.get_width() for bar in shown.bars_] == [0.8, -0.6, 0.02]
    assert colours(shown.bars_) == [SIGNAL, NOISE, GREY]
    assert [label.get_text() for label in shown.ax_.get_yticklabels()] == ["a", "b", "c"]
    assert shown.ax_.yaxis_inverted()  # the heaviest on top
    assert shown.ax_.get_title() == "Component 1"


def test_loadings_are_drawn_with_their_standard_errors():
    errors = np.array([[0.1, 0.3, 0.001]])
    release = components([[0.8, -0.6, 0.02]], [3], mixing=[[0.99]], errors=errors)
    shown = drawn(LoadingsDisplay.from_release(release))
    assert colours(shown.bars_) == [SIGNAL, GREY, SIGNAL]
    _, _, (lines,) = shown.bars_.errorbar
    ends = [segment[:, 0] for segment in lines.get_segments()]
    np.testing.assert_allclose(ends[1], [-0.9, -0.3])
    assert shown.ax_.get_xlabel() == "loading (lines: standard errors)"


def test_loadings_of_another_component():
    release = components(np.eye(5)[:2], [3, 2], clear=[1, 0])
    shown = LoadingsDisplay.from_release(release, component=1, max_columns=2)
    assert [bar.get_width() for bar in shown.bars_] == [1, 0]
    assert shown.ax_.get_title() == "Component 2, not told from noise"
    for wrong in (-1, 2):
        with pytest.raises(InvalidParameterError, match="between 0 and 1"):
            LoadingsDisplay.from_release(release, component=wrong)


def test_each_kind_of_release_has_its_display():
    with pytest.raises(InvalidParameterError, match="CovarianceDisplay"):
        LoadingsDisplay.from_release(covariance(MATRIX))
    with pytest.raises(InvalidParameterError, match="LoadingsDisplay"):
        CovarianceDisplay.from_release(components(np.eye(2), [1, 1]))


def test_the_covariance_is_drawn_as_correlations():
    shown = drawn(CovarianceDisplay.from_release(covariance(MATRIX)))
    expected = [[1, 0.5, -0.5], [0.5, 1, 0], [-0.5, 0, 1]]
    assert np.allclose(shown.image_.get_array(), expected)
    assert shown.image_.get_clim() == (-1, 1)
    assert [text.get_text() for text in shown.ax_.texts].count("0.50") == 2
    assert shown.colorbar_.ax.get_ylabel() == "correlation"


def test_correlations_that_do_not_exist_are_blank():
    shown = drawn(CovarianceDisplay.from_release(covariance(np.diag([1.0, -1.0]))))
    assert np.ma.getmaskarray(shown.image_.get_array()).tolist() == [[False, True], [True, True]]


def test_wide_covariances_are_cut_and_carry_no_numbers():
    shown = drawn(CovarianceDisplay.from_release(covariance(np.eye(70))))
    assert shown.image_.get_array().shape == (60, 60)
    assert not shown.ax_.texts
    assert CovarianceDisplay.from_release(
        covariance(np.eye(70)), max_columns=5
    ).image_.get_array().shape == (5, 5)


def test_names_are_text_and_nothing_else():
    """A dollar sign would start a formula, and a broken formula an error."""
    names = [*HOSTILE, "a name that goes on for quite a long time and more"]
    shown = drawn(CovarianceDisplay.from_release(covariance(np.eye(5), feature_names=names)))
    assert shown.ax_.get_yticklabels()[3].get_text() == "$x_{1$"
    assert shown.ax_.get_yticklabels()[4].get_text() == "a name that goes on for qui…"
    release = components(np.eye(5), np.ones(5), feature_names=names)
    drawn(LoadingsDisplay.from_release(release, component=3))


def test_a_simulation_says_so_in_every_picture():
    simulated = components(np.eye(2), [1, 1], simulated=True)
    for shown in (
        ScreeDisplay.from_release(simulated),
        LoadingsDisplay.from_release(simulated),
        CovarianceDisplay.from_release(covariance(MATRIX, simulated=True)),
    ):
        assert shown.ax_.get_title().endswith("(simulation, not private)")


def test_displays_of_fitted_estimators():
    budget = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 3.0, "random_state": 0}
    pca = PrivatePCA(2, **budget)
    with pytest.raises(NotFittedError):
        ScreeDisplay.from_estimator(pca)
    pca.fit(ROWS)
    scree = ScreeDisplay.from_estimator(pca)
    eigenvalues = pca.release_.arrays["eigenvalues"]
    assert [bar.get_height() for bar in scree.bars_] == eigenvalues.tolist()
    loadings = LoadingsDisplay.from_estimator(pca, component=1)
    assert {bar.get_width() for bar in loadings.bars_} == set(pca.components_[1])
    covariance = PrivateCovariance(**budget).fit(ROWS)
    assert CovarianceDisplay.from_estimator(covariance).image_.get_array().shape == (4, 4)


def test_displays_draw_where_they_are_told():
    figure, axes = plt.subplots(1, 2)
    release = components(np.eye(2), [1, 1])
    assert ScreeDisplay.from_release(release, ax=axes[0]).ax_ is axes[0]
    assert LoadingsDisplay.from_release(release, ax=axes[1]).figure_ is figure
    assert plt.get_fignums() == [figure.number]


def test_titles_are_optional():
    for drawn_of, release in (
        (ScreeDisplay, components(np.eye(2), [1, 1])),
        (LoadingsDisplay, components(np.eye(2), [1, 1])),
        (CovarianceDisplay, covariance(MATRIX)),
    ):
        chart = drawn_of.from_release(release).chart
        assert drawn_of(chart).plot().ax_.get_title() == ""


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l", rho=0.5)


def charge(ledger, mu, label="tangent"):
    ledger.charge(Gaussian(mu), label=label, adjacency=Adjacency.REPLACE_ONE)


def test_the_spend_is_drawn_entry_by_entry(ledger):
    charge(ledger, 0.4)
    charge(ledger, 0.2, label="$cleaned")
    shown = drawn(SpendDisplay.from_ledger(ledger))
    assert [bar.get_height() for bar in shown.before_] == pytest.approx([0, 0.08])
    assert [bar.get_height() for bar in shown.added_] == pytest.approx([0.08, 0.02])
    assert set(shown.budget_.get_ydata()) == {0.5}
    assert shown.ax_.get_title() == "Spent rho = 0.1 of 0.5"
    assert [text.get_text() for text in shown.ax_.get_xticklabels()] == [
        "1\ntangent",
        "2\n$cleaned",
    ]
    assert shown.ax_.get_xlabel() == f"release ({ledger.entries[0].time[:10]})"


def test_notes_are_not_drawn(ledger):
    note = {"label": "stream 0123 spent to 40 records", "adjacency": Adjacency.REPLACE_ONE}
    ledger.charge(Composed(()), **note)
    shown = drawn(SpendDisplay.from_ledger(ledger))
    assert [bar.get_height() for bar in shown.added_] == [0]
    assert shown.labels == ["nothing spent"]
    charge(ledger, 0.4)
    ledger.charge(Composed(()), **note)
    shown = drawn(SpendDisplay.from_ledger(ledger))
    assert shown.labels == ["tangent"]
    assert [bar.get_height() for bar in shown.added_] == pytest.approx([0.08])


def test_a_new_ledger_has_spent_nothing(tmp_path):
    shown = drawn(SpendDisplay.from_ledger(Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)))
    assert shown.ax_.get_title() == "Spent epsilon = 0 of 1 at delta = 1e-06"
    assert [bar.get_height() for bar in shown.added_] == [0]


def test_long_ledgers_are_numbered_only(ledger):
    for _ in range(9):
        charge(ledger, 0.1)
    shown = drawn(SpendDisplay.from_ledger(ledger))
    assert len(shown.added_) == 9
    assert not any("tangent" in label.get_text() for label in shown.ax_.get_xticklabels())


def table(epsilon):
    fast = ("tangent", 0.1 / epsilon, 0.08 / epsilon, 0.13 / epsilon)
    slow = ("laplace", 1 / epsilon**0.5, 0.9 / epsilon**0.5, 1.2 / epsilon**0.5)
    return [slow, fast] if epsilon > 0.2 else [slow]


class Prediction:
    def __init__(self, mechanism, error, low, high):
        self.mechanism, self.error, self.low, self.high = mechanism, error, low, high


@pytest.mark.parametrize("kind", [tuple, Prediction], ids=["tuples", "objects"])
def test_the_plan_draws_predictions_with_bands(kind):
    x = [0.1, 0.5, 1.0, 2.0]
    tables = [table(e) if kind is tuple else [Prediction(*one) for one in table(e)] for e in x]
    shown = drawn(PlanDisplay.from_predictions(x, tables, reference=[1 / e for e in x]))
    assert list(shown.lines_) == ["tangent", "laplace"]  # the best first
    line = shown.lines_["tangent"].get_ydata()
    assert np.isnan(line[0])  # not predicted there
    assert line[1:] == pytest.approx([0.2, 0.1, 0.05])
    vertices = shown.bands_["laplace"].get_paths()[0].vertices
    for height in (0.9, 1.2):
        assert np.isclose(vertices, (1.0, height)).all(axis=1).any()
    best = np.array([10**0.5, 0.2, 0.1, 0.05])
    rate = shown.reference_.get_ydata()
    assert rate * np.array(x) == pytest.approx(np.full(4, rate[2]))  # the slope is kept
    assert (rate / best).max() == pytest.approx(1)  # and it touches from below
    assert shown.ax_.get_xscale() == shown.ax_.get_yscale() == "log"
    assert shown.ax_.get_xlabel() == "epsilon"
    assert "minimax rate (slope only)" in words(shown.ax_)
    named = PlanDisplay.from_predictions(x, tables, reference=x, reference_label="slope of 1/n")
    assert "slope of 1/n" in words(drawn(named).ax_)


def test_plans_against_rows_and_with_many_mechanisms():
    x = np.geomspace(100, 1e6, 12)
    tables = [[(f"m{j}", j / n, 0.5 * j / n, 2 * j / n) for j in range(1, 12)] for n in x]
    shown = drawn(PlanDisplay.from_predictions(x, tables, against="rows"))
    assert shown.reference_ is None
    assert shown.ax_.get_xlabel() == "number of rows"
    looks = {(line.get_color(), line.get_linestyle()) for line in shown.lines_.values()}
    assert len(looks) == 11
    assert len({line.get_marker() for line in shown.lines_.values()}) == 11


@pytest.mark.parametrize(
    ("x", "tables", "options", "words"),
    [
        ([], [], {}, "one list"),
        ([1.0], [[], []], {}, "one list"),
        ([1.0], [[]], {}, "no predictions"),
        ([1.0], [[("a", 1, 1, 1)]], {"against": "delta"}, "against must be"),
    ],
)
def test_impossible_plans_are_refused(x, tables, options, words):
    with pytest.raises(InvalidParameterError, match=words):
        PlanDisplay.from_predictions(x, tables, **options)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eigenveil\[plot\]'"):
        ScreeDisplay.from_release(components(np.eye(2), [1, 1]))


def test_reports_are_imported_without_matplotlib_and_scikit_learn():
    code = (
        "import sys, eigenveil.report; "
        "sys.exit('matplotlib' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
