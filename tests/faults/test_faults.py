"""Planted faults still fit the source they are planted in."""

import ast

from tests.faults.planted import FAULTS, SOURCE


def test_every_fault_can_be_planted():
    for fault in FAULTS:
        text = (SOURCE / fault.file).read_text("utf-8")
        planted = fault.planted(text)
        assert planted != text
        if fault.file.endswith(".py"):
            ast.parse(planted)


def test_every_fault_names_its_tests():
    root = SOURCE.parents[1]
    for fault in FAULTS:
        files = [word for word in fault.tests if word.startswith("tests/")]
        assert files
        assert all((root / file).is_file() for file in files)
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names))
