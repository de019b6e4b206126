"""The sink contract: writers that prepare, committers that commit.

Exactly-once output is two-phase commit.  On each barrier the writer hands out **committables**: small
picklable descriptions of what it prepared (a finished file's name, a transaction's id).  They become
part of the snapshot; once it is published, the committer makes them visible.

Who calls what, when, on which thread:

* ``Sink.create_writer`` and the writer's methods run on the task's thread, in the slot, in this
  order: ``write`` many times; on a barrier ``flush(False)``, ``prepare_commit(epoch)``,
  ``snapshot(epoch)`` and ``notes()``; at the end of input ``flush(True)`` and then one last barrier.
* The committer lives on the driver.  ``commit`` gets committables of one or several epochs, oldest
  first, after their snapshot was published, and again after every restore.  **It must be
  idempotent**: "already committed" is success.  The classic mistake is to fail on the second call.
* After a restore, whatever a writer prepared that is not in the restored snapshot will never be
  committed.  ``WriterContext.restored_epoch`` lets a writer find and remove such leftovers.

A sink that needs no commit (at least once, or idempotent writes) returns ``None`` from
``create_committer`` and makes everything durable in ``flush``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.ids import Epoch


def digest_of_sink(job_name: str, sink_id: str, *more: str) -> str:
    """A job's sink in 16 characters that fit any name: by them it knows what its earlier attempts left."""
    return hashlib.sha256("\0".join((job_name, sink_id, *more)).encode()).hexdigest()[:16]


class DeliveryGuarantee(Enum):
    """How often a record may arrive outside when the job fails and recovers."""

    EXACTLY_ONCE = 0
    """Once. What is written becomes visible when a checkpoint completes."""
    AT_LEAST_ONCE = 1
    """Once or more: records since the last checkpoint are written again."""
    NONE = 2
    """Any number of times, also never."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer may know about where it runs."""

    job_name: str
    sink_id: str
    """Stable identity of the sink operator: the same after every restart."""
    subtask: int
    parallelism: int
    generation: int
    """Number of the attempt; use it in names of things that an older attempt must not share.

    Later attempts have greater ones, over all submissions of the job, also one that begins anew.
    """
    restored_epoch: Epoch | None
    """Epoch of the snapshot this attempt started from, ``None`` on a fresh start."""
    restored_state: tuple[Any, ...]
    """Writer states dealt to this subtask (list state: may come from other subtasks on rescale)."""
    checkpointing: bool
    """Whether periodic snapshots are on; if not, the only commit is at the end of input."""
    clock: Clock
    to_driver: Callable[[Any], None]
    """Send a small object to the sink's ``on_driver_message`` at once, outside any transaction."""
    attempt: int = 0
    """Tells writers apart that have the same generation: in BATCH mode Spark may run a task again, or twice
    at a time, and runs may begin to count anew. Use it too in names of things that two must not share."""
    restored_notes: tuple[Any, ...] = ()
    """What :meth:`SinkWriter.notes` of all subtasks said at the restored barrier; every subtask gets all."""


class SinkWriter(ABC):
    """Writes the records of one subtask."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take the records of a batch."""

    def flush(self, end_of_input: bool) -> None:  # noqa: B027 - optional hook
        """Make everything written so far durable (not visible)."""

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        """Committables for everything written since the previous call."""
        return []

    def snapshot(self, epoch: Epoch) -> list[Any]:
        """State to hand to the writers of the next attempt."""
        return []

    def notes(self) -> list[Any]:
        """Small things that every writer of the next attempt shall know, at any parallelism."""
        return []

    def next_flush_ms(self) -> int | None:
        """Processing time at which ``on_time`` wants to be called, if any."""
        return None

    def on_time(self, now_ms: int) -> None:  # noqa: B027 - optional hook
        """The time asked for by ``next_flush_ms`` has come: roll a file, send a buffer."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release files and connections. Prepared things must stay."""


class CommitOutcome(Enum):
    """What became of one committable."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    """Found done: the normal case after a restore."""
    RETRY = "retry"
    """Not possible now; try again later. Too many of these fail the job."""
    DROPPED = "dropped"
    """Can never be committed, for a known reason that was logged. Data is lost; it is counted."""


class Committer(ABC):
    """Makes prepared output visible."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        """Commit in the given order; one outcome per committable. Raising fails the job."""

    def finish(self) -> None:  # noqa: B027 - optional hook
        """In BATCH mode, once, before ``close``: all that the run will ever commit is committed.

        What failed tries of its tasks have prepared may be removed now, but nothing of other runs.  Not
        called if a commit failed: then the next run commits what is left.  An error is only logged.
        """

    def abandon(self, job_name: str, sink_id: str, generation: int) -> None:  # noqa: B027 - optional hook
        """At the end of a cancelled job, once, before ``close``: all that was published is committed.

        What else writers up to ``generation`` have prepared will never be, and may be removed now if it is in
        somebody's way; else the next attempt sees to it.  An error is only logged.
        """

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        """In BATCH mode, once, before ``close``: the run failed, or was cancelled, before it was published.

        Nothing that writers up to ``generation`` have prepared will ever be committed: it may be removed now.
        Tasks that Spark has not stopped yet may prepare more, so the next run must look as well.  An error is
        only logged.
        """
        self.abandon(job_name, sink_id, generation)

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release connections."""


class Sink(ABC):
    """A place records go to. Shipped to slots by pickling: open connections in writers."""

    feeds_program: bool = False
    """Whether the program goes on with the records when the job is over: without them it would do harm."""
    takes_changes: bool = False
    """Whether rows that are taken back may go there, as ``Row`` with a kind."""

    @property
    def upsert_key(self) -> tuple[str, ...]:
        """The columns by which it replaces and deletes rows; none if it only adds rows."""
        return ()

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """The writer of one subtask."""

    def create_committer(self) -> Committer | None:
        """The committer, or ``None`` if the sink needs none."""
        return None

    def check(self) -> None:  # noqa: B027 - optional hook
        """Called on the driver before the job starts: raise a clear error for bad settings."""

    def check_interval(self, interval_ms: int | None) -> None:  # noqa: B027 - optional hook
        """Called after ``check`` with the time between checkpoints, ``None`` if there are none."""

    def check_patience(self, longest_ms: int) -> None:  # noqa: B027 - optional hook
        """Called last, if there are checkpoints, with how long prepared output has to wait in bad times.

        That is with a checkpoint that just does not time out, after a failure and the longest pause before
        the job is started again.
        """

    def on_driver_message(self, message: Any) -> None:  # noqa: B027 - optional hook
        """Receives, on the driver, what writers sent with ``to_driver``."""


class TypedSink(Sink):
    """A sink whose output depends on the declared type of the stream."""

    @abstractmethod
    def typed(self, type_info: Any) -> Sink:
        """The same sink for records of that type; called by ``sink_to``."""
