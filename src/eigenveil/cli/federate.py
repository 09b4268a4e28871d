"""``eigenveil federate init|server|client|status|keys|agreement|agree|demo``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from eigenveil.cli.options import ABOUT, COUNT, JSON, NAMES, PATH, with_options
from eigenveil.cli.printing import say
from eigenveil.exceptions import EigenveilError

_INSECURE = click.option(
    "--insecure",
    is_flag=True,
    help="Run without encryption and keys, on this machine alone, to try things out.",
)
_FOLDER = click.option(
    "-o", "--output", type=PATH, metavar="FOLDER", required=True, help="Folder for the files."
)


class _Mistake(click.ClickException):
    """An error that is in its last words already."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


@contextmanager
def _configured() -> Iterator[None]:
    """Mistakes in the words of a configuration file."""
    try:
        yield
    except EigenveilError as error:
        raise _Mistake(error.said("file"), error.exit_code) from None


@click.group("federate")
def federate() -> None:
    """Release components of tables that several owners keep to themselves."""


@federate.command("init")
@click.argument("folder", type=PATH)
@click.option("--name", required=True, help="Name of the federation: one name for one release.")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Name of an owner. Repeat it for each.",
)
@NAMES
@click.option(
    "--columns-count", "n_columns", type=COUNT, help="Number of columns, where they have no names."
)
@click.option("--k", type=COUNT, required=True, help="Number of components.")
@click.option("--epsilon", type=float, required=True, help="Budget of every owner.")
@click.option("--delta", type=float, required=True, help="Failure probability.")
@click.option(
    "--address",
    default="127.0.0.1:8443",
    show_default=True,
    help="Address at which owners find the server.",
)
def _init(folder: Path, owners: tuple[str, ...], **options: Any) -> None:
    """Write the configuration files of a federation.

    The new FOLDER gets one file for the server and one for each owner.
    """
    from eigenveil.cli.federate_files import write_files

    write_files(folder, owners=owners, **options)


@federate.command("server")
@click.argument("config", type=PATH, metavar="CONFIG.toml")
@_INSECURE
@with_options(*ABOUT)
@JSON
def _server(config: Path, insecure: bool, as_json: bool, **about: str | None) -> None:
    """Ask the owners in CONFIG.toml, and save a release.

    A server that was stopped goes on when it is started again: owners send what they have answered.
    """
    with _configured():
        from eigenveil.cli.federate_run import run_server
        from eigenveil.federated.configuration import read_server

        chosen = read_server(config, insecure=insecure)
        run_server(chosen, insecure=insecure, as_json=as_json, about=about)


@federate.command("client")
@click.argument("config", type=PATH, metavar="CONFIG.toml")
@_INSECURE
@JSON
def _client(config: Path, insecure: bool, as_json: bool) -> None:
    """Answer the server's questions for an owner.

    It runs until the server has no more questions. Two answers cost budget, each once. Asked
    again, the owner sends the same answer.
    """
    with _configured():
        from eigenveil.cli.federate_run import run_client
        from eigenveil.federated.configuration import ClientConfiguration, read_client

        chosen = read_client(config, insecure=insecure)
        if isinstance(chosen, ClientConfiguration):
            run_client(chosen, insecure=insecure, as_json=as_json)
        else:
            from eigenveil.cli.federate_files import run_secure_client

            run_secure_client(chosen, insecure=insecure, as_json=as_json)


@federate.command("status")
@click.argument("place", type=PATH, metavar="FOLDER|CONFIG.toml")
@JSON
def _status(place: Path, as_json: bool) -> None:
    """Show the progress of a server.

    Name its folder, or its configuration file.
    """
    with _configured():
        from eigenveil.cli.federate_status import tell

        tell(place, as_json=as_json)


@federate.group("keys")
def _keys() -> None:
    """Make the server's certificate and the owners' keys."""


@_keys.command("server")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Name or address at which owners reach the server. Repeat it for several.",
)
@_FOLDER
def _keys_server(hosts: tuple[str, ...], output: Path) -> None:
    """Make a certificate for a server.

    The file server.key stays there, every owner gets authority.pem.
    """
    from eigenveil.federated.flower.keys import make_certificate

    authority, certificate, key = make_certificate(output, hosts)
    say(f"for every owner            {authority}")
    say(f"for the server             {certificate}")
    say(f"for the server, PRIVATE    {key}")
    say(
        f'next: certificate = "{certificate}" and private_key = "{key}" in [server]',
        err=True,
    )


@_keys.command("owner")
@click.argument("name")
@_FOLDER
def _keys_owner(name: str, output: Path) -> None:
    """Make a key for the owner NAME.

    The file NAME.key stays with the owner, the server gets NAME.key.pub.
    """
    from eigenveil.federated.flower.keys import make_node_key
    from eigenveil.federated.messages import check_name

    key = output / f"{check_name('NAME', name)}.key"
    make_node_key(key)
    say(f"for the server             {key}.pub")
    say(f"for the owner, PRIVATE     {key}")
    say(f'next: key = "{key}.pub" in the server\'s [owners.{name}]', err=True)


@_keys.command("sums")
@click.argument("name")
@_FOLDER
def _keys_sums(name: str, output: Path) -> None:
    """Make a key for secure sums of the owner NAME.

    The key signs secure sums and nothing else. NAME.sums stays with the owner. Whoever writes the
    agreement gets NAME.sums.pub; compare its fingerprint by another way.
    """
    from eigenveil.federated.messages import check_name
    from eigenveil.release.signature import generate_key

    key = output / f"{check_name('NAME', name)}.sums"
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    fingerprint = generate_key(key)
    say(f"for the agreement          {key}.pub")
    say(f"for the owner, PRIVATE     {key}")
    say(f"fingerprint                {fingerprint}")
    say(f'next: signing_key = "{key}.pub" in the server\'s [owners.{name}]', err=True)


@federate.command("agreement")
@click.argument("config", type=PATH, metavar="CONFIG.toml")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    required=True,
    help="New file, to be handed to all owners.",
)
def _agreement(config: Path, output: Path) -> None:
    """Write the agreement on secure sums of a server.

    Every owner gets the file, compares its fingerprint with the others by voice, and signs it.
    """
    with _configured():
        from eigenveil.cli.federate_files import write_agreement
        from eigenveil.federated.configuration import read_server

        write_agreement(read_server(config, insecure=True).agreement, output)


@federate.command("agree")
@click.argument("file", type=PATH, metavar="AGREEMENT")
@click.option(
    "--key",
    type=PATH,
    metavar="FILE",
    required=True,
    help="The owner's key for secure sums, NAME.sums.",
)
@click.option(
    "--fingerprint", help="Fingerprint that the other owners have. Compare it by voice or on paper."
)
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="New file for the signed agreement."
)
def _agree(file: Path, key: Path, fingerprint: str | None, output: Path | None) -> None:
    """Show an AGREEMENT on secure sums, or sign it.

    Give its fingerprint to sign it. First compare that with every other owner, by voice or on
    paper: everything rests on the keys in it.
    """
    from eigenveil.cli.federate_files import agree

    agree(file, key, fingerprint, output)


@federate.command("demo")
@click.option(
    "--folder",
    type=PATH,
    metavar="FOLDER",
    help="New folder that keeps everything. Without it only the release is kept.",
)
@click.option("--secure", is_flag=True, help="Use secure sums: owners add shares of one noise.")
def _demo(folder: Path | None, secure: bool) -> None:
    """Run a server and three owners on this machine.

    They talk over real connections, with TLS and keys.
    """
    from eigenveil.cli.federate_demo import run

    run(folder, secure=secure)
