"""Locks that hold whatever becomes of their files, and files that are replaced as a whole."""

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from eigenveil.exceptions import BusyError, StateError
from eigenveil.federated import Answers
from eigenveil.storage import durable, locked, replace_file, unchanged

POSIX = pytest.mark.skipif(os.name == "nt", reason="a file in use cannot be removed there")


def held_elsewhere(path):
    """Whether another process finds it in use."""
    code = (
        "import sys; from pathlib import Path; from eigenveil.storage import locked\n"
        "from eigenveil.exceptions import BusyError\n"
        "try:\n    with locked(Path(sys.argv[1])): print('free')\n"
        "except BusyError: print('held')"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    return done.stdout == b"held\n"


def in_a_thread(work):
    """Do it in another thread, to the end; what it raised."""
    raised = []

    def run():
        try:
            work()
        except StateError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_a_lock_keeps_processes_and_threads_out(tmp_path):
    def enter():
        with locked(tmp_path / "file"):
            pass

    with locked(tmp_path / "file"):
        (error,) = in_a_thread(enter)
        assert isinstance(error, BusyError)
        assert held_elsewhere(tmp_path / "file")
    assert in_a_thread(enter) == []
    assert not held_elsewhere(tmp_path / "file")


def test_whoever_looks_into_the_lock_does_not_open_it(tmp_path):
    """Locks of a process would go with the first close of the file in it."""
    with locked(tmp_path / "file"):
        assert (tmp_path / "file.lock").read_bytes() == b""
        assert held_elsewhere(tmp_path / "file")


@POSIX
def test_a_lock_that_is_removed_before_it_is_held_is_taken_anew(tmp_path, monkeypatch):
    inner, times = durable.try_lock, []

    def removed(descriptor):
        times.append(inner(descriptor))
        if len(times) == 1:
            (tmp_path / "file.lock").unlink()
        return True

    monkeypatch.setattr(durable, "try_lock", removed)
    with locked(tmp_path / "file"):
        assert times == [True, True]
        assert held_elsewhere(tmp_path / "file")


@POSIX
@pytest.mark.parametrize("removed", ["before", "meanwhile"])
def test_nothing_is_written_by_the_holder_of_a_lock_that_is_gone(tmp_path, monkeypatch, removed):
    """Meanwhile: it is in place, and who wrote it does not act upon it."""
    inner, lock = os.replace, tmp_path / "file.lock"

    def replace(*arguments):
        lock.unlink()
        return inner(*arguments)

    with locked(tmp_path / "file"):
        if removed == "before":
            lock.rename(tmp_path / "moved")
        else:
            monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(StateError, match=r"^file\.lock was moved or removed while in use"):
            replace_file(tmp_path / "other", b"x")
    assert (tmp_path / "other").exists() == (removed == "meanwhile")
    monkeypatch.undo()
    replace_file(tmp_path / "other", b"y")  # of no concern without the lock
    assert not list(tmp_path.glob("*.new"))


@POSIX
def test_a_lock_belongs_to_its_folder_and_its_thread(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with locked(tmp_path / "file"):
        (tmp_path / "file.lock").unlink()
        replace_file(elsewhere / "other", b"x")

        def other():
            with locked(tmp_path / "file"):
                replace_file(tmp_path / "file", b"x")

        assert in_a_thread(other) == []


@POSIX
def test_an_owner_whose_lock_is_removed_begins_no_question(tmp_path):
    """Another one would answer the same question with noise of its own."""
    folder = tmp_path / "owner"
    one, other = Answers(folder, {}), Answers(folder, {})

    def answers():
        with other.opened():
            assert other.find("basis") is None
            other.begin("basis", "question")
            other.keep("basis", "question", b"answer", {})

    with one.opened():
        assert one.find("basis") is None
        (folder / "answers.lock").unlink()
        assert in_a_thread(answers) == []
        with pytest.raises(StateError, match="while in use"):
            one.begin("basis", "question")
    with one.opened():
        assert one.find("basis").answer == b"answer"


def test_a_file_is_replaced_only_if_it_is_the_one_that_was_read(tmp_path):
    path = tmp_path / "file"
    with unchanged(path, None):
        replace_file(path, b"one")
    with unchanged(path, digest(b"one")):
        replace_file(path, b"two")
    for other in (None, digest(b"one")):
        with pytest.raises(StateError, match="nothing more was drawn"), unchanged(path, other):
            raise AssertionError
    path.unlink()
    with pytest.raises(StateError, match="nothing more was drawn"), unchanged(path, digest(b"two")):
        raise AssertionError


@POSIX
def test_comparing_and_replacing_are_one_step(tmp_path):
    """Another writer, without a lock or with one that was removed, waits outside."""
    path = tmp_path / "file"
    replace_file(path, b"one")

    def other():
        with unchanged(path, digest(b"one")):
            replace_file(path, b"other")

    with unchanged(path, digest(b"one")):
        assert len(in_a_thread(other)) == 1
        replace_file(path, b"two")
        assert len(in_a_thread(other)) == 1
    assert path.read_bytes() == b"two"


@POSIX
def test_a_file_of_two_names_is_not_replaced_under_one(tmp_path):
    replace_file(tmp_path / "real", b"one")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    link = unchanged(tmp_path / "link", digest(b"one"))
    with pytest.raises(StateError, match="moved, removed or replaced"), link:
        raise AssertionError


def test_two_writers_never_put_each_others_draft_in_place(tmp_path, monkeypatch):
    """Without a lock: whoever is not told otherwise has put his own file there."""
    path, half_way, onwards = tmp_path / "file", threading.Event(), threading.Event()
    replace, fsync = os.replace, os.fsync
    second = threading.Thread(target=replace_file, args=[path, b"second"], daemon=True)

    def stops(descriptor):
        if threading.current_thread() is second:
            half_way.set()
            onwards.wait()
        fsync(descriptor)

    def late(*arguments):
        if threading.current_thread() is not second:
            second.start()
            half_way.wait()
        replace(*arguments)

    monkeypatch.setattr(os, "fsync", stops)
    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(StateError, match="cannot write"):
        replace_file(path, b"first")
    assert not path.exists()
    onwards.set()
    second.join()
    assert path.read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_no_draft(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match="the disk is full"):
        replace_file(tmp_path / "file", b"private")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_another_file_is_refused(tmp_path):
    (tmp_path / "file.lock").write_bytes(b"the state of another stream")
    with pytest.raises(StateError, match="the empty file it should be"), locked(tmp_path / "file"):
        raise AssertionError
    assert (tmp_path / "file.lock").read_bytes() == b"the state of another stream"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of threads of the tests
def test_a_forked_process_neither_opens_nor_keeps_the_lock_of_its_parent(tmp_path):
    lock = locked(tmp_path / "file")
    reader, writer = os.pipe()
    with lock:
        process = os.fork()
        if process == 0:  # it leaves the block
            lock.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(process, 0)[1] == 0
        assert held_elsewhere(tmp_path / "file")
        process = os.fork()
        if process == 0:  # it stays in it until the end of the test
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    assert not held_elsewhere(tmp_path / "file")
    os.close(writer)
    assert os.waitpid(process, 0)[1] == 0
    os.close(reader)
