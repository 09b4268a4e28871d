"""The studio as a server: which question goes where, in which words mistakes are answered.

Handlers are functions of a `Studio` and of what was asked, and import what they need when they are
asked: the first page is there before anything heavy is.
"""

import json
import logging
import secrets
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from eigenveil.cli.values import strict_json
from eigenveil.exceptions import EigenveilError
from eigenveil.studio.folder import Folder, Received
from eigenveil.studio.guard import Address, Guard
from eigenveil.studio.runs import Runs
from eigenveil.text import printable

_STATIC = {".css": "text/css", ".js": "text/javascript", ".html": "text/html"}
# What is asked for most, imported once the first page is out.
_HEAVY = ("eigenveil.cli.plan", "eigenveil.cli.releasing", "eigenveil.planning")

Asked = Mapping[str, Any]
Handler = Callable[["Studio", Asked], Any]

# Path, methods, and the function that answers: "module:name" below this package.
_QUESTIONS = {
    "api/state": ("GET", "server:state"),
    "api/release": ("GET", "reading:release"),
    "api/release/report": ("GET", "reading:report"),
    "api/release/export": ("GET", "reading:exported"),
    "api/compare": ("GET", "reading:compare"),
    "api/received": ("POST", "reading:receive"),
    "api/table": ("GET", "planning:table"),
    "api/sample": ("POST", "planning:sample"),
    "api/plan": ("POST", "planning:plan"),
    "api/curve": ("POST", "planning:curve"),
    "api/promise": ("POST", "planning:promise"),
    "api/run": ("GET", "planning:progress"),
    "api/run/start": ("POST", "planning:start"),
    "api/run/stop": ("POST", "planning:stop"),
    "api/ledger": ("GET", "ledgers:ledger"),
    "api/ledger/export": ("GET", "ledgers:exported"),
    "api/ledger/new": ("POST", "ledgers:create"),
    "api/federation": ("GET", "federations:federation"),
}


@dataclass(slots=True)
class Studio:
    """What all handlers share.

    Attributes
    ----------
    folder : Folder
        All that is read and written.
    address : Address
        Where the page is.
    table : str, optional
        The table that was named at the start.
    received : Received
        Releases that were dropped on the page.
    runs : Runs
        Releases that are being made.
    seal : bytes
        Key of the codes that tie a promise to its table; it never leaves this process.

    """

    folder: Folder
    address: Address
    table: str | None = None
    received: Received = field(default_factory=Received)
    runs: Runs = field(default_factory=Runs)
    seal: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


def application(studio: Studio) -> Starlette:
    """Return the server of a studio, with its guard before everything."""
    routes: list[BaseRoute] = [Route("/", _page(studio))]
    routes += [Route(f"/static/{name}", _static(name)) for name in _static_files()]
    routes += [
        Route(f"/{path}", _answering(studio, where), methods=[method])
        for path, (method, where) in _QUESTIONS.items()
    ]
    routes.append(Route("/api/received/{id}/{name}", _taking(studio), methods=["PUT"]))
    return Starlette(
        routes=[Mount(studio.address.path.rstrip("/"), routes=routes)],
        middleware=[Middleware(Guard, address=studio.address)],
    )


def state(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return what lies in the folder, by name."""
    folder = studio.folder
    return {
        "folder": printable(folder.root.name or str(folder.root)),
        "table": studio.table,
        "tables": folder.tables(),
        "ledgers": folder.ledgers(),
        "keys": folder.keys(),
        "releases": folder.releases(),
        "federations": folder.federations(),
        "unnamed": folder.unnamed(),
        "runs": studio.runs.overview(),
    }


def _page(studio: Studio) -> Callable[[Request], Any]:
    """Return the handler of the one page, which has the state of the folder inside."""
    text = _static_text("index.html")

    async def page(request: Request) -> Response:
        try:
            known = json.dumps(await run_in_threadpool(state, studio, {}))
        except Exception as error:
            return _mistake(error)
        filled = text.replace("{{page}}", escape(studio.address.page)).replace(
            "{{state}}", escape(known)
        )
        return HTMLResponse(filled, background=BackgroundTask(_prepare))

    return page


def _prepare() -> None:
    """Import what the next questions need."""
    for name in _HEAVY:
        import_module(name)


def _static_files() -> list[str]:
    folder = resources.files("eigenveil.studio").joinpath("static")
    return sorted(file.name for file in folder.iterdir() if Path(file.name).suffix in _STATIC)


def _static_text(name: str) -> str:
    return resources.files("eigenveil.studio").joinpath("static", name).read_text("utf-8")


def _static(name: str) -> Callable[[Request], Any]:
    async def file(request: Request) -> Response:
        return Response(_static_text(name), media_type=_STATIC[Path(name).suffix])

    return file


def _answering(studio: Studio, where: str) -> Callable[[Request], Any]:
    """Return what asks a handler, in a thread, and words its answer or its mistake."""
    module, name = where.split(":")

    def handled(asked: Asked) -> Response:
        try:
            handler: Handler = getattr(import_module(f"eigenveil.studio.{module}"), name)
            answer = handler(studio, asked)
            return answer if isinstance(answer, Response) else _Answer(answer)
        except Exception as error:
            return _mistake(error)

    async def answer(request: Request) -> Response:
        asked: dict[str, Any] = dict(request.query_params)
        if request.method == "POST":
            try:
                asked = strict_json(await request.body() or b"{}")
            except (ValueError, RecursionError):
                words = "the question is not a JSON object of finite numbers and Unicode text"
                return _Answer({"error": words, "code": 2}, 400)
        return await run_in_threadpool(handled, asked)

    return answer


def _taking(studio: Studio) -> Callable[[Request], Any]:
    """Return the handler that takes one file of a release, as it comes."""

    async def take(request: Request) -> Response:
        where = request.path_params
        try:
            with studio.received.writing(where["id"], where["name"]) as write:
                async for part in request.stream():
                    write(part)
        except (EigenveilError, OSError) as error:
            return _mistake(error)
        return _Answer({"received": where["name"]})

    return take


class _Answer(JSONResponse):
    """An answer in ASCII: text from files may hold half characters, which UTF-8 has not."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False).encode("ascii")


def _mistake(error: Exception) -> JSONResponse:
    """Return a mistake as the page shows it: one sentence, never a value of the table."""
    if isinstance(error, EigenveilError):
        notes = getattr(error, "__notes__", ())
        words = "; ".join([error.said("page"), *notes])
        return _Answer({"error": words, "code": error.exit_code}, 400)
    if isinstance(error, OSError) and error.strerror is not None:
        return _Answer({"error": f"cannot use a file: {error.strerror}", "code": 3}, 400)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {Path(place.filename).name} line {place.lineno}"
    logging.getLogger("eigenveil.studio").error("internal error, %s", where)
    return _Answer({"error": f"internal error, {where}: please report it", "code": 1}, 500)
