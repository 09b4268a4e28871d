"""``eigenveil federate server``: everything is checked before anybody is asked anything."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from eigenveil.cli.federate_status import line, standing
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.releasing import tell
from eigenveil.cli.saving import expected_size, place_for
from eigenveil.cli.stopping import stoppable
from eigenveil.cli.summary import owners
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.configuration import ServerConfiguration
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Code, largest_size
from eigenveil.release.about import about_settings
from eigenveil.release.artefact import Release
from eigenveil.storage.durable import alone
from eigenveil.storage.paths import private_folder
from eigenveil.storage.reservation import abandon
from eigenveil.text import typed

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement

__all__ = ["run"]

_RETURNING = 5.0  # s


def run(
    chosen: ServerConfiguration,
    *,
    insecure: bool,
    as_json: bool,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Ask everybody, save the release and say what happened; ``about`` are words for its page."""
    from eigenveil.federated.flower.server import superlink

    about_settings({}, **(about or {}))  # refused before anybody is asked
    agreed = chosen.agreement
    kept = f"what was answered is in {typed([str(chosen.folder)])}"
    again = f"{kept}; start the server again to go on"
    private_folder(chosen.folder)
    with (
        alone(chosen.folder, "server"),
        Journal(chosen.journal) as journal,
        stoppable(again),
        ExitStack() as stack,
    ):
        before = journal.events
        # Whose journal it is, before anything else; a new one begins when all is well.
        earlier = Coordinator(agreed, journal) if before else None
        happened = {event.happening: event for event in before}
        released = happened.get(Happening.RELEASED)
        if released is not None:
            found = released.data.decode()
            say(
                f"released already, fingerprint {found}: nothing is asked; for another release "
                "change name, folder and output",
                err=True,
            )
            if as_json:
                say_json({"fingerprint": found, "already": True})
            if Happening.DISMISSED in happened:
                return
        else:
            if before:
                abandon(chosen.output)  # reserved by a run of this server that was killed
            if earlier is None or not earlier.complete:
                place = stack.enter_context(place_for(chosen.output))
                place.make_room(_size(agreed))
            if before:
                say(f"going on after: {line(before[-1], agreed)}", err=True)
            if insecure:
                say(
                    "insecure: no encryption, and owners are who they say they are; this machine "
                    "only",
                    err=True,
                )
        with superlink(
            chosen.address,
            chosen.keys,
            certificate=chosen.certificate,
            private_key=chosen.private_key,
            insecure=insecure,
            largest=_largest(agreed),
        ) as transport:
            say(f"listening on {transport.address}", err=True)
            coordinator = Coordinator(agreed, journal, tell=partial(_told, agreed))
            if released is None:
                release = coordinator.run(transport).described(**(about or {}))
                stack.close()  # the name is free for it
                try:
                    coordinator.save(release, chosen.output)
                except InvalidParameterError as error:
                    raise InvalidParameterError(*error.args, f"; {again}") from None
                details = _details(release, standing(journal.events))
                tell(release, chosen.output, None, None, as_json=as_json, details=details)
            # Who waits for a server that was stopped then needs a moment to find this one.
            transport.dismiss(least=0.0 if released is None else _RETURNING)
            coordinator.dismissed()


def _largest(agreed: "Agreement | SecureAgreement") -> int:
    """Return bytes of the largest answer."""
    if isinstance(agreed, Agreement):
        return largest_size(agreed.n_columns, agreed.n_directions)
    return (1 << 20) + 8 * max(step.size for step in agreed.steps)


def _size(agreed: "Agreement | SecureAgreement") -> int:
    d, k, owners = agreed.n_columns, agreed.n_components, len(agreed.owners)
    return expected_size(agreed.kind, d, k, agreed.columns, owners)


def _told(agreed: "Agreement | SecureAgreement", event: Event) -> None:
    say(f"{datetime.now():%H:%M:%S}  {line(event, agreed)}", err=True)


def _details(release: Release, state: Mapping[str, Any]) -> Sequence[str]:
    """Say who made it, who claims too much, whose weight was cut, and who is missing."""
    lines = owners(release)
    if "secure" in release.settings:
        return [*lines, *_sums(release.settings["secure"])]
    about = release.settings["federation"]
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
    return [*lines, *_left_out(about["left_out"])]


def _sums(about: Mapping[str, Any]) -> list[str]:
    """Say which agreement it was, who was left out of a sum, and whether one is doubtful."""
    lines = [f"agreement    {about['agreement']}", *_left_out(about["left_out"])]
    return [*lines, f"doubt        {about['doubt']}"] if about["doubt"] else lines


def _left_out(missing: Sequence[Mapping[str, str]]) -> list[str]:
    return [
        f"left out     {each['owner']} of {each['round']}: "
        f"{Code(each['code']).explanation} ({each['code']})"
        for each in missing
    ]
