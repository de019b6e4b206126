"""Writes a job's archive when it ends; whatever fails here, the end of the job is as it would have been."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.coordinator.running_job import RunningJob
from penstock.core.archive_options import ARCHIVE_DIR, ARCHIVES_RETAINED
from penstock.core.clock import Clock, SystemClock
from penstock.core.config import Configuration
from penstock.core.discreet import log_of, shown
from penstock.core.job import JobStatus
from penstock.core.secret_fields import secret_fields
from penstock.core.written import WRITTEN
from penstock.rest.archive import archive_of
from penstock.rest.archive_files import archive_path, remove_beyond
from penstock.rest.look import Look
from penstock.rest.plane import Plane
from penstock.storage.contract import first_line
from penstock.storage.places import normalise, storage_of

_log = log_of(__name__)
PATIENCE_S = 20.0
"""How long the end of a job waits for a store that is slow; it writes on for as long as the program lives."""


def archive_at_end(
    running: RunningJob, look: Callable[[], Look] | None = None, clock: Clock | None = None
) -> None:
    """Have a job archived when it ends, if a directory is set; ``look`` if something looks at it anyway.

    Call it before anything that closes what ``look`` needs listens for the end of the job.
    """
    directory = running.job.configuration.get(ARCHIVE_DIR)
    if not directory or running.job.is_aside:
        return
    archiver = _Archiver(running.job.plan.job_name, running.job.configuration)
    if look is None:
        own = Plane(running, clock or SystemClock())
        archiver.look, archiver.close = own.look, own.close
    else:
        archiver.look = look
    running.listeners.append(archiver.ended)
    running.result().add_done_callback(lambda _: archiver.ended(running.status()))


def write_archive(look: Look, configuration: Configuration) -> str:
    """Write the archive of a job that has ended, whole or not at all, and remove those that are too many."""
    directory = normalise(configuration.get(ARCHIVE_DIR) or "")
    ended = look.now if look.history.ended_ms is None else look.history.ended_ms
    path = archive_path(directory, look.job_id, ended)
    log = secret_fields(look.plan.settings.secret_fields).shown_lines(WRITTEN.taken().log)
    storage_of(path, own=True).create_new(path, archive_of(look, log=log))
    kept = configuration.get(ARCHIVES_RETAINED)
    if kept > 0:
        remove_beyond(directory, kept)
    return path


class _Archiver:
    """Does it once, however often it is told."""

    look: Callable[[], Look]

    def __init__(self, name: str, configuration: Configuration) -> None:
        self.close: Callable[[], None] = lambda: None
        """Called when there is nothing more to look at."""
        self._name = name
        self._configuration = configuration
        self._once = threading.Lock()

    def ended(self, status: JobStatus) -> None:
        """The job has ended; returns when it is archived, or cannot be, or takes too long."""
        if not self._once.acquire(blocking=False):
            return
        done = threading.Event()
        threading.Thread(target=self._write, args=(done,), daemon=True, name="penstock-archive").start()
        if not done.wait(PATIENCE_S):
            self._warn(f"its store has not answered for {PATIENCE_S:g} s")

    def _write(self, done: threading.Event) -> None:
        try:
            path = write_archive(self.look(), self._configuration)
            _log.debug("job %r is archived at %s", self._name, path)
        except Exception as error:
            self._warn(shown(first_line(error)))
        finally:
            self.close()
            done.set()

    def _warn(self, why: str) -> None:
        _log.warning(
            "job %r is not archived: %s. Check %s; the job itself has ended as it would have",
            self._name,
            why,
            ARCHIVE_DIR.key,
        )
