"""Records to the driver: into a queue of the program (``execute_and_collect``), or as printed lines.

*Collecting*: with checkpointing on, the records of an epoch travel as its committable and reach the queue
when the snapshot is published: exactly once, as long as the driver lives.  (A new driver has a new queue: it
gets the restored snapshot's records again.)  Without checkpointing they are sent at once.

*Printing*: lines go to the driver's standard output.  They are sent outside any transaction, as
soon as they are written, so after a restart some appear twice: this is for looking, not for results.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.connectors.sink import CommitOutcome, Committer, Sink, SinkWriter, TypedSink, WriterContext
from penstock.core.batch import Batch
from penstock.core.ids import Epoch
from penstock.core.render import java_text
from penstock.core.typeinfo import TypeInformation


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

    takes_changes = True

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


class PrintSink(TypedSink):
    """Prints each record, as ``identifier:n> value`` with the subtask's number if there are several.

    With the stream's type, values are rendered as Flink does; otherwise as ``str`` does.
    """

    takes_changes = True

    def __init__(self, identifier: str | None = None, type_info: TypeInformation | None = None) -> None:
        self.identifier = identifier
        self.type_info = type_info

    def typed(self, type_info: TypeInformation | None) -> PrintSink:
        """The same sink for a stream of this type."""
        return PrintSink(self.identifier, type_info)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        number = str(context.subtask + 1) if context.parallelism > 1 else ""
        label = ":".join(part for part in (self.identifier, number) if part)
        return _PrintWriter(f"{label}> " if label else "", self.type_info, context)

    def on_driver_message(self, message: Any) -> None:
        sys.stdout.write(message)
        sys.stdout.flush()


class _PrintWriter(SinkWriter):
    """Renders a batch into one message."""

    def __init__(self, prefix: str, type_info: TypeInformation | None, context: WriterContext) -> None:
        self._prefix = prefix
        self._type_info = type_info
        self._to_driver = context.to_driver

    def write(self, batch: Batch) -> None:
        prefix, type_info = self._prefix, self._type_info
        lines = [f"{prefix}{java_text(value, type_info)}\n" for value in batch.to_rows()]
        if lines:
            self._to_driver("".join(lines))
