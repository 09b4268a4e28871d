"""The page is checked by rendering it again, and nothing in the files ends that unnoticed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.exceptions import VerificationError
from eigenveil.report.page import PAGE_FORMAT, promise, promises
from eigenveil.report.views import eigenvalues
from tests.cli.conftest import fails, invoke
from tests.release.samples import components, covariance, regression
from tests.release.test_owners import federated

STORED = Path(__file__).parent / "stored"
ROWS = np.random.default_rng(0).standard_normal((60, 4)) * [4, 2, 1, 1]
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
RELEASES = {
    "components": lambda: PrivatePCA(2, **BUDGET).fit(ROWS).release_,
    "covariance": lambda: PrivateCovariance(**BUDGET, row_norm=4.0).fit(ROWS).release_,
    # Whose eigenvalues are not stored, and some of them zero but for rounding.
    "projection": lambda: (
        PrivateCovariance(**BUDGET, row_norm=4.0, mechanism="projection").fit(ROWS).release_
    ),
    "owners": federated,
}


@pytest.fixture(params=RELEASES)
def folder(request, tmp_path):
    return RELEASES[request.param]().save(tmp_path / "release")


def reseal(folder, page=None, **members):
    """Change the page or members of the statement, and make the sums right again."""
    if page is not None:
        (folder / "report.html").write_text(page, "utf-8")
    document = json.loads((folder / "release.json").read_text())
    for name, value in members.items():
        if value is None:
            document.pop(name, None)
        else:
            document[name] = value
    (folder / "release.json").write_text(json.dumps(document))
    lines = (
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("release.json", "arrays.npz", "report.html")
    )
    (folder / "SHA256SUMS").write_text("".join(lines))


FORGERIES = {
    "a sentence more": lambda page: page.replace("</main>", "<p>Nobody can be harmed.</p></main>"),
    "a style": lambda page: page.replace("</style>", ".promise{display:none}</style>"),
    "a number": lambda page: page.replace("told from noise", "told from all noise"),
    "a comment": lambda page: page + "<!-- -->",
    "a line break": lambda page: page + "\n",
    "nothing": lambda page: "",
}


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("library", [None, "0.0.1", "99.0"])
def test_no_word_of_the_page_can_be_changed(folder, forgery, library):
    """All of them leave the promise where it was; another library changes no check."""
    whole = (folder / "report.html").read_text("utf-8")
    page = FORGERIES[forgery](whole)
    if page == whole:  # nothing of the kind on this page
        return
    stated = json.loads((folder / "release.json").read_text())["library"]
    reseal(folder, page, library=library or stated)
    for check in (Release.load, Release.verify, Release.inspect):
        with pytest.raises(VerificationError, match=r"report\.html does not say"):
            check(folder)
    fails(5, "verify", folder)


def test_another_library_is_no_other_format(folder):
    """Whoever wrote it: a page of today's format is what today's version makes of the rest."""
    release = replace(Release.load(folder), library="99.0")
    again = release.save(folder.with_name("again"))
    assert Release.examine(again).page_checked
    assert "eigenveil 99.0" in (again / "report.html").read_text("utf-8")


def promised(folder):
    """A page with the words of the promises, as those of former formats had it."""
    release = Release.load(folder)
    return f"<p>anything</p>{promise(release.guarantee)}{promises(release.owners)}"


@pytest.mark.parametrize("page_format", [PAGE_FORMAT + 1, 10**6])
def test_a_page_of_a_format_to_come_is_refused(folder, page_format):
    reseal(folder, promised(folder), page_format=page_format)
    for check in (Release.load, Release.verify, Release.inspect):
        with pytest.raises(VerificationError, match=r"report\.html is of a later version"):
            check(folder)
    assert "update eigenveil" in fails(5, "verify", folder)


def test_a_page_of_a_former_format_is_said_not_to_be_checked(folder, tmp_path):
    reseal(folder, promised(folder), page_format=PAGE_FORMAT - 1)
    verdict = Release.examine(folder)
    assert not verdict.page_checked
    assert "not checked" in Release.inspect(folder)["page"]
    with pytest.warns(UserWarning, match="page not checked"):
        Release.verify(folder)
    assert "could say anything" in fails(5, "verify", folder)
    told = invoke("verify", folder, "--old-page")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0].endswith(", page not checked")
    assert f"page         not checked: report.html has the older format {PAGE_FORMAT - 1}" in (
        told.stdout
    )
    assert "not checked" in invoke("inspect", folder).stdout
    # Nobody is led to it, and nobody vouches for it.
    assert "-o PAGE.html" in fails(2, "report", folder)
    assert invoke("report", folder, "-o", tmp_path / "page.html").exit_code == 0
    pytest.importorskip("cryptography")
    assert invoke("keygen", tmp_path / "key").exit_code == 0
    assert "cannot be checked" in fails(5, "sign", folder, "--key", tmp_path / "key")


@pytest.mark.parametrize("stored", ["components-page-1.zip", "covariance-page-1.zip"])
def test_releases_from_before_the_format_was_written_down(stored, tmp_path):
    """They load; their pages held the promise, and are not checked beyond it."""
    assert Release.load(STORED / stored).guarantee.simulated
    told = invoke("verify", STORED / stored, "--old-page").stdout
    assert "page not checked" in told.splitlines()[0]
    with zipfile.ZipFile(STORED / stored) as archive:
        archive.extractall(tmp_path / "r")
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    reseal(tmp_path / "r", page.replace("epsilon = 2,", "epsilon = 0.2,"))
    fails(5, "verify", tmp_path / "r", "--old-page")


@pytest.mark.parametrize("page_format", [0, -1, 1.5, "2", True])
def test_formats_are_whole_numbers(folder, page_format):
    reseal(folder, page_format=page_format)
    with pytest.raises(VerificationError, match="page_format"):
        Release.load(folder)


def test_saving_again_writes_a_page_of_today(folder):
    reseal(folder, promised(folder), page_format=PAGE_FORMAT - 1)
    again = Release.load(folder).save(folder.with_name("again"))
    assert Release.examine(again).page_checked


def test_verify_names_what_was_checked_and_what_was_not(folder, tmp_path):
    lines = invoke("verify", folder).stdout.splitlines()
    assert lines[0].endswith(")")
    noted = Release.fingerprint(folder)
    assert lines[1:5] == [
        "files        checked: they match SHA256SUMS, statement and arrays agree",
        "page         checked: report.html is what the other files make",
        "signature    not signed",
        f"fingerprint  {noted}, not compared: note it where the release is not",
    ]
    told = invoke("verify", folder, "--fingerprint", noted).stdout
    assert f"fingerprint  {noted}, the one you noted\n" in told


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(name, marks=() if i == 0 else pytest.mark.audit)
        for i, name in enumerate(RELEASES)
    ],
    indirect=True,
)
def test_a_page_is_the_same_in_another_process(folder, tmp_path):
    """With another hash seed, other threads, and what numpy does on an older processor."""
    code = "import sys; from eigenveil import Release; print(Release.load(sys.argv[1]).page())"
    settings = {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        check=True,
    )
    assert done.stdout == (folder / "report.html").read_text("utf-8") + "\n"


def test_eigenvalues_are_those_of_every_machine():
    """What differs from one machine to the next is the last digits: they are gone."""
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((6, 3))
    matrix = factors @ factors.T
    noise = 1e-15 * rng.standard_normal((6, 6))
    values = eigenvalues(matrix)
    assert np.array_equal(values, eigenvalues(matrix + noise + noise.T))
    assert np.array_equal(values[3:], np.zeros(3))
    assert values == pytest.approx(np.linalg.eigvalsh(matrix)[::-1], abs=1e-9)
    for scale in (0.0, 2.0**1000, 2.0**-1030):
        assert eigenvalues(scale * matrix) == pytest.approx(scale * values)


def test_a_changed_page_is_another_format():
    """Who changes what is rendered raises PAGE_FORMAT, and then the sum here.

    The words of the promise are left out: they are compared word for word in release.json.
    """
    rows = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0]])
    matrix = np.array([[4.0, 2.0, -1.0], [2.0, 4.0, 0.0], [-1.0, 0.0, 1.0]])
    ledger = {"notion": "rho", "spent_before": 0.25, "spent": 0.5, "granted": 1.0, "delta": None}
    samples = (
        components(rows, [3.0, 0.05], clear=[1, 0], noise_floor=0.2, ledger=ledger),
        covariance(matrix, feature_names=["a", "b", "c"]),
        federated(),
        regression([[1.0, 0.5]], [3.0], [[0.25, 1.0, 0.5]], shares={"gram": 0.5, "stages": 0.5}),
        regression(
            [[0.0, 0.0]] * 2,
            [3.0, 4.0],
            [[np.inf, np.inf, np.inf], [np.inf, np.inf, 0.5]],
            shares={"offset": 1.0},
            target_names=["y", "z"],
        ),
    )
    text = ""
    for sample in samples:
        release = replace(sample, created="2025-01-01T00:00:00+00:00", library="0")
        words = (promise(release.guarantee), promises(release.owners))
        page = release.page()
        for part in filter(None, words):
            assert part in page
            page = page.replace(part, "")
        text += page
    assert (PAGE_FORMAT, hashlib.sha256(text.encode()).hexdigest()) == (
        8,
        "9113078cd3b5f724d8a47b99859beff33faf69e414703f6ab1bdb4b83a35109f",
    )


def test_a_copied_page_is_not_the_page_of_another_release(tmp_path):
    first, second = (RELEASES[name]().save(tmp_path / name) for name in ("components", "owners"))
    shutil.copy(first / "report.html", second / "report.html")
    reseal(second)
    with pytest.raises(VerificationError, match="does not say"):
        Release.load(second)
