import hashlib

import numpy as np
import pytest

from eigenveil.datasets import Patients
from eigenveil.exceptions import InvalidParameterError


def test_the_same_size_and_seed_give_the_same_table():
    text = "\n".join(",".join(record) for record in Patients(50, seed=1).records())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "2bc079726c353170"
    assert list(Patients(50, seed=2).records()) != list(Patients(50, seed=1).records())


def test_it_is_messy_and_the_truth_is_known():
    table = Patients(2000)
    records = list(table.records())
    assert {len(record) for record in records} == {len(table.names)} == {15}
    columns = dict(zip(table.names, zip(*records, strict=True), strict=True))
    assert len(set(columns["patient_id"])) == 1600
    assert set(columns["sex"]) == {"f", "m", ""}
    assert "<0.5" in columns["crp"]
    assert "" in columns["height_cm"]
    assert "" not in columns["age"]
    heights = np.array([float(cell or "nan") for cell in columns["height_cm"]])
    known = ~np.isnan(heights)
    np.testing.assert_array_equal(heights[known], table.measurements[known, 1])
    _, first = np.unique(table.persons, return_index=True)
    ids = np.array(columns["patient_id"])
    assert len(set(ids[first])) == 1600


def test_a_single_row_is_a_table():
    assert len(list(Patients(1).records())) == 1


@pytest.mark.parametrize("wrong", [{"n_rows": 0}, {"seed": -1}, {"seed": 2**32}])
def test_wrong_sizes_and_seeds_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        Patients(**wrong)
