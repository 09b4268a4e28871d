"""Answers that are kept in a folder."""

import pytest

from eigenveil.exceptions import StateError
from eigenveil.federated import Answers


def test_an_answer_that_is_no_file_is_refused(tmp_path):
    folder = tmp_path / "answers"
    answers = Answers(folder, {})
    with answers.opened():
        pass
    (folder / "terms").unlink()
    (folder / "terms").mkdir()
    with pytest.raises(StateError, match="is it a file"), answers.opened():
        pass
