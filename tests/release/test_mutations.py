"""What verifies can be used: drawn, exported and transformed with, whatever its numbers are.

Arrays and settings of releases are changed in every way that came to mind, and the sums made right
again. Each is refused, or everything that is done with a release works, or says in one line why
not. A warning counts as a failure.
"""

import hashlib
import io
import json
import random
import shutil
import warnings
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.cli.summary import headline
from eigenveil.exceptions import EigenveilError, VerificationError
from eigenveil.release import FORMATS
from eigenveil.release import files as stored
from eigenveil.release.export import export
from eigenveil.report import figures
from eigenveil.report.page import PAGE_FORMAT
from tests.cli.conftest import invoke
from tests.release.test_owners import federated

ROWS = np.random.default_rng(0).standard_normal((60, 4)) * [3, 1, 1, 2]
BUDGET = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0}
NAMES = ["a", "b\x1b[2K", "c" * 90, "=d"]
FEDERATION = {
    "name": "f",
    "weights": "equal",
    "largest_weight": 0.5,
    "cut": ["north"],
    "left_out": [{"owner": "x", "round": "values", "code": "late"}],
}
# Of the changes to one release: a slice, and most of them.
SLICES = pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.audit)])


def _named():
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=["rs1", "rs2", "rs3", "rs4"])
    return PrivatePCA(2, **BUDGET, scale=[3.0, 1.0, 1.0, 2.0]).fit(frame)


RELEASES = {
    "components": lambda: _named().release_,
    "components of clipped rows": lambda: PrivatePCA(**BUDGET, row_norm=3.0).fit(ROWS).release_,
    "one column": lambda: PrivatePCA(1, **BUDGET, row_norm=3.0).fit(ROWS[:, :1]).release_,
    "covariance": lambda: PrivateCovariance(**BUDGET, row_norm=3.0).fit(ROWS).release_,
    "covariance as it is": lambda: (
        PrivateCovariance(**BUDGET, row_norm=3.0, mechanism="gauss").fit(ROWS).release_
    ),
    "scaled covariance": lambda: (
        PrivateCovariance(**BUDGET, row_norm=3.0, scale=[3, 1, 1, 2]).fit(ROWS).release_
    ),
    "components of owners": federated,
    "covariance of owners": lambda: federated(
        kind="covariance", arrays={"covariance": np.eye(3), "location": np.zeros(3)}
    ),
}
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 5e-324, 1e-310, -1e-310, 1e-160, 1e160, -1e160, 1e300)
NUMBERS += (-1e300, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan)
SIZES = (0, 5e-324, 1e-310, 1e-160, 1e-9, 1.0, 1e9, 1e160, 1e300, 1.7e308)


@lru_cache
def release_of(kind):
    return RELEASES[kind]()


def other_arrays(array):
    """The same array, changed in one way after another."""
    yield array[:0]
    yield array[:-1]
    yield array[None]
    yield np.concatenate([array, array])
    yield array[::-1]
    yield np.roll(array, 1)
    yield array.T.copy()
    yield -array
    yield array.astype(np.float32)
    for number in NUMBERS:
        yield np.full_like(array, number)
        first, last = array.copy(), array.copy()
        first.flat[0] = last.flat[-1] = number
        yield first
        yield last
        with np.errstate(all="ignore"):
            yield array * number
    if array.ndim == 2:
        for number in (0.0, 1e300, 1e-310):
            turned = array.copy()
            turned[0] = number
            yield turned
            square = turned.copy()
            square[: len(array.T), 0] = turned[0, : len(turned)]
            yield square


def changes(release):
    """Settings and arrays of releases that nobody made."""
    for name, array in release.arrays.items():
        for other in other_arrays(np.array(array)):
            yield {}, {**release.arrays, name: other}
        yield {}, {key: value for key, value in release.arrays.items() if key != name}
    yield {}, {**release.arrays, "extra": np.ones((2, 2, 2))}
    yield {}, {**release.arrays, "scale": np.full(release.settings["n_features"], np.inf)}
    for name in ("noise_scale", "noise_floor", "matrix_floor", "trace_bound", "row_norm"):
        for size in SIZES:
            yield {name: size}, dict(release.arrays)
    for size in SIZES:
        yield {"noise_floor": size, "matrix_floor": size}, dict(release.arrays)
        for granted in (5e-324, 1.0, 1.7e308):
            told = {"notion": "rho", "spent_before": 1.0, "spent": size, "delta": None}
            yield {"ledger": {**told, "granted": granted}}, dict(release.arrays)
        compared = {"north": {"distance": 0.5, "variance": size}, "x": {"distance": 1}}
        yield {"federation": {**FEDERATION, "compared": compared}}, dict(release.arrays)
    names = (NAMES * 4)[: release.settings["n_features"]]
    yield {"feature_names": names}, dict(release.arrays)
    yield {"n_rows": 10**15}, dict(release.arrays)


def forge(release, folder, settings, arrays, page_format):
    """Write a release that was never made, with sums that are right.

    The page of a former format may say anything.
    """
    document = json.loads(json.dumps(release.as_dict()))
    document["page_format"] = page_format
    document["settings"].update(settings)
    document["arrays"] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content = {
        "release.json": json.dumps(document).encode(),
        "arrays.npz": buffer.getvalue(),
        "report.html": b"<p>anything</p>",
    }
    folder.mkdir(exist_ok=True)
    for name, data in {**content, stored.SUMS: stored.sums(content)}.items():
        (folder / name).write_bytes(data)


def fingerprint(folder):
    """The fingerprint of a forged folder, as `sha256sum SHA256SUMS` prints it."""
    return hashlib.sha256((folder / stored.SUMS).read_bytes()).hexdigest()


def works(action, *codes):
    """Whether an action succeeds; else it fails on purpose, in one line."""
    try:
        action()
    except EigenveilError as error:
        if error.exit_code not in codes or not str(error).isprintable():
            raise AssertionError(ascii(error)) from error
        return False
    return True


def use(release, folder):
    """Do with a release what the commands do."""
    assert release.page()
    assert headline(release)
    for form in FORMATS:
        shutil.rmtree(folder / "exports", ignore_errors=True)
        works(lambda form=form: export(release, folder / "exports" / form, form), 2, 3, 5)
    if release.kind == "pca":
        rows = np.outer([0.0, 1.0], np.ones(release.settings["n_features"]))
        assert len(release.transform(rows)) == 2


def drawn(kind, count):
    """A slice of all changes, the same every time."""
    everything = list(changes(release_of(kind)))
    return random.Random(kind).sample(everything, min(count, len(everything)))


@pytest.mark.filterwarnings("ignore:the release has no centre")  # pairs have none
@SLICES
@pytest.mark.parametrize("kind", RELEASES)
def test_what_verifies_can_be_used(kind, count, tmp_path):
    release, accepted = release_of(kind), 0
    for settings, arrays in drawn(kind, count):
        forge(release, tmp_path / "forged", settings, arrays, page_format=PAGE_FORMAT - 1)
        if not works(lambda: Release.load(tmp_path / "forged"), 5):
            continue
        accepted += 1
        use(Release.load(tmp_path / "forged"), tmp_path)
        # Its page is drawn again to be compared: a page of today's format says more.
        forge(release, tmp_path / "forged", settings, arrays, page_format=PAGE_FORMAT)
        with pytest.raises(VerificationError, match=r"does not say|contradicts itself"):
            Release.load(tmp_path / "forged")
    assert accepted > min(count, 100) / 6


@pytest.mark.parametrize("most", [1, pytest.param(20, marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", RELEASES)
def test_what_verifies_can_be_drawn(kind, most, tmp_path):
    """Figures take their time: some of the releases that differ in what is drawn."""
    pytest.importorskip("matplotlib")
    release, shown = release_of(kind), 0
    for settings, arrays in drawn(kind, 120):
        forge(release, tmp_path / "forged", settings, arrays, page_format=PAGE_FORMAT - 1)
        with suppress(VerificationError):
            figures(Release.load(tmp_path / "forged"), tmp_path / "figures", formats=("svg",))
            shown += 1
        if shown == most:
            return


@pytest.mark.parametrize("count", [12, pytest.param(120, marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", ["components", "covariance as it is", "components of owners"])
def test_the_commands_say_in_one_line_what_cannot_be_done(kind, count, tmp_path):
    release = release_of(kind)
    np.save(tmp_path / "rows.npy", np.zeros((2, release.settings["n_features"])))
    folder, seen = tmp_path / "forged", set()
    for at, (settings, arrays) in enumerate(drawn(kind, count)):
        forge(release, folder, settings, arrays, page_format=PAGE_FORMAT - 1)
        page, figures = tmp_path / f"{at}.html", tmp_path / f"figures-{at}"
        for words in (
            ["verify", folder],
            ["verify", folder, "--fingerprint", fingerprint(folder)],
            ["inspect", folder],
            ["report", folder, "-o", page, *(["--figures", figures] if at % 8 == 0 else [])],
            ["export", folder, tmp_path / f"{at}.csv"],
            ["export", folder, tmp_path / f"{at}.parquet"],
            ["transform", folder, tmp_path / "rows.npy"],
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = invoke(*words)
            assert result.exit_code in (0, 2, 3, 5, 7), result.output
            if result.exit_code:
                assert result.stderr.startswith("error: ")
                assert result.stderr.count("\n") == 1
            seen.add((words[0], result.exit_code))
    assert {("verify", 0), ("verify", 5), ("verify", 7), ("report", 0)} <= seen
