"""Help is for people: short sentences, and every option says what it does."""

import re

import click
import pytest

from eigenveil.cli import main
from tests.cli.conftest import invoke

MOST_WORDS = 25


def commands(group, context):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from commands(command, inner)
        yield pytest.param(command, id=inner.command_path)


def long(words):
    """Return the sentences of a text that have too many words."""
    sentences = re.split(r"(?<=[.!?])\s+", " ".join((words or "").split()))
    return [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS]


ALL = list(commands(main, click.Context(main, info_name="eigenveil")))


@pytest.mark.parametrize("command", ALL)
def test_help_is_short_sentences(command):
    assert command.help
    assert not long(command.help)
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert re.fullmatch(r"[A-Z0-9].*\.", option.help, re.DOTALL), option.help
            assert not long(option.help)


@pytest.mark.parametrize("group", [[], ["federate"], ["federate", "keys"], ["ledger"]], ids=str)
def test_lists_of_commands_are_not_cut_off(group):
    listed = invoke(*group, "--help").output.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit", "Where columns have names, the default is private unless "),
        (
            "covariance",
            "By default scales are found where neither --bounds nor --row-norm is given",
        ),
        ("stream", "By default columns are taken as they are."),
        ("plan", "The default is that of fit, or of covariance with --of covariance."),
    ],
)
def test_each_command_says_what_it_does_without_scales(command, said):
    """Streams take columns as they are, and covariances release no components."""
    (scale,) = (one for one in main.get_command(None, command).params if one.name == "scale")
    assert said in scale.help
    assert "components" not in scale.help
    assert said in " ".join(invoke(command, "--help").output.replace("--row-\n", "--row-").split())
