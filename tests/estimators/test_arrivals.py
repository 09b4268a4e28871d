"""What arrives over days: no refusal depends on earlier rows, or on whether anybody came."""

import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigenveil import ContinualCovariance, ContinualPCA, Ledger, StreamingPCA, open_rows
from eigenveil.estimators import DailyProgress, State, StreamProgress
from eigenveil.exceptions import (
    BudgetExceededError,
    ColumnsLeftOutWarning,
    DuplicateBatchError,
    InvalidDataError,
    InvalidParameterError,
    StateError,
)
from eigenveil.rows import IterableSource

ROWS = np.random.default_rng(0).standard_normal((40, 2))
DAYS = {"horizon": 4, "rho": 5.0}
BATCHES = {"rho": 50.0, "batch_size": 100, "centring": "none"}
EARLIER = Path(__file__).with_name("earlier")  # states that earlier versions wrote


def covariance(**given):
    return ContinualCovariance(**DAYS, row_norm=3.0, **given)


def components(**given):
    return ContinualPCA(1, **DAYS, row_norm=3.0, **given)


def stream(**given):
    return StreamingPCA(1, **BATCHES | given)


EACH = pytest.mark.parametrize("begun", [covariance, components, stream])


def outcome(call):
    """What whoever hands rows over sees."""
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    return "taken"


# Rows of earlier arrivals.


@EACH
@pytest.mark.parametrize("kept", [False, True])
def test_a_guess_of_an_earlier_row_is_taken_like_any_other(begun, kept, tmp_path):
    """The attack: hand over all rows of Monday but one, with a guess of the last."""
    files = {"state": tmp_path / "state"} if kept else {}
    wrong = ROWS.copy()
    wrong[-1] = 7.0
    seen = []
    for guess in (ROWS, wrong):
        files and files["state"].unlink(missing_ok=True)
        each = begun(**files).partial_fit(ROWS, batch="monday")
        name = {"batch": "tuesday"} if kept else {}
        seen.append(
            outcome(lambda each=each, guess=guess, name=name: each.partial_fit(guess, **name))
        )
    assert seen == ["taken", "taken"]


@EACH
def test_with_a_state_or_a_ledger_every_arrival_needs_a_label(begun, tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", rho=100.0)
    for files in ({"state": tmp_path / "state"}, {"ledger": ledger}):
        with pytest.raises(InvalidParameterError, match="needs a label") as caught:
            begun(**files).partial_fit(ROWS)
        assert "\n" not in str(caught.value)
        each = begun(**files).partial_fit(ROWS, batch="monday")
        with pytest.raises(DuplicateBatchError, match="name new records otherwise"):
            each.partial_fit(ROWS + 1, batch="monday")
    begun().partial_fit(ROWS).partial_fit(ROWS)  # kept by nobody, charged to nobody


@EACH
def test_a_label_is_refused_after_a_crash_whatever_the_rows(begun, tmp_path, monkeypatch):
    """The state is on disk, and what follows is cut off."""
    given = {"state": tmp_path / "state", "ledger": Ledger.create(tmp_path / "l", rho=100.0)}
    begun(**given).partial_fit(ROWS, batch="monday")
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "advance", lambda *_: exit())
        with pytest.raises(SystemExit):
            begun(**given).partial_fit(np.tile(ROWS, (3, 1)), batch="tuesday")
    for rows in (np.tile(ROWS, (3, 1)), ROWS + 1):
        with pytest.raises(DuplicateBatchError):
            begun(**given).partial_fit(rows, batch="tuesday")


def test_a_fit_of_chunks_that_was_cut_off_takes_no_further_rows(tmp_path):
    """It had no label, by which the same rows could be told."""

    def chunks():
        yield ROWS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream(state=tmp_path / "state").fit(chunks())
    with pytest.raises(StateError, match="begun by fit, which was cut off"):
        stream(state=tmp_path / "state").partial_fit(ROWS, batch="again")


@EACH
def test_a_forked_process_takes_no_rows(begun, monkeypatch):
    mine = begun().partial_fit(ROWS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(BudgetExceededError, match="forked process"):
            mine.partial_fit(ROWS)
    mine.partial_fit(ROWS)


@EACH
def test_a_state_holds_no_digest_of_rows(begun, tmp_path):
    begun(state=tmp_path / "state").partial_fit(ROWS, batch="monday")
    with zipfile.ZipFile(tmp_path / "state") as archive:
        assert "digests" not in archive.read("state.json").decode()


# States of earlier formats.


@pytest.fixture
def earlier(tmp_path):
    """Return a copy of a state that an earlier version wrote, with its rows."""

    def copied(name):
        for path in [EARLIER / name, *EARLIER.glob(f"{name}.*.rows")]:
            shutil.copy(path, tmp_path)
        return tmp_path / name

    return copied


@pytest.mark.parametrize(("begun", "name"), [(covariance, "days-1"), (stream, "stream-5")])
def test_states_of_earlier_formats_go_on(begun, name, earlier):
    state = earlier(name)
    with zipfile.ZipFile(state) as archive:
        assert '"digests": [\n' in archive.read("state.json").decode()
    begun(state=state).restore()
    begun(state=state).partial_fit(ROWS, batch="tuesday")
    with pytest.raises(DuplicateBatchError):
        begun(state=state).partial_fit(ROWS, batch="tuesday")
    loaded = State.load(state, DailyProgress if begun is covariance else StreamProgress)
    assert loaded.labels == ["tuesday"]


# Numbers that the version that wrote these states went on to.
STORED = [
    (
        stream,
        "stream-8",
        {},
        (0.949498341877, 0.313772049062),
        (0.832657141745, 0.553788844508),
        (0.894262747929, 0.447542330586),
    ),
    (
        stream,
        "stream-8-persons",
        {"max_arrivals": 2},
        (0.643581817331, 0.765377321588),
        (0.611061335187, 0.791583251869),
        (0.863011978436, 0.505183456852),
    ),
    (
        covariance,
        "days-2",
        {},
        (1.794344073513, 0.285394184004),
        (1.567597723052, 0.313804481264),
        (1.740362478871, 0.342430741687),
    ),
    (
        covariance,
        "days-2-persons",
        {"days_per_group": 1},
        (1.746167783871, 0.297790665010),
        (1.574926919162, 0.190971316339),
        (1.880718603912, 0.031283325348),
    ),
]


@pytest.mark.parametrize(("begun", "name", "more", "last", "next_day", "after"), STORED)
def test_stored_states_go_on_to_the_same_numbers(begun, name, more, last, next_day, after, earlier):
    asked = {"random_state": 1, "state": earlier(name), **more}
    if begun is stream:
        asked |= {"batch_size": 30, "rho": 200.0 if more else 50.0}
    for number, expected in enumerate((last, next_day, after)):
        again = begun(**asked)
        if number == 0:
            again.restore()
        else:  # some persons came before
            groups = {"groups": np.arange(40) + 10 * number} if more else {}
            again.partial_fit(ROWS * number, batch=f"day {number}", **groups)
        found = again.components_ if begun is stream else again.covariance_
        assert found[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "more"), [("stream-6", {}), ("stream-6-row-norm", {"row_norm": 12.0})]
)
def test_streams_without_distances_go_on_as_they_began(name, more, earlier):
    """Rows of unit length, or clipped at the stated norm alone."""
    state = earlier(name)
    loaded = State.load(state, StreamProgress).progress
    assert loaded.bounds.distances is None
    asked = {"rho": 200.0, "state": state, **more}
    begun = StreamingPCA(1, **asked).restore()
    assert begun.n_samples_ == 256
    rows = np.random.default_rng(1).standard_normal((300, 3)) * [3, 1, 1] + 4
    pca = StreamingPCA(1, **asked).partial_fit(rows, batch="tuesday")
    pca = StreamingPCA(1, **asked).finish()
    assert pca.n_samples_ == 600
    assert not hasattr(pca, "row_norm_")
    words = pca.privacy_.sentence()
    if more:
        assert "rows farther than 12 from the centre" in words
        assert 7 < pca.explained_variance_[0] < 11
    else:
        assert "every row scaled to unit length" in words
        assert pca.explained_variance_[0] < 1
    assert "chosen privately" not in words
    assert abs(pca.components_[0, 0]) > 0.99


def test_a_stream_with_one_noise_level_for_all_columns_goes_on(earlier):
    """Format 7 kept no noise of single columns: that of one it had enlarged is taken as larger."""
    state = earlier("stream-7")
    loaded = State.load(state, StreamProgress).progress
    assert loaded.iterate.column_noise[3] > 10 * loaded.iterate.column_noise[:3].max()
    assert loaded.bounds.columns.enlarged.tolist() == [1.0] * 4
    asked = {"rho": 200.0, "scale": "private", "state": state}
    begun = StreamingPCA(1, **asked).restore()
    assert (begun.n_samples_, begun.n_buffered_) == (256, 144)
    assert begun.hidden_ == [3]
    scale = loaded.bounds.columns.scale
    rows = np.random.default_rng(1).standard_normal((300, 4)) * [3, 1, 100, 0] + 4
    pca = StreamingPCA(1, **asked).partial_fit(rows, batch="tuesday")
    with pytest.warns(ColumnsLeftOutWarning, match="hides the variance of x3"):
        pca = StreamingPCA(1, **asked).finish()
    assert pca.n_samples_ == 700
    assert pca.scale_[:3] == pytest.approx([3, 1, 100], rel=0.3)
    assert State.load(state, StreamProgress).progress.bounds.columns.scale[3] <= scale[3]


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("spelling", ["{:04}", "{}.0", "{}"])
def test_persons_of_an_earlier_state_are_known_again(kind, spelling, earlier):
    """Text such as 0007 was hashed as it was written."""
    days, batches = earlier(f"days-1-{kind}"), earlier(f"stream-5-{kind}")
    asked = {"groups": [spelling.format(i) for i in range(40)], "batch": "tuesday"}
    covariance(days_per_group=1, state=days).partial_fit(ROWS, **asked)
    assert not State.load(days, DailyProgress).progress.sums[1].any()
    found = stream(max_arrivals=1, state=batches).partial_fit(ROWS, **asked)
    assert found.n_buffered_ == 40


@pytest.mark.parametrize(("kind", "merged"), [("text", False), ("numbers", True)])
def test_states_that_kept_spellings_apart_do_not_promise_otherwise(kind, merged, earlier):
    """Their persons may have come as 7 and as 0007 before."""
    days, batches = earlier(f"days-1-{kind}"), earlier(f"stream-5-{kind}")
    rows, groups = np.vstack([ROWS] * 3), [f"new {i}" for i in range(120)]
    for begun in (covariance(days_per_group=1, state=days), stream(max_arrivals=1, state=batches)):
        begun.partial_fit(rows, groups=groups, batch="tuesday")
        assert begun.privacy_.merged_ids is merged
        assert ("007 and 7.0 are the same" in begun.privacy_.sentence()) is merged


# Whether anybody came.


def day_of(kind, persons, folder):
    """Return a day with a row of each person, as rows and groups."""
    rows, ids = ROWS[:persons], np.arange(persons)
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(who=ids)
    path = folder / "day.csv"
    match kind:
        case "array":
            return rows, ids
        case "list":
            return rows, [f"p{i}" for i in ids]
        case "frame":
            return frame[["a", "b"]], ids
        case "chunks":
            return iter([rows] if persons else []), ids
        case "generator":
            return (rows[i : i + 1] for i in range(persons)), ids
        case "stated chunks":
            return IterableSource(iter([rows] if persons else []), n_columns=2), ids
        case "csv":
            frame.to_csv(path, index=False)
            return open_rows(path, unit="who"), None
        case _:
            return open_rows(frame, unit="who"), None


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize(
    "kind",
    ["array", "list", "frame", "chunks", "generator", "stated chunks", "csv", "open frame"],
)
@pytest.mark.parametrize("begun", [covariance, components])
def test_a_day_without_anybody_is_answered_like_a_day_with_one(begun, kind, first, tmp_path):
    """Neighbours: a person more. The days so far may be empty or not."""
    seen = []
    for persons in (0, 1):
        days = begun(days_per_group=2, random_state=1)
        outcomes = []
        for count in (first, persons, 3):
            rows, groups = day_of(kind, count, tmp_path)
            outcomes.append(outcome(lambda: days.partial_fit(rows, groups=groups)))  # noqa: B023
        seen.append(outcomes)
    assert seen[0] == seen[1]
    assert seen[0][0] == "taken" or "show whether there are rows" in seen[0][0][1]


@pytest.mark.parametrize("later", [["7"], ["x"], [7], [7.5], np.array([7.0])])
def test_what_the_first_persons_ids_were_decides_over_nobody_later(later):
    """Neighbours: a person on the first day, whose id is a number."""
    seen = []
    for first in ([], [7]):
        days = covariance(days_per_group=2, random_state=1)
        days.partial_fit(ROWS[: len(first)], groups=first)
        seen.append(outcome(lambda days=days: days.partial_fit(ROWS[:1], groups=later)))
    assert seen == ["taken", "taken"]


def test_an_empty_table_of_rows_is_refused_as_their_number_is_public():
    for nothing in (ROWS[:0], iter([])):
        with pytest.raises(InvalidDataError, match="the table has no rows"):
            covariance(random_state=1).partial_fit(nothing)
