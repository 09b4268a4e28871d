"""What a terminal gets: lines of its width, and words in colour; a pipe gets neither."""

import click
import pytest

from eigenveil.cli import printing


@pytest.fixture
def shown(monkeypatch, capsys):
    """What `say` prints on a terminal of a width."""

    def shown(line, width):
        monkeypatch.setattr(printing, "_terminal_width", lambda err: width)
        monkeypatch.setattr(click.utils, "should_strip_ansi", lambda *a, **k: False)
        printing.say(line)
        return capsys.readouterr().out

    return shown


def test_a_pipe_gets_lines_as_they_are(capsys):
    line = "guarantee    " + "word " * 40 + "end"
    printing.say(line)
    assert capsys.readouterr().out == f"{line}\n"


def test_a_line_goes_on_below_its_last_part(shown):
    plain = click.unstyle(shown("guarantee    one two three four five six seven eight", 40))
    assert plain == "guarantee    one two three four five six\n             seven eight\n"
    table = click.unstyle(shown("1    34 %   99 %  +0.5 age, +0.4 weight, +0.3 height", 44))
    assert table.splitlines()[1].startswith(" " * 18 + "+0.3")


def test_labels_and_warnings_have_a_colour(shown):
    assert shown("folder       a", 80) == click.style("folder", bold=True) + "       a\n"
    assert shown("error: no", 80).startswith(click.style("error", fg="red", bold=True))
    assert shown("beware       most", 80).startswith(click.style("beware", fg="yellow", bold=True))
    assert shown("error        share of", 80).startswith(click.style("error", bold=True))
    assert "\x1b" not in shown("spherical         0.1  simulation", 80)


@pytest.mark.parametrize("label", ["next", "first", "open"])
def test_what_is_copied_stays_whole(label, shown):
    line = f"{label:<13}eigenveil fit {'a' * 30} --k 2 -o release"
    assert click.unstyle(shown(line, 40)) == f"{line}\n"


def test_a_name_cannot_obey_a_terminal(shown):
    assert "\x1b[31m" not in shown("folder       \x1b[31mred", 80)


def test_narrow_terminals(shown):
    for width in (1, 5, 20):
        assert "word" in shown("guarantee    " + "word " * 9, width)
    assert shown("", 10) == "\n"
