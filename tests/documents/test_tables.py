"""Tables of mechanisms in documents are made of what mechanisms declare."""

import pytest

from eigenveil.mechanisms import entries
from tests.documents.tables import ROOT, TABLES, proof_of, written


@pytest.mark.parametrize(("path", "name"), TABLES, ids=lambda part: getattr(part, "name", part))
def test_tables_are_up_to_date(path, name):
    text = path.read_text("utf-8")
    assert written(text, name, TABLES[path, name]()) == text, "python -m tests.documents --write"


def test_every_mechanism_has_a_proof():
    for one in entries():
        assert (ROOT / "docs" / proof_of(one)).exists(), f"{one.name} has no {proof_of(one)}"
