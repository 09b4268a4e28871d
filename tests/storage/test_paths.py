"""What somebody has named is looked at before it is read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eigenveil.storage import read_regular, real_path

HAS_PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")


def test_a_regular_file_is_read_up_to_a_size(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    assert read_regular(file) == read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="large"):
        read_regular(file, 4)


@HAS_PIPES
def test_pipes_devices_and_folders_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "loop", tmp_path / "none", "/dev/zero"):
        with pytest.raises(OSError):  # noqa: PT011 - of the system, in its words
            read_regular(path)
    with pytest.raises(ValueError, match="null"):
        read_regular("a\0b")


def test_what_is_no_path_stays_as_it_is():
    assert real_path("a\0b") == Path("a\0b")


READERS = """\
import pathlib, sys
import eigenveil
from eigenveil.cli import main
from eigenveil.exceptions import EigenveilError
from eigenveil.federated import read_server
from eigenveil.federated import node_key

pipe = pathlib.Path(sys.argv[1]) / "pipe"
for read in (
    lambda: read_server(pipe, insecure=True),
    lambda: node_key(pipe),
    lambda: eigenveil.Release.sign(pipe.with_name("none"), pipe),
    lambda: eigenveil.StreamingPCA(1, rho=1.0, state=pipe).restore(),
    lambda: eigenveil.Ledger.create(pipe, rho=1.0),
    lambda: eigenveil.Ledger(pipe),
    lambda: main.main(["fit", "x.csv", "--config", str(pipe)], standalone_mode=False),
):
    try:
        read()
    except (EigenveilError, SystemExit):
        print("refused")
"""


@HAS_PIPES
def test_no_reader_waits_for_a_pipe(tmp_path):
    """In a process of its own, which would never end."""
    os.mkfifo(tmp_path / "pipe")
    told = subprocess.run(
        [sys.executable, "-c", READERS, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.stdout.split() == ["refused"] * 7, told.stderr
