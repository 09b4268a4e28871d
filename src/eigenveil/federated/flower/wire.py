"""An owner's requests to a server that may do anything: so many bytes, so many seconds, no more.

A timeout of httpx is one of a single read or write, so that a byte now and then holds a caller
forever; and a body is in memory, unpacked, before its size can be looked at. Here one exchange has
a number of seconds for everything, from looking up the server's name to the last byte of its reply,
and a number of bytes for all that is received, headers included. Both are counted where bytes come
in, below HTTP. A reply must say how long it is and come as it is: one that is too long,
packed, or in chunks is not read. What a server wants remembered, its cookies, is not.
"""

import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.cookiejar import CookieJar
from typing import Any

import httpcore
import httpx

from eigenveil.exceptions import FederationConnectionError

__all__ = ["Client", "limited"]

_HEADERS = 16 << 10  # bytes of what comes before a body
_IDLE = 30.0  # s without a byte
_MOST_DIGITS = 15  # of a length


@dataclass(slots=True)
class _Exchange:
    """What is left to one request and its reply.

    Attributes
    ----------
    until : float
        When it must be over, by the monotonic clock.
    body : int
        Bytes that the body of the reply may have.
    received : int
        Bytes that have come.

    """

    until: float
    body: int
    received: int = 0

    def seconds(self, kind: type[httpcore.TimeoutException], most: float | None) -> float:
        """Time for the next step, of which ``most`` is enough; raises ``kind`` if there is none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise kind("the server took too long")
        return left if most is None else min(left, most)

    def receive(self, data: bytes) -> bytes:
        """Count what came."""
        self.received += len(data)
        if self.received > self.body + _HEADERS:
            raise httpcore.RemoteProtocolError("the server sends more than was asked for")
        return data


_EXCHANGE: ContextVar[_Exchange] = ContextVar("exchange")  # of the thread that waits for it


@contextmanager
def limited(seconds: float, body: int) -> Iterator[None]:
    """Let the request of the block take so many seconds, and its reply so many bytes of body."""
    token = _EXCHANGE.set(_Exchange(time.monotonic() + seconds, body))
    try:
        yield
    finally:
        _EXCHANGE.reset(token)


class Client(httpx.Client):
    """Sends requests within the `limited` exchange around them, and reads what is as agreed.

    Redirections are not followed: answers go where the owner said.
    """

    def __init__(self, *, verify: ssl.SSLContext | bool, trust_env: bool) -> None:
        super().__init__(
            verify=verify,
            trust_env=trust_env,
            timeout=_IDLE,
            headers={"accept-encoding": "identity"},
            cookies=_NoCookies(),
        )
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx.HTTPTransport):
                transport._pool._network_backend = _Backend()

    def send(self, request: httpx.Request, **_: Any) -> httpx.Response:
        """Send a request; of a reply that is an error nothing but the head is read."""
        response = super().send(request, stream=True)
        try:
            if response.is_success:
                _require_short(response, _EXCHANGE.get().body)
                response.read()
        finally:
            response.close()
        return response


def _require_short(response: httpx.Response, most: int) -> None:
    """Refuse a body by what its headers say, before any of it is read."""
    length = response.headers.get("content-length", "")
    packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
    plain = length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS
    if not plain or packed or "transfer-encoding" in response.headers:
        raise httpx.DecodingError("the server does not say how long its reply is, or packs it")
    if int(length) > most:
        raise httpx.DecodingError("the server's reply is longer than what was asked for")


class _NoCookies(CookieJar):
    """Takes none: they would be held, and sent back, for as long as an owner waits."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        pass


class _Backend(httpcore.NetworkBackend):
    """Connections whose every step is part of an exchange."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Try one address after the other, all of them within the time."""
        failed: Exception = httpcore.ConnectError("the server has no address")
        for address in _addresses(host, port, timeout):
            seconds = _EXCHANGE.get().seconds(httpcore.ConnectTimeout, timeout)
            try:
                return _Stream(
                    httpcore.SyncBackend().connect_tcp(
                        address, port, seconds, local_address, socket_options
                    )
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    """Look a name up; in a thread, as the system cannot be told how long that may take."""
    found: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            found.put(error)
        else:
            found.put([str(address[0]) for *_, address in known])

    threading.Thread(target=look_up, daemon=True).start()
    try:
        answer = found.get(timeout=_EXCHANGE.get().seconds(httpcore.ConnectTimeout, timeout))
    except queue.Empty:
        raise httpcore.ConnectTimeout("the name of the server was not found in time") from None
    if isinstance(answer, OSError):
        raise httpcore.ConnectError(str(answer)) from None
    return answer


class _Stream(httpcore.NetworkStream):
    """A connection; of one that has been idle the next exchange is another one."""

    def __init__(self, stream: httpcore.NetworkStream, *, encrypted: bool = False) -> None:
        self._stream, self._encrypted = stream, encrypted

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = _EXCHANGE.get()
        seconds = exchange.seconds(httpcore.ReadTimeout, timeout)
        return exchange.receive(self._stream.read(max_bytes, seconds))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # One by one: the stream itself has the whole time again after each part that is taken.
        line = self._stream.get_extra_info("socket")
        rest = memoryview(buffer)
        try:
            while rest:
                line.settimeout(_EXCHANGE.get().seconds(httpcore.WriteTimeout, timeout))
                rest = rest[line.send(rest) :]
        except TimeoutError:
            raise httpcore.WriteTimeout("the server does not read") from None
        except OSError as error:
            raise httpcore.WriteError(str(error)) from None

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        if self._encrypted:  # TLS inside TLS, of which no step has a time
            raise FederationConnectionError(
                "a proxy that is reached by TLS is not supported: name it as http:// in HTTPS_PROXY"
            )
        seconds = _EXCHANGE.get().seconds(httpcore.ConnectTimeout, timeout)
        return _Stream(
            self._stream.start_tls(ssl_context, server_hostname, seconds), encrypted=True
        )

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
