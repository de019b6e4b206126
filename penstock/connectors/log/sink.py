"""A topic as a sink: exactly once by staged transactions, or at least once by plain appends.

Exactly once, a batch's rows wait in one transaction per partition until the barrier, and become
readable when the checkpoint is complete, each partition's part of an epoch as one frame: all of it or
nothing.  Partitions become visible one after the other, not together.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.log.client import HashPartitioner, as_binary, split_by_partition
from penstock.connectors.log.frame import record_batch
from penstock.connectors.log.partition import PartitionWriter
from penstock.connectors.log.staging import (
    Committable,
    Identity,
    Transaction,
    commit_staged,
    remove_leftovers,
)
from penstock.connectors.log.topic import Log, Topic
from penstock.connectors.sink import (
    CommitOutcome,
    Committer,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.core.batch import Batch
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import MIN_TIME, Epoch
from penstock.formats.value_format import ValueFormat, as_format

Key = Callable[[Any], Any] | str | None

_SPOOL_BYTES = 16 << 20


class LogSink(Sink):
    """Appends records to a topic that exists.

    ``key`` is a column's (or field's) name, or a function from record to key; what is neither bytes nor
    text is written as its text.  Records with equal keys share a partition.  The records' event times are
    written as timestamps, the clock's time where there is none.

    Job name and sink id together must be one job's only: a newer attempt removes what an older attempt
    under the same names has staged and not published.
    """

    def __init__(
        self,
        root: str | Path,
        topic: str,
        value_format: Any,
        key: Key = None,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
    ) -> None:
        if guarantee.name not in ("EXACTLY_ONCE", "AT_LEAST_ONCE"):
            raise ConfigError(f"LogSink writes EXACTLY_ONCE or AT_LEAST_ONCE, not {guarantee.name}")
        self._root = str(root)
        self._topic = topic
        self._format = as_format(value_format)
        self._key = key
        self._guarantee = DeliveryGuarantee[guarantee.name]  # CheckpointingMode has the same names

    def check(self) -> None:
        self._open()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        rows = _RowEncoder(self._format, self._key, self._open().partitions, context.clock)
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return _TransactionalWriter(self._open(), rows, context)
        return _AppendingWriter(self._open(), rows, context)

    def create_committer(self) -> Committer | None:
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return LogCommitter(self._open(), SystemClock())
        return None

    def _open(self) -> Topic:
        return Log(self._root).topic(self._topic)


class _RowEncoder:
    """From batches of the job to record batches of the log, by partition."""

    def __init__(self, value_format: ValueFormat, key: Key, partitions: int, clock: Clock) -> None:
        self._format = value_format
        self._key = key
        self._partitions = partitions
        self._partitioner = HashPartitioner()
        self._clock = clock

    def encode(self, batch: Batch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batch's records as the log stores them."""
        values = as_binary(self._format.encode(batch))
        if len(values) != len(batch):
            raise ConnectorError(f"{self._format!r} made {len(values)} values of {len(batch)} records")
        keys = self._keys(batch)
        encoded = record_batch(self._times(batch), keys, values)
        return split_by_partition(encoded, self._partitioner(keys, self._partitions))

    def _keys(self, batch: Batch) -> pa.BinaryArray:
        key = self._key
        if key is None:
            return pa.nulls(len(batch), pa.binary())
        if not isinstance(key, str):
            return as_binary([_as_key(key(row)) for row in batch.to_rows()])
        if batch.columns is None:
            return as_binary([_as_key(row[key]) for row in batch.to_rows()])
        if key not in batch.columns.schema.names:
            known = ", ".join(batch.columns.schema.names)
            raise ConnectorError(f"the key column {key!r} is not among the records' columns: {known}")
        return _key_column(batch.columns.column(key))

    def _times(self, batch: Batch) -> pa.Array:
        now = self._clock.now_ms()
        if batch.times is None:
            return pa.array(np.full(len(batch), now, np.int64))
        return pa.array(np.where(batch.times == MIN_TIME, now, batch.times))


def _as_key(value: Any) -> Any:
    return value if isinstance(value, (bytes, str, type(None))) else str(value)


def _key_column(column: pa.Array) -> pa.BinaryArray:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_dictionary(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return as_binary(column)
    return as_binary([_as_key(value) for value in column.to_pylist()])


class _AppendingWriter(SinkWriter):
    """At least once: every batch is appended as it comes, the disk is waited for at barriers."""

    def __init__(self, topic: Topic, rows: _RowEncoder, context: WriterContext) -> None:
        self._rows = rows
        self._writers = [topic.writer(partition, context.clock) for partition in range(topic.partitions)]
        self._touched: set[int] = set()

    def write(self, batch: Batch) -> None:
        for partition, part in self._rows.encode(batch):
            self._writers[partition].append([part])
            self._touched.add(partition)

    def flush(self, end_of_input: bool) -> None:
        for partition in sorted(self._touched):
            with self._writers[partition].locked():
                self._writers[partition].sync()
        self._touched.clear()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class _TransactionalWriter(SinkWriter):
    """Exactly once: rows wait, in memory and then in spool files, for the barrier."""

    def __init__(self, topic: Topic, rows: _RowEncoder, context: WriterContext) -> None:
        self._rows = rows
        run = uuid.uuid4().hex
        who = Identity(context.job_name, context.sink_id, context.subtask, context.generation, run)
        paths = [topic.partition_path(partition) for partition in range(topic.partitions)]
        if context.subtask == 0:
            for path in paths:
                remove_leftovers(path, who, context.restored_epoch)
        self._transactions = [Transaction(partition, path, who) for partition, path in enumerate(paths)]
        self._in_memory = 0

    def write(self, batch: Batch) -> None:
        for partition, part in self._rows.encode(batch):
            self._transactions[partition].add(part)
            self._in_memory += part.nbytes
        if self._in_memory > _SPOOL_BYTES:
            self._in_memory = 0
            for transaction in self._transactions:
                transaction.spill()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        self._in_memory = 0
        staged = [transaction.stage(epoch) for transaction in self._transactions]
        return [committable for committable in staged if committable is not None]

    def close(self) -> None:
        for transaction in self._transactions:
            transaction.abandon()


class LogCommitter(Committer):
    """Appends staged transactions: one lock and one wait for the disk per partition and call."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._writers: dict[int, PartitionWriter] = {}

    def commit(self, committables: Sequence[Committable]) -> Sequence[CommitOutcome]:
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for index, committable in enumerate(committables):
            by_partition[committable.partition].append(index)
        outcomes: dict[int, CommitOutcome] = {}
        for partition, indices in by_partition.items():
            done = commit_staged(self._writer(partition), [committables[index] for index in indices])
            outcomes.update(zip(indices, done, strict=True))
        return [outcomes[index] for index in range(len(committables))]

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        next_one = Identity(job_name, sink_id, 0, generation + 1, "")
        for partition in range(self._topic.partitions):
            remove_leftovers(self._topic.partition_path(partition), next_one, None)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _writer(self, partition: int) -> PartitionWriter:
        if partition not in self._writers:
            self._writers[partition] = self._topic.writer(partition, self._clock)
        return self._writers[partition]
