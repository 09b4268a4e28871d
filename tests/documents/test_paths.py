"""Files that documents name are there."""

import re

import pytest

from tests.documents.tables import ROOT, SOURCE

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    SOURCE / "mechanisms" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FOLDERS = (ROOT, ROOT / "src" / "eigenveil", SOURCE / "mechanisms")
NAMED = re.compile(r"`((?:[\w.]+/)+[\w.]+\.(?:py|css|csv|toml))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page):
    names = set(NAMED.findall(page.read_text("utf-8")))
    missing = [name for name in names if not any((folder / name).exists() for folder in FOLDERS)]
    assert not missing
