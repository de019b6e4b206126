"""uvicorn on one thread of the driver: serves all doors until the job ends.  Read ``serving.py`` first."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any
from weakref import WeakSet

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.coordinator.private import is_own
from penstock.core.clock import SystemClock
from penstock.rest.app import build
from penstock.rest.doors import Door
from penstock.rest.guard import Guard
from penstock.rest.plane import Plane
from penstock.rest.share import Share

MOST_CONNECTIONS = 512
FIRST_REQUEST_S = 10.0
"""How long a connection may be silent before its first request."""
_HEADER_BYTES = 32 << 10
_KEEP_ALIVE_S = 15
_UNREAD_S = 30.0
"""How long a client may leave unread what it was answered: closing alone would wait for it."""
_LAST_S = 2


class _Doorway(socket.socket):
    """A socket that listens, and sends away who is one too many, or not ours, before anybody hears of it.

    Of a caller who does not end TLS's handshake the server hears nothing, and the job needs descriptors, too.
    """

    def __init__(self, door: socket.socket) -> None:
        super().__init__(fileno=socket.dup(door.fileno()))
        self._inside: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next caller; ``ConnectionAbortedError`` if that one was sent away."""
        caller, address = super().accept()
        inside = sum(other.fileno() >= 0 for other in self._inside)
        if inside >= MOST_CONNECTIONS or not is_own(caller):
            caller.close()
            raise ConnectionAbortedError
        self._inside.add(caller)
        return caller, address


class _Patient(H11Protocol):
    """A connection that is closed if nothing is asked on it, or answers are not read."""

    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # to hear of all that is not taken
        self.loop.call_later(FIRST_REQUEST_S, self._close_if_silent)

    def on_response_complete(self) -> None:
        answered = self.cycle
        super().on_response_complete()
        self.loop.call_later(_KEEP_ALIVE_S, self._close_if_no_other, answered)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(_UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _close_if_no_other(self, answered: Any) -> None:
        """A request that is begun and never ended would keep it: uvicorn's own timer stops for that."""
        if self.cycle is answered and not self.transport.is_closing():
            self.transport.close()

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class PromptServer(uvicorn.Server):
    """A server that sleeps until it is told to leave, and leaves at once if nobody is being answered.

    uvicorn itself looks ten times a second whether it is to leave, and then waits a tenth of a second for
    connections to close: whoever waits for a job would wait for its page, too.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave = asyncio.Event()

    def leave(self) -> None:
        """Answer what is under way, then be gone. From any thread, at any time."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # its loop is closed: it has left
                self._loop.call_soon_threadsafe(self._leave.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.leave()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([_Doorway(door) for door in sockets or ()])

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._loop = asyncio.get_running_loop()
        if not self.should_exit:  # looked at behind _loop is set: leave() does the two in the other order
            await self._leave.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            server.close()
        for door in sockets or ():
            door.close()
        for server in self.servers:
            await server.wait_closed()


class Server:
    """Serves some doors. :meth:`run` is the thread's work; :meth:`stop` may be called from any."""

    def __init__(self, plane: Plane, doors: Sequence[tuple[Door, Guard]]) -> None:
        self._share = Share(SystemClock())
        self._servers = [
            (PromptServer(config_for(build(plane, guard, self._share), door)), door) for door, guard in doors
        ]

    def run(self) -> None:
        """Serve until told to stop."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        await asyncio.gather(*(server.serve(sockets=[door.socket]) for server, door in self._servers))

    def stop(self) -> None:
        """Answer what is under way, then be gone."""
        self._share.end()
        for server, _ in self._servers:
            server.leave()


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
