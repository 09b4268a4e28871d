"""``eigenveil federate server``: everything is checked before anybody is asked anything."""

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import click

from eigenveil.cli.alone import alone
from eigenveil.cli.federate_status import line, standing
from eigenveil.cli.releasing import require_place, tell
from eigenveil.cli.stopping import stoppable
from eigenveil.cli.summary import owners
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.configuration import ServerConfiguration
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Code, largest_size
from eigenveil.federated.private import private_folder
from eigenveil.release import Release
from eigenveil.text import printable

__all__ = ["run"]

_RETURNING = 5.0  # s


def run(chosen: ServerConfiguration, *, insecure: bool, as_json: bool) -> None:
    """Ask everybody, save the release and say what happened."""
    from eigenveil.federated.flower.server import superlink

    private_folder(chosen.folder)
    with alone(chosen.folder, "server"), Journal(chosen.journal) as journal:
        before = journal.events
        # Whose journal it is, before anything else; a new one begins when all is well.
        earlier = Coordinator(chosen.agreement, journal) if before else None
        happened = {event.happening: event for event in before}
        released = happened.get(Happening.RELEASED)
        if released is not None:
            found = released.data.decode()
            click.echo(
                f"released already, fingerprint {found}: nothing is asked; for another release "
                "change name, folder and output",
                err=True,
            )
            if as_json:
                click.echo(json.dumps({"fingerprint": found, "already": True}, indent=2))
            if Happening.DISMISSED in happened:
                return
        else:
            if earlier is None or not earlier.complete:
                require_place(chosen.output)
            if before:
                click.echo(f"going on after: {line(before[-1], chosen.agreement)}", err=True)
            if insecure:
                click.echo(
                    "insecure: no encryption, and owners are who they say they are; this machine "
                    "only",
                    err=True,
                )
        agreed = chosen.agreement
        kept = f"what was answered is in {printable(shlex.quote(str(chosen.folder)))}"
        with (
            stoppable(f"{kept}; start the server again to go on"),
            superlink(
                chosen.address,
                chosen.keys,
                certificate=chosen.certificate,
                private_key=chosen.private_key,
                insecure=insecure,
                largest=largest_size(agreed.n_columns, agreed.n_directions),
            ) as transport,
        ):
            click.echo(f"listening on {printable(transport.address)}", err=True)
            coordinator = Coordinator(agreed, journal, tell=partial(_told, agreed))
            if released is None:
                release = coordinator.run(transport)
                coordinator.save(release, chosen.output)
                tell(
                    release,
                    chosen.output,
                    None,
                    None,
                    as_json=as_json,
                    details=_details(release, standing(journal.events)),
                )
            # Who waits for a server that was stopped then needs a moment to find this one.
            transport.dismiss(least=0.0 if released is None else _RETURNING)
            coordinator.dismissed()


def _told(agreed: Agreement, event: Event) -> None:
    click.echo(f"{datetime.now():%H:%M:%S}  {line(event, agreed)}", err=True)


def _details(release: Release, state: Mapping[str, Any]) -> Sequence[str]:
    """Who made it, who claims too much, whose weight was cut, and who is missing."""
    about = release.settings["federation"]
    lines = owners(release)
    if state["beyond"]:
        lines.append(
            f"claims       {', '.join(state['beyond'])} more records than agreed: as many "
            "as agreed are counted and stated"
        )
    if about["cut"]:
        lines.append(
            f"cut          {', '.join(about['cut'])} to a weight of {about['largest_weight']:g}, "
            "the most that was agreed on, or of an owner without complete limits"
        )
    for each in about["left_out"]:
        code = Code(each["code"])
        lines.append(
            f"left out     {each['owner']} of {each['round']}: {code.explanation} ({code})"
        )
    return lines
