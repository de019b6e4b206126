"""Hears of the jobs of a program: that they start, come forward, wait for input, and end.

What Spark's ``StreamingQueryListener`` is to its queries.  ``env.add_listener()`` takes one; each job and
listener have a thread of their own (``_listening.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.core.job import JobStatus

__all__ = ["JobIdle", "JobListener", "JobProgressed", "JobStarted", "JobTerminated"]


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job was started.

    >>> JobStarted("0" * 32, "1" * 32, "orders", "2026-01-01T00:00:00.000Z").name
    'orders'
    """

    id: str
    """The job's id: the same whenever it is started again under its name."""
    run_id: str
    """Of this run alone, restarts after failures included."""
    name: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class JobProgressed:
    """A checkpoint is complete, and there is something in it.

    >>> JobProgressed({"batchId": 7, "numInputRows": 1000}).progress["batchId"]
    7
    """

    progress: dict[str, Any]
    """As in ``JobClient.last_progress``."""


@dataclass(frozen=True, slots=True)
class JobIdle:
    """A checkpoint is complete, and nothing was read since the one before.

    >>> JobIdle("0" * 32, "1" * 32, "2026-01-01T00:00:00.000Z").timestamp
    '2026-01-01T00:00:00.000Z'
    """

    id: str
    run_id: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class JobTerminated:
    """A job has ended.

    >>> JobTerminated("0" * 32, "1" * 32, "orders", JobStatus.FINISHED, None).status.name
    'FINISHED'
    """

    id: str
    run_id: str
    name: str
    status: JobStatus
    exception: str | None
    """What it failed with, in words; ``None`` if it did not fail."""


class JobListener:
    """Override what you want to hear; ``env.add_listener(...)`` before ``execute``.

    Methods are called one after the other, on a thread of this listener and job: ``on_started`` first,
    ``on_terminated`` last.  The job never waits for them and never fails with them.  What is raised is told
    once, in the log.  Who is so slow that more than a hundred checkpoints complete meanwhile misses some.

    >>> class Ends(JobListener):
    ...     def __init__(self):
    ...         self.heard = []
    ...     def on_terminated(self, event):
    ...         self.heard.append(event.status.name)
    >>> env.add_listener(Ends()).from_collection([1, 2]).execute_and_collect(limit=2)
    [1, 2]
    """

    def on_started(self, event: JobStarted) -> None:
        """A job was started; its slots may not run yet."""

    def on_progress(self, event: JobProgressed) -> None:
        """A checkpoint is complete; or the job has finished, and read something behind the last one."""

    def on_idle(self, event: JobIdle) -> None:
        """In place of ``on_progress``: nothing was read since the checkpoint before."""

    def on_terminated(self, event: JobTerminated) -> None:
        """The job has ended: it finished, failed for good, or was cancelled."""
