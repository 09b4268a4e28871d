"""``eigenveil studio [TABLE]``."""

import os
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette


@click.command("studio")
@click.argument("table", type=PATH, required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of this computer; by default any free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def studio(table: Path | None, port: int, no_browser: bool) -> None:
    """Open a page on this computer to plan, release, read and watch.

    It reads and writes in the folder of TABLE, or in this one, and answers this computer alone.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "the studio needs a web server: pip install 'eigenveil[web]'"
        ) from None
    from eigenveil.studio.folder import Folder
    from eigenveil.studio.guard import Address
    from eigenveil.studio.server import Studio, application

    folder = Path.cwd() if table is None else table.absolute().parent
    if not folder.is_dir():
        raise InvalidParameterError(f"no folder {folder}: start the studio where the table is")
    if table is not None:
        Folder(folder).existing(table.name)
    os.chdir(folder)  # commands of the page name files as they are called here
    with _listening(port) as listener:
        address = Address(listener.getsockname()[1])
        studio = Studio(Folder(folder), address, None if table is None else table.name)
        say(f"address      {address.first}")
        say(f"folder       {studio.folder.root}")
        say("stop with ctrl-C; runs that are at work end by themselves", err=True)
        try:
            with nullcontext() if no_browser else _opening(address.first):
                _serve(application(studio), listener)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"the studio stopped; {studio.runs.money()}") from None
        finally:
            for run in studio.runs.unfinished():
                say(f"a run goes on: its release will be {run.about['output']}", err=True)
            studio.received.remove()
            studio.runs.remove()


@contextmanager
def _opening(address: str) -> Iterator[None]:
    """Open an address in the browser, by a file that only this user can read.

    The words of a command can be read by every user of a computer, and the address has a secret.
    """
    from tempfile import TemporaryDirectory

    from eigenveil.studio.guard import forwarding

    with TemporaryDirectory(prefix="eigenveil-studio-") as private:
        file = Path(private, "open.html")
        file.touch(mode=0o600)
        file.write_text(forwarding(address), "utf-8")
        opening = threading.Timer(0.3, webbrowser.open, [file.as_uri()])
        opening.start()
        try:
            yield
        finally:
            opening.cancel()


def _listening(port: int) -> socket.socket:
    """Return a socket of this computer alone."""
    from eigenveil.studio.guard import HOST

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # whoever opens the printed address at once waits, and is not refused
    except OSError:
        listener.close()
        raise InvalidParameterError(f"port {port} is taken: choose another with --port") from None
    return listener


def _serve(app: "Starlette", listener: socket.socket) -> None:
    """Answer until interrupted."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])
