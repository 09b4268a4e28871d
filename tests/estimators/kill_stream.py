"""Kill a streaming process at chosen and at random moments, and carry on from its state.

Run as a process of its own: ``kill_stream.py FOLDER honest|careless|everywhere``. Children feed
labelled chunks and note the positions of the records of every draw; each is killed without warning.
A careless one notes records as spent only after the draw. Everywhere: one child for each change of
a file, killed before it; then the state is opened again. Prints what is left as JSON.
"""

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from eigenveil import Ledger, StreamingPCA
from eigenveil.estimators import State, StreamProgress, StreamRun
from eigenveil.exceptions import DuplicateBatchError, InvalidDataError
from eigenveil.mechanisms import Gate
from eigenveil.privacy import Composed

CHUNKS = np.random.default_rng(0).standard_normal((24, 25, 3)) * [3, 1, 1] + 5
MOMENTS = [  # function, before or after it, at which call
    (Ledger, "charge", "before", 1),
    (Ledger, "charge", "after", 1),
    (Gate, "draw", "before", 2),
    (Gate, "draw", "after", 4),
    (Gate, "normals", "after", 1),
    (Gate, "draw", "after", 6),
    (Gate, "draw", "after", 1),
    (State, "save", "before", 3),
    (State, "save", "after", 4),
    (Gate, "draw", "after", 3),
]
NOTES = [(Ledger, "advance", "before", 1), (Ledger, "advance", "after", 1)]


def stream(folder):
    return StreamingPCA(
        1, rho=50.0, batch_size=20, ledger=folder / "ledger", state=folder / "state"
    )


def strike(owner, name, side, nth):
    """Die at the nth call."""
    inner, calls = getattr(owner, name), []

    def wrapped(*arguments, **options):
        calls.append(name)
        if side == "before" and len(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        result = inner(*arguments, **options)
        if side == "after" and len(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


def strike_change(nth):
    """Die before the nth call that may change a file."""
    calls = itertools.count(1)

    def struck(inner):
        def wrapped(*arguments, **options):
            if next(calls) == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(*arguments, **options)

        return wrapped

    for name in ("open", "fsync", "replace", "unlink"):
        setattr(os, name, struck(getattr(os, name)))


def watch(folder):
    """Note on disk which records each draw is on."""
    inner = Gate.draw
    notes = os.open(folder / "draws", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def draw(gate, step, query):
        result = inner(gate, step, query)
        line = f"{os.getpid()} {query.records.start} {query.records.stop}\n"
        os.write(notes, line.encode())
        return result

    Gate.draw = draw


def forget():
    """The planted fault: records are noted as spent after the draw, with what it brought."""

    def step(run, size):
        progress = run.state.progress
        run.use(progress.take(size))
        progress.used += size
        run.state.entry = run.gate.entry.hash
        run.keep(True)

    StreamRun.step = step


def feed(folder, pipe, moment, careless):
    watch(folder)
    if careless:
        forget()
    if moment is not None:
        strike(*moment)
    pca = stream(folder)
    for i, chunk in enumerate(CHUNKS):
        try:
            pca.partial_fit(chunk, batch=f"day {i}")
        except DuplicateBatchError:
            continue
        os.write(pipe, b".")
    pca.finish()


def forked(work, *arguments):
    """Do it in a child, whose number is returned."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        work(*arguments)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def done(process):
    """Wait for a child; whether it was done or killed."""
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it must not fail"
    return os.WIFEXITED(status)


def child(folder, moment, careless, wait=None):
    """Run until it dies, is killed after ``wait`` arrivals, or is done; whether it was done."""
    reader, writer = os.pipe()
    process = forked(feed, folder, writer, moment, careless)
    os.close(writer)
    if wait is not None:
        for _ in range(wait):
            os.read(reader, 1)
        time.sleep(random.uniform(0.0, 0.01))
        os.kill(process, signal.SIGKILL)
    else:
        while os.read(reader, 4096):
            pass
    os.close(reader)
    return done(process)


def charges(ledger):
    return sum(entry.cost != Composed(()) for entry in ledger.entries)


def feed_briefly(folder, nth):
    """A batch, a part of one and the end of a stream."""
    strike_change(nth)
    pca = stream(folder)
    pca.partial_fit(CHUNKS[0], batch="one")
    pca.partial_fit(np.concatenate(CHUNKS[1:3]), batch="more").finish()


def left_behind(folder, nth):
    """Kill a child: which files are left after the next call, and which should be; None if done."""
    folder.mkdir()
    Ledger.create(folder / "ledger", rho=50.0)
    (folder / "state.0123abcd.rows").touch()  # by one that was killed before
    survived = done(forked(feed_briefly, folder, nth))
    with suppress(InvalidDataError):  # nothing came yet
        stream(folder).restore()
    right = ["ledger", "state.lock"]
    if (folder / "state").exists():
        rows = State.load(folder / "state", StreamProgress).progress.rows
        right += ["state"] if rows is None else ["state", rows["file"]]
    return None if survived else (sorted(path.name for path in folder.iterdir()), sorted(right))


def everywhere(folder):
    moments = (left_behind(folder / str(nth), nth) for nth in itertools.count(1))
    print(json.dumps(list(itertools.takewhile(lambda left: left is not None, moments))))


def main(folder, careless):
    ledger = Ledger.create(folder / "ledger", rho=50.0)
    killed = 0
    for moment in MOMENTS[:6] if careless else NOTES + MOMENTS:
        killed += not child(folder, moment, careless)
        assert charges(ledger) <= 1
    for _ in range(0 if careless else 4):
        if (folder / "state").exists() and not State.load(
            folder / "state", StreamProgress
        ).progress.finished:
            killed += not child(folder, None, careless, wait=random.randint(0, 3))
    if not State.load(folder / "state", StreamProgress).progress.finished:
        assert child(folder, None, careless)
    left = State.load(folder / "state", StreamProgress).progress
    draws = [list(map(int, line.split())) for line in (folder / "draws").read_text().splitlines()]
    result = {
        "killed": killed,
        "charges": charges(ledger),
        "records": CHUNKS.shape[0] * CHUNKS.shape[1],
        "spent": left.spent,
        "used": left.used,
        "waiting": left.buffered,
        "finished": left.finished,
        "draws": draws,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[2] == "everywhere":
        everywhere(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), sys.argv[2] == "careless")
