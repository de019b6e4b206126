"""The application of ``penstock ui``: the list of all jobs, and below ``/at/<run>/`` the page of each.

The page's own files come from here and ask relative to where they are, so the same files serve the list and
every run.  Calls of a run go on to its driver, with a session that the browser never sees, or are answered
from its archive.  Neither a driver nor an archive can put a page or a script into this one: only data is
passed on.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import penstock
from penstock.rest.all_jobs import AllJobs
from penstock.rest.app import Limits, handlers, let_in
from penstock.rest.archived_job import ArchivedJob, answer_from
from penstock.rest.guard import Guard
from penstock.rest.look import Refused
from penstock.rest.overview import REFRESH_MS, VERSION
from penstock.rest.static import console_files
from penstock.rest.steering import changes
from penstock.rest.upstream import SILENT, Upstream

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_AT_ONCE = 32
"""Calls to drivers and stores; the others wait for their turn, or for the end of their time."""
_JSON = "application/json"


class _Ui:
    """The views."""

    def __init__(self, jobs: AllJobs, guard: Guard, is_read_only: bool) -> None:
        self._jobs = jobs
        self._guard = guard
        self._is_read_only = is_read_only
        self._turns: asyncio.Semaphore | None = None
        found = console_files()
        self._files = None if found is None else StaticFiles(directory=found)
        self._names = set() if found is None else {one.name for one in Path(found).iterdir()}

    async def page(self, request: Request) -> Response:
        """The list; a browser that comes with a code gets its cookie first."""
        if "code" in request.query_params:
            return let_in(self._guard, request.query_params["code"])
        return await self._file("index.html", request)

    async def config(self, request: Request) -> Response:
        """What the page must know."""
        return _json(_config(self._is_read_only) | {"penstock-list": True})

    async def overview(self, request: Request) -> Response:
        """Jobs in numbers."""
        counted = Counter(line["state"] for line in await self._in_turn(self._jobs.lines))
        over = {"FINISHED": "finished", "CANCELED": "cancelled", "FAILED": "failed"}
        running = sum(counted.values()) - sum(counted[state] for state in over)
        ended = {f"jobs-{word}": counted[state] for state, word in over.items()}
        none = dict.fromkeys(("taskmanagers", "slots-total", "slots-available"), 0)
        return _json({**none, "jobs-running": running, **ended, "flink-version": VERSION})

    async def list_all(self, request: Request) -> Response:
        """Every run."""
        return _json({"jobs": await self._in_turn(self._jobs.lines)})

    async def ids(self, request: Request) -> Response:
        """Ids and statuses alone."""
        lines = await self._in_turn(self._jobs.lines)
        return _json({"jobs": [{"id": line["jid"], "status": line["state"]} for line in lines]})

    async def archives(self, request: Request) -> Response:
        """The directories that are read, and what in them is shown to nobody."""
        return _json({"archives": await self._in_turn(self._jobs.archives.report)})

    async def of_run(self, request: Request) -> Response:
        """A file of the page, or a call to what is behind one run."""
        key, path = request.path_params["key"], request.path_params["path"]
        if request.method == "GET" and (not path or path.split("/")[0] in self._names):
            return await self._file(path or "index.html", request)
        return await self._call(key, _behind(request, f"/at/{key}"), request)

    async def of_job(self, request: Request) -> Response:
        """The same call as a driver takes it, for tools that know a job's id."""
        return await self._call(request.path_params["key"], _behind(request, ""), request)

    async def _call(self, key: str, path: str, request: Request) -> Response:
        path = path.removeprefix("/v1")
        run = await self._in_turn(partial(self._jobs.find, key))
        if isinstance(run, ArchivedJob):
            return _archived(run, path, request.method, request.query_params)
        try:
            return await self._forwarded(run, path, request)
        except Refused as error:
            # The job may just have ended: its driver closes before it is gone from the registry.
            if error.status != SILENT or changes(request.method, path):
                raise
            ended = await self._in_turn(partial(self._jobs.archives.open, key))
            if ended is None:
                raise
            return _archived(ended, path, request.method, request.query_params)

    async def _forwarded(self, run: Upstream, path: str, request: Request) -> Response:
        query = request.scope["query_string"].decode("ascii", "replace")
        target, body = f"{path}?{query}" if query else path, await request.body()
        async with run.turns:
            said = await self._in_turn(partial(run.ask, request.method, target, body or None))
        if path == "/config" and said.status == 200:
            return _json(_as_object(said.body) | {"penstock-up": True})
        return Response(said.body, said.status, media_type=said.kind)

    async def _in_turn(self, work: Any) -> Any:
        """Do what blocks on a thread; of those a driver has a few at most, so one that hangs has not all."""
        if self._turns is None:
            self._turns = asyncio.Semaphore(_AT_ONCE)
        async with self._turns:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def _file(self, path: str, request: Request) -> Response:
        if self._files is None:
            return HTMLResponse(
                "<!doctype html><p>This installation has no page; <a href='jobs/overview'>jobs</a>."
            )
        return await self._files.get_response(path, request.scope)


def build_ui(jobs: AllJobs, guard: Guard, is_read_only: bool = False) -> ASGIApp:
    """The application."""
    ui = _Ui(jobs, guard, is_read_only)
    listing: list[BaseRoute] = [
        Route("/config", ui.config, methods=["GET"]),
        Route("/overview", ui.overview, methods=["GET"]),
        Route("/jobs", ui.ids, methods=["GET"]),
        Route("/jobs/overview", ui.list_all, methods=["GET"]),
        Route("/penstock/archives", ui.archives, methods=["GET"]),
        Route("/jobs/{key}", ui.of_job, methods=_METHODS),
        Route("/jobs/{key}/{path:path}", ui.of_job, methods=_METHODS),
    ]
    routes: list[BaseRoute] = [
        Route("/", ui.page, methods=["GET"]),
        Route("/at/{key}/{path:path}", ui.of_run, methods=_METHODS),
        Mount("/v1", routes=listing),
        *listing,
    ]
    files = console_files()
    if files is not None:
        routes.append(Mount("/", StaticFiles(directory=files)))
    return Limits(Starlette(routes=routes, exception_handlers=handlers()), guard)


def _behind(request: Request, prefix: str) -> str:
    """The path as the browser wrote it: names in it may hold any sign."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.decode("ascii", "replace").removeprefix(prefix)


def _archived(job: ArchivedJob, path: str, method: str, query: Mapping[str, str]) -> Response:
    if changes(method, path):
        state = job.line["state"]
        raise Refused(409, f"the job is {state}: this is its archive, of which nothing can be changed")
    if path == "/config":
        return _json(_config(True) | {"penstock-up": True, "penstock-archived": True})
    jid = job.line["jid"]
    if path == "/jobs":
        return _json({"jobs": [{"id": jid, "status": job.line["state"]}]})
    text = answer_from(job, path, query)
    if text.startswith('"'):
        return Response(_as_text(text), media_type="text/plain")
    return Response(text.encode("utf-8", "replace"), media_type=_JSON)


def _config(is_read_only: bool) -> dict[str, Any]:
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": "UTC",
        "timezone-offset": 0,
        "flink-version": VERSION,
        "flink-revision": f"penstock-{penstock.__version__}",
        "features": {
            "web-submit": False,
            "web-cancel": not is_read_only,
            "web-rescale": not is_read_only,
            "web-history": True,
        },
    }


def _json(value: Any) -> Response:
    return Response(json.dumps(value), media_type=_JSON)


def _as_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(502, "the driver's answer is not what it should be")
    return found


def _as_text(text: str) -> bytes:
    try:
        return str(json.loads(text)).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        raise Refused(502, "the archive of the job is damaged") from None
