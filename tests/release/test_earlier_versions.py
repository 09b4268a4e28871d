"""What earlier versions wrote is read: releases of every kind, and ledgers.

`stored/0.1.0` was written by that version, of one table of 4,000 rows and three columns.
"""

import json
import shutil
import zipfile
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import eigenveil.release
from eigenveil import Ledger, PrivatePCA, Release
from tests.release.test_owners import federated

STORED = Path(__file__).parent / "stored" / "0.1.0"
SCHEMA = json.loads(
    Path(eigenveil.release.__file__).with_name("release-1.schema.json").read_text("utf-8")
)
KINDS = {
    "components": "pca",
    "covariance": "covariance",
    "regression": "regression",
}
FINGERPRINTS = {
    "components": "d4b864684bdb47d37a4052beb6b180dd",
    "covariance": "3d6798be06f1a3a78d7f34d6961c6a24",
    "regression": "766483d73c26579b5d3af92771e31b4d",
}


@pytest.mark.parametrize("name", KINDS)
def test_releases_of_0_1_0_are_read_and_checked(name, tmp_path):
    verdict = Release.examine(STORED / f"{name}.zip", fingerprint=FINGERPRINTS[name])
    release = verdict.release
    assert (release.kind, release.library) == (KINDS[name], "0.1.0")
    assert release.feature_names == ("age", "weight", "pulse")
    assert "epsilon = 1, delta = 1e-06" in release.guarantee.sentence()
    again = Release.examine(release.save(tmp_path / "again")).release
    assert again.library == "0.1.0"
    for key, values in release.arrays.items():
        np.testing.assert_array_equal(again.arrays[key], values)


def test_releases_of_0_1_0_are_used():
    rows = np.array([[5.0, 5.0, 5.0], [8.0, 5.0, 5.0]])
    scores = Release.load(STORED / "components.zip").transform(rows)
    # The table varies most by its first column, with deviations of 3, 2 and 1.
    np.testing.assert_allclose(np.abs(np.diff(scores, axis=0)), [[2.99942, 0.05449]], atol=1e-5)


def test_ledgers_of_0_1_0_go_on(tmp_path):
    path = Path(shutil.copy(STORED / "table.ledger", tmp_path / "table.ledger"))
    path.chmod(0o600)
    ledger = Ledger(path)
    assert [entry.label for entry in ledger.entries] == ["analyze-gauss", "elliptical", "linear"]
    rows = np.random.default_rng(0).standard_normal((500, 3))
    PrivatePCA(1, epsilon=0.5, delta=1e-6, ledger=ledger).fit(rows)
    assert len(Ledger(path).entries) == 4


def test_releases_of_every_kind_are_as_the_schema_says(tmp_path):
    """By a validator that knows nothing of eigenveil, on the files as they are written."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    kinds = set()
    federated().save(tmp_path / "owners.zip")
    for path in (*(STORED / f"{name}.zip" for name in KINDS), tmp_path / "owners.zip"):
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("release.json"))
        validator.validate(document)
        kinds.add((document["kind"], "owners" in document))
        del document["guarantee"]
        assert not validator.is_valid(document)
    assert {kind for kind, _ in kinds} == set(SCHEMA["properties"]["kind"]["enum"])
    assert {owners for _, owners in kinds} == {True, False}
