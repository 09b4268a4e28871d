"""A name is one release's, and a run that stops leaves nothing that misleads."""

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from eigenveil import PrivatePCA, Release
from eigenveil.exceptions import InvalidParameterError, VerificationError
from eigenveil.storage import abandon, reserved
from eigenveil.storage import paths as places

ROWS = np.random.default_rng(0).standard_normal((40, 3))
RELEASE = PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(ROWS).release_
NAMES = ["r", "r.zip"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_taken_until_the_block_ends(name, tmp_path):
    with reserved(tmp_path / name) as place:
        assert places.is_empty(tmp_path / name)
        for attempt in (lambda: RELEASE.save(tmp_path / name), reserved(tmp_path / name).__enter__):
            with pytest.raises(InvalidParameterError, match="exists already and is empty"):
                attempt()
        with pytest.raises(VerificationError):
            Release.load(tmp_path / name)
        assert RELEASE.save(place) == tmp_path / name
    assert Release.load(tmp_path / name).as_dict() == RELEASE.as_dict()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", [InvalidParameterError, KeyboardInterrupt])
def test_who_releases_nothing_leaves_nothing(name, fault, tmp_path):
    def stop(place):
        place.make_room(5000)
        raise fault

    with pytest.raises(fault), reserved(tmp_path / name) as place:
        stop(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_of_many_that_want_one_name_one_gets_it(name, tmp_path):
    """Whoever it is: the system decides, and everybody else is told."""
    together, told = threading.Barrier(8), []

    def save():
        together.wait()
        try:
            told.append(RELEASE.save(tmp_path / name))
        except InvalidParameterError as error:
            told.append(str(error))

    threads = [threading.Thread(target=save) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.count(tmp_path / name) == 1
    assert all("exists already" in each for each in told if each != tmp_path / name)
    Release.load(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_what_somebody_else_put_there_stays(name, tmp_path):
    """A name that was reserved, removed by somebody and taken again is not overwritten."""
    with reserved(tmp_path / name) as place:
        abandon(tmp_path / name)
        other = PrivatePCA(1, epsilon=1.0, delta=1e-6).fit(ROWS).release_
        other.save(tmp_path / name)
        with pytest.raises(InvalidParameterError, match="taken by somebody else"):
            RELEASE.save(place)
    assert len(Release.load(tmp_path / name).arrays["components"]) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_leaves_an_empty_name_and_no_lost_room(name, tmp_path):
    code = """
import os, sys
from pathlib import Path
from eigenveil.storage import reserved

with reserved(Path(sys.argv[1])) as place:
    place.make_room(10**6)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=False)
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    assert places.is_empty(tmp_path / name)
    with pytest.raises(InvalidParameterError, match="remove it if no run is about to write"):
        RELEASE.save(tmp_path / name)
    with pytest.raises(VerificationError):
        Release.load(tmp_path / name)
    abandon(tmp_path / name)
    RELEASE.save(tmp_path / name)
    abandon(tmp_path / name)
    Release.load(tmp_path / name)


def test_an_empty_folder_is_explained(tmp_path):
    (tmp_path / "r").mkdir()
    with pytest.raises(VerificationError, match="cut off, or is about to write"):
        Release.load(tmp_path / "r")


class FullDisk:
    """A disk without room for files whose path begins, and ends, so."""

    def __init__(self, monkeypatch, start, suffix=""):
        self.start, self.suffix = os.fspath(start), suffix
        self.honest, self.honest_os = places.Path.open, os.open
        monkeypatch.setattr(places.Path, "open", lambda *a, **o: self.open(*a, **o))
        monkeypatch.setattr(os, "open", self.os_open)

    def open(self, path, mode="r", *arguments, **options):
        self.check(path, "r" not in mode)
        return self.honest(path, mode, *arguments, **options)

    def os_open(self, path, flags, *arguments, **options):
        self.check(path, flags & os.O_CREAT)
        return self.honest_os(path, flags, *arguments, **options)

    def check(self, path, writes):
        name = os.fspath(path)
        if writes and name.startswith(self.start) and name.endswith(self.suffix):
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_nothing_half_written(name, tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    with reserved(tmp_path / "small" / name) as place:
        FullDisk(monkeypatch, tmp_path / "small")
        with pytest.raises(InvalidParameterError, match="No space left on device"):
            RELEASE.save(place)
    assert list((tmp_path / "small").iterdir()) == []
    RELEASE.save(tmp_path / name)  # it is still there


def test_room_is_taken_and_given_back(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("eigenveil.storage.reservation.os.fsync", lambda file: written.append(file))
    with reserved(tmp_path / "r") as place:
        place.make_room(3 * 2**20 + 5)
        (file,) = written
        assert os.fstat(file).st_size == 3 * 2**20 + 5
        assert [path.name for path in tmp_path.iterdir()] == ["r"]  # the file has no name
        place.leave_room()
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(file)
        with pytest.raises(InvalidParameterError, match="choose fewer columns"):
            place.make_room(2**33)


def test_no_room_is_said_in_one_line(tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("eigenveil.storage.reservation.os.fsync", full)
    told = pytest.raises(InvalidParameterError, match="no room for 5,000 bytes")
    with told, reserved(tmp_path / "r") as place:
        place.make_room(5000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_next_save_removes_what_a_killed_one_left(name, tmp_path):
    with places.draft_of(tmp_path / name) as complete:
        left = complete.parent
    left.mkdir()
    (left / "complete").write_bytes(b"half of a release")
    (tmp_path / ".release-of-somebody-else").mkdir()
    RELEASE.save(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {name, ".release-of-somebody-else"}
