"""Whatever lies where a release should lie is refused in one line, and before it is read."""

import os
import shutil
import struct
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivatePCA, Release
from eigenveil.exceptions import EigenveilError, InvalidParameterError, VerificationError
from eigenveil.release import files as stored
from eigenveil.release import generate_key
from eigenveil.release.export import export
from eigenveil.report import write
from eigenveil.storage import unzip
from tests.cli.conftest import invoke
from tests.report.test_page_check import reseal

ROWS = np.random.default_rng(0).standard_normal((40, 3))
RELEASE = PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(ROWS).release_
GIGABYTE = 2**30


@pytest.fixture
def folder(tmp_path):
    return RELEASE.save(tmp_path / "r")


def sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)


def loop(path):
    path.symlink_to(path)


def pair_of_links(path):
    other = path.with_name("other")
    path.symlink_to(other)
    other.symlink_to(path)


def many_files(path):
    path.mkdir()
    for number in range(3000):
        (path / f"{number}\n").touch()


def release_among_many(path):
    RELEASE.save(path)
    for number in range(3000):
        (path / f"{number}\n").touch()


def folders(path):
    path.mkdir()
    for name in (*stored.FILES, stored.SUMS):
        (path / name).mkdir()


def inside(name, change):
    def make(path):
        RELEASE.save(path)
        (path / name).unlink(missing_ok=True)
        change(path / name)

    return make


def wide_directory(path):
    """A zip that claims a list of members of gigabytes."""
    sparse(path, 3 * GIGABYTE)
    with path.open("r+b") as file:
        file.seek(-22, os.SEEK_END)
        file.write(b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 9, 9, 3 * GIGABYTE - 22, 0, 0))


def extended_directory(path):
    """A zip whose end points to another end, which would be believed."""
    RELEASE.save(path.with_name("whole.zip"))
    data = path.with_name("whole.zip").read_bytes()
    locator = b"PK\6\7" + struct.pack("<LQL", 0, 0, 1)
    path.write_bytes(data[:-22] + locator + data[-22:])


def large_member(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*stored.FILES, stored.SUMS):
            archive.writestr(name, bytes(2**13) if name == stored.SUMS else b"{}")


PLACES = {
    "loop": loop,
    "pair of links": pair_of_links,
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "empty folder": lambda path: path.mkdir(),
    "empty file": lambda path: path.touch(),
    "many files": many_files,
    "release among many files": release_among_many,
    "folders instead of files": folders,
    "file of gigabytes": lambda path: sparse(path, 3 * GIGABYTE),
    "zip with a list of gigabytes": wide_directory,
    "zip with another end": extended_directory,
    "zip with a large member": large_member,
    **{
        f"{name}: {what}": inside(name, change)
        for name in (*stored.FILES, stored.SUMS, stored.SIGNATURE)
        for what, change in {
            "pipe": os.mkfifo,
            "loop": loop,
            "device": lambda path: path.symlink_to("/dev/zero"),
            "folder": lambda path: path.mkdir(),
            "gigabytes": lambda path: sparse(path, 2 * GIGABYTE),
        }.items()
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_whatever_lies_there_is_refused_in_one_line(place, tmp_path):
    path = tmp_path / "received"
    PLACES[place](path)
    for read in (Release.load, Release.verify, Release.inspect, Release.fingerprint):
        with pytest.raises(EigenveilError) as error:
            read(path)
        assert error.value.exit_code in (3, 5)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 400 + len(str(path))


@pytest.mark.parametrize("place", ["loop", "pipe", "many files", "report.html: gigabytes"])
def test_every_command_refuses_it(place, tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "received"
    PLACES[place](path)
    generate_key(tmp_path / "key")
    np.save(tmp_path / "rows.npy", ROWS)
    for words in (
        ["verify", path],
        ["inspect", path],
        ["report", path],
        ["report", path, "-o", tmp_path / "page.html"],
        ["sign", path, "--key", tmp_path / "key"],
        ["export", path, tmp_path / "x.csv"],
        ["transform", path, tmp_path / "rows.npy"],
    ):
        result = invoke(*words)
        assert result.exit_code in (3, 5), result.output
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_the_size_of_arrays_is_known_from_the_statement(folder):
    """Even where the sums are right."""
    with (folder / "arrays.npz").open("r+b") as file:
        file.truncate(2**20)
    reseal(folder)
    with pytest.raises(VerificationError, match=r"arrays\.npz has 1,048,576 bytes and may have"):
        Release.load(folder)


def test_files_that_do_not_belong_there_are_named_a_few_at_a_time(folder):
    (folder / "scores.csv").touch()
    with pytest.raises(VerificationError, match=r"not part of it: scores\.csv$"):
        Release.load(folder)
    for number in range(50):
        (folder / f"{number}").touch()
    with pytest.raises(VerificationError, match=r"\.\.\.$"):
        Release.load(folder)


def test_names_with_the_character_0(folder, tmp_path):
    odd = tmp_path / "a\0b"
    for attempt in (
        lambda: Release.load(odd),
        lambda: Release.fingerprint(odd),
        lambda: Release.sign(odd, odd),
        lambda: Release.verify(folder, key=odd),
        lambda: RELEASE.save(odd),
        lambda: RELEASE.save(folder.with_name("new"), key=odd),
        lambda: export(RELEASE, odd, "csv"),
        lambda: write(RELEASE, odd),
        lambda: generate_key(odd),
    ):
        with pytest.raises(EigenveilError) as error:
            attempt()
        assert error.value.exit_code in (2, 3, 5)


@pytest.mark.parametrize("kind", ["folder", "device", "loop"])
def test_keys_that_are_none(kind, folder, tmp_path):
    pytest.importorskip("cryptography")
    key = tmp_path / "key"
    {"folder": key.mkdir, "device": lambda: key.symlink_to("/dev/zero"), "loop": lambda: loop(key)}[
        kind
    ]()
    Release.sign(folder, _new_key(tmp_path))
    for words in (["verify", folder, "--key", key], ["sign", folder, "--key", key]):
        result = invoke(*words)
        assert result.exit_code in (2, 3)
        assert result.stderr.count("\n") == 1


def _new_key(tmp_path):
    generate_key(tmp_path / "good")
    return tmp_path / "good"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_what_may_not_be_read(folder):
    folder.chmod(0)
    try:
        with pytest.raises(EigenveilError, match="permission") as error:
            Release.load(folder)
        assert error.value.exit_code == 3
    finally:
        folder.chmod(0o700)


def test_no_permission_is_told_apart_from_damage(folder, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stored.os, "scandir", refuse)
    with pytest.raises(EigenveilError, match="ask for permission") as error:
        Release.load(folder)
    assert error.value.exit_code == 3


SHAPES = {
    "below zero": "(-2, -3)",
    "beyond all memory": f"({10**30},)",
    "of Python 2": "(2L, 3L)",
    "with a bad escape": "'\\d'",
    "with a comparison": "2 is 3",
    "with a call": "open('/dev/null')",
}
HEADERS = {
    **{
        f"a shape {what}": f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"
        for what, shape in SHAPES.items()
    },
    "another order of bytes": "{'descr': '>f8', 'fortran_order': False, 'shape': (2, 3)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (6,)}",
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("version", [1, 2, 3, 9])
def test_headers_of_arrays_raise_no_warning(folder, header, version):
    text = HEADERS[header].encode()
    width = 2 if version == 1 else 4
    length = len(text).to_bytes(width, "little")
    data = b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(48)
    whole = unzip((folder / "arrays.npz").read_bytes(), "arrays.npz")
    with zipfile.ZipFile(folder / "arrays.npz", "w") as archive:
        for name, member in {**whole, "components.npy": data}.items():
            archive.writestr(name, member)
    reseal(folder)
    with pytest.raises(VerificationError, match=r"arrays\.npz"):
        Release.load(folder)


def test_what_verify_would_refuse_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(stored.LARGEST, "arrays.npz", 1000)
    with pytest.raises(InvalidParameterError, match="choose fewer columns"):
        RELEASE.save(tmp_path / "large")
    monkeypatch.undo()
    odd = replace(RELEASE, settings={**RELEASE.settings, "feature_names": ["a\ud800", "b", "c"]})
    with pytest.raises(VerificationError):
        odd.save(tmp_path / "odd")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_zipped_by_hand_stays_good(folder, tmp_path):
    shutil.make_archive(str(tmp_path / "compressed"), "zip", folder)
    with pytest.raises(VerificationError):
        Release.load(tmp_path / "compressed.zip")
    with zipfile.ZipFile(tmp_path / "stored.zip", "w") as archive:
        for path in sorted(folder.iterdir(), reverse=True):
            archive.write(path, path.name)
    assert Release.examine(tmp_path / "stored.zip").page_checked
