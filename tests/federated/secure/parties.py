"""Owners and agreements of secure sums, for tests."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from eigenveil.federated import Coordinator, InProcess, Journal
from eigenveil.federated.secure import Member, SecureAgreement, SecureOwner
from eigenveil.privacy import Ledger

NAMES = ("east", "north", "south", "west")


def signing_key(name: str) -> Ed25519PrivateKey:
    """The same key for a name in every run."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def member(name: str, records: int) -> Member:
    return Member(signing_key(name).public_key().public_bytes_raw().hex(), records)


def tables(m: int = 4, n: int = 400, d: int = 5, *, apart: float = 0.0, seed: int = 0):
    """Rows with one strong direction, the second axis; owners' means differ along the last one."""
    rng = np.random.default_rng(seed)
    stretch = np.ones(d)
    stretch[int(d > 1)] = 4.0
    names = NAMES if m == 4 else [f"owner-{i:03}" for i in range(m)]
    shift = np.zeros(d)
    shift[-1] = apart
    return {
        name: rng.normal(size=(n, d)) * stretch + 10 + shift * (i % 2)
        for i, name in enumerate(names)
    }


def agreement(rows, **changes) -> SecureAgreement:
    m = len(rows)
    d = next(iter(rows.values())).shape[1]
    settings = {
        "federation": "trial",
        "owners": {name: member(name, len(table)) for name, table in rows.items()},
        "n_columns": d,
        "n_components": 1,
        "epsilon": 4.0,
        "delta": 1e-5,
        "honest": max(2, m - 1),
        "quorum": max(3, m - 1),
        "simulated": True,
    }
    return SecureAgreement(**{**settings, **changes})


def simulated(agreed: SecureAgreement, rows, **options) -> dict[str, SecureOwner]:
    """Owners with seeded noise and answers in memory."""
    return {
        name: SecureOwner(agreed, name, table, signing_key(name), random_state=i, **options)
        for i, (name, table) in enumerate(rows.items())
    }


def real_owner(agreed: SecureAgreement, name: str, table, folder: Path, **options) -> SecureOwner:
    """An owner with a ledger and a folder; noise of the operating system."""
    folder.mkdir(exist_ok=True)
    place = folder / "ledger"
    ledger = Ledger(place) if place.exists() else Ledger.create(place, epsilon=8, delta=1e-5)
    real = replace(agreed, simulated=False)
    return SecureOwner(real, name, table, signing_key(name), ledger, folder / "answers", **options)


class Server:
    """A coordinator whose journal stays, so that it can be looked at and started again."""

    def __init__(self, agreed: SecureAgreement, owners) -> None:
        self.agreed = replace(agreed, join_seconds=5, answer_seconds=5, again_seconds=1e9)
        self.owners, self.journal, self._passed = owners, Journal(), 0.0

    def run(self, tell=lambda event: None):
        def sleep(seconds: float) -> None:
            self._passed += seconds

        coordinator = Coordinator(
            self.agreed, self.journal, clock=lambda: self._passed, sleep=sleep, tell=tell
        )
        return coordinator.run(InProcess(self.owners))
