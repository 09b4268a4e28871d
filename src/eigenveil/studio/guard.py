"""Who may ask the studio, and what a browser may do with its answers.

The page is on a network of one computer, which is still a network: any page of any site that is
open in the same browser may send requests to it, and a name that somebody else owns may be made to
point here (DNS rebinding). So a request is answered only if

- it names this address as its host, and where it names an origin, this one;
- it has the cookie that the first address is exchanged for, which is strict about other sites;
- it is no more than a look, or carries the token of the page as well, which no other page knows.

Everything lies below a random path: a browser sends cookies of one port to all ports of a computer,
but those of a path to that path alone.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from hmac import compare_digest
from html import escape
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
PAGE_HEADER = "x-eigenveil-page"
LARGEST_UPLOAD = 2**27  # bytes of one file of a release
_LARGEST_QUESTION = 2**20  # bytes of anything else
_LOOKS = ("GET", "HEAD")
_COOKIE = "eigenveil"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ASK_AGAIN = "Open the address that eigenveil studio printed when it started."


@dataclass(frozen=True, slots=True)
class Address:
    """Where the studio answers, and the secrets that open it.

    Attributes
    ----------
    port : int
        On this computer.
    path : str
        Below which everything lies.
    token : str
        In the first address.
    cookie : str
        What the browser gets for it.
    page : str
        What the page sends with everything that is more than a look.

    """

    port: int
    path: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}/")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    page: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def host(self) -> str:
        """Name and port, as a browser asks for them."""
        return f"{HOST}:{self.port}"

    @property
    def origin(self) -> str:
        """What requests of the page itself come from."""
        return f"http://{self.host}"

    @property
    def first(self) -> str:
        """The address to open."""
        return f"{self.origin}{self.path}?token={self.token}"


def forwarding(address: str) -> str:
    """Return a page that leads on to an address by itself."""
    where = escape(address)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>eigenveil studio</title>'
        '<link rel="icon" href="data:,">'
        f'<meta http-equiv="refresh" content="0; url={where}">'
        f'<p><a href="{where}">Open the studio</a></p></html>\n'
    )


class Guard:
    """Stands before everything that the studio answers."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self._app = app
        self._address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it before anything looks at it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refusal, opened = self._refusal(scope, headers)
        bound = _LARGEST_QUESTION if "/received/" not in scope["path"] else LARGEST_UPLOAD
        if refusal is None and _declared(headers) > bound:
            refusal = (413, f"More than {bound:,} bytes: nothing was read.")
        answer = self._with_headers(send, opened)
        if refusal is not None:
            status, words = refusal
            await PlainTextResponse(words, status)(scope, receive, answer)
            return
        if opened:
            # Not the page itself: a browser holds back strict cookies where a page that was come
            # to from elsewhere is loaded again. From this one on, the page is come to from here.
            await HTMLResponse(forwarding(self._address.path))(scope, receive, answer)
            return
        try:
            await self._app(scope, _bounded(receive, bound), answer)
        except _TooLargeError:
            words = f"More than {bound:,} bytes: nothing was kept."
            await PlainTextResponse(words, 413)(scope, receive, answer)
        except ClientDisconnect:  # nobody is there to be answered
            return

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[tuple[int, str] | None, bool]:
        """Return why a request is refused, and whether it came by the first address."""
        address = self._address
        if headers.getlist("host") != [address.host]:
            return (421, f"This is not {address.host}. {_ASK_AGAIN}"), False
        look = scope["method"] in _LOOKS
        origins = headers.getlist("origin")
        if origins != [address.origin] and (origins or not look):
            return (403, "Another page asked for this: refused."), False
        if not scope["path"].startswith(address.path):
            return (404, _ASK_AGAIN), False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        first = look and scope["path"] == address.path and _same(given[0], address.token)
        if not first and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return (403, "Another page asked for this: refused."), False
        if not first and not self._knows_cookie(headers.getlist("cookie")):
            return (403, _ASK_AGAIN), False
        if not look and not _same(headers.get(PAGE_HEADER, ""), address.page):
            return (403, "This did not come from the page of the studio: refused."), False
        return None, first

    def _knows_cookie(self, sent: Iterable[str]) -> bool:
        found = [cookie_parser(line).get(_COOKIE, "") for line in sent]
        return any(_same(each, self._address.cookie) for each in found)

    def _with_headers(self, send: Send, opened: bool) -> Send:
        """Return the same way out, on which every answer gets its headers."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if opened:
                    headers.append(
                        "set-cookie",
                        f"{_COOKIE}={self._address.cookie}; Path={self._address.path}; "
                        "HttpOnly; SameSite=Strict",
                    )
            await send(message)

        return answer


class _TooLargeError(Exception):
    """More was sent than may be."""


def _bounded(receive: Receive, bound: int) -> Receive:
    """Return the same way in, which ends where more comes than may."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > bound:
            raise _TooLargeError
        return message

    return limited


def _declared(headers: Headers) -> int:
    """Return the declared length; what is no number is no length."""
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 10**20


def _same(given: str, known: str) -> bool:
    return compare_digest(given.encode(), known.encode())
