"""Snapshots asked for from outside: a request gives a number at once, its outcome is asked for later.

An exchange over the listener is short, a snapshot may take minutes.  When the job ends, its driver waits a
moment for clients that have not fetched how a request went.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from penstock.core.errors import ConfigError

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
