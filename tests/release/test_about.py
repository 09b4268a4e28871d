"""What an owner says of a release: public words, kept and checked."""

import pytest

from eigenveil import Release
from eigenveil.exceptions import InvalidParameterError
from tests.report.test_page_check import RELEASES

WORDS = {"title": "Profiles", "purpose": "audit", "owner": "registry", "approver": "office"}


def test_it_is_kept_and_verified(tmp_path):
    folder = RELEASES["components"]().described(**WORDS).save(tmp_path / "r")
    kept = Release.verify(folder).settings["about"]
    assert kept == WORDS
    again = Release.load(folder).described(title="Other")
    assert again.settings["about"] == {**WORDS, "title": "Other"}


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "\x1b[2K", "x" * 201, 7])
def test_odd_words_are_refused(text):
    with pytest.raises(InvalidParameterError, match="one line of at most 200 characters"):
        RELEASES["components"]().described(title=text)


@pytest.mark.parametrize("image", [(7, 7), (0, 3), (3,), "ab", (-1, -5)])
def test_an_image_has_as_many_pixels_as_columns(image):
    with pytest.raises(InvalidParameterError, match="number of columns"):
        RELEASES["components"]().described(image=image)
