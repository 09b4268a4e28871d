"""The command line: one file per command, imported only when it is called."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from eigenveil.cli.wording import in_options
from eigenveil.exceptions import EigenveilError
from eigenveil.text import printable

__all__ = ["main"]

# A new command is a line here and a file of its name beside this one.
_COMMANDS = {
    "demo": "Release components and covariances of two public data sets.",
    "plan": "Predict errors and recommend a mechanism, from public numbers.",
    "fit": "Release principal components of a table.",
    "covariance": "Release the covariance matrix of a table.",
    "stream": "Release components of rows that arrive over days, under one budget.",
    "federate": "Release components of tables that several owners keep to themselves.",
    "transform": "Scores of rows under a release of components.",
    "report": "A page for people, and figures, from a release folder.",
    "inspect": "What a release folder holds and promises.",
    "verify": "Check a release folder.",
    "sign": "Sign a release folder.",
    "keygen": "A new key to sign with.",
    "export": "A release in the formats of other tools.",
    "audit": "Attack a mechanism and compare with what it claims.",
    "mechanisms": "List all mechanisms.",
    "ledger": "Create and read budget ledgers.",
}


class _Lazy(click.Group):
    """Finds commands by name without importing the others; a mistake is one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"eigenveil.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # its words say what was spent, where something was
            click.echo(f"interrupted: {str(stop) or 'nothing was charged'}", err=True)
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
            _stop(error, f"{error.format_message().rstrip('.')}{help_for}", error.exit_code)
        except click.ClickException as error:
            _stop(error, error.format_message(), error.exit_code)
        except click.Abort:  # interrupted before a command began
            click.echo("interrupted: nothing was charged", err=True)
            sys.exit(130)
        except EigenveilError as error:
            _stop(error, in_options(str(error)), error.exit_code)
        except OSError as error:
            if error.filename is None:
                _stop(error, _internal(error), 1)
            # A name that is too long, a folder that may not be read: of a path, not of a record.
            _stop(error, f"cannot use {error.filename}: {error.strerror}", 3)
        except MemoryError as error:
            _stop(error, "out of memory: choose fewer --columns, or a larger machine", 1)
        except Exception as error:
            _stop(error, _internal(error), 1)
        sys.exit(code if isinstance(code, int) else 0)


def _stop(error: Exception, message: str, code: int) -> NoReturn:
    """One line, with what a command has noted about the error."""
    line = "; ".join([message, *getattr(error, "__notes__", ())])
    click.echo(f"error: {printable(' '.join(line.split()))}", err=True)
    sys.exit(code)


def _internal(error: Exception) -> str:
    """Where it happened; what the message says is left out, as it could quote a record."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"internal error, {type(error).__name__} in {Path(place.filename).name} line "
        f"{place.lineno}: please report it"
    )


@click.group(cls=_Lazy, epilog="Begin with: eigenveil plan DATA, or eigenveil demo.")
@click.version_option(package_name="eigenveil")
def main() -> None:
    """Differentially private PCA and covariance estimation."""
