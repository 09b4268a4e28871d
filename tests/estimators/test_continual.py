"""Running covariances and components: one charge for all days, and a state that survives."""

import copy
import hashlib
import math
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from eigenveil import ContinualCovariance, ContinualPCA, Ledger, Release
from eigenveil.cli import main
from eigenveil.estimators import DailyProgress, State
from eigenveil.exceptions import (
    BoundsRequiredError,
    BudgetExceededError,
    DuplicateBatchError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    StateError,
)
from eigenveil.mechanisms import ContinualCov
from tests.estimators.streams import label

BUDGET = {"epsilon": 2.0, "delta": 1e-6}
SPREAD = np.array([3.0, 2.0, 1.0, 0.5])


def day(seed, n=400, shift=1.0):
    return np.random.default_rng(seed).standard_normal((n, 4)) * SPREAD + shift


def covariance(**given):
    return ContinualCovariance(**{"horizon": 20, "row_norm": 9.0, **BUDGET, **given})


def test_every_day_releases_everything_so_far_under_one_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    cov = covariance(ledger=ledger, centre=np.ones(4))
    for number in range(4):
        cov.partial_fit(day(number, 2000), batch=f"day {number}")
        assert (cov.day_, cov.n_samples_) == (number + 1, 2000 * (number + 1))
    assert [entry.cost.mu for entry in ledger.entries] == [cov.privacy_.cost.mu]
    assert np.allclose(np.sqrt(cov.covariance_.diagonal()), SPREAD, rtol=0.1)
    assert np.allclose(cov.location_, 1.0, atol=6 * cov.location_noise_.max() + 0.2)
    with pytest.raises(BudgetExceededError):
        covariance(ledger=ledger).partial_fit(day(0), batch=label())


def test_the_release_is_an_ordinary_one_and_states_its_day(tmp_path):
    cov = covariance(random_state=1, scale=[2.0, 1, 1, 1])
    pca = ContinualPCA(2, horizon=20, **BUDGET, random_state=1, centre=[1.0] * 4)
    for number in range(2):
        frame = pd.DataFrame(day(number), columns=list("abcd"))
        for each in (cov, pca):
            each.partial_fit(frame)
    for each, name in ((cov, "cov"), (pca, "pca")):
        each.release_.save(tmp_path / name)
        loaded = Release.load(tmp_path / name)
        assert (loaded.settings["day"], loaded.settings["horizon"]) == (2, 20)
        assert loaded.settings["feature_names"] == list("abcd")
        sentence = loaded.guarantee.sentence()
        assert "every row enters on one day" in sentence
        assert "that arrives in its place" in sentence
        assert "2 of 20" in (tmp_path / name / "report.html").read_text()
    assert "The centre was stated" in (tmp_path / "pca" / "report.html").read_text()
    assert np.array_equal(pca.mean_, np.ones(4))
    assert np.abs(pca.components_[0, 0]) > 0.9
    assert pca.transform(frame).shape == (400, 2)


@pytest.mark.parametrize("row_norm", [None, 9.0])
def test_components_follow_the_covariance_whatever_the_bound(row_norm):
    pca = ContinualPCA(2, horizon=5, epsilon=8.0, delta=1e-6, row_norm=row_norm, random_state=3)
    for number in range(3):
        pca.partial_fit(day(number, 2000, shift=0.0))
    assert (np.abs(pca.components_.diagonal()) > 0.95).all()
    assert pca.distinguishable_.all()
    ratio = pca.explained_variance_ratio_[0]
    assert 0.4 < ratio < 0.75


def test_a_stated_bound_finds_the_mean_as_well():
    pca = ContinualPCA(1, horizon=5, epsilon=8.0, delta=1e-6, row_norm=9.0, random_state=3)
    pca.partial_fit(day(0, 4000))
    assert np.allclose(pca.mean_, 1.0, atol=0.3)


def test_the_noise_of_a_day_is_that_of_the_factorisation():
    cov = covariance(random_state=1, horizon=365).partial_fit(day(0))
    plan = ContinualCov(mu=cov.privacy_.cost.mu, horizon=365)
    unit = 81 * 1.25 / 400
    assert cov.noise_scale_ == pytest.approx(math.sqrt(2) * plan.noise(1) * unit, rel=1e-5)


def test_another_process_goes_on_where_the_state_stopped(tmp_path):
    """The seeded noise of a day depends on the days alone: with a state or without, it is the
    same.
    """
    whole = covariance(random_state=4)
    ledgerless = {"random_state": 4, "state": tmp_path / "state"}
    for number in range(3):
        whole.partial_fit(day(number), batch=label())
        parted = covariance(**ledgerless).partial_fit(day(number), batch=label())
    assert parted.day_ == whole.day_ == 3
    assert np.allclose(parted.covariance_, whole.covariance_, atol=30 * whole.noise_scale_)
    restored = covariance(**ledgerless).restore()
    assert np.array_equal(restored.covariance_, parted.covariance_)
    assert os.stat(tmp_path / "state").st_mode & 0o077 == 0
    with pytest.raises(StateError, match="another horizon"):
        covariance(**ledgerless, horizon=21).partial_fit(day(9), batch=label())
    with pytest.raises(StateError, match="another kind"):
        ContinualPCA(1, horizon=20, row_norm=9.0, **BUDGET, **ledgerless).restore()


def test_a_day_that_was_cut_off_is_drawn_again(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    given = {"ledger": ledger, "state": tmp_path / "state"}
    covariance(**given).partial_fit(day(0), batch="one")
    with monkeypatch.context() as patched:
        patched.setattr(ContinualCov, "draw", lambda *args: exit())
        with pytest.raises(SystemExit):
            covariance(**given).partial_fit(day(1), batch="two")
    with pytest.raises(DuplicateBatchError, match="arrived before"):
        covariance(**given).partial_fit(day(1), batch="two")
    cov = covariance(**given).restore()
    assert (cov.day_, cov.n_samples_) == (2, 800)
    notes = [entry.label.rpartition(" spent to ")[2] for entry in ledger.entries if entry.is_note]
    # Odd numbers begin a draw, even ones keep it; the second was lost.
    assert notes == ["1 draws", "2 draws", "3 draws", "5 draws", "6 draws"]
    assert len([entry for entry in ledger.entries if not entry.is_note]) == 1


def test_the_charge_of_a_killed_process_is_found(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    given = {"ledger": ledger, "state": tmp_path / "state"}
    with monkeypatch.context() as patched:
        saved = State.save

        def dies(state, **given):
            if state.progress.drawn is not None:
                raise SystemExit
            saved(state, **given)

        patched.setattr(State, "save", dies)
        with pytest.raises(SystemExit):
            covariance(**given).partial_fit(day(0), batch=label())
    assert covariance(**given).restore().day_ == 1
    assert len([entry for entry in ledger.entries if not entry.is_note]) == 1


def test_an_older_copy_is_noticed_by_the_ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    given = {"ledger": ledger, "state": tmp_path / "state"}
    covariance(**given).partial_fit(day(0), batch=label())
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    covariance(**given).partial_fit(day(1), batch=label())
    with pytest.raises(StateError, match="older copy"):
        covariance(**given | {"state": tmp_path / "copy"}).partial_fit(day(2), batch=label())
    with pytest.raises(LedgerError, match="another ledger"):
        covariance(state=tmp_path / "state").restore()


@pytest.mark.parametrize("first", ["original", "copy"])
def test_of_a_copy_from_within_a_draw_and_its_original_one_publishes(tmp_path, monkeypatch, first):
    """The copy holds the day and no draw; whichever notes first excludes the other."""
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    given = {"ledger": ledger, "state": tmp_path / "state"}
    other = given | {"state": tmp_path / "copy"}
    drawn = ContinualCov.draw

    def draw(*args):
        shutil.copy(tmp_path / "state", tmp_path / "copy")
        if first == "copy":
            patched.undo()
            covariance(**other).restore()
        return drawn(*args)

    original = covariance(**given).partial_fit(day(0), batch=label())
    with monkeypatch.context() as patched:
        patched.setattr(ContinualCov, "draw", draw)
        if first == "original":
            original.partial_fit(day(1), batch=label())
        else:
            with pytest.raises(StateError, match="older copy"):
                original.partial_fit(day(1), batch=label())
            assert original.day_ == 1
    with pytest.raises(StateError, match="older copy"):
        covariance(**(other if first == "original" else given)).restore()
    assert covariance(**(given if first == "original" else other)).restore().day_ == 2


def test_a_draw_that_was_kept_is_noted_before_it_is_published(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    given = {"ledger": ledger, "state": tmp_path / "state"}
    with monkeypatch.context() as patched:
        patched.setattr(ContinualCovariance, "_publish", lambda *args: exit())
        with pytest.raises(SystemExit):
            covariance(**given).partial_fit(day(0), batch=label())
    name = State.load(tmp_path / "state", DailyProgress).name
    assert ledger.spent_to(name) == 1
    first = covariance(**given).restore().covariance_
    assert ledger.spent_to(name) == 2
    assert np.array_equal(covariance(**given).restore().covariance_, first)
    assert ledger.spent_to(name) == 2


def test_a_forked_process_draws_nothing_from_the_days_of_its_parent(monkeypatch):
    cov = covariance().partial_fit(day(0))
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        for number in (1, 2):
            with pytest.raises(BudgetExceededError, match="forked process"):
                cov.partial_fit(day(number))
    assert cov.partial_fit(day(1)).day_ == 2


def test_copies_have_neither_days_nor_allotment():
    cov = covariance(random_state=1).partial_fit(day(0))
    twin = copy.deepcopy(cov)
    assert np.array_equal(twin.covariance_, cov.covariance_)
    assert "_state" not in vars(twin)
    with pytest.raises(StateError, match="this copy does not hold the running release"):
        twin.partial_fit(day(1))
    assert not hasattr(clone(cov), "covariance_")


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_a_damaged_state_is_refused(tmp_path, damage):
    path = tmp_path / "state"
    covariance(state=path).partial_fit(day(0), batch=label())
    data = path.read_bytes()
    middle = len(data) // 2
    changed = {
        "cut": data[:middle],
        "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "text": b"state",
    }
    path.write_bytes(changed[damage])
    with pytest.raises(StateError, match="not a whole state"):
        covariance(state=path).partial_fit(day(1), batch=label())


def test_a_person_counts_on_as_many_days_as_stated():
    """Rows of the third day are those of persons who came twice: nothing changes but noise."""
    ids = np.arange(400) % 100
    given = {"days_per_group": 2, "random_state": 1}
    cov = covariance(**given)
    for number in range(3):
        cov.partial_fit(day(number), groups=ids)
    days = cov._state.progress
    assert set(cov._state.persons.counts.values()) == {2}
    assert not days.sums[2].any()
    assert (days.sums[:2] != 0).any(axis=1).all()
    assert cov.n_samples_ is None
    assert cov.release_.settings["n_rows"] is None
    assert "adding or removing them all" in cov.privacy_.sentence()
    assert "on its first 2 days" in cov.privacy_.sentence()


def test_what_becomes_of_a_row_is_a_matter_of_its_own_person():
    """Neighbours: a person more, on both days; the sums of the others stay to the last bit."""
    ids = np.append(np.arange(60) % 20, 77)
    found = []
    for kept in (61, 60):
        cov = covariance(days_per_group=1, random_state=1)
        for number in range(2):
            cov.partial_fit(day(number, 61)[:kept], groups=ids[:kept].astype(str))
        found.append(cov._state)
    gap = (found[0].progress.sums - found[1].progress.sums) * 2.0**-22
    assert np.abs(gap[0]).max() > 0.01
    assert not gap[1].any()  # nobody counts on a second day
    assert set(found[1].persons.counts) < set(found[0].persons.counts)


@pytest.mark.parametrize("other", [["7.0", "8", "9"], ["007", " 8", b"9"], [7.0, 8.0, 9.0]])
def test_an_id_is_the_same_on_every_day_however_spelled(other, tmp_path):
    given = {"days_per_group": 1, "random_state": 1, "state": tmp_path / "state"}
    covariance(**given).partial_fit(day(0, 3), groups=[7, 8, 9], batch=label())
    covariance(**given).partial_fit(day(1, 3), groups=other, batch=label())
    assert not State.load(tmp_path / "state", DailyProgress).progress.sums[1].any()


def test_days_of_an_earlier_version_count_whatever_the_spelling(tmp_path):
    """It noted the kind of ids, and kept 0007 and 7 apart."""
    given = {"days_per_group": 1, "random_state": 1, "state": tmp_path / "state"}
    covariance(**given).partial_fit(day(0, 3), groups=[7, 8, 9], batch=label())
    state = State.load(tmp_path / "state", DailyProgress)
    spelled = ("0007", "8.0", "b")
    state.persons.counts = {hashlib.sha256(each.encode()).digest(): 1 for each in spelled}
    state.settings["ids"] = "text"
    state.save()
    covariance(**given).partial_fit(day(1, 3), groups=["0007", "8", "b"], batch=label())
    assert not State.load(tmp_path / "state", DailyProgress).progress.sums[1].any()


def test_text_ids_may_hold_anything_that_files_do():
    cov = covariance(days_per_group=1, random_state=1)
    cov.partial_fit(day(0, 3), groups=["\udc80", "b", "c"])
    cov.partial_fit(day(1, 3), groups=["\udc80", " b", "c"])
    assert not cov._state.progress.sums[1].any()


def test_an_interrupted_day_counts_its_persons_and_not_the_other_way_round(monkeypatch):
    cov = covariance(days_per_group=1, random_state=1)
    cov.partial_fit(day(0, 3), groups=[1, 2, 3])
    with monkeypatch.context() as patched:
        stored = DailyProgress.__setattr__

        def interrupted(progress, name, value):
            if name == "sums":
                raise KeyboardInterrupt
            stored(progress, name, value)

        patched.setattr(DailyProgress, "__setattr__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cov.partial_fit(day(1, 3), groups=[4, 5, 6])
    assert (cov._state.progress.days, len(cov._state.persons.counts)) == (1, 6)


def test_a_state_in_which_a_person_came_too_often_is_refused(tmp_path):
    given = {"days_per_group": 2, "random_state": 1, "state": tmp_path / "state"}
    covariance(**given).partial_fit(day(0, 3), groups=[7, 8, 9], batch=label())
    state = State.load(tmp_path / "state", DailyProgress)
    for each in state.persons.counts:
        state.persons.counts[each] = 3
    state.save()
    with pytest.raises(StateError, match="not a whole state"):
        covariance(**given).restore()


def test_mistakes_are_one_line_each_and_cost_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", **BUDGET)
    rows = day(0)
    wrong = [
        (BoundsRequiredError, "needs a bound", {"row_norm": None}),
        (InvalidParameterError, "horizon must be a positive integer", {"horizon": 0}),
        (InvalidParameterError, "horizon must be a positive integer", {"horizon": 20_000}),
        (InvalidParameterError, "horizon must be a positive integer", {"horizon": np.array(3.0)}),
        (InvalidParameterError, "days_per_group must be a positive", {"days_per_group": 21}),
        (InvalidParameterError, "centre must be one number", {"centre": [1.0, 2.0]}),
        (InvalidParameterError, "numbers", {"row_norm": "private"}),
    ]
    for error, words, given in wrong:
        groups = np.arange(400) if "days_per_group" in given else None
        with pytest.raises(error, match=words):
            covariance(ledger=ledger, **given).partial_fit(rows, groups=groups, batch=label())
    cov = covariance(ledger=ledger)
    for error, words, call in [
        (InvalidParameterError, "on how many days", {"groups": np.arange(400), "batch": "one"}),
        (InvalidParameterError, "a name for what arrives", {"batch": ""}),
        (InvalidParameterError, "every arrival needs a label", {}),
    ]:
        with pytest.raises(error, match=words):
            cov.partial_fit(rows, **call)
    with pytest.raises(InvalidParameterError, match="whose each row is"):
        covariance(days_per_group=2, random_state=1).partial_fit(rows, batch=label())
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        cov.partial_fit(np.full((3, 4), np.nan), batch=label())
    with pytest.raises(InvalidDataError, match="no records came yet"):
        cov.restore()
    assert ledger.entries == ()


def test_labels_of_earlier_days_and_days_beyond_the_horizon_are_refused():
    cov = covariance(horizon=2, random_state=1).partial_fit(day(0), batch="monday")
    with pytest.raises(DuplicateBatchError, match="arrived before"):
        cov.partial_fit(day(1), batch="monday")
    cov.partial_fit(day(0)[:0], batch="nobody came")
    with pytest.raises(InvalidParameterError, match="horizon of 2 days is over"):
        cov.partial_fit(day(3))
    assert cov.day_ == 2


def test_fit_starts_afresh(tmp_path):
    cov = (
        covariance(random_state=1)
        .partial_fit(day(0), batch=label())
        .partial_fit(day(1), batch=label())
    )
    assert cov.fit(day(0)).day_ == 1
    with pytest.raises(InvalidDataError):
        cov.fit(day(0)[:0])
    assert cov.partial_fit(day(1), batch=label()).day_ == 2
    covariance(state=tmp_path / "state").fit(day(0), batch="monday")
    with pytest.raises(StateError, match="go on with partial_fit"):
        covariance(state=tmp_path / "state").fit(day(1), batch="tuesday")
    with pytest.raises(DuplicateBatchError, match="arrived before"):
        covariance(state=tmp_path / "state").partial_fit(day(0), batch="monday")


def test_the_command_releases_day_after_day(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    budget = ["--horizon", "9", "--epsilon", "2", "--delta", "1e-6"]
    asked = ["--state", "s", "--row-norm", "9", *budget]
    persons = ["--state", "p", "--k", "2", *budget]
    for number in range(2):
        frame = pd.DataFrame(day(number), columns=list("abcd"))
        frame.to_csv(f"{number}.csv", index=False)
        frame.assign(who=np.arange(400) % 90).to_csv(f"who{number}.csv", index=False)
        for words in (
            ["watch", f"{number}.csv", *asked, "--batch", f"{number}", "-o", f"out{number}"],
            ["watch", f"who{number}.csv", *persons, "--unit", "who", "--days-per-group", "3"],
        ):
            with pytest.raises(SystemExit) as stop:
                main(words)
            assert stop.value.code == 0
            assert f"{number + 1} of 9" in capsys.readouterr().out
    assert Release.load("out1").settings["n_rows"] == 800
    with pytest.raises(SystemExit):
        main(["watch", *asked, "-o", "again"])
    again = Release.load("again").arrays["covariance"]
    assert np.array_equal(again, Release.load("out1").arrays["covariance"])
    with pytest.raises(SystemExit) as stop:
        main(["watch", "1.csv", *asked, "--batch", "1"])
    assert stop.value.code != 0
    assert "arrived before" in capsys.readouterr().err
