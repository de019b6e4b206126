"""The runner's side of what people ask for: a place for each savepoint, and a future for each answer."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future

from penstock.coordinator.events import Answer, RequestKind
from penstock.core.errors import ConfigError, SnapshotError
from penstock.snapshot.paths import METADATA
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store

_JOB_DIGITS = 6
_RANDOM_BYTES = 6


class RequestBook:
    """Open requests and their futures.  Thread-safe; every future is resolved, at the latest by ``close``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[str]] = {}
        self._closed: Exception | None = None

    def enter(self) -> tuple[str, Future[str]]:
        """A new request's id and its future; failed already if the job has ended."""
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
        """Resolve a request; ``root`` is where the job's checkpoints are."""
        if answer.error is not None:
            self.fail(answer.request.id, answer.error)
            return
        where = answer.where or ""
        found = f"{root}/{where}" if answer.request.kind is RequestKind.CHECKPOINT else where
        future = self._take(answer.request.id)
        if future is not None:
            future.set_result(found)

    def fail(self, request: str, error: Exception) -> None:
        """The request came to nothing."""
        future = self._take(request)
        if future is not None:
            future.set_exception(error)

    def close(self) -> None:
        """The job is over; whatever is open or comes later is told so."""
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


def savepoint_place(directory: str | None, default: str | None, job_id: str, job_root: str) -> str:
    """The URL of a new savepoint's own directory; it is there and can be written when this returns."""
    chosen = directory or default
    if chosen is None:
        raise ConfigError(
            "the savepoint needs a directory: name one, or set execution.checkpointing.savepoint-dir"
        )
    parent = open_store(chosen)
    if f"{parent.url}/".startswith(f"{job_root}/"):
        raise ConfigError(
            f"{chosen} lies in the directory of the job's checkpoints, which the job empties when it ends; "
            f"choose another directory for savepoints"
        )
    name = f"savepoint-{job_id[:_JOB_DIGITS]}-{secrets.token_hex(_RANDOM_BYTES)}"
    return open_store(parent.sub(name).url).url


def discard_unfinished(place: SnapshotStore) -> None:
    """Remove what tasks wrote for a savepoint that was given up before it had a manifest."""
    if not place.exists(METADATA):
        place.delete_tree()
