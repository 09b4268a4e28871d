"""Settings that contradict the promise are refused, with a page and sums that agree with them.

Every setting of releases of every kind is changed; what passes is listed, as nothing in a release
says otherwise.
"""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenveil import (
    ContinualCovariance,
    Ledger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRegression,
    Release,
    StreamingPCA,
)
from eigenveil.exceptions import VerificationError
from eigenveil.privacy import GROUP, Adjacency
from eigenveil.release import decode_arrays, files, read_statement, require_paid
from eigenveil.report.page import render
from tests.cli.conftest import fails, invoke

ROOT = Path(__file__).parents[2]
ROWS = np.random.default_rng(5).standard_normal((3000, 3)) * [3, 2, 1] + 5
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
BOX = {"low": [-1.0] * 3, "high": [1.0] * 3}


def stream():
    found = StreamingPCA(2, **BUDGET)
    for day in np.split(ROWS, 4):
        found.partial_fit(day)
    return found


def continual():
    found = ContinualCovariance(horizon=8, **BUDGET, row_norm=20.0, centre=5.0)
    for day in np.split(ROWS, 2):
        found.partial_fit(day)
    return found


RELEASES = {
    "clipped": lambda: PrivatePCA(2, **BUDGET, row_norm=20.0).fit(ROWS),
    "private norm": lambda: PrivatePCA(2, **BUDGET, row_norm="private").fit(ROWS),
    "unit rows": lambda: PrivatePCA(2, **BUDGET, mechanism="spherical").fit(ROWS),
    "pairs": lambda: PrivatePCA(2, **BUDGET, row_norm=20.0, centring="paired").fit(ROWS),
    "persons": lambda: PrivatePCA(2, **BUDGET, row_norm=20.0).fit(
        ROWS, groups=np.arange(3000) // 2
    ),
    "pure": lambda: PrivatePCA(2, epsilon=1.0, random_state=0, row_norm=20.0).fit(ROWS),
    "ranges": lambda: PrivateCovariance(**BUDGET, bounds=(-10.0, 20.0), mechanism="gauss").fit(
        ROWS
    ),
    "cleaned": lambda: PrivateCovariance(**BUDGET, row_norm=20.0, mechanism="cleaned").fit(ROWS),
    "elliptical": lambda: PrivateCovariance(**BUDGET, mechanism="elliptical").fit(ROWS),
    "regression": lambda: PrivateRegression(**BUDGET).fit(ROWS[:, :2], ROWS[:, 2]),
    "stream": stream,
    "continual": continual,
}
# Settings that nothing else in a release determines. An error of the centre may also be too small
# to change the level that noise may reach.
UNKNOWN = {
    "pairs": {"n_rows"},  # an odd number of rows has as many pairs as one row less
    "unit rows": {"noise_scale", "noise_floor", "matrix_floor", "centre_noise", "n_rows"},
    "elliptical": {"noise_scale", "noise_floor", "centre_noise", "n_rows"},
    "regression": {"noise_scale", "n_rows", "assume_centered", "interval_level", "shares"},
    "stream": {"noise_scale", "noise_floor", "matrix_floor", "n_rows"},
    "continual": {"noise_scale", "noise_floor", "centre_noise", "n_rows", "day", "centring"},
}
NEITHER = {"n_features", "choice", "feature_names", "target_names", "image", "about"}  # elsewhere
OTHERS = {
    "row_norm": (None, 3.0),
    "bounds": (None, BOX, {"low": [-1.0], "high": [1.0]}, {"low": [1.0] * 3, "high": [-1.0] * 3}),
    "centring": ("none", "mean", "located", "paired", "stated"),
    "on_invalid": ("raise", "zero", None),
    "on_missing": ("invalid", "centre"),
    "assume_centered": (True, False, None),
    "shares": ({"components": 1.0}, {"matrix": 2.0}, {"centre": 0.5}),
}
REQUIRED = {
    "centring",
    "matrix_floor",
    "shares",
    "chosen_row_norm",
    "centre_noise",
    "day",
    "unit_distance",
}


def other_values(name, value):
    """Values that contradict the one that a release states."""
    changed = list(OTHERS.get(name, ()))
    if isinstance(value, int) and not isinstance(value, bool):
        changed += [value + 1, 2 * value]
    elif isinstance(value, float):
        changed += [0.0, value / 2, 1.01 * value, 2 * value or 1.0]
    elif isinstance(value, dict):
        for key, number in value.items():
            changed += [
                {**value, key: other} for other in other_values("", number) if name == "shares"
            ]
    return [other for other in changed if type(other) is not type(value) or other != value]


def forge(folder, forged, change):
    """Change the settings of a stored release; page and sums say the same."""
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    document = json.loads(content["release.json"])
    change(document["settings"])
    content["release.json"] = (json.dumps(document, indent=2) + "\n").encode()
    stated, guarantee, owners = read_statement(content["release.json"])
    del stated["page_format"]
    arrays = decode_arrays(content["arrays.npz"])
    content["report.html"] = render(guarantee, stated, arrays, owners=owners).encode()
    content[files.SUMS] = files.sums(content)
    forged.mkdir(exist_ok=True)
    for name, data in content.items():
        (forged / name).write_bytes(data)


def accepted(folder, forged, change):
    try:
        forge(folder, forged, change)
        Release.verify(forged)
    except VerificationError:
        return False
    except (KeyError, TypeError, ValueError, ArithmeticError):  # there is no page to forge
        return False
    return True


@pytest.mark.parametrize("kind", RELEASES)
def test_contradictory_settings_are_refused(kind, tmp_path):
    folder = RELEASES[kind]().release_.save(tmp_path / "release")
    assert accepted(folder, tmp_path / "same", lambda settings: None)
    settings = json.loads((folder / "release.json").read_text())["settings"]
    tried, passed = 0, {}
    for name in settings.keys() - NEITHER:
        for other in other_values(name, settings[name]):
            tried += 1
            change = {name: copy.deepcopy(other)}
            if accepted(folder, tmp_path / "forged", lambda s, c=change: s.update(c)):
                passed.setdefault(name, []).append(other)
        if name in REQUIRED:
            tried += 1
            if accepted(folder, tmp_path / "forged", lambda s, name=name: s.pop(name)):
                passed.setdefault(name, []).append("missing")
    assert tried > 20
    assert passed.keys() <= UNKNOWN.get(kind, set()) | {"centre_noise"}, passed
    assert "missing" not in passed.get("centre_noise", ())


@pytest.mark.parametrize("kind", ["clipped", "private norm", "pairs", "persons", "pure", "ranges"])
@pytest.mark.parametrize("factor", [0.1, 0.99, 1.01, 10.0])
def test_noise_other_than_what_was_paid_for_is_refused(kind, factor, tmp_path):
    """All of its levels changed alike, so that they agree with each other."""
    folder = RELEASES[kind]().release_.save(tmp_path / "release")

    def scale(settings):
        for name in ("noise_scale", "noise_floor", "matrix_floor", "centre_noise"):
            if name in settings:
                settings[name] *= factor

    assert not accepted(folder, tmp_path / "forged", scale)
    fails(5, "verify", tmp_path / "forged")


@pytest.mark.parametrize("epsilon", [0.3, 30.0])
def test_a_cost_other_than_what_the_noise_is_worth_is_refused(epsilon, tmp_path):
    folder = RELEASES["clipped"]().release_.save(tmp_path / "release")
    other = PrivatePCA(2, **BUDGET | {"epsilon": epsilon}, row_norm=20.0).fit(ROWS).privacy_
    release = Release.load(folder)
    with pytest.raises(VerificationError, match="about its noise"):
        replace(release, guarantee=replace(other, bounds=release.guarantee.bounds)).save(
            tmp_path / "forged"
        )


def test_components_that_do_not_stand_out_are_not_stated_to(tmp_path):
    release = RELEASES["clipped"]().release_
    arrays = {name: array.copy() for name, array in release.arrays.items()}
    assert arrays["distinguishable"].all()
    arrays["distinguishable"][:] = 0
    with pytest.raises(VerificationError, match="stand out"):
        replace(release, arrays=arrays).save(tmp_path / "forged")


def test_an_entry_that_cost_less_is_not_the_charge(tmp_path):
    """Releases name their entry by its hash; a forger may name the entry of another release."""
    ledger = Ledger.create(tmp_path / "table.ledger", epsilon=9.0, delta=1e-6)
    small = PrivatePCA(2, epsilon=0.5, delta=1e-6, ledger=ledger).fit(ROWS).release_
    large = PrivatePCA(2, epsilon=5.0, delta=1e-6, ledger=ledger).fit(ROWS).release_
    small.save(tmp_path / "small")
    large.save(tmp_path / "large")
    guarantee = replace(large.guarantee, ledger=small.guarantee.ledger)
    replace(large, guarantee=guarantee).save(tmp_path / "forged")
    path = tmp_path / "table.ledger"
    told = invoke("verify", tmp_path / "large", "--ledger", path)
    assert told.exit_code == 0
    assert "ledger       checked: holds entry 2, " in told.stdout
    assert "cost less" in fails(5, "verify", tmp_path / "forged", "--ledger", path)
    other = Ledger.create(tmp_path / "other.ledger", epsilon=9.0, delta=1e-6)
    PrivatePCA(2, epsilon=0.5, delta=1e-6, ledger=other).fit(ROWS)
    told = fails(5, "verify", tmp_path / "small", "--ledger", tmp_path / "other.ledger")
    assert "holds no entry that the release names" in told


def test_an_entry_that_is_named_twice_is_counted_once(tmp_path):
    ledger = Ledger.create(tmp_path / "table.ledger", epsilon=9.0, delta=1e-6)
    small = PrivatePCA(2, epsilon=0.5, delta=1e-6, ledger=ledger).fit(ROWS).release_
    large = PrivatePCA(2, epsilon=5.0, delta=1e-6).fit(ROWS).release_
    often = " and ".join([small.guarantee.ledger] * 200)
    forged = replace(large, guarantee=replace(large.guarantee, ledger=often))
    with pytest.raises(VerificationError, match="cost less"):
        require_paid(forged, ledger)


def test_a_charge_of_another_unit_or_of_a_failed_release_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "table.ledger", epsilon=9.0, delta=1e-6)
    release = PrivatePCA(2, epsilon=0.5, delta=1e-6, ledger=ledger).fit(ROWS).release_
    assert [entry.number for entry in require_paid(release, ledger)] == [1]
    for other in ({"protects": GROUP}, {"adjacency": Adjacency.ADD_REMOVE}):
        forged = replace(release, guarantee=replace(release.guarantee, **other))
        with pytest.raises(VerificationError, match="protects another unit"):
            require_paid(forged, ledger)
    ledger.mark_failed(ledger.entries[0])
    with pytest.raises(VerificationError, match="noted as failed"):
        require_paid(release, ledger)


@pytest.mark.parametrize("kind", RELEASES)
def test_releases_name_pages_of_their_proof(kind, tmp_path):
    release = RELEASES[kind]().release_
    loaded = Release.load(release.save(tmp_path / "release"))
    assert loaded.proofs == release.proofs
    document = json.loads((tmp_path / "release" / "release.json").read_text())
    assert document["proofs"]
    for page in document["proofs"]:
        assert (ROOT / page).is_file()
        assert page in (tmp_path / "release" / "report.html").read_text("utf-8")
