"""uvicorn on one thread of the driver: serves all doors until the job ends.  Read ``serving.py`` first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.coordinator.private import is_own
from penstock.rest.app import build
from penstock.rest.doors import Door
from penstock.rest.guard import Guard
from penstock.rest.plane import Plane

MOST_CONNECTIONS = 512
FIRST_REQUEST_S = 10.0
"""How long a connection may be silent before its first request."""
_HEADER_BYTES = 32 << 10
_KEEP_ALIVE_S = 15
_LAST_S = 2


class _Patient(H11Protocol):
    """A connection that is closed if nothing is asked on it, if there are too many, or if it is not ours."""

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= MOST_CONNECTIONS or not is_own(transport.get_extra_info("socket")):
            transport.close()
            return
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_S, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        if hasattr(self, "transport") and self.transport is not None:
            super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class Server:
    """Serves some doors. :meth:`run` is the thread's work; :meth:`stop` may be called from any."""

    def __init__(self, plane: Plane, doors: Sequence[tuple[Door, Guard]]) -> None:
        self.ready = threading.Event()
        self._servers = [
            (uvicorn.Server(config_for(build(plane, guard), door)), door) for door, guard in doors
        ]

    def run(self) -> None:
        """Serve until told to stop."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        serving = [asyncio.create_task(server.serve(sockets=[door.socket])) for server, door in self._servers]
        while not all(server.started for server, _ in self._servers) and not any(
            task.done() for task in serving
        ):
            await asyncio.sleep(0.005)
        self.ready.set()
        await asyncio.gather(*serving)

    def stop(self) -> None:
        """Answer what is under way, then be gone."""
        for server, _ in self._servers:
            server.should_exit = True


def config_for(app: ASGIApp, door: Door) -> uvicorn.Config:
    """How an application is served at a door: without a word of its own, within limits."""
    config = uvicorn.Config(
        app,
        http=_Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LAST_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    config.load()
    config.ssl = door.tls
    return config
