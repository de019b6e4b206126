"""Clients that asked for a snapshot of the job: a future for each answer."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future

from penstock.coordinator.events import Answer
from penstock.coordinator.ports import Clients
from penstock.core.errors import SnapshotError


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
        found = f"{root}/{where}" if answer.request.location is None else where
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
