"""Starts the control plane beside a job and ends it with the job; whatever fails here, the job runs on.

One server, one table of calls, two doors: that of the page and of REST, as the settings say, and that of the
command line, a socket which only its user can reach, always.  What is wrong with the first (a port that is
forbidden, a key that cannot be read, read-only mode) keeps nobody from stopping the job by the second.

The port is open when :func:`serve` returns, so its address can be told.  The server's libraries are loaded on
the thread that serves, when somebody first knocks: a job that nobody asks about does not pay for them.
"""

from __future__ import annotations

import importlib
import selectors
import socket
import threading
from typing import Any

from penstock.coordinator.registry import Registration
from penstock.coordinator.running_job import RunningJob
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import log_of
from penstock.core.rest_options import REST_ENABLED
from penstock.rest.doors import Door, open_door, private_door, token_of
from penstock.rest.guard import Guard, Sessions
from penstock.rest.look import Look
from penstock.rest.plane import Plane

_log = log_of(__name__)
_CLOSE_S = 5.0


class Serving:
    """A job's control plane at work: the page and REST if they have a door, and that of the command line."""

    def __init__(
        self,
        plane: Plane,
        clock: Clock,
        public: tuple[Door, str] | None,
        registration: Registration | None = None,
    ) -> None:
        """``public`` is the door of the page and REST with its token."""
        self.url = "" if public is None else public[0].url
        self.token = "" if public is None else public[1]
        self.sessions = Sessions(clock)
        self.failed: Exception | None = None
        self._plane = plane
        self._registration = registration
        self._server: Any = None
        self._closed = False
        self._bell, self._rung = socket.socketpair()  # wakes the thread that waits for a first client
        self._doors: list[tuple[Door, Guard]] = []
        if public is not None:
            plane.link = self.link
            self._admit(*public, read_only=plane.read_only)
        if registration is not None:
            private = private_door(registration.socket)
            self._admit(private, registration.entry.token, private=True, browsers_read_only=plane.read_only)
        self._thread = threading.Thread(target=self._run, daemon=True, name="penstock-rest")
        self._thread.start()

    def _admit(self, door: Door, token: str, **who: bool) -> None:
        cookie = f"penstock-{door.port}"
        guard = Guard(token, self.sessions, cookie=cookie, scheme=door.scheme, hosts=door.hosts, **who)
        self._doors.append((door, guard))

    def link(self) -> str:
        """An address for a browser, good once and for two minutes."""
        return f"{self.url}/?code={self.sessions.new_code()}"

    def look(self) -> Look:
        """The job as it is now."""
        return self._plane.look()

    def close(self) -> None:
        """Be gone, once clients that wait for an outcome were told. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        self._plane.requests.linger()
        if self._registration is not None:
            self._registration.close()  # before the server is gone: nobody finds what no longer answers
        self._plane.close()
        self._bell.close()
        if self._server is not None:
            self._server.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)
        self._shut()

    def _shut(self) -> None:
        for door, _ in self._doors:
            door.socket.close()

    def _run(self) -> None:
        try:
            self._await_client()
            if self._closed:
                return
            library = importlib.import_module("penstock.rest.server")
            self._server = library.Server(self._plane, self._doors)
            if not self._closed:
                self._server.run()
        except BaseException as error:
            self.failed = error if isinstance(error, Exception) else RuntimeError(repr(error))
            if not self._closed:
                _log.warning(
                    "job %r has no page and no REST, hears no penstock command, and runs on: %s: %s",
                    self._plane.running.job.plan.job_name,
                    type(error).__name__,
                    error,
                )
        finally:
            self._rung.close()
            self._shut()

    def _await_client(self) -> None:
        """Return when somebody waits at a door, or :meth:`close` was called."""
        with selectors.DefaultSelector() as selector:
            for door, _ in self._doors:
                selector.register(door.socket, selectors.EVENT_READ)
            selector.register(self._rung, selectors.EVENT_READ)
            selector.select()


def serve(
    running: RunningJob,
    clock: Clock | None = None,
    registration: Registration | None = None,
) -> Serving | None:
    """Serve a job's control plane until it ends; ``None``, with a warning, where that cannot be.

    The command line is served at the place of ``registration``, whatever the settings say of the page.
    """
    public = _public(running)
    if public is None and registration is None:
        return None
    time = clock or SystemClock()
    serving = Serving(Plane(running, time), time, public, registration)
    if registration is not None:
        registration.publish(serving.url, serving.token)
    return serving


def _public(running: RunningJob) -> tuple[Door, str] | None:
    """The door of the page and REST, and its token, if the settings want it and it can be had."""
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
    return door, token
