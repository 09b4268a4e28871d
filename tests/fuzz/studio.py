"""Questions to the studio: odd JSON about tables with odd names."""

import csv
import os
import random
from pathlib import Path
from urllib.parse import quote

from eigenveil import Ledger
from eigenveil.studio.folder import Folder
from eigenveil.studio.guard import Address
from eigenveil.studio.server import _QUESTIONS, Studio
from tests.fuzz.case import Call, Case
from tests.fuzz.secrets import number_cell, shown_in, text_cell
from tests.fuzz.values import mutated_bytes, odd_text
from tests.planner.few import few_simulations
from tests.studio.choices import LEDGER
from tests.studio.conftest import NAMES, Browser
from tests.studio.hostile import bodies

__all__ = ["studio_case"]

_QUESTIONS_IN_A_CASE = 6
_NAMES = (
    b"\xff.csv",
    b"\xe9.ledger",
    b"-o.csv",
    b"a\nb.csv",
    b"<b>.pem",
    b"x,y=z.csv",
    b"first.zip",
)


def studio_case(rng: random.Random, place: Path) -> Case:
    """A table, a ledger and odd names beside them; questions, none of which may start a run."""
    _table(rng, place / "people.csv")
    Ledger.create(place / LEDGER, epsilon=20.0, delta=1e-5, unit="person")
    for name in rng.sample(_NAMES, 3):
        Path(place, os.fsdecode(name)).write_bytes(rng.choice((b"", b"a,b\n1,2\n")))
    if rng.random() < 0.3:
        (place / "file:").mkdir()
    asked = [
        (rng.choice(list(_QUESTIONS)), _disturbed(rng, body))
        for body in bodies(rng, _QUESTIONS_IN_A_CASE)
    ]

    def ask() -> None:
        studio = Studio(Folder(place), Address(8800))
        browser = Browser(studio)
        try:
            with few_simulations():
                for path, body in asked:
                    _require_one_line(browser.ask_anything(path, body), f"{path} {body!r}")
            assert not studio.runs.overview(), "a run was started"
        finally:
            studio.received.remove()

    named = "; ".join(f"{path} {quote(body[:2000])}" for path, body in asked)
    return Case([Call(f"studio {named}", ask)], private=("people", "sample"))


def _table(rng: random.Random, path: Path) -> None:
    names = ["patient_id", "ward", *NAMES]
    if rng.random() < 0.5:
        names[rng.randrange(2, len(names))] = odd_text(rng).replace("\udcff", "")
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        for i in range(40):
            cells = (number_cell(rng) for _ in NAMES)
            writer.writerow([i // 2, text_cell(rng), *cells])


def _disturbed(rng: random.Random, body: bytes) -> bytes:
    if rng.random() < 0.8:
        return body
    return mutated_bytes(rng, body, 1).decode("utf-8", "replace").encode()


def _require_one_line(answer: object, asked: str) -> None:
    status, text = answer.status_code, answer.text  # type: ignore[attr-defined]
    assert status in (200, 400), f"{asked}: {status} {text}"
    assert status == 200 or "\n" not in answer.json()["error"], f"{asked}: {text}"  # type: ignore[attr-defined]
    assert not shown_in(text), f"{asked}: shows a cell"
