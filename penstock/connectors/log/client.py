"""Appending to and reading topics from outside a job: what scripts, tests and the command line use.

Records are partitioned by a stable hash of their key; those without a key go round robin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connectors.log.frame import record_batch
from penstock.connectors.log.offsets import LogOffsets
from penstock.connectors.log.topic import Topic
from penstock.connectors.source import OnTruncated
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConnectorError
from penstock.core.keygroups import hash_array

Partitions = npt.NDArray[np.int64]
Partitioner = Callable[[pa.BinaryArray, int], Partitions]
"""From keys (null where there is none) and the number of partitions to the partition of each record."""

_ANY = -1


class HashPartitioner:
    """Hash of the key modulo partitions; round robin for records without a key."""

    def __init__(self) -> None:
        self._turn = 0

    def __call__(self, keys: pa.BinaryArray, partitions: int) -> Partitions:
        if partitions == 1:
            return np.zeros(len(keys), np.int64)
        if keys.null_count == 0:
            return _by_hash(keys, partitions)
        keyless = keys.is_null().to_numpy(zero_copy_only=False)
        chosen = np.empty(len(keys), np.int64)
        chosen[keyless] = (self._turn + np.arange(keys.null_count)) % partitions
        chosen[~keyless] = _by_hash(keys.drop_null(), partitions)
        self._turn = (self._turn + keys.null_count) % partitions
        return chosen


def _by_hash(keys: pa.BinaryArray, partitions: int) -> Partitions:
    return (hash_array(keys) % np.uint64(partitions)).astype(np.int64)


def split_by_partition(batch: pa.RecordBatch, chosen: Partitions) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of each partition that has some, in their order."""
    if len(chosen) == 0:
        return
    if (chosen == chosen[0]).all():
        yield int(chosen[0]), batch
        return
    order = np.argsort(chosen, kind="stable")
    ordered = batch.take(pa.array(order))
    found, starts = np.unique(chosen[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for partition, start, end in zip(found, starts, ends, strict=True):
        yield int(partition), ordered.slice(int(start), int(end - start))


def as_binary(values: Any) -> pa.BinaryArray:
    """Bytes (or text, as UTF-8) as an Arrow array."""
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        array = values if isinstance(values, pa.Array) else pa.array(values)
        array = array.cast(pa.binary()) if array.type != pa.binary() else array
    except (pa.ArrowException, TypeError) as e:
        raise ConnectorError(f"log keys and values are bytes or text: {e}") from e
    if isinstance(array, pa.ChunkedArray):
        raise ConnectorError("more than 2 GiB of values in one piece: send them in several")
    return array


class Producer:
    """Appends to a topic. One thread's; any number of producers may share the topic.

    ``send`` gathers records and appends ``batch_records`` of them at a time: what was sent is in the log
    only after :meth:`flush` or :meth:`close`.  ``send_many`` appends at once.  ``fsync`` makes every append
    wait for the disk; without it a crash of the machine (not of the process) may lose the last seconds.
    """

    def __init__(
        self,
        topic: Topic,
        partitioner: Partitioner | None = None,
        batch_records: int = 5000,
        fsync: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._topic = topic
        self._partitioner = partitioner or HashPartitioner()
        self._batch_records = batch_records
        self._fsync = fsync
        self._clock = clock or SystemClock()
        self._writers = [topic.writer(partition, self._clock) for partition in range(topic.partitions)]
        self._buffer: list[tuple[bytes, bytes | None, int, int]] = []

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def send(
        self,
        value: bytes,
        key: bytes | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Add one record; its time is now unless given."""
        if partition is not None:
            self._topic.partition_path(partition)
        when = self._clock.now_ms() if timestamp is None else timestamp
        self._buffer.append((value, key, when, _ANY if partition is None else partition))
        if len(self._buffer) >= self._batch_records:
            self.flush()

    def send_many(
        self,
        values: Sequence[bytes] | pa.Array,
        keys: Sequence[bytes | None] | pa.Array | None = None,
        timestamps: Sequence[int] | npt.NDArray[np.int64] | None = None,
        partition: int | None = None,
    ) -> None:
        """Append many records at once, one frame for each partition among them."""
        self.flush()
        if partition is not None:
            self._topic.partition_path(partition)
        pinned = None if partition is None else np.full(len(values), partition, np.int64)
        self._append(values, keys, timestamps, pinned)

    def flush(self) -> None:
        """Append what :meth:`send` has gathered."""
        if not self._buffer:
            return
        values, keys, times, pinned = zip(*self._buffer, strict=True)
        self._buffer = []
        self._append(list(values), list(keys), list(times), np.array(pinned, np.int64))

    def close(self) -> None:
        """Flush and close the files."""
        self.flush()
        for writer in self._writers:
            writer.close()

    def sync(self) -> None:
        """Flush, and wait until everything appended is on disk."""
        self.flush()
        for writer in self._writers:
            with writer.locked():
                writer.sync()

    def _append(self, values: Any, keys: Any, timestamps: Any, pinned: Partitions | None) -> None:
        value_array = as_binary(values)
        count = len(value_array)
        key_array = pa.nulls(count, pa.binary()) if keys is None else as_binary(keys)
        if timestamps is None:
            timestamps = np.full(count, self._clock.now_ms(), np.int64)
        batch = record_batch(pa.array(timestamps, pa.int64()), key_array, value_array)
        chosen = self._choose(key_array, pinned)
        for partition, part in split_by_partition(batch, chosen):
            self._topic.partition_path(partition)
            self._writers[partition].append([part], self._fsync)

    def _choose(self, keys: pa.BinaryArray, pinned: Partitions | None) -> Partitions:
        if pinned is None:
            return self._partitioner(keys, self._topic.partitions)
        free = np.flatnonzero(pinned == _ANY)
        if len(free):
            pinned[free] = self._partitioner(keys.take(pa.array(free)), self._topic.partitions)
        return pinned


class Consumer:
    """Reads all partitions of a topic, keeping its place in memory only. Independent of all others."""

    def __init__(
        self,
        topic: Topic,
        start: LogOffsets | None = None,
        on_truncated: OnTruncated | str = OnTruncated.ERROR,
    ) -> None:
        self._readers = [topic.reader(partition, on_truncated) for partition in range(topic.partitions)]
        self.positions = (start or LogOffsets.earliest()).resolve(topic)
        """The next offset to be read in each partition; may be set."""

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def poll(self, max_records: int = 5000) -> list[tuple[int, pa.RecordBatch]]:
        """New records by partition, at most ``max_records`` of each; empty if there are none now."""
        found = []
        for partition, reader in enumerate(self._readers):
            batch = reader.read(self.positions[partition], max_records)
            if batch.num_rows:
                self.positions[partition] = batch.column("offset")[-1].as_py() + 1
                found.append((partition, batch))
        return found

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()
