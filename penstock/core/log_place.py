"""Where in a job a line of the log comes from: job, attempt, vertex and subtask.

A thread knows its own place; one that was told nothing has that of the process, which a worker has and a
driver, with its many jobs, has not.  The loop of a slot names the task whose turn it is: a store in a
thread-local, and nothing else, as long as nobody logs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LogPlace:
    """``None`` where it is not known."""

    job: str | None = None
    """The job's name."""
    attempt: int | None = None
    """Counted from 0."""
    vertex: str | None = None
    subtask: int | None = None


FIELDS = ("job", "attempt", "vertex", "subtask")
_NOWHERE = LogPlace()
_process = _NOWHERE


class _Here(threading.local):
    place: LogPlace | None = None
    task: tuple[str, int] | None = None
    """Vertex and subtask whose turn it is."""


_here = _Here()


def at_task(task: tuple[str, int] | None) -> None:
    """From now on this thread runs a subtask of this vertex, or none."""
    _here.task = task


def at_attempt(attempt: int) -> None:
    """What this thread does is for this attempt from now on, if it works for a job."""
    if _here.place is not None:
        _here.place = replace(_here.place, attempt=attempt)


def at_job(job: str, attempt: int | None = None) -> None:
    """From now on this thread works for this job, to its end: for threads of our own."""
    _here.place = LogPlace(job, attempt)


@contextmanager
def placed(place: LogPlace, whole_process: bool = False) -> Iterator[None]:
    """What this thread logs is from there; so is what other threads log, if the process is all for that."""
    global _process
    before = _here.place, _here.task, _process
    _here.place, _here.task = place, None
    if whole_process:
        _process = place
    try:
        yield
    finally:
        _here.place, _here.task, _process = before


def place_now() -> LogPlace:
    """Where this thread is."""
    place = _here.place or _process
    task = _here.task
    return place if task is None else replace(place, vertex=task[0], subtask=task[1])


class PlaceFilter(logging.Filter):
    """Lets every record pass, with the fields :data:`FIELDS`; those it has already stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        place = place_now()
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, getattr(place, name))
        return True
