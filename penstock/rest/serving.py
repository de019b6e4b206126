"""Starts the control plane beside a job and ends it with the job; whatever fails here, the job runs on.

The port is open when :func:`serve` returns, so its address can be told.  The server's libraries are loaded on
the thread that serves: a job does not wait for them.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from penstock.coordinator.running_job import RunningJob
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.rest_options import REST_ENABLED
from penstock.rest.doors import Door, open_door, token_of
from penstock.rest.guard import Guard, Sessions
from penstock.rest.plane import Plane, Room

_log = log_of(__name__)
_CLOSE_S = 5.0


class Serving:
    """A job's control plane at work."""

    def __init__(self, plane: Plane, door: Door, token: str, clock: Clock) -> None:
        self.url = door.url
        self.token = token
        self.sessions = Sessions(clock)
        self.is_ready = threading.Event()
        """Set once requests are answered, or never will be."""
        self.failed: Exception | None = None
        self._plane = plane
        self._door = door
        self._server: Any = None
        self._closed = False
        self._guard = Guard(
            token,
            self.sessions,
            cookie=f"penstock-{door.port}",
            scheme=door.scheme,
            hosts=door.hosts,
            read_only=plane.read_only,
        )
        self._thread = threading.Thread(target=self._run, daemon=True, name="penstock-rest")
        self._thread.start()

    def link(self) -> str:
        """An address for a browser, good once and for two minutes."""
        return f"{self.url}/?code={self.sessions.new_code()}"

    def close(self) -> None:
        """Be gone, once clients that wait for an outcome were told. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        self._plane.requests.linger()
        self._plane.close()
        if self._server is not None:
            self._server.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)
        self._door.socket.close()

    def _run(self) -> None:
        try:
            library = importlib.import_module("penstock.rest.server")
            self._server = library.Server(self._plane, self._door, self._guard)
            self._server.ready = self.is_ready
            if not self._closed:
                self._server.run()
        except BaseException as error:
            self.failed = error if isinstance(error, Exception) else RuntimeError(repr(error))
            if not self._closed:
                _log.warning(
                    "job %r has no page and no REST, and runs on: %s: %s",
                    self._plane.running.job.plan.job_name,
                    type(error).__name__,
                    error,
                )
        finally:
            self.is_ready.set()
            self._door.socket.close()


def serve(
    running: RunningJob,
    room: Room | None = None,
    limit: tuple[int, str] | None = None,
    clock: Clock | None = None,
) -> Serving | None:
    """Serve a job's control plane until it ends; ``None``, with a warning, where that cannot be."""
    configuration, name = running.job.configuration, running.job.plan.job_name
    if not configuration.get(REST_ENABLED):
        return None
    try:
        token = token_of(configuration)
        door = open_door(configuration)
    except Exception as error:
        _log.warning("job %r has no page and no REST, and runs on: %s", name, error)
        return None
    if door.wanted not in (0, door.port):
        _log.info("job %r: port %d is taken, its page is on %d", name, door.wanted, door.port)
    _log.info("job %r: the page and REST are at %s; `penstock ui` opens them", name, door.url)
    time = clock or SystemClock()
    return Serving(Plane(running, time, room, limit), door, token, time)
