"""The tail of a chain that ends in a sink: feeds a writer and collects what it prepared.

On a barrier, in this order: flush, prepare the commit, store the writer's state.  The committables
travel with the snapshot to the driver; they are not kept here.
"""

from __future__ import annotations

from typing import Any

from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.ids import Epoch
from penstock.operators.operator import Operator, OperatorContext
from penstock.state.operator_state import ListMode

WRITER_STATE = "writer"
"""Name of the list state that holds what writers hand to their successors."""
WRITER_NOTES = "writer-notes"
"""Name of the union list of what every writer tells all of its successors."""


class SinkOperator(Operator):
    """Runs one writer of ``sink``; the operator's id names the sink across restarts."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer: SinkWriter | None = None
        self._prepared: dict[Epoch, list[Any]] = {}

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        self._state = ctx.operator_state.list_state(WRITER_STATE)
        self._notes = ctx.operator_state.list_state(WRITER_NOTES, ListMode.UNION)
        self._writer = self._sink.create_writer(
            WriterContext(
                job_name=ctx.info.job_name,
                sink_id=ctx.operator_id,
                subtask=ctx.info.subtask,
                parallelism=ctx.info.parallelism,
                generation=ctx.runtime.generation,
                restored_epoch=ctx.restored_epoch,
                restored_state=tuple(self._state.get()),
                checkpointing=ctx.runtime.checkpointing,
                clock=ctx.clock,
                to_driver=ctx.runtime.to_driver,
                attempt=ctx.runtime.attempt_id,
                restored_notes=tuple(self._notes.get()),
            )
        )

    @property
    def writer(self) -> SinkWriter:
        """The writer; there is one between ``open`` and ``close``."""
        assert self._writer is not None
        return self._writer

    def process(self, batch: Batch, input_index: int = 0) -> None:
        if len(batch):
            self.writer.write(batch)

    def prepare_barrier(self, epoch: Epoch) -> None:
        writer = self.writer
        writer.flush(False)
        self._prepared = {epoch: list(writer.prepare_commit(epoch))}
        self._state.update(writer.snapshot(epoch))
        self._notes.update(writer.notes())

    def committables(self, epoch: Epoch) -> list[Any]:
        return self._prepared.pop(epoch, [])

    def next_processing_time(self) -> int | None:
        return self.writer.next_flush_ms()

    def on_processing_time(self, now_ms: int) -> None:
        due = self.writer.next_flush_ms()
        if due is not None and due <= now_ms:
            self.writer.on_time(now_ms)

    def finish(self) -> None:
        self.writer.flush(True)

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
