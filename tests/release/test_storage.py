"""One file instead of a folder: the same release, and no way out of it."""

import os
import stat
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil import PrivatePCA, Release
from eigenveil.exceptions import InvalidParameterError, VerificationError

ROWS = np.random.default_rng(0).standard_normal((40, 4))
RELEASE = PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(ROWS).release_
NAMES = ["release.json", "arrays.npz", "report.html", "SHA256SUMS"]


@pytest.fixture
def zipped(tmp_path):
    return RELEASE.save(tmp_path / "release.zip")


def test_a_zip_is_the_folder_in_one_file(zipped, tmp_path):
    loaded = Release.load(zipped)
    assert loaded.as_dict() == RELEASE.as_dict()
    for name, array in RELEASE.arrays.items():
        assert np.array_equal(loaded.arrays[name], array, equal_nan=True)
    with zipfile.ZipFile(zipped) as archive:
        assert archive.namelist() == NAMES
        archive.extractall(tmp_path / "folder")
    assert Release.fingerprint(tmp_path / "folder") == Release.fingerprint(zipped)
    Release.verify(tmp_path / "folder", fingerprint=Release.fingerprint(zipped))
    with pytest.raises(InvalidParameterError, match="exists already"):
        RELEASE.save(zipped)
    assert {path.name for path in tmp_path.iterdir()} == {"release.zip", "folder"}


def rezip(path, members, compression=zipfile.ZIP_STORED):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of names that are there twice
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in members:
                archive.writestr(name, data)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        (("../escaped.txt", b"out"), "not part of it"),
        (("/tmp/escaped.txt", b"out"), "not part of it"),
        (("folder/", b""), "regular files"),
        (("report.html", b"another"), "two files of one name"),
    ],
)
def test_other_members_are_refused_and_nothing_is_unpacked(zipped, tmp_path, extra, match):
    rezip(zipped, [*members(zipped), extra])
    with pytest.raises(VerificationError, match=match):
        Release.load(zipped)
    assert list(tmp_path.iterdir()) == [zipped]


def test_a_bomb_is_refused_unread(zipped):
    rezip(zipped, [("release.json", bytes(50_000_000))], zipfile.ZIP_DEFLATED)
    assert zipped.stat().st_size < 100_000
    with pytest.raises(VerificationError, match="compressed"):
        Release.load(zipped)


def test_a_member_that_claims_to_be_huge_is_refused(zipped):
    data = bytearray(zipped.read_bytes())
    entry = data.rindex(b"PK\x01\x02")  # in the directory at the end
    data[entry + 24 : entry + 28] = (1 << 30).to_bytes(4, "little")
    zipped.write_bytes(data)
    with pytest.raises(VerificationError, match="claims to hold more"):
        Release.load(zipped)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_zip_is_the_same_release_or_refused(tmp_path_factory, place, mask, cut):
    """A date or an attribute of a member may change: what it holds may not."""
    path = tmp_path_factory.mktemp("zip") / "r.zip"
    good = RELEASE.save(path).read_bytes()
    at = int(place * len(good))
    path.write_bytes(good[:at] if cut else good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :])
    with pytest.raises(VerificationError) if cut else suppress(VerificationError):
        assert Release.load(path).as_dict() == RELEASE.as_dict()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "r.zip").write_bytes(content)
    with pytest.raises(VerificationError, match="cannot be read"):
        Release.load(tmp_path / "r.zip")


def test_a_release_is_read_without_scikit_learn(zipped):
    """Loading, checking and transforming need neither the estimators nor the mechanisms."""
    code = f"""
import sys
from eigenveil.release import Release
Release.verify({str(zipped)!r}).transform([[1.0, 2.0, 3.0, 4.0]])
private = ("eigenveil.estimators", "eigenveil.mechanisms", "sklearn", "cryptography")
assert not [name for name in private if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def entries(path, change):
    """The zip anew, with something changed about its members."""
    content = members(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content:
            entry = zipfile.ZipInfo(name)
            change(archive, entry)
            archive.writestr(entry, data)


def mode(bits):
    def change(archive, entry):
        entry.external_attr = bits << 16

    return change


@pytest.mark.parametrize("bits", [stat.S_IFLNK | 0o777, stat.S_IFREG | 0o4755, stat.S_IFIFO])
def test_members_that_are_no_plain_files_are_refused(zipped, bits):
    entries(zipped, mode(stat.S_IFREG | 0o644))
    Release.verify(zipped)
    entries(zipped, mode(bits))
    with pytest.raises(VerificationError, match="regular files"):
        Release.verify(zipped)


def in_gap(archive, entry):
    archive.fp.write(b"hidden")
    archive.start_dir = archive.fp.tell()


def commented(archive, entry):
    entry.comment = b"hidden"


@pytest.mark.parametrize("change", [in_gap, commented])
def test_bytes_between_members_are_refused(zipped, change):
    entries(zipped, change)
    with pytest.raises(VerificationError, match="bytes outside of its files"):
        Release.verify(zipped)


def test_bytes_around_the_zip_are_refused(zipped):
    good = zipped.read_bytes()
    with zipfile.ZipFile(zipped, "a") as archive:
        archive.comment = b"signed by someone"
    changed = [zipped.read_bytes(), b"#!/bin/sh\n" + good, good + b"x"]
    for bad in changed:
        zipped.write_bytes(bad)
        with pytest.raises(VerificationError):
            Release.verify(zipped)
    zipped.write_bytes(good)
    Release.verify(zipped)


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_a_folder_is_refused(tmp_path, name):
    """What it points to may change after the check, or lie where only the owner looks."""
    folder = RELEASE.save(tmp_path / "r")
    os.rename(folder / name, tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(VerificationError, match="no regular file"):
        Release.verify(folder)
    (tmp_path / "link").symlink_to(RELEASE.save(tmp_path / "whole"))
    Release.verify(tmp_path / "link")


def test_nothing_is_saved_into_a_release_or_over_a_link(tmp_path):
    folder = RELEASE.save(tmp_path / "r")
    with pytest.raises(InvalidParameterError, match="is a release folder"):
        RELEASE.save(folder / "deep" / "inside")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(InvalidParameterError, match="exists already"):
        RELEASE.save(tmp_path / "nowhere")
    Release.verify(folder)
