"""The thread between a job and a listener.

It looks at what the job keeps anyway, a bounded number of entries, and remembers how many it has told.  So
there is no queue that could grow, and the job's thread only says that there is something new.
A process that ends waits a moment for listeners that have not heard the end of a job.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any

from penstock.common.job_client import JobHandle
from penstock.common.job_listener import JobIdle, JobListener, JobProgressed, JobStarted, JobTerminated
from penstock.core.clock import SystemClock
from penstock.core.discreet import log_of
from penstock.core.job import JobStatus

_log = log_of(__name__)
_LAST_WORDS_S = 2.0
_at_work: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class Listening:
    """Tells one listener of one job until it ends."""

    def __init__(self, listener: JobListener, handle: JobHandle) -> None:
        self._listener = listener
        self._handle = handle
        self._news = threading.Event()
        self._told = 0
        self._warned: set[str] = set()
        self.thread = threading.Thread(target=self._run, daemon=True, name="penstock-listener")

    def start(self) -> None:
        """Begin; what has happened to the job by now is told, too."""
        self._handle.on_progress(self._news.set)
        self._handle.result().add_done_callback(lambda _: self._news.set())
        _at_work.add(self.thread)
        self.thread.start()

    def _run(self) -> None:
        view = self._handle.view()
        started = JobStarted(view.job_id, view.run_id, view.name, view.started)
        self._tell(self._listener.on_started, started)
        over = False
        while not over:
            self._news.wait()
            self._news.clear()
            over = self._handle.result().done()  # asked first: what came before the end is told before it
            self._tell_progress()
        self._tell_end()

    def _tell_progress(self) -> None:
        total, entries = self._handle.progress(self._told)
        if total - self._told > len(entries):
            missed = total - self._told - len(entries)
            self._warn("slow", f"is too slow: it has missed {missed} checkpoints, and may miss more")
        self._told = total
        for entry in entries:
            if entry["numInputRows"]:
                self._tell(self._listener.on_progress, JobProgressed(entry))
            else:
                idle = JobIdle(entry["id"], entry["runId"], entry["timestamp"])
                self._tell(self._listener.on_idle, idle)

    def _tell_end(self) -> None:
        view = self._handle.view()
        error = view.error if view.status is JobStatus.FAILED else None
        ended = JobTerminated(view.job_id, view.run_id, view.name, view.status, error)
        self._tell(self._listener.on_terminated, ended)

    def _tell(self, method: Callable[[Any], object], event: object) -> None:
        try:
            method(event)
        except BaseException as error:  # also SystemExit: it would end this thread without a word
            self._warn("raised", f"has raised {type(error).__name__} and goes on hearing", error)

    def _warn(self, kind: str, what: str, error: BaseException | None = None) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            name = type(self._listener).__name__
            _log.warning("the listener %s of job %r %s", name, self._handle.view().name, what, exc_info=error)


def _let_them_hear() -> None:
    clock = SystemClock()
    until = clock.monotonic() + _LAST_WORDS_S
    for thread in list(_at_work):
        thread.join(max(0.0, until - clock.monotonic()))


atexit.register(_let_them_hear)
