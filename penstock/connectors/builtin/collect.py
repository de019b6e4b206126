"""``execute_and_collect``: records into a queue of the program that runs on the driver.

With checkpointing on, the records of an epoch travel as its committable and reach the queue when the
snapshot is published: exactly once, as long as the driver lives.  (A new driver has a new queue: it
gets the restored snapshot's records again.)  Without checkpointing they are sent at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.ids import Epoch


class Receiver(Protocol):
    """Where collected records go; any ``queue.Queue`` will do."""

    def put(self, item: Any, /) -> None:
        """Take one record."""
        ...


@dataclass(frozen=True, slots=True)
class CollectedRows:
    """The committable: what one subtask received during one epoch."""

    epoch: Epoch
    subtask: int
    rows: list[Any]


class CollectSink(Sink):
    """Puts every record into ``receiver``, one ``put`` per record, on the driver.

    Only the driver's copy knows the receiver: the copies pickled to the slots go without it.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver: Receiver | None = receiver
        self._committed: dict[int, Epoch] = {}
        """Newest epoch delivered, by subtask: commits come oldest first, so older ones are done too."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_receiver": None, "_committed": {}}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _BufferingWriter(context.subtask) if context.checkpointing else _SendingWriter(context)

    def create_committer(self) -> Committer:
        return _CollectCommitter(self)

    def on_driver_message(self, message: Any) -> None:
        assert self._receiver is not None, "only the driver's copy of the sink receives"
        put = self._receiver.put
        for row in message:
            put(row)

    def deliver(self, collected: CollectedRows) -> CommitOutcome:
        """Hand on one committable, unless it was handed on before. Called by the committer."""
        if collected.epoch <= self._committed.get(collected.subtask, -1):
            return CommitOutcome.ALREADY_COMMITTED
        self.on_driver_message(collected.rows)
        self._committed[collected.subtask] = collected.epoch
        return CommitOutcome.COMMITTED


class _BufferingWriter(SinkWriter):
    """Keeps the records of the current epoch."""

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask
        self._rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._rows.extend(batch.to_rows())

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        rows, self._rows = self._rows, []
        return [CollectedRows(epoch, self._subtask, rows)] if rows else []


class _SendingWriter(SinkWriter):
    """Sends each batch at once."""

    def __init__(self, context: WriterContext) -> None:
        self._to_driver = context.to_driver

    def write(self, batch: Batch) -> None:
        rows = batch.to_rows()
        if rows:
            self._to_driver(rows)


class _CollectCommitter(Committer):
    """Stateless: what was delivered is remembered by the sink, which outlives restarts."""

    def __init__(self, sink: CollectSink) -> None:
        self._sink = sink

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        return [self._sink.deliver(collected) for collected in committables]
