"""Releases of every earlier format of the page verify with a key or a fingerprint, and only so.

Archives in ``stored/earlier`` were written by the versions of their time (``write.py``).
"""

import json
import tarfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from eigenveil import Release
from eigenveil.exceptions import UncheckedPageError, VerificationError
from eigenveil.release import files
from eigenveil.report.page import PAGE_FORMAT
from tests.cli.conftest import fails, invoke

EARLIER = Path(__file__).parent / "stored" / "earlier"
ARCHIVES = {path.name.removesuffix(".tar.xz"): path for path in sorted(EARLIER.glob("*.tar.xz"))}
PAGES = [name for name in ARCHIVES if name.startswith("page-")]
DRAFTS = [name for name in ARCHIVES if name.startswith("draft-")]
ROWS = np.random.default_rng(0).standard_normal((5, 3))


def format_of(name):
    return int(name.split("-")[1])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    @lru_cache
    def unpacked(name):
        place = tmp_path_factory.mktemp(name)
        with tarfile.open(ARCHIVES[name]) as archive:
            archive.extractall(place, filter="data")
        for ledger in place.glob("*.ledger"):
            ledger.chmod(0o600)
        noted = (line.split() for line in (place / "noted").read_text().splitlines())
        return place, {kind: fingerprint for fingerprint, kind in noted}

    return unpacked


def key_of(place):
    """The public key of the signer; None where that version signed nothing."""
    pytest.importorskip("cryptography")
    return place / "office.key.pub" if (place / "office.key.pub").exists() else None


def test_every_format_of_the_page_is_stored():
    """Write the archive of a new format with `write.py` when it is final."""
    assert {format_of(name) for name in PAGES} == set(range(1, PAGE_FORMAT + 1))


@pytest.mark.parametrize("name", PAGES)
def test_noted_releases_verify(name, stored):
    place, noted = stored(name)
    assert len(noted) >= 6
    for kind, fingerprint in noted.items():
        assert Release.verify(place / kind, fingerprint=fingerprint).arrays
        assert Release.fingerprint(place / kind) == fingerprint
    told = invoke("verify", place / "components", "--fingerprint", noted["components"])
    assert told.exit_code == 0
    how = "checked: report" if format_of(name) == PAGE_FORMAT else "not rendered again: report"
    assert f"\npage         {how}.html" in told.stdout


@pytest.mark.parametrize("name", PAGES)
def test_signed_releases_verify(name, stored):
    place, noted = stored(name)
    key = key_of(place)
    if key is None:
        assert name == "page-1-first"
        return
    for kind in noted:
        assert Release.verify(place / kind, key=key).arrays
    assert invoke("verify", place / "covariance", "--key", key).exit_code == 0


@pytest.mark.parametrize("name", PAGES)
def test_nothing_vouches_for_an_earlier_page_by_itself(name, stored, tmp_path):
    place, noted = stored(name)
    if format_of(name) == PAGE_FORMAT:
        for kind in noted:
            assert Release.examine(place / kind).page_checked
        return
    for kind in noted:
        with pytest.raises(UncheckedPageError, match="the numbers are checked"):
            Release.verify(place / kind)
    told = fails(7, "verify", place / "components")
    assert "give the --fingerprint that you noted or the signer's public --key" in told
    assert "eigenveil report -o" in told
    page = tmp_path / "page.html"
    assert invoke("report", place / "components", "-o", page).exit_code == 0
    assert page.read_text("utf-8") == Release.load(place / "components").page()


@pytest.mark.parametrize("copied", ["{},", " {}", "{}0", "{:.15}", "0x{:.16}", ""])
def test_a_fingerprint_copied_badly_is_not_called_a_forgery(copied, stored):
    place, noted = stored(PAGES[-1])
    told = fails(
        2, "verify", place / "components", "--fingerprint", copied.format(noted["components"])
    )
    assert "a fingerprint has 64 digits" in told


@pytest.mark.parametrize("name", PAGES)
def test_earlier_releases_are_used_and_saved_again(name, stored, tmp_path):
    place, noted = stored(name)
    for kind in noted:
        release = Release.load(place / kind)
        again = Release.verify(release.save(tmp_path / kind))
        assert again.guarantee == release.guarantee
        for key, values in release.arrays.items():
            np.testing.assert_array_equal(again.arrays[key], values)
    assert np.isfinite(Release.load(place / "components").transform(ROWS)).all()


@pytest.mark.parametrize("name", PAGES)
def test_a_forged_earlier_release_is_never_accepted(name, stored, tmp_path):
    """Neither a page that was rewritten, nor the number of its format, passes with exit code 0."""
    place, noted = stored(name)
    release = place / "components"
    for page_format in {format_of(name), PAGE_FORMAT - 1, PAGE_FORMAT, PAGE_FORMAT + 1}:
        forged = tmp_path / f"forged-{page_format}"
        forged.mkdir()
        content = {path.name: path.read_bytes() for path in release.iterdir()}
        document = json.loads(content["release.json"]) | {"page_format": page_format}
        content["release.json"] = json.dumps(document).encode()
        content["report.html"] = content["report.html"].replace(b"epsilon = 1", b"epsilon = 0.1")
        content[files.SUMS] = files.sums(content)
        for file, data in content.items():
            (forged / file).write_bytes(data)
        assert invoke("verify", forged).exit_code in (5, 7)
        fails(5, "verify", forged, "--fingerprint", noted["components"])
        if key := key_of(place):
            fails(5, "verify", forged, "--key", key)


@pytest.mark.parametrize("name", DRAFTS)
def test_drafts_of_the_first_version_are_named_as_such(name, stored):
    place, noted = stored(name)
    kinds = noted if name == "draft-1" else ("components", "bounded", "pure")
    for kind in kinds:
        with pytest.raises(VerificationError, match=r"made by a draft of version 0\.1\.0"):
            Release.verify(place / kind, fingerprint=noted[kind])
    assert "altered" not in fails(5, "verify", place / "bounded")


@pytest.mark.parametrize("name", PAGES)
def test_ledgers_of_earlier_releases_hold_their_entries(name, stored):
    place, noted = stored(name)
    ledger = place / "table.ledger"
    if not ledger.exists():  # an SQLite file, which is not read
        assert format_of(name) == 1
        return
    told = invoke(
        "verify", place / "components", "--fingerprint", noted["components"], "--ledger", ledger
    )
    assert told.exit_code == 0
    assert "\nledger       checked: holds entry 1, " in told.stdout
