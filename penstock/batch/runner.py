"""Who runs the vertices of a BATCH job: the contract, and a runner in this process.

The latter goes vertex by vertex, subtask by subtask, with lists in place of shuffles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.sizes import Sizes
from penstock.batch.vertex import run_vertex
from penstock.batch.wire import SCHEMA, SORTED_BY, TO_DRIVER
from penstock.batch.work import Feed, TaskAttempt, VertexWork
from penstock.connectors.source import Source
from penstock.core.clock import Clock
from penstock.core.error_codes import Code
from penstock.core.errors import JobFailedError
from penstock.core.ids import VertexId


@dataclass(frozen=True, slots=True)
class Stage:
    """A vertex and where it reads from."""

    work: VertexWork
    """What is sent with its tasks."""
    feeds: tuple[Feed, ...]
    table: Any = field(default=None, repr=False)
    """What a source reads, if the runner reads it itself: whatever its ``table_of`` gave."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    stages_done: int
    stages: int
    """In all, as far as that is known."""
    tasks_done: int
    tasks: int
    """Of the stages that run now."""


class StageRunner(Protocol):
    """Runs all vertices of a job. One object runs one job."""

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        """Run the stages, which come in order: each behind those it reads from.

        Gives the bodies of all rows for the driver, of attempts that succeeded.  The trap: an iterator that
        is not read to its end has not run everything.
        """
        ...

    def table_of(self, source: Source) -> Any | None:
        """What this runner reads itself in place of the source's splits; ``None``: the source reads.

        Called before :meth:`run`, with each source of the job.
        """
        ...

    def progress(self) -> Progress:
        """How far :meth:`run` is; from any thread."""
        ...

    def cancel(self) -> None:
        """Have :meth:`run` fail soon; from any thread."""
        ...


class LocalStages:
    """Runs stages one after the other; a vertex reads ``batch_rows`` rows at a time."""

    def __init__(
        self,
        clock: Clock,
        batch_rows: int,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        sizes: Sizes | None = None,
    ) -> None:
        self._clock = clock
        self._around = around
        """What functions are called within."""
        self._batch_rows = batch_rows
        self._sizes = sizes
        self._cancelled = threading.Event()
        self._progress = Progress(0, 0, 0, 0)

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        """Run all stages; what is for the driver."""
        outputs: dict[VertexId, pa.Table] = {}
        for done, stage in enumerate(stages):
            self._progress = Progress(done, len(stages), 0, stage.work.vertex.parallelism)
            with self._around():
                outputs[stage.work.vertex.id] = self._stage(stage, outputs)
        self._progress = Progress(len(stages), len(stages), 0, 0)
        for output in outputs.values():
            said = output.filter(pc.equal(output.column("edge"), TO_DRIVER))
            yield from said.column("body").to_pylist()

    def table_of(self, source: Source) -> None:
        """Sources read their splits."""

    def progress(self) -> Progress:
        """The stage that runs and its subtasks."""
        return self._progress

    def cancel(self) -> None:
        """Stop at the next batch."""
        self._cancelled.set()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise JobFailedError("the job was cancelled", code=Code.JOB_CANCELLED)

    def _stage(self, stage: Stage, outputs: dict[VertexId, pa.Table]) -> pa.Table:
        read = [
            outputs[feed.source].filter(pc.is_in(outputs[feed.source].column("edge"), pa.array(feed.edges)))
            for feed in stage.feeds
        ]
        rows = pa.concat_tables(read) if read else SCHEMA.empty_table()
        written: list[pa.RecordBatch] = []
        for subtask in range(stage.work.vertex.parallelism):
            mine = rows.filter(pc.equal(rows.column("target"), subtask))
            mine = mine.sort_by([(name, "ascending") for name in SORTED_BY]).combine_chunks()
            batches = iter(mine.to_batches(self._batch_rows))
            attempt = TaskAttempt(subtask)
            written += run_vertex(stage.work, attempt, batches, self._clock, self._check, self._sizes)
            self._progress = replace(self._progress, tasks_done=subtask + 1)
        return pa.Table.from_batches(written, SCHEMA)
