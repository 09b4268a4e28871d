import pytest

from eigenveil.text import is_formula, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe, μ²", "größe, μ²"),
        ("a\nb", "a\\nb"),
        ("\x1b[2K", "\\x1b[2K"),
        ("\u202eb", "\\u202eb"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text, shown):
    assert printable(text) == shown


def test_formulas():
    assert all(map(is_formula, ("=A1", "+1", "-x", "@x", "\t=1")))
    assert not any(map(is_formula, ("", "a=1", "x-y")))
