"""The command line: one file per command, imported only when it is called."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from eigenveil.cli.printing import say
from eigenveil.exceptions import EigenveilError

__all__ = ["main"]

# Commands: the module with a function of that name, and a line for help.
_COMMANDS = {
    "demo": ("demo", "Release components and covariances of two public data sets."),
    "studio": (
        "eigenveil.studio.command",
        "Open a page on this computer to plan, release, read and watch.",
    ),
    "sample": ("demo", "Write a made-up hospital table to try things on."),
    "plan": ("plan", "Predict errors and recommend a mechanism, from public numbers."),
    "fit": ("releases", "Release principal components of a table."),
    "covariance": ("releases", "Release the covariance matrix of a table."),
    "regress": ("releases", "Release a linear regression of a column on the others."),
    "stream": ("arrivals", "Release components of rows that arrive over days."),
    "watch": ("arrivals", "Release a fresh answer about all rows so far, every day."),
    "federate": ("federate", "Release from tables that stay with several owners."),
    "transform": ("transform", "Compute scores of rows under a release of components."),
    "report": ("folders", "Write a page for people, and figures, from a release folder."),
    "inspect": ("folders", "Show what a release folder holds and promises."),
    "verify": ("folders", "Check a release folder."),
    "sign": ("folders", "Sign a release folder."),
    "keygen": ("folders", "Make a key to sign with."),
    "export": ("folders", "Write a release in the formats of other tools."),
    "audit": ("mechanisms", "Attack a mechanism and compare with what it claims."),
    "mechanisms": ("mechanisms", "List all mechanisms."),
    "reproduce": ("reproduce", "Run figures of the papers again and judge what they claim."),
    "ledger": ("ledger", "Create and read budget ledgers."),
}


def command(name: str) -> click.Command:
    """Return a command; its module is imported now."""
    home = _COMMANDS[name][0]
    module = import_module(home if "." in home else f"eigenveil.cli.{home}")
    found: click.Command = getattr(module, name)
    return found


class _Lazy(click.Group):
    """Finds commands by name without importing the others; a mistake is one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return command(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from difflib import get_close_matches

        if args[0] not in _COMMANDS and (near := get_close_matches(args[0], _COMMANDS, n=1)):
            ctx.fail(f"No such command {args[0]!r}, did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # its words say what was spent, where something was
            say(f"interrupted: {str(stop) or 'nothing was charged'}", err=True)
            ctx.exit(130)

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> NoReturn:
        try:
            code = super().main(args, prog_name, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            help_for = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            _stop(error, f"{_one_line(error).rstrip('.')}{help_for}", error.exit_code)
        except click.ClickException as error:
            _stop(error, _one_line(error), error.exit_code)
        except click.Abort:  # interrupted before a command began
            say("interrupted: nothing was charged", err=True)
            sys.exit(130)
        except EigenveilError as error:
            _stop(error, error.said("shell"), error.exit_code)
        except OSError as error:
            if error.strerror is None:
                _stop(error, _internal(error), 1)
            # A name that is too long, a full disk: of a path or the system, not of a record.
            which = "use a file" if error.filename is None else f"use {error.filename}"
            _stop(error, f"cannot {which}: {error.strerror}", 3)
        except MemoryError as error:
            _stop(error, "out of memory: choose fewer --columns, or a larger machine", 1)
        except Exception as error:
            _stop(error, _internal(error), 1)
        sys.exit(code if isinstance(code, int) else 0)


def _stop(error: Exception, message: str, code: int) -> NoReturn:
    """Print one line, with what a command has noted about the error."""
    say(f"error: {'; '.join([message, *getattr(error, '__notes__', ())])}", err=True)
    sys.exit(code)


def _one_line(error: click.ClickException) -> str:
    """Return a message of click's, which may list choices below one another."""
    return " ".join(error.format_message().split())


def _internal(error: Exception) -> str:
    """Say where it happened; the message is left out, as it could quote a record."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"internal error, {type(error).__name__} in {Path(place.filename).name} line "
        f"{place.lineno}: please report it"
    )


@click.group(
    cls=_Lazy, epilog="Begin with: eigenveil demo, or eigenveil plan DATA --epsilon 1 --delta 1e-6."
)
@click.version_option(package_name="eigenveil")
def main() -> None:
    """Release components, covariances and regressions of sensitive tables, with privacy."""
