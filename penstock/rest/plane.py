"""The control plane of one job: what requests look at, and what they may do to it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.coordinator.running_job import RunningJob
from penstock.core.clock import Clock, SystemClock
from penstock.core.discreet import shown
from penstock.core.process_facts import ProcessFacts
from penstock.core.rest_options import REST_READ_ONLY
from penstock.core.written import WRITTEN
from penstock.rest.look import Look, Process, Refused
from penstock.rest.requests import Requests
from penstock.snapshot.storage import MemoryStore

_SAMPLE_EVERY_S = 2.0
_DRIVER_EVERY_S = 1.0
_NUMBERS = ("restarts", "late_dropped", "outputs_dropped")


class Plane:
    """Made once for each job; every method may be called from any thread."""

    def __init__(
        self,
        running: RunningJob,
        clock: Clock,
    ) -> None:
        self.running = running
        self.clock = clock
        self.read_only = bool(running.job.configuration.get(REST_READ_ONLY))
        self.requests = Requests(running.request, running.rescale, running.status)
        self.link: Callable[[], str] | None = None
        """Makes an address of the page that lets one browser in, if there is a page."""
        self._sampling = threading.Lock()
        self._sample_again = 0.0
        self._measuring = contextlib.ExitStack()
        self._host = socket.gethostname()
        self._driver_again = 0.0
        self._driver_seen = Process()
        self._process = self._measuring.enter_context(ProcessFacts(SystemClock()))
        self._measuring.enter_context(WRITTEN.kept())

    def look(self) -> Look:
        """The job as it is now."""
        running, job = self.running, self.running.job
        facts = {} if job.plan.settings.batch else running.facts()  # of a BATCH job they ask Spark
        numbers = {name: facts[name] for name in _NUMBERS if name in facts}
        memory = isinstance(job.store, MemoryStore)
        history = running.history.view()
        return Look(
            job.job_id.hex,
            history.plan,
            job.settings,
            job.configuration,
            history,
            running.status(),
            self.clock.now_ms(),
            None if memory else job.repository.root.url,
            self.read_only,
            self._driver(),
            numbers,
        )

    def facts(self) -> dict[str, Any]:
        """What lists show."""
        return self.running.facts()

    def cancel(self) -> None:
        """Ask for the end of the job; refused if it has ended."""
        status = self.running.status()
        if status.is_terminal_state():
            raise Refused(409, f"the job is {status.name} already")
        self.running.cancel()

    def sample(self) -> None:
        """Have the slots look what they spend their time with; not again before they have had the time."""
        with self._sampling:
            now = self.clock.monotonic()
            if now < self._sample_again:
                return
            self._sample_again = now + _SAMPLE_EVERY_S
        self.running.sample()

    def close(self) -> None:
        """The job has ended and everybody was told."""
        self._measuring.close()

    def _driver(self) -> Process:
        """The system is asked once a second, however many look."""
        now = self.clock.monotonic()
        if now >= self._driver_again:
            self._driver_again = now + _DRIVER_EVERY_S
            self._driver_seen = Process.of(self._process.now(), self._host, *_memory())
        return self._driver_seen


def _memory() -> tuple[int, int]:
    """Bytes that this process uses, and that the machine has; zeros where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        page = os.sysconf("SC_PAGE_SIZE")
        used = int(Path("/proc/self/statm").read_text().split()[1]) * page
        return used, os.sysconf("SC_PHYS_PAGES") * page
    return 0, 0


def stacks() -> dict[str, str]:
    """Where every thread of this process is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        f"{names.get(number, 'unknown')} ({number})": shown("".join(traceback.format_stack(frame)))
        for number, frame in sys._current_frames().items()
    }
