"""The same federation as an app on a stock Flower deployment: ``flwr run``, SuperLink, SuperNodes.

For consortia that have one. It is not what `eigenveil federate` does, and promises less: a stock
SuperNode runs whatever app it is sent, beside the records and with the rights of its process. This
app answers with the code that is installed at the owner, and an owner's promise is that of this
code; whoever may start runs on the deployment, without accounts whoever reaches its port, may send
another. What an owner answers, spends and keeps is the same as elsewhere.

The server's file is named in the run's configuration, the owner's in its SuperNode's, both as
``eigenveil-config``. Addresses, certificates and keys in them are not looked at: connections are
Flower's. A node is the owner that its key was registered as; one without a name is not asked,
unless ``eigenveil-insecure`` is true, where owners are who they say they are.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Context, Message, MessageType
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code
from eigenveil.federated.configuration import ClientConfiguration, read_client, read_server
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.flower.envelope import content, held
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import Refusal, encode
from eigenveil.federated.owner import Owner
from eigenveil.privacy.ledger import Ledger
from eigenveil.storage.durable import locked
from eigenveil.storage.paths import private_folder, require_new

__all__ = ["GridTransport", "client", "server"]

_LOG = logging.getLogger("flwr")  # whose lines are shown where a run is followed
_CONFIG, _INSECURE = "eigenveil-config", "eigenveil-insecure"
_NO_SUMS = "secure sums need eigenveil federate server and client, not a stock installation"
_UNNAMED = "unnamed"  # an owner whose file cannot be read

server = ServerApp()
client = ClientApp()


class GridTransport:
    """The SuperNodes of a run, as `eigenveil.federated.coordinator.Transport` wants them.

    Parameters
    ----------
    grid : Grid
        Of the run.
    insecure : bool, default=False
        Whether nodes that are registered without a name are asked too.

    """

    pause = 1.0  # s; every open question is a request

    def __init__(self, grid: Grid, *, insecure: bool = False) -> None:
        self._grid, self._insecure = grid, insecure
        self._asked: dict[str, tuple[str, bytes]] = {}  # node and question, by message
        self._lost: list[tuple[str, bytes]] = []

    def nodes(self) -> dict[str, str | None]:
        """Return the nodes that are online, with the names that they are registered by."""
        found = {str(node.node_id): node.name or None for node in self._grid.get_nodes()}
        return {node: name for node, name in found.items() if name or self._insecure}

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        """Send one question to each node; what becomes of an earlier one is of no interest."""
        self._asked = {
            message: (node, question)
            for message, (node, question) in self._asked.items()
            if questions.get(node, question) == question
        }
        for node, question in questions.items():
            asked = Message(content(question), int(node), MessageType.QUERY, ttl=seconds)
            for message in self._grid.push_messages([asked]) or [""]:
                if message:
                    self._asked[message] = node, question
                else:
                    self._lost.append((node, question))

    def withdraw(self) -> None:
        """Hear no answer; the engine itself takes no question back, but lets it expire."""
        self._asked.clear()

    def replies(self) -> Iterator[tuple[str, bytes, bytes | Code]]:
        """Yield what came since the last call; of an engine's error no more than that it was."""
        while self._lost:
            yield *self._lost.pop(), Code.LOST
        for message, (node, question) in list(self._asked.items()):
            # One by one. A reply that cannot be unpacked takes all others with it; and who sent it
            # is not what it says of itself, but whose question it was fetched for.
            try:
                replies = list(self._grid.pull_messages([message]))
            except httpx.HTTPError:
                raise  # the SuperLink is away
            except Exception:
                del self._asked[message]
                yield node, question, Code.MALFORMED
                continue
            for reply in replies:
                if reply.metadata.reply_to_message_id == message and message in self._asked:
                    del self._asked[message]
                    said = Code.LOST if reply.has_error() else held(reply)
                    yield node, question, said or Code.MALFORMED


@server.main()
def _coordinate(grid: Grid, context: Context) -> None:
    """Ask everybody and save the release; started again, go on."""
    _LOG.setLevel(logging.INFO)  # the terminal is Flower's here
    chosen = read_server(_file(context.run_config), insecure=True)
    if not isinstance(chosen.agreement, Agreement):
        raise InvalidParameterError(_NO_SUMS)
    private_folder(chosen.folder)
    with locked(chosen.folder / "server"), Journal(chosen.journal) as journal:
        if any(event.happening is Happening.RELEASED for event in journal.events):
            _LOG.info("released already: for another release change name, folder and output")
            return
        coordinator = Coordinator(chosen.agreement, journal, tell=_told)
        if not coordinator.complete:
            require_new(chosen.output, "choose a new output in [server]")
        insecure = context.run_config.get(_INSECURE) is True
        release = coordinator.run(GridTransport(grid, insecure=insecure))
        coordinator.save(release, chosen.output)


def _told(event: Event) -> None:
    words = (event.happening, event.round, event.owner, event.code)
    _LOG.info("eigenveil: %s", " ".join(word for word in words if word))


@client.query()
def _reply(message: Message, context: Context) -> Message:
    """Return the owner's answer. Flower would send the text of an exception to the server."""
    return Message(content(_answer(held(message), context.node_config)), reply_to=message)


def _answer(question: bytes | None, node_config: Mapping[str, Any]) -> bytes:
    federation = owner = _UNNAMED
    try:
        chosen = read_client(_file(node_config), insecure=True)
        if not isinstance(chosen, ClientConfiguration):
            raise InvalidParameterError(_NO_SUMS)
        federation, owner = chosen.settings.federation, chosen.settings.owner
        owned = Owner(
            chosen.settings, chosen.data, Ledger(chosen.ledger), chosen.folder, face="file"
        )
        return owned.answer(question or b"")  # no bytes at all are refused
    except Exception as error:  # whatever it is, nothing of it leaves
        said = error.said("file") if isinstance(error, EigenveilError) else type(error).__name__
        logging.getLogger(__name__).warning("refused (%s): %s", Code.INTERNAL, said)
        return encode(Refusal(federation=federation, owner=owner, code=Code.INTERNAL))


def _file(config: Mapping[str, Any]) -> Path:
    if not isinstance(named := config.get(_CONFIG), str):
        raise InvalidParameterError(f"no {_CONFIG}: give it the path of a TOML file")
    return Path(named)
