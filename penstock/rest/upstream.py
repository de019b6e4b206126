"""Calls from ``penstock ui`` to the driver of one running job, for a browser that may not know its token.

They go by the door of the command line: a socket in the user's private directory, which can only be the
driver's, whatever its page listens on.  So no token and no session crosses a port, there is no certificate to
believe in, and a driver whose page is at an address of another interface is reached as any other.  What the
page may not do (``penstock.rest.read-only``) is refused there, too.
"""

from __future__ import annotations

import asyncio

from penstock.coordinator.asking import Answer
from penstock.coordinator.registry import Entry
from penstock.core.errors import TransportError
from penstock.rest.look import Refused

PATIENCE_S = 25.0
"""Shorter than a browser's request may take here, so that it gets an answer that says why there is none."""
MOST_BYTES = 32 << 20
SILENT = 502
_AT_ONCE = 8
_KINDS = ("application/json", "text/plain")
"""What is passed on: a driver's pages and scripts are not, they come from here."""


class Upstream:
    """One driver. Thread-safe; every call has a connection of its own."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.turns = asyncio.Semaphore(_AT_ONCE)
        """So many of its calls at a time: one that hangs keeps nobody from the others."""

    def ask(
        self, method: str, target: str, body: bytes | None = None, patience_s: float = PATIENCE_S
    ) -> Answer:
        """What the driver answers; 502 if it does not. ``target`` is a path with its query."""
        try:
            said = self.entry.for_browser(method, target, body, patience_s, MOST_BYTES)
        except TransportError as error:
            name, pid = self.entry.name, self.entry.pid
            raise Refused(SILENT, f"the driver of job {name!r} (pid {pid}) does not answer") from error
        return _passed_on(said)


def _passed_on(said: Answer) -> Answer:
    kind = said.kind.partition(";")[0].strip().lower()
    if said.status < 400 and kind not in _KINDS:
        raise Refused(404, "there is nothing of that name at the driver")
    return said if kind in _KINDS else Answer(said.status, "text/plain", said.body)
