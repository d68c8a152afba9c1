"""The pages over HTTP: on this machine alone, and for whoever has the token.

A browser runs pages of everybody. So the Host must be ours (a name that was pointed at this machine
is not), a request that changes something must come from our own page, the token is in the first
address and then in a cookie that no other site's page sends, and no page may load or run anything
that is not a file of ours.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from chimera.cache import digest
from chimera.errors import ChimeraError, UsageError
from chimera.types import JSON
from chimera.view import pages, plots
from chimera.view.index import prune
from chimera.view.library import Library
from chimera.view.markup import asset, page
from chimera.view.notes import write_note
from chimera.view.search import search_page
from chimera.view.summary import BUCKETS
from chimera.view.trial import picture_type

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
MOST_FORM = 200_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ASSETS = {"view.css": "text/css", "view.js": "text/javascript", "icon.svg": "image/svg+xml"}
THEMES = ("light", "dark")


class Guard:
    """Lets in who has the token, and says in every answer what a page may do."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token, self._port = app, token, port
        self._hosts = {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        self._cookie = f"chimera-view-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        from starlette.requests import Request

        request = Request(scope, receive)
        answer = self._refusal(request)
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> Response | None:
        from starlette.responses import HTMLResponse, PlainTextResponse

        headers = dict(request.scope["headers"])
        if headers.get(b"host", b"").lower() not in self._hosts:
            return PlainTextResponse("This is not the host that is asked for.", 421)
        if not self._from_here(request, headers):
            return PlainTextResponse("This request comes from another site.", 403)
        token = request.query_params.get("token")
        if token is not None and self._is_token(token):
            welcome = HTMLResponse(page("welcome.html", {"to": _path(request)}))
            # `secure` would keep it from a plain loopback address
            welcome.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return welcome
        if not self._is_token(request.cookies.get(self._cookie, "")):
            why = "Open the address that `chimera view` printed: it has the key in it."
            return HTMLResponse(page("error.html", _plain("No entry", why)), 403)
        return None

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _from_here(self, request: Request, headers: Mapping[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is not None:
            return origin.removeprefix(b"http://") in self._hosts
        return request.method in ("GET", "HEAD")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            added = [
                (name.lower().encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.lower().encode() not in given
            ]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending


def application(library: Library, token: str, port: int) -> ASGIApp:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    viewer = _Viewer(library)
    routes = [
        Route("/", viewer.runs),
        Route("/run/{name}/", viewer.run),
        Route("/run/{name}/trial", viewer.trial),
        Route("/run/{name}/trial", viewer.note, methods=["POST"]),
        Route("/run/{name}/part", viewer.part),
        Route("/run/{name}/file", viewer.file),
        Route("/run/{name}/rests", viewer.rests),
        Route("/run/{name}/search", viewer.search),
        Route("/compare", viewer.compare),
        Route("/pair", viewer.pair),
        Route("/state", viewer.state),
        Route("/assets/{name}", viewer.asset),
    ]
    app: Starlette = Starlette(
        routes=routes,
        exception_handlers={ChimeraError: viewer.fault, HTTPException: viewer.absent},
    )
    return Guard(app, token, port)


class _Viewer:
    """One function for each address; they are plain functions, run in threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._version = digest(*(asset(name) for name in _ASSETS))[:10]

    def runs(self, request: Request) -> Response:
        data = pages.runs_page(self._library, _query(request))
        return self._answer(request, "runs.html", data, "")

    def run(self, request: Request) -> Response:
        name = request.path_params["name"]
        data = pages.run_page(self._library, name, _query(request))
        return self._answer(request, "run.html", data, name)

    def trial(self, request: Request) -> Response:
        name = request.path_params["name"]
        data = pages.trial_page(self._library, name, _query(request))
        return self._answer(request, "trial.html", data, name)

    def rests(self, request: Request) -> Response:
        name = request.path_params["name"]
        data = pages.rests_page(self._library, name, _query(request))
        return self._answer(request, "rests.html", data, name)

    async def note(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import RedirectResponse

        form = await _form(request)
        run = self._library.run(request.path_params["name"])
        key = await run_in_threadpool(pages.trial_key, run, _query(request))
        await run_in_threadpool(run.store.record_head, *key)  # there must be such a trial
        text, labels = (form.get(name, [""])[0] for name in ("note", "labels"))
        await run_in_threadpool(write_note, run.path, key, text, labels)
        return RedirectResponse(f"{request.url.path}?{request.url.query}#notes", 303)

    def part(self, request: Request) -> Response:
        name = request.path_params["name"]
        data = pages.part_page(self._library, name, _query(request))
        return self._answer(request, "part.html", data, name)

    def file(self, request: Request) -> Response:
        """A file of a trial: a picture to be seen, everything else to be saved."""
        from starlette.responses import Response

        query = _query(request)
        run = self._library.run(request.path_params["name"])
        name, key = pages.one(query, "name"), pages.trial_key(run, query)
        content = run.store.artifact(*key, pages.one(query, "kind"), name)
        kind = picture_type(name, content)
        disposition = "inline" if kind else 'attachment; filename="file"'
        return Response(
            content,
            media_type=kind or "application/octet-stream",
            headers={
                "Content-Security-Policy": "default-src 'none'; sandbox",
                "Content-Disposition": disposition,
            },
        )

    def search(self, request: Request) -> Response:
        name = request.path_params["name"]
        query = _query(request)
        text, after = pages.one(query, "text", 200), pages.number(query, "after")
        data = search_page(self._library.run(name), text, after)
        return self._answer(request, "search.html", data, name)

    def compare(self, request: Request) -> Response:
        data = pages.compare_page(self._library, _query(request))
        return self._answer(request, "compare.html", data, *_query(request).get("run", ()))

    def pair(self, request: Request) -> Response:
        data = pages.pair_page(self._library, _query(request))
        return self._answer(request, "pair.html", data)

    def state(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"state": self._state(_query(request).get("run", ()))})

    def _state(self, names: Sequence[str]) -> str:
        """Changes when something changes that a page on these runs shows; "" stands for all."""
        chosen = [run for run in self._library.runs() if run.name in names or "" in names]
        known = [(run.name, run.state, run.known(0)) for run in chosen]
        return digest(*((name, *state, k.fresh, round(k.counted, 2)) for name, state, k in known))

    def asset(self, request: Request) -> Response:
        from starlette.exceptions import HTTPException
        from starlette.responses import Response

        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404)
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(asset(name), media_type=_ASSETS[name], headers=headers)

    def fault(self, request: Request, error: Exception) -> Response:
        status = 404 if isinstance(error, UsageError) else 500
        return self._answer(
            request, "error.html", _plain("Not to be seen", str(error)), code=status
        )

    def absent(self, request: Request, error: Any) -> Response:
        data = _plain("Nothing here", "There is no page at this address.")
        return self._answer(request, "error.html", data, code=error.status_code)

    def _answer(
        self, request: Request, template: str, data: dict[str, JSON], *runs: str, code: int = 200
    ) -> Response:
        from starlette.responses import HTMLResponse, Response

        if request.query_params.get("format") == "json":
            return Response(msgspec.json.encode(data), code, media_type="application/json")
        theme, chosen = _theme(request)
        around = {
            "plots": plots,
            "buckets": BUCKETS,
            "theme": theme,
            "here": _path(request),
            "query": [(k, v) for k, v in request.query_params.multi_items() if k != "theme"],
            "version": self._version,
            "watch": [("run", name) for name in runs],
            "state": self._state(runs) if runs else None,
        }
        answer = HTMLResponse(page(template, {**data, **around}), code)
        if chosen:
            answer.set_cookie("chimera-theme", chosen, max_age=31_536_000, samesite="strict")
        return answer


def _path(request: Request) -> str:
    """The path that was asked for; one that begins as the name of another host does not."""
    return "/" + request.url.path.lstrip("/")


def _theme(request: Request) -> tuple[str, str]:
    """The colours of the page, and those that were asked for with this very address."""
    asked = request.query_params.get("theme", "")
    if asked == "auto" or asked in THEMES:
        return (asked if asked in THEMES else ""), asked
    kept = request.cookies.get("chimera-theme", "")
    return (kept if kept in THEMES else ""), ""


def _query(request: Request) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found


async def _form(request: Request) -> dict[str, list[str]]:
    content = b""
    async for block in request.stream():
        content += block
        if len(content) > MOST_FORM:
            raise UsageError("this note is too long")
    return parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True)


def _plain(title: str, why: str) -> dict[str, JSON]:
    return {
        "title": title, "why": why, "theme": "", "here": "/", "query": [], "version": "",
        "watch": [], "state": None,
    }  # fmt: skip


def serve(library: Library, *, port: int, ready: Callable[[str], None]) -> None:
    """Answer until interrupted; `ready` hears the address as soon as it can be opened."""
    try:
        import uvicorn

        page("welcome.html", {"to": "/"})
    except ImportError as error:
        raise UsageError(
            f"the viewer needs the package '{error.name}'\n  pip install 'chimera-eval[view]'"
        ) from None
    prune()
    listening = _bound(port)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
    config = uvicorn.Config(
        application(library, token, port),
        log_level="error", access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    ready(f"http://{HOST}:{port}/?token={token}")
    try:
        uvicorn.Server(config).run([listening])
    except KeyboardInterrupt:  # the way to end it
        pass
    finally:
        listening.close()
        library.close()


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # who opens the address before the server runs, waits
    except OSError as error:
        listening.close()
        raise UsageError(f"port {port} cannot be used: {error.strerror}; choose another") from None
    return listening
