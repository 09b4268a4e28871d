"""The command line: one file per command, imported only when it is called."""

from importlib import import_module

import click

from eigenveil.exceptions import EigenveilError

__all__ = ["main"]

_COMMANDS = {
    "demo": "Release components and covariances of two public data sets.",
    "verify": "Check a release folder.",
}


class _Lazy(click.Group):
    """Finds commands by name without importing the others."""

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
        except EigenveilError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Lazy)
@click.version_option(package_name="eigenveil")
def main() -> None:
    """Differentially private PCA and covariance estimation."""
