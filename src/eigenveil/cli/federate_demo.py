"""``eigenveil federate demo``: a server and three owners, four processes and real connections.

The handwritten digits that travel with scikit-learn are dealt out unevenly. The owner with the
fewest records states the largest epsilon, so that no one of them has most of what can be known.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from eigenveil.cli.printing import say
from eigenveil.cli.progress import stoppable
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import EigenveilError
from eigenveil.federated.configuration import read_server
from eigenveil.federated.flower.keys import make_certificate, make_node_key
from eigenveil.federated.secure.agreement import SecureAgreement
from eigenveil.numerics.metrics import captured_variance, subspace_distance
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release
from eigenveil.release.signature import generate_key, private_key
from eigenveil.storage.paths import private_file, require_new
from eigenveil.text import typed

_K, _DELTA, _BOUNDS = 2, 1e-6, (0, 16)
_STRIDE = 1000  # has no divisor in common with the number of records
_SECONDS = 150.0  # for everything
_KEPT = "federation-release"


class _Part(NamedTuple):
    name: str
    part: float  # of all records
    epsilon: float


_PARTS = (_Part("north", 0.6, 1.5), _Part("east", 0.3, 3.0), _Part("south", 0.1, 6.0))

_SERVER_FILE = """\
[federation]
name = "demo"
n_columns = {columns}
components = {k}
join_seconds = 60
answer_seconds = 60
again_seconds = 10

[server]
address = "{address}"
certificate = "server/server.pem"
private_key = "server/server.key"
folder = "server/journal"
output = "release"
"""
_LIMITS = """
[owners.{name}]
key = "{name}/{name}.key.pub"
records = {records}
epsilon = {epsilon}
delta = {delta}
mechanism = "spherical"
"""
_CLIENT_FILE = """\
[federation]
name = "demo"
server = "{address}"
certificate = "../server/authority.pem"
key = "{name}.key"

[owner]
name = "{name}"
data = "table.npy"
epsilon = {epsilon}
delta = {delta}
share = 0.8 # of the budget for directions: two variances need little
bounds = [0, 16] # of pixels
ledger = "ledger"
folder = "answers"
patience = 60
"""

_SUMS_EPSILON, _SUMS_GRANTED = 1.5, 1.6  # five charges take a little more than one
_SECURE = """
[secure]
honest = 2 # of three: one may collude with the server
epsilon = {epsilon}
delta = {delta}
bounds = [0, 16] # of pixels
"""
_MEMBER = """
[owners.{name}]
key = "{name}/{name}.key.pub"
signing_key = "{name}/{name}.sums.pub"
records = {records}
"""
_SUMS_FILE = """\
[federation]
server = "{address}"
certificate = "../server/authority.pem"
key = "{name}.key"

[secure]
agreement = "../agreement.json"
key = "{name}.sums"
agreed = "{name}.agreed"

[owner]
name = "{name}"
data = "table.npy"
ledger = "ledger"
folder = "answers"
patience = 60
"""


def run(folder: Path | None, *, secure: bool = False) -> None:
    """Deal, ask, compare."""
    started = time.monotonic()
    with stoppable("all processes of the demo were ended"), ExitStack() as stack:
        if folder is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eigenveil-")))
        else:
            require_new(folder, "choose a new --folder")
            folder.mkdir(mode=0o700, parents=True)  # tables, keys and ledgers lie in it
            place = folder
        table = np.asarray(load_digits().data, dtype=np.float64)
        parts = _dealt(table)
        _prepare(place, parts, secure=secure)
        say(
            f"{len(table):,} handwritten digits, {table.shape[1]} columns, {_K} components; "
            "TLS and keys made on the spot",
            "",
            err=True,
        )
        _federate(place)
        seconds = time.monotonic() - started
        _compare(Release.load(place / "release"), parts, place, secure=secure)
        say("", f"{1 + len(parts)} processes, {seconds:.0f} seconds")
        kept = place / "release" if folder is not None else _kept(place / "release")
        say(f"open         {kept / 'report.html'}")
        say(f"next         {typed(['eigenveil', 'verify', str(kept)])}")


def _kept(release: Path) -> Path:
    """Copy a release out of a folder that is removed, to a new name in this one."""
    names = (_KEPT if i == 1 else f"{_KEPT}-{i}" for i in count(1))
    kept = next(Path(name) for name in names if not Path(name).exists())
    shutil.copytree(release, kept)
    return kept


def _dealt(table: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Deal the records out, shuffled, a part to each."""
    order = np.argsort(np.arange(len(table)) * _STRIDE % len(table), kind="stable")
    ends = np.rint(np.cumsum([part.part for part in _PARTS]) * len(table)).astype(int)
    dealt = np.split(table[order], ends[:-1])
    return {part.name: rows for part, rows in zip(_PARTS, dealt, strict=True)}


def _prepare(place: Path, parts: dict[str, NDArray[np.float64]], *, secure: bool) -> None:
    """Prepare what the four of them would have prepared by themselves."""
    make_certificate(place / "server", ["127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    columns = next(iter(parts.values())).shape[1]
    text = _SERVER_FILE.format(address=address, columns=columns, k=_K)
    if secure:
        _prepare_sums(place, parts, address, text)
        return
    for part in _PARTS:
        home = place / part.name
        home.mkdir(mode=0o700)
        make_node_key(home / f"{part.name}.key")
        private_file(home / "table.npy")
        np.save(home / "table.npy", parts[part.name])
        Ledger.create(home / "ledger", epsilon=part.epsilon, delta=_DELTA)
        known = {"name": part.name, "epsilon": part.epsilon, "delta": _DELTA}
        text += _LIMITS.format(records=len(parts[part.name]), **known)
        (home / "client.toml").write_text(_CLIENT_FILE.format(address=address, **known), "utf-8")
    (place / "server.toml").write_text(text, "utf-8")


def _prepare_sums(
    place: Path, parts: dict[str, NDArray[np.float64]], address: str, text: str
) -> None:
    """Prepare secure sums: keys to sign with, and an agreement that all have signed."""
    text += _SECURE.format(epsilon=_SUMS_EPSILON, delta=_DELTA)
    for name, rows in parts.items():
        home = place / name
        home.mkdir(mode=0o700)
        make_node_key(home / f"{name}.key")
        generate_key(home / f"{name}.sums")
        np.save(home / "table.npy", rows)
        Ledger.create(home / "ledger", epsilon=_SUMS_GRANTED, delta=_DELTA)
        text += _MEMBER.format(name=name, records=len(rows))
        (home / "client.toml").write_text(_SUMS_FILE.format(address=address, name=name), "utf-8")
    (place / "server.toml").write_text(text, "utf-8")
    agreement = read_server(place / "server.toml", insecure=True).agreement
    assert isinstance(agreement, SecureAgreement)  # as _SECURE says
    (place / "agreement.json").write_bytes(agreement.encode())
    for name in parts:
        key = private_key(place / name / f"{name}.sums")
        word = {
            "agreement": agreement.digest.hex(),
            "owner": name,
            "signature": agreement.agreed(name).sign(key),
        }
        (place / name / f"{name}.agreed").write_text(json.dumps(word), "utf-8")
    say(f"agreement {agreement.fingerprint}, signed by all", err=True)


def _federate(place: Path) -> None:
    """Start all, show what they say, and wait for them; none is left behind."""
    with ExitStack() as stack:
        server = stack.enter_context(_started("server", "server", place / "server.toml"))
        owners = {
            part.name: stack.enter_context(
                _started(part.name, "client", place / part.name / "client.toml")
            )
            for part in _PARTS
        }
        deadline = time.monotonic() + _SECONDS
        for name, process in {"server": server, **owners}.items():
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise EigenveilError(
                    f"the process of {name} did not end within {_SECONDS:g} seconds: try again "
                    "when the machine is less busy"
                ) from None
            if code != 0:
                raise EigenveilError(f"the process of {name} failed: see its lines above")


@contextmanager
def _started(name: str, role: str, config: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process whose lines are shown with its name, and end it with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "eigenveil", "federate", role, str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,  # an interrupt is for the demo, which ends them in order
    )
    assert process.stderr is not None  # a pipe was asked for
    shown = threading.Thread(target=_show, args=(name, process.stderr), daemon=True)
    shown.start()
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shown.join(5)
        process.stderr.close()


def _show(name: str, lines: IO[str]) -> None:
    for line in lines:
        say(f"{name:>7} | {line.rstrip()}", err=True)


def _compare(
    release: Release, parts: dict[str, NDArray[np.float64]], place: Path, *, secure: bool
) -> None:
    """Say who spent what, and how good the result is."""
    owners = {owner.name: owner for owner in release.owners}
    say("", f"{'owner':<8}{'records':>8}  {'weights':<12}ledger afterwards")
    for name in (part.name for part in _PARTS if part.name in owners):
        owner, ledger = owners[name], Ledger(place / name / "ledger")
        weights = f"{owner.basis_weight:.2f}, {owner.values_weight:.2f}"
        say(f"{name:<8}{owner.n_rows:>8,}  {weights:<12}{ledger.summary()}")
    say("(weights: in the common directions, in the values inside them)")
    say("", "Not private, for the demo only: compared with the exact answer from all records")
    truth = np.cov(np.concatenate(list(parts.values())).T, bias=True)
    exact = np.linalg.eigh(truth)[1][:, : -_K - 1 : -1].T
    found = {"the federation": release.arrays["components"]}
    sole = [part._replace(epsilon=_SUMS_EPSILON) if secure else part for part in _PARTS]
    found |= {f"{part.name}, whole budget": _alone(part, parts[part.name]) for part in sole}
    if secure:
        whole = _Part("all", 1.0, _SUMS_EPSILON)
        found["one trusted table"] = _alone(whole, np.concatenate(list(parts.values())))
    far = {name: subspace_distance(components, exact) for name, components in found.items()}
    best = min((name for name in far if "budget" in name), key=lambda name: far[name])
    say(f"{'':<22}{'distance of projectors':>22}  {'variance captured':>17}")
    for name, components in found.items():
        share = captured_variance(components, truth)
        mark = "  (the best single owner)" * (name == best)
        say(f"{name:<22}{far[name]:>22.2f}  {share:>17.1%}{mark}")
    chance = _K / len(truth) * float(np.trace(truth)) / float(np.trace(exact @ truth @ exact.T))
    apart = np.sqrt(2 * _K * (1 - _K / len(truth)))
    say(f"{'directions by chance':<22}{apart:>22.2f}  {chance:>17.1%}")


def _alone(part: _Part, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an owner would release by itself, with its whole budget for directions."""
    pca = PrivatePCA(_K, epsilon=part.epsilon, delta=_DELTA, mechanism="spherical", bounds=_BOUNDS)
    return np.asarray(pca.fit(rows).components_)
