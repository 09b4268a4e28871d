"""Valid things to start from, made once in a process and the same in each."""

import io
import itertools
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from eigenveil import (
    ContinualCovariance,
    PrivateCovariance,
    PrivatePCA,
    PrivateRegression,
    Release,
    StreamingPCA,
)
from eigenveil.federated import simulate
from eigenveil.privacy import Adjacency, Gaussian, Ledger
from eigenveil.release import SIGNATURE, SUMS, Signature
from eigenveil.rows import ArraySource
from tests.federated.stubs import NAMES as OWNERS
from tests.federated.stubs import Stub, agreement
from tests.fuzz.secrets import NUMBER

__all__ = [
    "BUDGET",
    "DAYS",
    "NAMES",
    "STREAM",
    "conversation",
    "days_state",
    "ledger_lines",
    "loaded",
    "npz",
    "private_pem",
    "public_pem",
    "releases",
    "rows",
    "secret_key",
    "stream_files",
]

NAMES = ("age", "hours", "gain")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")
DAYS: Mapping[str, Any] = {"horizon": 9, "row_norm": 10.0, "rho": 50.0}
STREAM: Mapping[str, Any] = {
    "rho": 50.0,
    "centring": "none",
    "batch_size": 20,
    "random_state": 0,
}
_CREATED = "2026-01-01T00:00:00+00:00"


def rows(n: int = 60) -> np.ndarray[Any, Any]:
    """Return private rows: their digits begin with the secret ones."""
    table = np.random.default_rng(0).standard_normal((n, 3)) * [3, 2, 1]
    secret = float(NUMBER) * 10.0 ** np.random.default_rng(1).integers(-9, -7, (n, 3))
    return np.sign(table) * secret + np.round(table, 1) * 1e-9


@cache
def releases() -> dict[str, dict[str, bytes]]:
    """Return the files of releases, by name."""
    source = ArraySource(rows(), NAMES)
    budget = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0}
    made = {
        "pca": PrivatePCA(2, **budget).fit(source).release_,
        "covariance": PrivateCovariance(**budget, row_norm=10.0).fit(source).release_,
        "bounded": PrivatePCA(2, **budget, bounds=(-10, 10), mechanism="analyze-gauss")
        .fit(ArraySource(rows()))
        .release_,
        "regression": PrivateRegression(rho=50.0, random_state=0)
        .fit(rows(200)[:, :2], rows(200)[:, 2])
        .release_,
        "stream": StreamingPCA(1, **STREAM).fit(rows()).release_,
        "federated": simulate(agreement(), {name: Stub(name) for name in OWNERS}),
    }
    files = {name: replace(each, created=_CREATED)._files() for name, each in made.items()}
    signed = dict(files["pca"])
    signed[SIGNATURE] = Signature.of(signed[SUMS], secret_key()).encode()
    return {**files, "signed": signed}


def secret_key(seed: int = 1) -> Any:
    """Return a key to sign with, the same for a seed in every run."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))


@cache
def private_pem(seed: int = 1) -> bytes:
    """Return a key to sign with, always the same."""
    from cryptography.hazmat.primitives import serialization as form

    return secret_key(seed).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


@cache
def public_pem(seed: int = 1) -> bytes:
    """Return its public half."""
    from cryptography.hazmat.primitives import serialization as form

    return (
        secret_key(seed)
        .public_key()
        .public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )


@cache
def ledger_lines() -> tuple[dict[str, Any], ...]:
    """Return the documents of a ledger with charges and a note, without their hashes."""
    with tempfile.TemporaryDirectory() as folder, _tokens():
        ledger = Ledger.create(f"{folder}/ledger", epsilon=3.0, delta=1e-6)
        for label in ("spherical", "tangent stream"):
            ledger.charge(Gaussian(0.1), label=label, adjacency=Adjacency.REPLACE_ONE)
        ledger.advance("0123", 0, 20)
        lines = Path(f"{folder}/ledger").read_bytes().splitlines()
    documents = [json.loads(line.rpartition(b"\t")[0]) for line in lines]
    for each in documents[1:]:
        each["time"] = _CREATED
    return tuple(documents)


@cache
def stream_files() -> dict[str, bytes]:
    """Return the state of a stream, and the rows that wait beside it."""
    with tempfile.TemporaryDirectory() as folder, _tokens():
        pca = StreamingPCA(1, **{**STREAM, "random_state": None}, state=f"{folder}/state")
        pca.partial_fit(rows(50), batch="one")
        return {
            path.name: path.read_bytes()
            for path in Path(folder).iterdir()
            if not path.name.endswith(".lock")
        }


@cache
def days_state() -> bytes:
    """Return the state of two days of a running covariance."""
    with tempfile.TemporaryDirectory() as folder, _tokens():
        days = ContinualCovariance(**DAYS, state=f"{folder}/state")
        days.partial_fit(rows(50), batch="one").partial_fit(rows(40), batch="two")
        return Path(f"{folder}/state").read_bytes()


@cache
def conversation() -> dict[str, bytes]:
    """Return a message of every kind, by its name."""
    heard: dict[str, bytes] = {}

    class Heard(Stub):
        def answer(self, question: bytes) -> bytes:
            answer = super().answer(question)
            heard[f"question {len(self.asked)}"] = question
            heard[f"answer {len(self.asked)} {self.name}"] = answer
            return answer

    simulate(agreement(), {name: Heard(name) for name in OWNERS})
    heard["refusal"] = Stub(OWNERS[0]).answer(b"nonsense")
    return heard


def npz(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as numpy stores them."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def loaded(release: Mapping[str, bytes]) -> Release:
    """Return the release that files hold."""
    return Release._parse(release)[0]


def _tokens() -> Any:
    """Names that are drawn at random, always the same."""
    numbers = itertools.count(1)
    return mock.patch("secrets.token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}")
