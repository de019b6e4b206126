"""PyFlink's ``common.job_client``: the handle of a running job.

``env.execute_async()`` returns a :class:`JobClient`.  What really steers the job is the
:class:`JobHandle` behind it, made by whoever runs the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from penstock.common._job_view import JobView
from penstock.common._showing import checked_pace, show
from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.core.job import JobID, JobStatus

__all__ = ["JobClient", "JobHandle"]


class JobHandle(Protocol):
    """What a job's runner offers. Methods may be called from any thread and must not block."""

    @property
    def job_id(self) -> JobID:
        """Which job it is."""
        ...

    def status(self) -> JobStatus:
        """Where the job is in its life."""
        ...

    def cancel(self) -> Future[None]:
        """Stop the job without a snapshot; done when it has stopped."""
        ...

    def interrupt(self) -> Future[None]:
        """Stop the job as Ctrl-C does: what it could go on from is kept; done when it has stopped."""
        ...

    def what_is_kept(self) -> str:
        """What an interrupted job could go on from, and how, in one line."""
        ...

    def result(self) -> Future[JobExecutionResult]:
        """Done when the job has; fails if the job did."""
        ...

    def trigger_savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint while the job goes on; its path."""
        ...

    def stop_with_savepoint(self, drain: bool, directory: str | None) -> Future[str]:
        """Take a savepoint and end the job; its path."""
        ...

    def progress(self, told: int = 0) -> tuple[int, list[dict[str, Any]]]:
        """How many entries there have been, and those behind the first ``told`` that are kept."""
        ...

    def on_progress(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called when there is another entry. It must not block."""
        ...

    def view(self) -> JobView:
        """The job as people see it."""
        ...

    def page_link(self) -> str | None:
        """An address of its page that lets one browser in, if it has a page."""
        ...


class JobClient:
    """Steers a running job; from ``env.execute_async()``. Safe to use from any thread.

    Methods return at once, with a future: ``client.trigger_savepoint("/backup").result()`` waits.

    >>> def run(stream):
    ...     stream.print()
    ...     client = env.execute_async("two numbers")
    ...     client.get_job_execution_result().result()  # waits for the end
    ...     return client.get_job_status().result()
    >>> run(env.from_collection([1, 2]))
    1
    2
    <JobStatus.FINISHED: 6>
    """

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self._shown = threading.Event()

    @property
    def handle(self) -> JobHandle:
        """The engine's own view of the job: more than PyFlink offers, such as its checkpoint history."""
        return self._handle

    def get_job_id(self) -> JobID:
        """Which job it is."""
        return self._handle.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job is in its life."""
        return CompletableFuture.completed(self._handle.status())

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job without a snapshot."""
        return CompletableFuture(self._handle.cancel())

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job; the savepoint's path.

        Advancing to the end of event time fires all windows and timers first: for a job that will not
        be resumed.
        """
        return CompletableFuture(
            self._handle.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory)
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on; its path."""
        return CompletableFuture(self._handle.trigger_savepoint(savepoint_directory))

    def get_accumulators(self) -> CompletableFuture[dict[str, object]]:
        """Always empty while the job runs: use metrics."""
        return CompletableFuture.completed({})

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Done when the job has; its ``result()`` raises if the job failed."""
        return CompletableFuture(self._handle.result())

    # --- as Spark's queries have it ---------------------------------------------------------

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """How far the job came with its newest checkpoint; ``None`` before the first one.

        The keys are those of Spark's ``StreamingQueryProgress``; ``batchId`` is the checkpoint's number.
        A job that finishes takes a last one, whatever its settings; one in BATCH mode takes none.

        >>> sink = env.from_collection([1, 2, 3]).print()
        >>> client = env.execute_async("three numbers")
        >>> result = client.get_job_execution_result().result()
        1
        2
        3
        >>> client.last_progress["numInputRows"]
        3
        """
        entries = self.recent_progress
        return entries[-1] if entries else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The same of the newest hundred checkpoints, oldest first."""
        return self._handle.progress()[1]

    def page_link(self) -> str | None:
        """An address of the job's page that lets one browser in, once, within two minutes; if it has one."""
        return self._handle.page_link()

    def show(self, every: float = 1.0) -> None:
        """Show how the job stands: in a notebook below the cell, anew every so many seconds until its end.

        Elsewhere it is printed, once.  Returns at once; calling it again ends the view before.
        """
        pace = checked_pace(every)
        self._shown.set()
        self._shown = threading.Event()
        show(self._handle.view, pace, self._shown)

    def _repr_html_(self) -> str:
        """What a notebook shows for the client."""
        return self._handle.view().html()
