"""How an owner's process becomes a node of a server's fleet and stays one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
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
from eigenveil.federated.flower.keys import host_and_port, is_loopback, node_key, require_loopback

__all__ = ["Connection", "require_certified"]

_FAREWELL = 5.0  # s
_HEARTBEAT = 20.0  # s; the server takes a node for gone after twice as long


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

    """

    def __init__(
        self,
        address: str,
        root_certificate: str | Path | None,
        key: str | Path | None,
        *,
        insecure: bool,
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
        self.fleet = _client(address, root_certificate, secret)
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
    """The protocol, with failures that the caller can tell apart.

    Redirections are not followed: answers go where the owner said. A proxy of the environment is
    used, but not to this machine.
    """

    def __init__(self, base_url: str, **options: Any) -> None:
        super().__init__(base_url, **options)
        local = is_loopback(httpx.URL(base_url).host)
        self._client.close()
        self._client = httpx.Client(
            verify=options["verify"], timeout=self._client.timeout, trust_env=not local
        )

    def _unary_unary(self, **call: Any) -> Any:
        try:
            return super()._unary_unary(**call)
        except ValueError:
            raise httpx.DecodingError("the other side does not speak the protocol") from None
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
                raise FederationConnectionError(
                    "the server does not read an answer of this size: who runs it can allow more"
                ) from None
            raise


def _client(
    address: str, root_certificate: str | Path | None, secret: ec.EllipticCurvePrivateKey
) -> FleetHttpClient:
    root = None if root_certificate is None else Path(root_certificate)
    try:
        return _Fleet.from_server_address(
            address,
            root is None,
            None if root is None else root.read_bytes(),
            interceptors=[NodeAuthHttpInterceptor(secret, secret.public_key())],
        )
    except (OSError, UnicodeError):  # an ssl.SSLError is an OSError
        raise InvalidDataError(f"no certificate in PEM at {root}: check the path") from None


def require_certified(error: httpx.HTTPError, address: str) -> None:
    """A server that shows another certificate does not become the right one by waiting."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise FederationConnectionError(
            f"{address} does not show a certificate that this owner was given: compare the root "
            "certificates, and the host's name with that in the certificate"
        ) from None
