"""Scores that may be shown: a map in a release, what it costs, and what it refuses."""

import json
import math
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA, Release, open_rows
from eigenveil.exact import Frame, score_counts
from eigenveil.exceptions import EigenveilError, VerificationError
from eigenveil.mechanisms import (
    SCORE_SHARE,
    GaussianNoise,
    LaplaceNoise,
    ScoreHistogram,
    score_bins,
)
from eigenveil.release import check_arrays
from eigenveil.rows import ShownSource
from tests.cli.conftest import invoke
from tests.conformance import case
from tests.planner.few import few_simulations
from tests.report.test_page import drawing, page

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "random_state": 0}
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((4000, 4)) * [6.0, 3.0, 1.0, 1.0] + [10, 0, 0, 0]
ROWS[:1500, 0] += 20  # two clouds


@pytest.mark.parametrize("options", [{"row_norm": "private"}, {"mechanism": "spherical"}], ids=str)
def test_the_map_is_that_of_the_scores(options):
    pca = PrivatePCA(2, **BUDGET, **options, show_scores=True).fit(ROWS)
    assert pca.shares_["scores"] == SCORE_SHARE
    bins = len(pca.score_counts_)
    moved = ROWS - pca.mean_
    if "mechanism" in options:  # of unit rows
        moved = moved / np.maximum(np.linalg.norm(moved, axis=1), pca.unit_distance_)[:, None]
    frame = Frame(pca.components_[:2], pca.score_reach_, bins)
    exact = np.bincount(frame.places(moved @ pca.components_[:2].T), minlength=bins**2 + 1)
    stated = pca.release_.settings["scores"]
    far = (pca.score_counts_.ravel() - exact[:-1]) / stated["noise"]
    # Standard normal noise on each cell: the mean square of so many is within 5 deviations of 1.
    assert abs(np.mean(far**2) - 1) < 5 * math.sqrt(2 / far.size)
    assert abs(stated["outside"] - exact[-1]) < 6 * stated["noise"]


def test_what_it_costs_comes_out_of_the_budget():
    plain, shown = (PrivatePCA(2, **BUDGET, show_scores=s).fit(ROWS) for s in (False, True))
    assert "scores" not in plain.shares_
    assert sum(shown.shares_.values()) == pytest.approx(1)
    assert shown.shares_["components"] == pytest.approx(plain.shares_["components"] - SCORE_SHARE)
    assert str(shown.privacy_.budget) == str(plain.privacy_.budget)
    assert shown.noise_scale_ > plain.noise_scale_


def test_cells_follow_from_public_numbers():
    weak, strong = GaussianNoise(mu=0.05), GaussianNoise(mu=5.0)
    assert score_bins(weak, 100) == 5
    assert score_bins(strong, 10**6) == 24
    assert score_bins(weak, 10_000) < score_bins(strong, 10_000)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_components": 1}, "of 2 or more"),
        ({"n_components": "private"}, "of 2 or more"),
        ({"adjacency": "add-remove"}, "public number of rows"),
        ({"centring": "paired"}, "about a centre"),
        ({"mechanism": "oja"}, "reads rows once"),
    ],
    ids=str,
)
def test_what_it_refuses(options, words):
    asked = {"n_components": 2, **BUDGET, **options}
    with pytest.raises(EigenveilError, match=words):
        PrivatePCA(**asked, show_scores=True).fit(ROWS)


def test_it_travels_with_the_release_and_is_drawn(tmp_path):
    pca = PrivatePCA(2, **BUDGET, show_scores=True).fit(ROWS)
    release = Release.verify(pca.release_.save(tmp_path / "r"))
    np.testing.assert_array_equal(release.arrays["score_counts"], pca.score_counts_)
    svg = drawing(page(release), "Map of scores")
    level = release.settings["scores"]["noise"] * math.sqrt(2 * math.log(pca.score_counts_.size))
    clear = int((pca.score_counts_ > level).sum())
    assert 0 < clear < pca.score_counts_.size
    assert f"{clear} of {pca.score_counts_.size} cells" in svg
    assert svg.count('class="arrow"') == 4
    assert "Map of scores" not in page(PrivatePCA(2, **BUDGET).fit(ROWS).release_)


def forged(kind="pca", k=2, counts=(3, 3), reach=(1.0, 1.0), stated=True):
    """Settings and arrays of a release that a map was added to."""
    release = PrivatePCA(k, **BUDGET).fit(ROWS[:500]).release_
    settings, arrays = dict(release.settings), dict(release.arrays)
    if kind == "covariance":
        arrays |= {"covariance": np.eye(4), "location": np.zeros(4)}
    if counts is not None:
        arrays["score_counts"] = np.ones(counts)
    if reach is not None:
        arrays["score_reach"] = np.array(reach)
    if stated:
        settings["scores"] = {"outside": 0.0, "noise": 1.0}
    return kind, settings, arrays


@pytest.mark.parametrize(
    "change",
    [
        {"stated": False},
        {"counts": None},
        {"reach": None},
        {"counts": (3, 2)},
        {"counts": (3,)},
        {"counts": (0, 0)},
        {"reach": (0.0, 1.0)},
        {"reach": (1.0,)},
        {"k": 1},
        {"kind": "covariance"},
    ],
    ids=str,
)
def test_a_forged_map_is_refused(change):
    check_arrays(*forged())
    with pytest.raises(VerificationError):
        check_arrays(*forged(**change))


def test_a_plan_predicts_with_it():
    words = ["--rows", 20_000, "--columns-count", 5, "--k", 2, "--epsilon", 1, "--delta", 1e-6]
    with few_simulations():
        plan = json.loads(invoke("plan", *words, "--show-scores", "--json").stdout)
    assert dict(plan["prediction"]["shares"])["scores"] == SCORE_SHARE
    assert "--show-scores" in plan["next"]


def test_the_command_line(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    words = [tmp_path / "rows.npy", "--k", 2, "--epsilon", 4, "--delta", 1e-6, "--show-scores"]
    result = invoke("fit", *words, "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "score_counts" in Release.load(tmp_path / "r").arrays


# By the levels of a column.


def wards(n=3000):
    """Return a frame in which rows of ward b lie apart, and a few have no known ward."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((n, 3)) * [4.0, 2.0, 1.0], columns=list("xyz"))
    frame["ward"] = np.where(np.arange(n) % 3 == 0, "b", "a")
    frame.loc[frame.ward == "b", "x"] += 12
    frame.loc[:40, "ward"] = None
    return frame


@pytest.mark.parametrize("persons", [False, True])
def test_every_level_has_its_map(persons):
    frame = wards()
    kind = frame.ward.map({"a": 0, "b": 1}).fillna(2).to_numpy(dtype=int)
    ids = np.repeat(np.arange(1500), 2) if persons else None
    asked = {"show_scores": {"ward": ["a", "b"]}, "row_norm": "private"}
    pca = PrivatePCA(2, **BUDGET, **asked).fit(open_rows(frame, drop=["ward"]), groups=ids)
    counts, stated = pca.kind_score_counts_, pca.release_.settings["scores"]
    bins = counts.shape[1]
    frame_of = Frame(pca.components_[:2], pca.score_reach_, bins, 3)
    scores = (frame[list("xyz")].to_numpy() - pca.mean_) @ pca.components_[:2].T
    exact = np.bincount(frame_of.places(scores, kind), minlength=frame_of.cells)
    noise = stated["noise"] / math.sqrt(3)
    far = (counts.ravel() - exact[:-1] / (2 if persons else 1)) / noise
    assert abs(np.mean(far**2) - 1) < 5 * math.sqrt(2 / far.size)  # as above
    np.testing.assert_allclose(counts.sum(axis=0), pca.score_counts_, atol=1e-6)
    assert (stated["column"], stated["levels"]) == ("ward", ["a", "b"])
    assert pca.shares_["scores"] == SCORE_SHARE


def test_levels_are_found_privately_or_those_of_the_encoding():
    frame = wards()
    found = PrivatePCA(2, **BUDGET, show_scores="ward").fit(open_rows(frame, drop=["ward"]))
    assert found.score_kinds_.levels == found.levels_["ward"] == ("a", "b")
    assert found.shares_["scores"] < SCORE_SHARE  # the search has its part
    assert "delta" in str(found.privacy_.cost)
    assert "scores are counted by 2 levels of 'ward' found privately" in found.privacy_.sentence()
    source = open_rows(frame, encode={"ward": ["b"]})
    told = PrivatePCA(2, **BUDGET, on_missing="centre", show_scores="ward").fit(source)
    assert told.score_kinds_.levels == ("b",)
    assert not hasattr(told, "levels_")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("wards", "no column 'wards': did you mean 'ward'"),
        ({"ward": ["a"], "x": ["1"]}, "names one column"),
        ({"ward": date(2024, 1, 1)}, "names one column"),
        ({"ward": "a"}, "names one column"),
        ({}, "names one column"),
        (["ward"], "names one column"),
        (3, "names one column"),
        ({"ward": [str(i) for i in range(51)]}, "50 levels at most"),
    ],
    ids=str,
)
def test_mistakes_about_levels(by, words):
    with pytest.raises(EigenveilError, match=words):
        PrivatePCA(2, **BUDGET, show_scores=by).fit(open_rows(wards(), drop=["ward"]))
    with pytest.raises(EigenveilError, match="names"):
        PrivatePCA(2, **BUDGET, show_scores=by).fit(ROWS)


def test_maps_of_levels_travel_and_are_drawn(tmp_path):
    wards().to_csv(tmp_path / "t.csv", index=False)
    words = [tmp_path / "t.csv", "--k", 2, "--epsilon", 4, "--delta", 1e-6]
    words += ["--show-scores-by", "ward=a,b"]
    done = invoke("fit", *words, "-o", tmp_path / "r")
    assert done.exit_code == 0, done.output
    release = Release.verify(tmp_path / "r")
    assert release.settings["feature_names"] == ["x", "y", "z"]
    told = page(release)
    assert "A map for each level of ward" in told
    assert re.search(r"<h3>a: about [\d,]+ rows</h3>", told)
    assert drawing(told, "Map of scores of b")
    settings, arrays = dict(release.settings), dict(release.arrays)
    check_arrays("pca", settings, arrays)
    for change in (
        {"kind_score_counts": arrays["kind_score_counts"] + 1},
        {"kind_score_counts": arrays["kind_score_counts"][:1]},
    ):
        with pytest.raises(VerificationError):
            check_arrays("pca", settings, arrays | change)
    del settings["scores"]["levels"]
    with pytest.raises(VerificationError):
        check_arrays("pca", settings, arrays)
    with few_simulations():
        plan = json.loads(invoke("plan", *words, "--json").stdout)
    assert "--show-scores-by ward=a,b" in plan["next"]


BINS, CELLS = 8, 65  # a cell for each, and one for all outside


def plane(rows, adjacency):
    """Rows by their cell on the plane of the first and the last column."""
    d = rows.shape[1]
    frame = Frame(np.eye(d)[[0, -1]], np.array([0.1, 0.1]), BINS)
    return score_counts(case.open_rows(rows), case.CLIP, frame, adjacency)


def _moved(adjacency, power):
    """What one row moves two counts by, or one."""
    return 2.0**power if adjacency is case.REPLACE else 1.0


def plane_by_sign(rows, adjacency):
    """The same in two grids: of rows whose first entry is positive, and of the others."""
    d = rows.shape[1]
    frame = Frame(np.eye(d)[[0, -1]], np.array([0.1, 0.1]), BINS, 2)
    source = case.open_rows(rows)  # sorted anew
    kinds = np.where(source.plain.whole()[:, 0] > 0, 0, 1)
    return score_counts(ShownSource(source, kinds, "by sign"), case.CLIP, frame, adjacency)


def _case(name, noise, query=plane, **options):
    return case.Case(
        name,
        lambda strength, d, k: ScoreHistogram(noise=noise(strength), bins=BINS),
        query=query,
        run=case.one_step(query),
        read=lambda released: released.values,
        worst_pair=case.long_and_short,
        **options,
    )


CASES = [
    _case(
        "score-histogram",
        lambda mu: GaussianNoise(mu=mu),
        ledger={"rho": 8.0},
        norm="l2",
        sensitivity=case.constant(math.sqrt(2), 1.0),
        strength_of=case.mu_of,
        deviation=lambda mu, d, adjacency: np.full(CELLS, _moved(adjacency, 0.5) / mu),
    ),
    _case(
        "score-histogram by level",
        lambda mu: GaussianNoise(mu=mu),
        query=plane_by_sign,
        ledger={"rho": 8.0},
        norm="l2",
        sensitivity=case.constant(math.sqrt(2), 1.0),
        strength_of=case.mu_of,
        deviation=lambda mu, d, adjacency: np.full(2 * CELLS - 1, _moved(adjacency, 0.5) / mu),
    ),
    _case(
        "score-histogram pure",
        lambda epsilon: LaplaceNoise(epsilon=epsilon),
        ledger={"epsilon": 8.0},
        norm="l1",
        sensitivity=case.constant(2.0, 1.0),
        strength_of=case.pure_of,
        deviation=lambda eps, d, adjacency: np.full(
            CELLS, math.sqrt(2) * _moved(adjacency, 1) / eps
        ),
    ),
]
