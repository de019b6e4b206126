"""All jobs of this user on this machine: what runs, from the registry, and what has ended, from archives.

A run has a key of its own, which stays when its driver goes and its archive comes: a page that shows it
goes on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.coordinator.registry import Entry, entries
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.rest.archive import OVERVIEW
from penstock.rest.archive_reader import Archives
from penstock.rest.archived_job import ArchivedJob, run_key
from penstock.rest.look import Refused
from penstock.rest.upstream import Upstream

LIST_S = 5.0
"""How long a driver may take to say what its job does, for the list."""
KEPT_S = 1.0
"""How long a list is good for: many browsers ask as seldom as one."""
_MOST_GONE = 1000

Run = Upstream | ArchivedJob


class _Running:
    """A driver, and what it said last."""

    def __init__(self, entry: Entry) -> None:
        self.upstream = Upstream(entry)
        self.key = run_key(entry.id, entry.started_ms)
        self.line: dict[str, Any] = {
            "jid": entry.id,
            "name": entry.name,
            "state": "UNKNOWN",
            "start-time": entry.started_ms,
            "end-time": -1,
        }

    def ask(self) -> None:
        """Bring the line up to date, if the driver answers."""
        entry = self.upstream.entry
        try:
            if not entry.rest:
                self.line |= {"state": (entry.status() or {}).get("status", "UNKNOWN")}
                return
            (found,) = json.loads(self.upstream.ask("GET", OVERVIEW, patience_s=LIST_S).body)["jobs"]
            self.key = run_key(entry.id, int(found["start-time"]))
            self.line = {**found, "jid": entry.id, "name": entry.name}
        except (Refused, ValueError, KeyError, TypeError, RecursionError):
            self.line |= {"state": "UNKNOWN"}


class AllJobs:
    """Thread-safe."""

    def __init__(
        self, archives: Archives, clock: Clock, found: Callable[[], Iterable[Entry]] = entries
    ) -> None:
        self.archives = archives
        self._clock = clock
        self._found = found
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._running: dict[tuple[str, int, int], _Running] = {}
        self._again = clock.monotonic()
        self._has_looked = False
        self._gone: dict[str, str] = {}

    def lines(self) -> list[dict[str, Any]]:
        """Every run as lists show it, with the address of its page; a run that has both is what runs."""
        self._look()
        with self._lock:
            made = {one.key: (one.line, bool(one.upstream.entry.rest)) for one in self._running.values()}
        for job in self.archives.jobs():
            made.setdefault(job.key, (dict(job.line), True))
        return [
            {**line, "penstock-page": f"at/{key}/" if has_page else ""}
            for key, (line, has_page) in made.items()
        ]

    def find(self, key: str) -> Run:
        """A run by its key, or the newest one of a job by the job's id; 404 or 410 if there is none."""
        self._look()
        with self._lock:
            known = list(self._running.values())
        named = [one for one in known if one.key == key]
        named = named or [one for one in reversed(known) if one.upstream.entry.id == key]
        if named:
            return named[0].upstream
        archived = self.archives.open(key) or self._newest(key)
        if archived is not None:
            return archived
        if key in self._gone:
            raise Refused(
                410, f"the driver of job {self._gone[key]!r} is gone, and there is no archive of it"
            )
        raise Refused(404, f"no job {key} runs here, and no archive has it")

    def _newest(self, job_id: str) -> ArchivedJob | None:
        ended = [job for job in self.archives.jobs() if job.line["jid"] == job_id]
        newest = max(ended, key=lambda job: int(job.line["end-time"]), default=None)
        return None if newest is None else self.archives.open(newest.key)

    def _look(self) -> None:
        """Ask all drivers, if it is time and nobody does; else what is known is new enough."""
        if not self._looking.acquire(blocking=not self._has_looked):
            return
        try:
            if self._clock.monotonic() >= self._again:
                self._refresh()
                self._has_looked = True
                self._again = self._clock.monotonic() + KEPT_S
        finally:
            self._looking.release()

    def _refresh(self) -> None:
        try:
            found = list(self._found())
        except PenstockError as error:
            raise Refused(503, str(error)) from error
        with self._lock:
            before = self._running
        now = {
            (entry.id, entry.pid, entry.started_ms): before.get((entry.id, entry.pid, entry.started_ms))
            or _Running(entry)
            for entry in found
        }
        if now:
            with ThreadPoolExecutor(min(len(now), 16), "penstock-ui") as pool:
                list(pool.map(_Running.ask, now.values()))
        gone = [one for place, one in before.items() if place not in now]
        if gone:
            self.archives.look_soon()
        with self._lock:
            self._running = now
            self._gone |= {one.key: one.upstream.entry.name for one in gone}
            for old in list(self._gone)[:-_MOST_GONE]:
                del self._gone[old]
