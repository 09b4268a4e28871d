"""``python -m tests.browser``: draw the pictures of docs/studio.md anew."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from eigenveil import Ledger, PrivateCovariance, open_rows
from eigenveil.federated import Code, Event, Happening, Journal
from eigenveil.storage import JOURNAL
from tests.browser.conftest import serving
from tests.browser.driving import Page, chromium, missing

COLOURS = 128
PICTURES = Path(__file__).parents[2] / "docs" / "studio"
BEGUN = (
    '{"federation": "renal-registry", "quorum": 2, "owners": {"north": {}, "east": {}, '
    '"south": {}, "harbour": {}}, "steps": [{"kind": "mean"}]}'
)


def prepare(folder):
    """Write the sample table, a ledger with two releases, and the journal of a federation."""

    def run(*words):
        subprocess.run([sys.executable, "-m", "eigenveil", *words], cwd=folder, check=True)

    run("sample", "patients.csv")
    Ledger.create(folder / "patients.ledger", epsilon=3, delta=1e-6, unit="person")
    common = ["--unit", "patient_id", "--drop", "admitted,sex,ward", "--scale", "private"]
    common += ["--on-missing", "centre", "--delta", "1e-6", "--ledger", "patients.ledger"]
    run(
        "fit",
        "patients.csv",
        *common,
        "--k",
        "5",
        "--epsilon",
        "1",
        "--show-scores",
        "-o",
        "profiles",
    )
    run("fit", "patients.csv", *common, "--k", "5", "--epsilon", "0.7", "-o", "profiles-before")
    rows = open_rows(folder / "patients.csv", unit="patient_id", drop=["admitted", "sex", "ward"])
    model = PrivateCovariance(epsilon=1, delta=1e-6, scale="private", on_missing="centre")
    model.fit(rows).release_.save(folder / "together")
    server = folder / "server"
    server.mkdir(mode=0o700)
    with Journal(server / JOURNAL) as journal:
        for event in (
            Event(happening=Happening.BEGUN, data=BEGUN.encode()),
            Event(happening=Happening.ASKED, round="join"),
            Event(happening=Happening.JOINED, round="join", owner="north"),
            Event(happening=Happening.JOINED, round="join", owner="east"),
            Event(happening=Happening.LEFT_OUT, round="join", owner="harbour", code=Code.COLUMNS),
        ):
            journal.note(event)


def draw(page, folder):
    """Walk through the four tabs, with a picture at each stop."""
    page.open("plan/table/patients.csv")
    page.until("Who is protected")
    page.press("More choices")
    page.choose("details.card select", "centre")
    page.settled()
    page.driver.execute_async_script("setTimeout(arguments[0], 9000)")  # the curve fills
    page.picture(PICTURES / "plan.png")
    page.picture(PICTURES / "plan-dark.png", dark=True)
    page.picture(PICTURES / "plan-phone.png", 390)
    page.size(1280)
    page.press("Review the promise")
    page.until("What will be released")
    page.picture(PICTURES / "confirm.png")
    page.picture(PICTURES / "confirm-phone-dark.png", 390, dark=True)
    for name, where, words in (
        ("read", "read/profiles/profiles-before", "Compared with"),
        ("covariance", "read/together", "How columns go together"),
        ("ledger", "ledger/patients.ledger", "What one more release would leave"),
        ("federation", "federation/server", "Who dropped out"),
    ):
        page.open(where)
        page.until(words)
        page.picture(PICTURES / f"{name}.png", most=3600)
    page.open("read/profiles")
    page.until("What is promised")
    page.picture(PICTURES / "read-phone.png", 390)


def main():
    if (why := missing()) is not None:
        sys.exit(why)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as profile:
        folder = Path(place, "clinic")
        folder.mkdir()
        prepare(folder)
        with serving(folder) as address, chromium(profile) as driver:
            page = Page(driver, address)
            page.open()
            draw(page, folder)
    for picture in sorted(PICTURES.glob("*.png")):
        shrink(picture)
        print(f"{picture.relative_to(Path.cwd())}  {picture.stat().st_size:,} bytes")


def shrink(picture):
    """Keep the colours that a page is drawn in: a palette makes a picture a third of the size."""
    drawn = Image.open(picture).convert("RGB")
    often = sorted(drawn.getcolors(drawn.width * drawn.height), reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for _, colour in often for channel in colour])
    drawn.quantize(palette=palette, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main()
