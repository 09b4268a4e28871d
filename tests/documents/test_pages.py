"""Pages that people rely on without running them say what the code does."""

import re
from pathlib import Path

import pytest

from eigenveil import Release
from eigenveil.estimators import DailyProgress, StreamProgress
from eigenveil.exceptions import VerificationError
from eigenveil.privacy import Budget, Gaussian, ledger_file
from eigenveil.release import content as schema
from eigenveil.release import signature
from tests.documents.tables import ROOT
from tests.release.samples import guarantee

OFFICERS = (ROOT / "docs" / "for-officers.md").read_text("utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text("utf-8")
STORED = Path(__file__).parents[1] / "release" / "stored" / "0.1.0" / "components.zip"


def test_officers_are_told_the_odds_of_the_library():
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+ %) \|", OFFICERS, re.MULTILINE)
    assert len(rows) == 6
    for epsilon, odds in rows:
        budget = Budget(epsilon=float(epsilon), delta=1e-6)
        assert guarantee(budget=budget, cost=Gaussian(1e-3)).odds().endswith(f" {odds}")


def test_refusals_because_of_rows_are_stated_and_listed():
    what = "a run was refused because of its rows"
    assert f"whether {what}" in guarantee().sentence()
    assert f"| that {what} |" in (ROOT / "docs" / "concepts" / "not_protected.md").read_text(
        "utf-8"
    )
    listed = (ROOT / "docs" / "limits.md").read_text("utf-8").split("## Refusals that depend on")[1]
    assert listed.partition("\n## ")[0].count("\n| ") >= 7


def test_officers_are_told_the_parts_of_the_sentence():
    sentence = Release.load(STORED).guarantee.sentence()
    parts = re.findall(r"^\| \*([\w, ]+)\* \|", OFFICERS, re.MULTILINE)
    assert parts == re.findall(r"(?:^|\. )([A-Z][\w, ]+): ", sentence)
    for word in ("one row", "worst-case", "exact numerics"):
        assert word in sentence
        assert word in OFFICERS.lower()
    assert f"exit code {VerificationError.exit_code}" in OFFICERS


@pytest.mark.parametrize(
    "name",
    [
        schema.NAME,
        ledger_file._FORMAT,
        StreamProgress.formats[0],
        DailyProgress.formats[0],
        signature._DOMAIN.decode().strip(),
    ],
)
def test_formats_have_the_versions_of_the_code(name):
    assert f"`{name}`" in FORMATS


def test_arrays_of_the_page_of_formats_are_those_of_releases():
    for kind in ("components", "covariance", "regression"):
        release = Release.load(STORED.with_name(f"{kind}.zip"))
        (row,) = re.findall(rf"^\| `{release.kind}` \| (.*) \|$", FORMATS, re.MULTILINE)
        named = set(re.findall(r"`(\w+)`", row))
        assert named <= set(release.arrays)
        assert named == set(release.arrays) or "and more" in row
