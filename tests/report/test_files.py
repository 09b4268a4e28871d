"""Pages and picture files of a release, written beside it."""

import sys

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, Release
from eigenveil.exceptions import InvalidParameterError, MissingExtraError
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.report import figures, write
from tests.release.samples import components, covariance

ROWS = np.random.default_rng(0).standard_normal((60, 3))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l", rho=1.0)


@pytest.fixture
def folder(tmp_path, ledger):
    fitted = PrivateCovariance(rho=0.25, row_norm=3.0, ledger=ledger).fit(ROWS)
    return fitted.release_.save(tmp_path / "release")


def test_a_fresh_page_of_a_loaded_release_is_the_one_it_was_saved_with(folder, tmp_path):
    path = write(Release.load(folder), tmp_path / "page.html")
    assert path.read_bytes() == (folder / "report.html").read_bytes()


def test_with_its_ledger_a_page_says_what_was_spent_since(folder, ledger, tmp_path):
    ledger.charge(Gaussian(1.0), label="other", adjacency=Adjacency.REPLACE_ONE)
    text = write(Release.load(folder), tmp_path / "page.html", ledger=ledger).read_text("utf-8")
    assert "When this page was written the ledger of this table had spent rho = 0.75 of 1" in text
    assert "this release 0.25" in text
    assert "spent since 0.5" in text


def test_another_ledger_is_refused(folder, tmp_path):
    other = Ledger.create(tmp_path / "other", rho=1.0)
    with pytest.raises(InvalidParameterError, match="did not pay for this release"):
        write(Release.load(folder), tmp_path / "page.html", ledger=other)
    with pytest.raises(InvalidParameterError, match="did not pay for this release"):
        write(covariance(np.eye(2)), tmp_path / "page.html", ledger=other)


def test_nothing_is_written_into_a_release(folder):
    release = Release.load(folder)
    for attempt in (
        lambda: write(release, folder / "page.html"),
        lambda: figures(release, folder),
        lambda: figures(release, folder / "deep" / "figures"),
    ):
        with pytest.raises(InvalidParameterError, match="is a release folder"):
            attempt()
    Release.verify(folder)


def test_unwritable_places_are_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameterError, match="choose a writable place"):
        write(covariance(np.eye(2)), tmp_path / "none" / "page.html")
    with pytest.raises(InvalidParameterError, match="choose a writable place"):
        figures(covariance(np.eye(2)), tmp_path / "file" / "figures")


def names(paths):
    return [path.name for path in paths]


def test_figures_of_components(tmp_path):
    release = components(np.eye(4)[:3], [3, 2, 1], clear=[1, 0, 1])
    paths = figures(release, tmp_path / "new" / "figures")
    assert names(paths) == [
        f"{name}.{form}"
        for name in ("scree", "loadings-1", "loadings-3")
        for form in ("png", "svg")
    ]
    for path in paths:
        content = path.read_bytes()
        start = b"\x89PNG" if path.suffix == ".png" else b"<?xml"
        assert content.startswith(start)


def test_figures_of_a_covariance(tmp_path):
    assert names(figures(covariance(np.eye(2)), tmp_path, formats=("png",))) == [
        "scree.png",
        "covariance.png",
    ]


def test_directions_without_eigenvalues_have_no_scree_plot(tmp_path):
    release = components(np.eye(2), [1, 1], noise_floor=0.0, matrix_floor=0.0)
    assert "scree.svg" not in names(figures(release, tmp_path, formats=("svg",)))


def test_at_most_six_components_are_drawn(tmp_path):
    paths = figures(components(np.eye(9), np.arange(9, 0, -1.0)), tmp_path, formats=("svg",))
    assert names(paths)[-1] == "loadings-6.svg"


def test_pages_need_no_matplotlib_and_figures_say_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    write(covariance(np.eye(2)), tmp_path / "page.html")
    with pytest.raises(MissingExtraError, match="figures need matplotlib"):
        figures(covariance(np.eye(2)), tmp_path / "figures")


def test_a_page_is_a_new_file(tmp_path):
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(InvalidParameterError, match="exists already"):
        write(covariance(np.eye(2)), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"


def test_control_characters_in_names_are_spelled_out(tmp_path):
    release = components(np.eye(2), [2, 1], feature_names=["a\x00\x1b", "b"])
    for path in figures(release, tmp_path / "figures", formats=("svg",)):
        assert b"\x1b" not in path.read_bytes()
