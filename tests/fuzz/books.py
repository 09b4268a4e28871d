"""Ledgers and states of streams near valid ones, with hashes and sums that are right."""

import hashlib
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import ContinualCovariance, Ledger, StreamingPCA
from eigenveil.privacy import Adjacency, Approx, Gaussian, Pure, Unit
from eigenveil.release import files as stored
from eigenveil.storage import archive
from tests.fuzz.artefacts import _odd_zip, loaded_arrays
from tests.fuzz.case import Call, Case, Command, Outcome
from tests.fuzz.secrets import NUMBER
from tests.fuzz.stock import (
    BUDGET,
    DAYS,
    STREAM,
    days_state,
    ledger_lines,
    npz,
    releases,
    rows,
    stream_files,
)
from tests.fuzz.values import any_json, dumped, mutated_bytes, mutated_json, odd_text

__all__ = ["days_case", "ledger_case", "stream_case"]

Random = random.Random


# Ledgers


def chained(documents: list[Any], *, linked: bool = True) -> bytes:
    """Return lines with right hashes, each with the hash of the line before."""
    lines, previous = [], ""
    for document in documents:
        if linked and previous and isinstance(document, dict) and "previous" in document:
            document = {**document, "previous": previous}
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        text = dumped(document) if b"@deep" in text else text
        previous = hashlib.sha256(text).hexdigest()
        lines.append(text + b"\t" + previous.encode() + b"\n")
    return b"".join(lines)


def _ledger(rng: Random) -> tuple[bytes, bool]:
    """Return the bytes of a ledger, and whether its chain is broken for sure."""
    documents: list[Any] = [dict(each) for each in ledger_lines()]
    match rng.randrange(12):
        case 0:
            return mutated_bytes(rng, chained(documents)), False
        case 1:
            lines = chained(documents).splitlines(keepends=True)
            lines.pop(rng.randrange(len(lines) - 1))
            return b"".join(lines), True
        case 2:
            lines = chained(documents).splitlines(keepends=True)
            lines.insert(rng.randrange(1, len(lines)), rng.choice(lines))
            return b"".join(lines), True
        case 3:
            at = rng.randrange(1, len(documents) - 1)
            documents[at]["label"] = "another"  # hashed anew, but the next line knows the old hash
            return chained(documents[: at + 1]) + b"".join(
                chained([dict(each) for each in ledger_lines()]).splitlines(keepends=True)[at + 1 :]
            ), True
        case 4:
            return chained(documents) + rng.choice((b"{", b'{"cost"', b"\n", b"\0" * 50)), False
        case 5:
            data = chained(documents)
            return data[: rng.randrange(len(data))], False
        case 6:
            return rng.choice((b"", b"\n", b"SQLite format 3\0" + bytes(99), b"nonsense")), False
        case 7:
            documents[0] = mutated_json(rng, documents[0], rng.choice((1, 2)))
            return chained(documents), False
        case 8:
            return chained([documents[0]]), False
    at = rng.choice((-1, -1, rng.randrange(1, len(documents))))
    documents[at] = mutated_json(rng, documents[at], rng.choice((1, 1, 2)))
    if rng.random() < 0.1:
        documents[at] = any_json(rng)
    return chained(documents), False


def ledger_case(rng: Random, place: Path) -> Case:
    """A ledger: lines cut, moved, altered, and of odd types with right hashes."""
    data, broken = _ledger(rng)
    path = place / "ledger"
    path.write_bytes(data)
    np.save(place / "rows.npy", rows(40))
    (place / "release").mkdir()
    for name, content in releases()["pca"].items():
        (place / "release" / name).write_bytes(content)
    words: tuple[str, ...]
    private: tuple[str, ...] = ()
    match rng.randrange(10):
        case 0 | 1:
            words = ("ledger", rng.choice(("show", "history")), "ledger")
            words += rng.choice(((), ("--json",)))
        case 2:
            words = ("ledger", "export", "ledger", "-o", rng.choice(("e.csv", "e.json", "e.xml")))
        case 3 | 4:
            budget = rng.choice((BUDGET, ("--epsilon", "0.1"), ("--rho", "0.01")))
            words = ("fit", "rows.npy", *budget, "--k", "1", "--ledger", "ledger", "-o", "out")
        case 5:
            words = ("stream", "rows.npy", "--state", "state", "--k", "1", "--rho", "0.1")
            words += ("--centring", "none", "--batch-size", "10", "--ledger", "ledger")
            private = ("state",)
        case 6:
            words = ("report", "release", "-o", "page.html", "--ledger", "ledger")
        case 7:
            words = ("ledger", "init", "ledger", *BUDGET)
        case _:
            name, function = _read(rng, path)
            calls: list[Command | Call] = [
                Call(f"Ledger({path.name!r}).{name}", function, warns=("was cut off",))
            ]
            return Case(calls, check=lambda outcomes: _kept(path, data, broken, outcomes))
    return Case([Command(words)], private, lambda found: _kept(path, data, broken, found))


def _read(rng: Random, path: Path) -> tuple[str, Any]:
    near = {"label": "fuzz", "adjacency": Adjacency.REPLACE_ONE}
    cost = rng.choice((Gaussian(0.01), Pure(0.01), Approx(0.01, 1e-9), Gaussian(1e6)))
    person = Unit("person", "name")
    return rng.choice(
        (
            ("entries", lambda: [repr(entry) for entry in Ledger(path).entries]),
            ("balances", lambda: Ledger(path).balances()),
            ("left", lambda: Ledger(path).left()),
            ("summary", lambda: Ledger(path).summary()),
            ("spent", lambda: Ledger(path).spent),
            ("charge", lambda: Ledger(path).charge(cost, **near)),
            ("charge once", lambda: Ledger(path).charge(cost, **near, once=True)),
            ("charge person", lambda: Ledger(path).charge(cost, **near, unit=person)),
            ("advance", lambda: Ledger(path).advance("0123", 20, 40)),
            ("require_unspent", lambda: Ledger(path).require_unspent("0123", 20)),
        )
    )


def _kept(path: Path, before: bytes, broken: bool, outcomes: list[Outcome]) -> str | None:
    """Whether a broken ledger was charged, or a failure or a reading changed one."""
    (outcome,) = outcomes
    after = path.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]
    if broken and outcome.succeeded:
        return "a ledger whose chain is broken was taken"
    if not after.startswith(whole):
        return "lines of the ledger are gone"
    if after not in (before, whole):  # a line came: the next reader must be able to follow
        Ledger(path)
    return None


# States of streams


def _packed(content: dict[str, bytes]) -> bytes:
    names = ("state.json", "arrays.npz")
    sums = "".join(f"{hashlib.sha256(content[n]).hexdigest()}  {n}\n" for n in names)
    return archive.zipped({**content, stored.SUMS: sums.encode()})


def stream_case(rng: Random, place: Path) -> Case:
    """The state of a stream, with right sums: its statement, its arrays, its rows."""
    files = dict(stream_files())
    with zipfile.ZipFile(io.BytesIO(files["state"])) as archive:
        content = {name: archive.read(name) for name in ("state.json", "arrays.npz")}
    rest = [name for name in files if name != "state"]
    match rng.randrange(8):
        case 0:
            files["state"] = mutated_bytes(rng, files["state"])
        case 1:
            files["state"] = _odd_zip(rng, files["state"])
        case 2:
            arrays = loaded_arrays(content["arrays.npz"])
            name = rng.choice(list(arrays))
            arrays[name] = rng.choice((arrays[name][..., None], np.array("x"), np.nan, -1.0))
            if rng.random() < 0.3:
                del arrays[name]
            files["state"] = _packed({**content, "arrays.npz": npz(arrays)})
        case 3 if rest:
            files[rest[0]] = mutated_bytes(rng, files[rest[0]])
        case 4 if rest:
            files = _other_rows(rng, files, content, rest[0])
        case _:
            stated = mutated_json(rng, json.loads(content["state.json"]), rng.choice((1, 1, 2)))
            files["state"] = _packed({**content, "state.json": dumped(stated)})
    for name, data in files.items():
        (place / name).write_bytes(data)
    np.save(place / "more.npy", rows(60)[50:] + 1.0)
    words = ("--state", "state", "--k", "1", "--rho", "50", "--centring", "none")
    words += ("--batch-size", "20")
    options = {**STREAM, "random_state": None, "state": place / "state"}
    match rng.randrange(6):
        case 0 | 1:
            step: Command | Call = Command(("stream", "more.npy", *words))
        case 2 | 3:
            step = Command(("stream", *words, "--finish", "-o", "out"))
        case 4:
            step = Call("restore", lambda: repr(StreamingPCA(1, **options).restore()))
        case _:
            step = Call(
                "partial_fit",
                lambda: StreamingPCA(1, **options).partial_fit(rows(9) + 2.0, batch="day").finish(),
            )
    return Case([step], ("state",))


def days_case(rng: Random, place: Path) -> Case:
    """The state of a running covariance, with right sums: its statement, its arrays."""
    state = days_state()
    with zipfile.ZipFile(io.BytesIO(state)) as archive:
        content = {name: archive.read(name) for name in ("state.json", "arrays.npz")}
    match rng.randrange(5):
        case 0:
            state = mutated_bytes(rng, state)
        case 1:
            arrays = loaded_arrays(content["arrays.npz"])
            name = rng.choice(list(arrays))
            arrays[name] = rng.choice(
                (arrays[name][..., None], arrays[name][:1], np.array("x"), np.nan, -1.0)
            )
            if rng.random() < 0.3:
                del arrays[name]
            state = _packed({**content, "arrays.npz": npz(arrays)})
        case _:
            stated = mutated_json(rng, json.loads(content["state.json"]), rng.choice((1, 1, 2)))
            state = _packed({**content, "state.json": dumped(stated)})
    (place / "state").write_bytes(state)
    np.save(place / "more.npy", rows(60)[50:] + 1.0)
    words = ("--state", "state", "--horizon", "9", "--row-norm", "10", "--rho", "50")
    match rng.randrange(3):
        case 0:
            step: Command | Call = Command(("watch", "more.npy", *words, "-o", "out"))
        case 1:
            step = Command(("watch", *words))
        case _:
            given = {**DAYS, "state": place / "state"}
            step = Call("restore", lambda: repr(ContinualCovariance(**given).restore()))
    return Case([step], ("state",))


def _other_rows(
    rng: Random, files: dict[str, bytes], content: dict[str, bytes], name: str
) -> dict[str, bytes]:
    """Exchange the rows that wait, and make the state agree with them."""
    odd = (
        np.array([[float(NUMBER)] * 2] * 10),
        np.zeros((0, 3)),
        np.array(["x"]),
        np.array(3.0),
        np.full((10, 3), np.nan),
        rows(10).astype("f4"),
        np.zeros((10, 3, 1)),
    )
    buffer = io.BytesIO()
    np.save(buffer, rng.choice(odd))
    data = buffer.getvalue()
    if rng.random() < 0.3:
        data = mutated_bytes(rng, data)
    stated = json.loads(content["state.json"])
    stated["rows"]["sha256"] = hashlib.sha256(data).hexdigest()
    if rng.random() < 0.4:
        stated["rows"][rng.choice(("file", "first"))] = rng.choice((odd_text(rng), -5, 10**6, None))
    return {
        **files,
        name: data,
        "state": _packed({**content, "state.json": json.dumps(stated).encode()}),
    }
