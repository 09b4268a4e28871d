"""The page is checked by rendering it again, and nothing in the files ends that unnoticed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.exceptions import UncheckedPageError, VerificationError
from eigenveil.release import Signature
from eigenveil.report import eigenvalues
from eigenveil.report.page import PAGE_FORMAT
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


OTHER_FORMATS = pytest.mark.parametrize("page_format", [1, PAGE_FORMAT - 1, PAGE_FORMAT + 1])
FORGED = "<p>Nobody can be harmed.</p>"


@OTHER_FORMATS
def test_a_page_of_another_format_is_not_accepted_by_itself(folder, page_format, tmp_path):
    """Anybody could have written it, and made the sums right again."""
    reseal(folder, FORGED, page_format=page_format)
    verdict = Release.examine(folder)
    assert not verdict.page_checked
    assert not verdict.vouched
    assert "not checked" in Release.inspect(folder)["page"]
    with pytest.raises(UncheckedPageError, match=f"format {page_format}, "):
        Release.verify(folder)
    told = fails(7, "verify", folder)
    assert "the numbers are checked" in told
    assert "eigenveil report -o" in told
    assert "not checked" in invoke("inspect", folder).stdout
    # Nobody is led to it, and nobody vouches for it; a page of the numbers replaces it.
    assert "-o PAGE.html" in fails(2, "report", folder)
    assert invoke("report", folder, "-o", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert FORGED not in page
    assert Release.load(folder).page() == page
    pytest.importorskip("cryptography")
    assert invoke("keygen", tmp_path / "key").exit_code == 0
    assert "cannot be checked" in fails(5, "sign", folder, "--key", tmp_path / "key")


@OTHER_FORMATS
def test_a_page_of_another_format_is_accepted_with_a_noted_fingerprint(folder, page_format):
    reseal(folder, FORGED, page_format=page_format)
    noted = Release.fingerprint(folder)
    assert Release.verify(folder, fingerprint=noted)
    told = invoke("verify", folder, "--fingerprint", noted)
    assert told.exit_code == 0
    assert f"page         not rendered again: report.html has format {page_format}" in told.stdout
    assert "covered by the fingerprint you noted" in told.stdout
    assert "anybody could have made this" not in told.stdout
    # Any other page is another fingerprint.
    reseal(folder, FORGED + " ")
    assert "not the one you noted" in fails(5, "verify", folder, "--fingerprint", noted)


@OTHER_FORMATS
def test_a_page_of_another_format_is_accepted_with_the_key_of_its_signer(
    folder, page_format, tmp_path
):
    pytest.importorskip("cryptography")
    reseal(folder, FORGED, page_format=page_format)
    for name in ("office", "other"):
        assert invoke("keygen", tmp_path / name).exit_code == 0
    signature = Signature.of((folder / "SHA256SUMS").read_bytes(), tmp_path / "office")
    (folder / "SIGNATURE").write_bytes(signature.encode())
    told = invoke("verify", folder, "--key", tmp_path / "office.pub")
    assert told.exit_code == 0
    assert "it is covered by the key you gave" in told.stdout
    # A signature by itself shows nothing: forgers have keys too.
    fails(7, "verify", folder)
    fails(5, "verify", folder, "--key", tmp_path / "other.pub")
    reseal(folder, FORGED + " ")
    fails(5, "verify", folder, "--key", tmp_path / "office.pub")


@pytest.mark.parametrize("vouched", [False, True])
def test_a_forged_page_of_this_format_is_refused_whoever_vouches(folder, vouched):
    reseal(folder, FORGED)
    noted = ("--fingerprint", Release.fingerprint(folder)) if vouched else ()
    assert "report.html does not say" in fails(5, "verify", folder, *noted)


def test_sentences_of_another_format_are_not_compared(folder):
    """Every version words the promise in its own way; numbers in it are those of the fields."""
    document = json.loads((folder / "release.json").read_text())
    for promise in (document["guarantee"], *(o["guarantee"] for o in document.get("owners", ()))):
        promise["sentence"] = "Nobody can be harmed."
    changed = {name: document[name] for name in ("guarantee", "owners") if name in document}
    reseal(folder, **changed)
    assert "contradicts itself" in fails(5, "verify", folder)
    reseal(folder, page_format=PAGE_FORMAT - 1)
    fails(7, "verify", folder)
    told = invoke("verify", folder, "--fingerprint", Release.fingerprint(folder)).stdout
    assert "Nobody can be harmed" not in told
    assert all(line in told for line in Release.load(folder).guarantee.lines())


def test_releases_from_before_the_format_was_written_down(tmp_path):
    for stored in ("components-page-1.zip", "covariance-page-1.zip"):
        assert Release.load(STORED / stored).guarantee.simulated
        fails(7, "verify", STORED / stored)


@pytest.mark.parametrize("page_format", [0, -1, 1.5, "2", True])
def test_formats_are_whole_numbers(folder, page_format):
    reseal(folder, page_format=page_format)
    with pytest.raises(VerificationError, match="page_format"):
        Release.load(folder)


def test_saving_again_writes_a_page_of_today(folder):
    reseal(folder, FORGED, page_format=PAGE_FORMAT - 1)
    again = Release.load(folder).save(folder.with_name("again"))
    assert Release.examine(again).page_checked


def test_verify_names_what_was_checked_and_what_was_not(folder, tmp_path):
    lines = invoke("verify", folder).stdout.splitlines()
    assert lines[0] == "unsigned: anybody could have made this"
    assert lines[1].endswith(")")
    noted = Release.fingerprint(folder)
    assert lines[2:6] == [
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
    """Raise PAGE_FORMAT with every change of the page or of a sentence, then the sum here."""
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
        text += release.page()
    assert (PAGE_FORMAT, hashlib.sha256(text.encode()).hexdigest()) == (
        11,
        "1c20200354be72452d4a22ccbb8f77d038455c90c4db6006e33a9ff59aa9dd8f",
    )


def test_a_copied_page_is_not_the_page_of_another_release(tmp_path):
    first, second = (RELEASES[name]().save(tmp_path / name) for name in ("components", "owners"))
    shutil.copy(first / "report.html", second / "report.html")
    reseal(second)
    with pytest.raises(VerificationError, match="does not say"):
        Release.load(second)
