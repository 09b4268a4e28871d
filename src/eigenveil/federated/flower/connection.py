"""How an owner's process becomes a node of a server's fleet and stays one."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from eigenveil.exceptions import (
    FederationConnectionError,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.federated.flower.envelope import OVERHEAD
from eigenveil.federated.flower.keys import host_and_port, is_loopback, node_key, require_loopback
from eigenveil.federated.flower.wire import Client, limited
from eigenveil.storage.paths import read_regular

__all__ = ["Connection", "require_certified"]

_FAREWELL = 5.0  # s
_HEARTBEAT = 20.0  # s; the server takes a node for gone after twice as long
_CALL = 30.0  # s for a request that carries no part of a message
_PATH = "/v1/fleet/"
_SHORT = (_PATH + "deactivate-node", _PATH + "send-node-heartbeat")  # nobody waits for these
_FETCH, _PUSH = _PATH + "pull-object", _PATH + "push-object"  # which carry the parts of messages


class Connection:
    """The way to one server.

    Parameters
    ----------
    address : str
        ``host:port`` of the server.
    root_certificate : path or None
        PEM file by which the server's certificate is checked.
    key : path or None
        The owner's private key; the server must have been given the public one.
    insecure : bool
        Without encryption and keys: only to a server on this machine.
    patience : float
        Seconds that one request may take, from looking up the server to the last byte.
    largest : int
        Bytes of the largest message that is read.

    """

    def __init__(
        self,
        address: str,
        root_certificate: str | Path | None,
        key: str | Path | None,
        *,
        insecure: bool,
        patience: float,
        largest: int,
    ) -> None:
        host, _ = host_and_port(address)
        if insecure:
            require_loopback(host)
            if root_certificate or key:
                raise InvalidParameterError("a key and a certificate have no use when insecure")
            secret, _ = generate_key_pairs()
        elif not (root_certificate and key):
            raise InvalidParameterError(
                "an owner needs the server's root certificate and its own key"
            )
        else:
            secret = node_key(key)
        self.fleet = _Fleet(
            f"{'http' if insecure else 'https'}://{address}",
            [NodeAuthHttpInterceptor(secret, secret.public_key())],
            verify=True if root_certificate is None else _trusting(Path(root_certificate)),
            patience=patience,
            largest=largest,
        )
        self._public = public_key_to_bytes(secret.public_key())
        self._registers = insecure
        self._address = address

    @contextmanager
    def node(self) -> Iterator[Node]:
        """Be connected while the block runs, also while an answer takes long."""
        node = Node(node_id=self._activated())
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(node, over), daemon=True)
        beating.start()
        try:
            yield node
        finally:
            over.set()
            beating.join(_FAREWELL)  # a heartbeat on its way would bring the node back
            with suppress(httpx.HTTPError):  # a server that is gone has forgotten the node
                self.fleet.DeactivateNode(DeactivateNodeRequest(node_id=node.node_id))

    def _activated(self) -> int:
        if self._registers:
            with suppress(httpx.HTTPStatusError):  # it is known from before a broken line
                self.fleet.RegisterNode(RegisterNodeFleetRequest(public_key=self._public))
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=_HEARTBEAT)
        try:
            return int(self.fleet.ActivateNode(request).node_id)
        except httpx.HTTPStatusError as error:
            refused = error.response.status_code
            if refused == httpx.codes.PRECONDITION_FAILED:
                raise FederationConnectionError(
                    f"{self._address} does not know the key of this owner: give its .pub file to "
                    "who runs the server"
                ) from None
            if refused == httpx.codes.UNAUTHORIZED:
                raise FederationConnectionError(
                    f"{self._address} does not accept the signature of this owner: set the clocks "
                    "of both machines"
                ) from None
            raise

    def _beat(self, node: Node, over: threading.Event) -> None:
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=_HEARTBEAT)
        while not over.wait(_HEARTBEAT / 2):
            with suppress(httpx.HTTPError):  # the main loop meets the same
                self.fleet.SendNodeHeartbeat(request)


class _Fleet(FleetHttpClient):
    """The protocol, with failures that the caller can tell apart, and within what was agreed.

    A reply has no more bytes than its request allows, and no more time: the ``patience`` of the
    owner where a part of a message travels, seconds otherwise. A proxy of the environment is used,
    but not to this machine.
    """

    def __init__(
        self,
        base_url: str,
        interceptors: list[NodeAuthHttpInterceptor],
        *,
        verify: ssl.SSLContext | bool,
        patience: float,
        largest: int,
    ) -> None:
        super().__init__(base_url, interceptors=interceptors)
        self._client.close()
        local = is_loopback(httpx.URL(base_url).host)
        self._client = Client(verify=verify, trust_env=not local)
        self._patience, self._largest = patience, largest

    def _unary_unary(self, *, path: str, **call: Any) -> Any:
        call.pop("timeout", None)  # of a single read or write
        most = OVERHEAD + (self._largest if path == _FETCH else 0)
        try:
            with limited(self._seconds(path), most):
                return super()._unary_unary(path=path, **call)
        except ValueError:
            raise httpx.DecodingError("the other side does not speak the protocol") from None
        except httpx.HTTPStatusError as error:
            too_large = error.response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
            if too_large and path == _PUSH:
                raise FederationConnectionError(
                    "the server does not read an answer of this size: who runs it can allow more"
                ) from None
            raise

    def _seconds(self, path: str) -> float:
        if path in _SHORT:
            return _FAREWELL
        return self._patience if path in (_FETCH, _PUSH) else min(self._patience, _CALL)


def _trusting(root: Path) -> ssl.SSLContext:
    """Trust in one authority and in no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=read_regular(root).decode("ascii"))
    except (OSError, UnicodeError):  # an ssl.SSLError is an OSError
        raise InvalidDataError(f"no certificate in PEM at {root}: check the path") from None
    return context


def require_certified(error: httpx.HTTPError, address: str) -> None:
    """Refuse a server that shows another certificate: waiting does not make it the right one."""
    # What a server says itself, in an error of another kind, is no such sign.
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise FederationConnectionError(
            f"{address} does not show a certificate that this owner was given: compare the root "
            "certificates, and the host's name with that in the certificate"
        ) from None
