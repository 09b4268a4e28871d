"""The server's end of the connections, as the coordinator's transport.

Everything runs in the coordinator's process, so nothing outlives it; a server that is started
again begins with no connections, and the owners' processes find it again by themselves.
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from starlette.types import ASGIApp

from eigenveil.exceptions import FederationConnectionError, InvalidDataError, InvalidParameterError
from eigenveil.federated.codes import Code
from eigenveil.federated.flower.envelope import FAREWELL, LARGEST
from eigenveil.federated.flower.fleet import Fleet, fleet_app
from eigenveil.federated.flower.keys import host_and_port, node_public_key, require_loopback
from eigenveil.federated.flower.measured import Prompt

__all__ = ["FlowerTransport", "superlink"]

_STARTING = 60.0  # s
_STOPPING = 5  # s


@dataclass
class _Asked:
    node: str
    question: bytes
    until: float


class FlowerTransport:
    """The owners who are connected, as `eigenveil.federated.coordinator.Transport` wants them."""

    pause = 0.1  # s; the answers lie in this process

    def __init__(self, fleet: Fleet, address: str) -> None:
        self._fleet = fleet
        self._asked: dict[str, _Asked] = {}  # by the names of the messages
        self._lost: list[tuple[str, bytes]] = []
        self.address = address

    def nodes(self) -> dict[str, str | None]:
        """Return the connected nodes, with the owner's name where its key proves it."""
        return {str(node): name for node, name in self._fleet.online().items()}

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        """Send one question to each node, forgotten after so many seconds.

        One that is still open is the same message, delivered again: the process that fetched it may
        be gone.
        """
        until = time.monotonic() + seconds
        still = {(asked.node, asked.question): name for name, asked in self._asked.items()}
        for node, question in questions.items():
            if (open_ := still.get((node, question))) is not None:
                self._asked[open_].until = until
                self._fleet.deliver_again(open_)
            elif (name := self._fleet.send(int(node), question)) is not None:
                self._asked[name] = _Asked(node, question, until)
            else:
                self._lost.append((node, question))

    def replies(self) -> Iterator[tuple[str, bytes, bytes | Code]]:
        """Yield what came since the last call; a node that is silent is not mentioned."""
        while self._lost:
            yield *self._lost.pop(), Code.LOST
        for name, asked in list(self._asked.items()):
            reply = self._fleet.receive(name)
            if reply is None and time.monotonic() < asked.until:
                continue
            del self._asked[name]
            self._fleet.forget([name])
            if reply is not None:
                yield asked.node, asked.question, reply

    def withdraw(self) -> None:
        """Forget the open questions: who comes back would pay for answers that nobody hears."""
        self._fleet.forget(self._asked)
        self._asked.clear()

    def dismiss(self, seconds: float = 20.0, *, least: float = 0.0) -> None:
        """Tell the owners that nothing more will be asked, so that they stop.

        Who is connected is waited for, and who connects meanwhile or in the ``least`` seconds.
        """
        begun = time.monotonic()
        sent: dict[int, str | None] = {}
        while (passed := time.monotonic() - begun) < seconds:
            online = self._fleet.online()
            if not online and passed >= least:
                break
            for node in online.keys() - sent.keys():
                sent[node] = self._fleet.send(node, b"", FAREWELL)
            time.sleep(self.pause)
        self._fleet.forget(name for name in sent.values() if name is not None)


@contextmanager
def superlink(
    address: str,
    owners: Mapping[str, str | Path] | None = None,
    *,
    certificate: str | Path | None = None,
    private_key: str | Path | None = None,
    insecure: bool = False,
    largest: int = LARGEST,
) -> Iterator[FlowerTransport]:
    """Listen for the owners while the block runs.

    Parameters
    ----------
    address : str
        ``host:port`` to listen on; with port 0 one is chosen, see `FlowerTransport.address`.
    owners : mapping of str to path, optional
        The public key file of every owner, by name. No other key is accepted.
    certificate, private_key : path, optional
        PEM files of the server; see `eigenveil.federated.flower.keys.make_certificate`.
    insecure : bool, default=False
        Without encryption and keys: only on this machine, and nodes have no names.
    largest : int, default=64 MiB
        Bytes of the largest answer that is read.

    """
    host, port = host_and_port(address)
    if insecure:
        require_loopback(host)
        if owners or certificate or private_key:
            raise InvalidParameterError("keys and a certificate have no use when insecure")
    elif not (owners and certificate and private_key):
        raise InvalidParameterError(
            "a server needs a certificate, its private key and the public key of every owner"
        )
    fleet = Fleet(_by_key(owners or {}), largest)
    app = fleet_app(fleet, keys=not insecure)
    server = uvicorn.Server(_configuration(app, certificate, private_key))
    listener = _listener(host, port)
    thread = threading.Thread(target=server.run, args=([listener],), name="fleet", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + _STARTING
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise FederationConnectionError(f"cannot serve on {address}")
            time.sleep(0.01)
        shown = f"[{host}]" if ":" in host else host
        yield FlowerTransport(fleet, f"{shown}:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(2 * _STOPPING)
        listener.close()


def _by_key(owners: Mapping[str, str | Path]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for name, path in owners.items():
        key = public_key_to_bytes(node_public_key(path))
        if key in found:
            raise InvalidParameterError(f"{found[key]} and {name} have the same key: make another")
        found[key] = name
    return found


def _listener(host: str, port: int) -> socket.socket:
    # Bound here rather than by the web server, which ends the process where it cannot.
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FederationConnectionError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another address"
        ) from None


def _configuration(
    app: ASGIApp, certificate: str | Path | None, private_key: str | Path | None
) -> uvicorn.Config:
    configuration = uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        http=Prompt,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOPPING,
    )
    for path in (certificate, private_key):
        if path is not None and not Path(path).is_file():
            raise InvalidDataError(f"no file at {path}: check certificate and private_key")
    try:
        configuration.load()
    except OSError:  # an ssl.SSLError is one
        raise InvalidDataError(
            f"{certificate} and {private_key} are not a certificate and its private key in PEM"
        ) from None
    return configuration
