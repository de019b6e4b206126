"""The routes of the control plane, under ``/`` and ``/v1/``, behind the guard and its limits.

Views are quick and run on the server's own thread; what may block (a savepoint's directory, Spark) does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import html
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.core.discreet import log_of
from penstock.core.errors import PenstockError, coded
from penstock.rest import openapi, outputs, overview, processes, prometheus, state, tail
from penstock.rest.guard import Guard
from penstock.rest.json_answer import JsonAnswer
from penstock.rest.look import Refused
from penstock.rest.plane import Plane, stacks
from penstock.rest.routes import SAMPLED, VIEWS, Asked, View, answer
from penstock.rest.share import Share
from penstock.rest.static import console_files
from penstock.rest.steering import ACTIONS, OUTCOMES, Action, body_of

_log = log_of(__name__)

MAX_BODY = 1 << 20
_READ_OFF, _READ_OFF_S = 4 * MAX_BODY, 5.0
"""How much of a body that nobody wants is read all the same, and for how long."""
_READ_OFF_STRANGERS = 1 << 16
_SAMPLED = [VIEWS[path] for path in SAMPLED]
_SLOW_AT_ONCE = 8
_ACTS_AT_ONCE = 8
REQUEST_S = 30.0
"""How long one request may take, a slow reader's included."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'",
    ),
]


def build(plane: Plane, guard: Guard, share: Share) -> ASGIApp:
    """The application of one door; requests for a browser wait until the ``share`` covers them."""
    versioned: list[BaseRoute] = [Mount("/v1", routes=_routes(plane))]
    page = console_files()
    root: list[BaseRoute] = [Route("/", partial(_page, plane, guard, page), methods=["GET"])]
    if page is not None:
        root.append(Mount("/", StaticFiles(directory=page)))
    app = Starlette(
        routes=[*versioned, *_routes(plane), *root],
        exception_handlers=handlers(),
    )
    return Limits(app, guard, share)


def _routes(plane: Plane) -> list[Route]:
    """Fixed names before those in braces: ``/jobs/overview`` is no job."""
    turns = asyncio.Semaphore(_SLOW_AT_ONCE)
    made = [Route(path, partial(_view, plane, view), methods=["GET"]) for path, view in VIEWS.items()]
    threads = {action: _Threads() for action, _ in ACTIONS.values()}
    made += [
        Route(path, partial(_act, plane, action, threads[action], status), methods=[method])
        for (method, path), (action, status) in ACTIONS.items()
    ]
    made += [
        Route(path, partial(_outcome, plane, kinds), methods=["GET"]) for path, kinds in OUTCOMES.items()
    ]
    made += [*outputs.routes(plane), *state.routes(plane), *tail.routes(plane)]
    made += [
        Route("/config", partial(_config, plane), methods=["GET"]),
        Route("/metrics", partial(_metrics, plane), methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
        Route("/jobmanager/thread-dump", _threads, methods=["GET"]),
        Route("/jobs/{jobid}/facts", partial(_slow, plane, plane.facts, turns), methods=["GET"]),
    ]
    return sorted(made, key=lambda route: route.path.count("{"))


def _asked(request: Request) -> Asked:
    return Asked(dict(request.path_params), dict(request.query_params))


async def _view(plane: Plane, view: View, request: Request) -> Response:
    if view in _SAMPLED:
        plane.sample()
    found = answer(view, plane.look(), _asked(request))
    return PlainTextResponse(found) if isinstance(found, str) else JsonAnswer(found)


class _Threads:
    """Those of one kind of request: what waits for a store keeps nobody from cancelling."""

    def __init__(self) -> None:
        self._room: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if self._room is None:  # some versions of anyio make none before there is a loop
            self._room = anyio.CapacityLimiter(_ACTS_AT_ONCE)
        return await anyio.to_thread.run_sync(work, limiter=self._room)


async def _act(plane: Plane, action: Action, threads: _Threads, status: int, request: Request) -> Response:
    asked = _asked(request)
    for name in ("jobid", "applicationid"):
        if name in asked.path:
            plane.look().check_job(asked.path[name])
    body = body_of(await request.body())
    found = await threads.run(partial(action, plane, asked, body))
    return JsonAnswer(found, status)


async def _outcome(plane: Plane, kinds: tuple[str, ...], request: Request) -> Response:
    asked = _asked(request)
    if "jobid" in asked.path:
        plane.look().check_job(asked.path["jobid"])
    return JsonAnswer(plane.requests.outcome(asked.path["triggerid"], kinds))


async def _config(plane: Plane, request: Request) -> Response:
    zone = datetime.datetime.fromtimestamp(plane.clock.now_ms() / 1000, datetime.UTC).astimezone()
    offset = zone.utcoffset() or datetime.timedelta()
    name = zone.tzname() or "UTC"
    return JsonAnswer(overview.config(plane.look(), (name, int(offset.total_seconds() * 1000))))


async def _metrics(plane: Plane, request: Request) -> Response:
    return Response(prometheus.exposed(plane.look()), media_type=prometheus.CONTENT_TYPE)


async def _openapi(request: Request) -> Response:
    return JsonAnswer(openapi.document())


async def _threads(request: Request) -> Response:
    return JsonAnswer(processes.thread_dump(stacks()))


async def _slow(
    plane: Plane, find: Callable[[], dict[str, Any]], turns: asyncio.Semaphore, request: Request
) -> Response:
    """What may wait for Spark; however often it is asked for, threads are left for savepoints."""
    plane.look().check_job(request.path_params["jobid"])
    async with turns:
        return JsonAnswer(await anyio.to_thread.run_sync(find))


async def _page(plane: Plane, guard: Guard, page: str | None, request: Request) -> Response:
    """The page; a browser that comes with a code gets its cookie first.

    It is sent on by the page itself, not by a redirect: behind a link from elsewhere no browser would show
    the cookie that it just got.
    """
    if "code" in request.query_params:
        return let_in(guard, request.query_params["code"])
    if page is not None:
        files = StaticFiles(directory=page)
        return await files.get_response("index.html", request.scope)
    name = html.escape(plane.running.job.plan.job_name)
    return HTMLResponse(
        f"<!doctype html><title>{name}</title><h1>{name}</h1><p>REST is at <a href='jobs/overview'>"
        "jobs/overview</a>, what it can do at <a href='openapi.json'>openapi.json</a>.</p>"
    )


def let_in(guard: Guard, code: str) -> Response:
    """The cookie of a browser that has brought a code."""
    answered = HTMLResponse('<!doctype html><meta http-equiv="refresh" content="0;url=./">')
    session = guard.sessions.redeem(code)
    if session is None:
        raise Refused(401, "this link was used or is too old; `penstock ui` makes another")
    secure = guard.scheme == "https"
    answered.set_cookie(guard.cookie, session, httponly=True, samesite="strict", secure=secure, path="/")
    return answered


# --- what goes wrong ----------------------------------------------------------------------------


def handlers() -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    """What becomes of an error on the way to an answer."""
    return {HTTPException: _unknown, Refused: _refused, PenstockError: _failed, Exception: _broken}


def errors(status: int, *texts: str) -> JsonAnswer:
    """An error in Flink's shape."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JsonAnswer({"errors": list(texts)}, status, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return errors(error.status, str(error))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return errors(404, f"there is nothing at {request.url.path}; /openapi.json lists all calls")
    return errors(error.status_code, str(error.detail))


async def _failed(request: Request, error: Exception) -> Response:
    return errors(400, coded(error))


async def _broken(request: Request, error: Exception) -> Response:
    """What nobody expected; it is logged by whoever catches it next."""
    return errors(500, f"the driver failed over the request: {error!r}")


class Limits:
    """Around the application: the guard, the size of a body, the time of a request, headers of safety."""

    def __init__(self, app: ASGIApp, guard: Guard, share: Share | None = None) -> None:
        self._app = app
        self._guard = guard
        self._share = share

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        begun = known = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        try:
            async with asyncio.timeout(REQUEST_S):
                await self._admit(scope, headers)
                known = True
                await self._app(scope, _limited(headers, receive), sending)
        except Refused as error:
            await _read_off(receive, _READ_OFF if known else _READ_OFF_STRANGERS)
            await errors(error.status, str(error))(scope, receive, sending)
        except TimeoutError:
            if not begun:
                await errors(503, f"the answer took longer than {REQUEST_S:g} s")(scope, receive, sending)
        except asyncio.CancelledError:  # the server leaves, and this waited for Spark until the last moment
            if not begun:
                await errors(503, "the job has ended")(scope, receive, sending)
        except Exception as error:
            _log.exception("a request %s %s to the job's page failed", scope["method"], scope["path"])
            if not begun:
                await errors(500, f"the driver failed over the request: {error!r}")(scope, receive, sending)

    async def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        """Return when it is the turn of somebody who may ask; others are refused, in theirs."""
        code, refusal = _code_of(scope), None
        try:
            self._guard.check(scope["method"], scope["path"], headers, code is not None)
        except Refused as error:
            refusal = error
        if self._share is not None and (refusal is not None or self._guard.for_browser(headers)):
            is_expected = code is None or self._guard.sessions.expects(code)
            await self._share.turn(known=refusal is None and is_expected)
        if refusal is not None:
            raise refusal


def _code_of(scope: Scope) -> str | None:
    """What a browser on its first visit shows: it has nothing else."""
    query: bytes = scope["query_string"]
    if scope["method"] != "GET" or scope["path"] != "/" or not query.startswith(b"code="):
        return None
    return QueryParams(query)["code"]


def _limited(headers: dict[str, str], receive: Receive) -> Callable[[], Awaitable[Any]]:
    """What a client sends, refused when it is too much."""
    said = headers.get("content-length", "0")
    if said.isdecimal() and int(said) > MAX_BODY:
        raise Refused(413, f"a body may have {MAX_BODY} bytes")
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY:
            if message.get("more_body"):
                await _read_off(receive)
            raise Refused(413, f"a body may have {MAX_BODY} bytes")
        return message

    return receiving


async def _read_off(receive: Receive, left: int = _READ_OFF) -> None:
    """Let a client that is refused send what it has begun to: else it sees a broken pipe, not the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_OFF_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return
