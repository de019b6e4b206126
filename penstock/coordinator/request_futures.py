"""Clients that asked for a snapshot of the job: a future for each answer.

A request over the listener gives a number at once, and its outcome is asked for later: an exchange there is
short, a snapshot may take minutes.  When the job ends, its driver waits a moment for clients that have not
fetched how a request went.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from penstock.coordinator.events import Answer, RequestKind
from penstock.coordinator.ports import Clients
from penstock.core.errors import ConfigError, SnapshotError


class ClientFutures(Clients):
    """Open requests and their futures.  Every future is resolved, at the latest by ``close``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[str]] = {}
        self._closed: Exception | None = None

    def enter(self) -> tuple[str, Future[str]]:
        name = secrets.token_hex(8)
        future: Future[str] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._closed is None:
                self._open[name] = future
                return name, future
        future.set_exception(self._closed)
        return name, future

    def answer(self, answer: Answer, root: str) -> None:
        if answer.error is not None:
            self.fail(answer.request.id, answer.error)
            return
        where = answer.where or ""
        found = f"{root}/{where}" if answer.request.kind is RequestKind.CHECKPOINT else where
        future = self._take(answer.request.id)
        if future is not None:
            future.set_result(found)

    def fail(self, request: str, error: Exception) -> None:
        future = self._take(request)
        if future is not None:
            future.set_exception(error)

    def close(self) -> None:
        ended = SnapshotError("the job has ended")
        with self._lock:
            self._closed = ended
            left = list(self._open.values())
            self._open.clear()
        for future in left:
            future.set_exception(ended)

    def _take(self, request: str) -> Future[str] | None:
        with self._lock:
            return self._open.pop(request, None)


Ask = Callable[[str, str | None], tuple[str, Future[str]]]
"""Kind of request (see ``RequestKind``) and directory, to the request's id and the snapshot's place."""

LINGER_S = 3.0
"""How long the end of a job waits for a client to fetch an outcome."""
_KEPT = 100


class RemoteRequests:
    """Requests made through the listener. Thread-safe."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._changed = threading.Condition()
        self._futures: dict[str, Future[str]] = {}
        self._untold: set[str] = set()

    def request(self, kind: str, directory: str | None = None) -> dict[str, Any]:
        """Begin; the answer holds the number to ask with."""
        if self._ask is None:
            raise ConfigError("this driver takes no snapshots on request")
        name, future = self._ask(kind, directory)
        with self._changed:
            self._futures[name] = future
            self._untold.add(name)
            for old in list(self._futures)[:-_KEPT]:
                del self._futures[old]
                self._untold.discard(old)
        return {"request": name}

    def outcome(self, number: str) -> dict[str, Any]:
        """How a request stands."""
        with self._changed:
            future = self._futures.get(number)
        if future is None:
            raise ConfigError(f"nobody made request {number!r} here")
        if not future.done():
            return {"state": "waiting"}
        with self._changed:
            self._untold.discard(number)
            self._changed.notify_all()
        error = future.exception()
        if error is not None:
            return {"state": "failed", "error": str(error)}
        return {"state": "done", "location": future.result()}

    def linger(self) -> None:
        """Wait until every outcome was fetched, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._untold, LINGER_S)
