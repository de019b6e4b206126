"""Serves the page of all jobs until it is told to stop: what ``penstock ui`` does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from penstock.core.clock import Clock, SystemClock
from penstock.core.config import Configuration
from penstock.core.rest_options import REST_READ_ONLY
from penstock.rest.all_jobs import AllJobs
from penstock.rest.archive_reader import Archives
from penstock.rest.doors import open_door, token_of
from penstock.rest.guard import Guard, Sessions
from penstock.rest.server import PromptServer, config_for
from penstock.rest.ui_app import build_ui


class UiServer:
    """The page of all jobs, behind the guard that every job's page has."""

    def __init__(
        self, configuration: Configuration, archives: Sequence[str], clock: Clock | None = None
    ) -> None:
        """Listens from here on."""
        time = clock or SystemClock()
        self.token = token_of(configuration)
        self._door = open_door(configuration)
        self.url, self.port, self.wanted = self._door.url, self._door.port, self._door.wanted
        self.sessions = Sessions(time)
        self.is_ready = threading.Event()
        read_only = bool(configuration.get(REST_READ_ONLY))
        guard = Guard(
            self.token,
            self.sessions,
            cookie=f"penstock-{self.port}",
            scheme=self._door.scheme,
            hosts=self._door.hosts,
            read_only=read_only,
        )
        app = build_ui(AllJobs(Archives(archives, time), time), guard, read_only)
        self._server = PromptServer(config_for(app, self._door))

    def link(self) -> str:
        """An address for a browser, good once and for two minutes."""
        return f"{self.url}/?code={self.sessions.new_code()}"

    def run(self) -> None:
        """Serve until :meth:`stop`, or on the main thread until a signal."""
        try:
            asyncio.run(self._serve())
        finally:
            self._door.socket.close()

    def stop(self) -> None:
        """Answer what is under way, then be gone."""
        self._server.leave()

    async def _serve(self) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._door.socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self.is_ready.set()
        await serving
