"""Secure sums among real processes, over TLS and with keys; one owner is killed and comes back."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from eigenveil.federated import (
    Coordinator,
    Event,
    Happening,
    Journal,
    make_certificate,
    make_node_key,
    simulate,
    superlink,
)
from tests.federated.secure.parties import agreement, simulated, tables

ROOT = Path(__file__).parents[3]
LIMIT = 200  # s


@pytest.mark.audit
def test_an_owner_killed_before_its_upload_comes_back_and_no_bit_differs(tmp_path):
    rows = dict(list(tables(n=60, d=3).items())[:3])
    agreed = replace(
        agreement(rows, honest=2, quorum=3, variance="within"),
        join_seconds=LIMIT,
        answer_seconds=LIMIT,
        again_seconds=1.0,
    )
    make_certificate(tmp_path, ["127.0.0.1"])
    (tmp_path / "agreement.json").write_bytes(agreed.encode())
    for name, table in rows.items():
        make_node_key(tmp_path / f"{name}.key")
        np.save(tmp_path / f"{name}.npy", table)
    victim = next(iter(rows))
    (tmp_path / f"{victim}.dies").touch()
    processes = {}

    def start(name: str) -> None:
        words = [tmp_path, transport.address, name]
        processes[name] = subprocess.Popen(
            [sys.executable, "-m", "tests.federated.secure.process_owner", *map(str, words)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    killed = []

    def watch(event: Event) -> None:
        """Once the others have uploaded, the victim is dead; start it again."""
        sent = event.happening is Happening.ANSWERED and event.round.startswith("upload")
        if sent and victim not in killed:
            assert processes[victim].wait(LIMIT) < 0
            killed.append(victim)
            start(victim)

    keys = {name: tmp_path / f"{name}.key.pub" for name in rows}
    certified = {
        "certificate": tmp_path / "server.pem",
        "private_key": tmp_path / "server.key",
    }
    try:
        with superlink("127.0.0.1:0", keys, **certified) as transport, Journal() as journal:
            for name in rows:
                start(name)
            release = Coordinator(agreed, journal, tell=watch).run(transport)
            transport.dismiss()
        assert killed == [victim]
        assert [process.wait(LIMIT) for process in processes.values()] == [0, 0, 0]
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
    alone = simulate(agreed, simulated(agreed, rows))
    for name, array in alone.arrays.items():
        assert np.array_equal(array, release.arrays[name]), name
