"""Agreements of odd types."""

import pytest

from eigenveil.exceptions import InvalidParameterError
from tests.federated.stubs import D, agreement


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owners": ["east"]}, "a mapping of names"),
        ({"owners": None}, "a mapping of names"),
        ({"n_columns": "6"}, "columns must be a whole number"),
        ({"n_components": 2.0}, "components must be a whole number"),
        ({"n_components": True}, "components must be a whole number"),
        ({"quorum": None}, "quorum must be a whole number"),
        ({"share": "0.5"}, "share must lie"),
        ({"share": 10**400}, "share must lie"),
        ({"columns": 6}, "one name for each column"),
        ({"columns": [1] * D}, "one name for each column"),
        ({"columns": "sixsix"}, "one name for each column"),
        ({"scale": 2.0}, "one positive scale"),
        ({"scale": [10**400] * D}, "one positive scale"),
    ],
)
def test_odd_settings_are_refused_in_words(changes, words):
    with pytest.raises(InvalidParameterError, match=words):
        agreement(**changes)
