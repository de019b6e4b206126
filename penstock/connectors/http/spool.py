"""What was posted, made durable: a topic of the embedded log, and the memory of keys in it.

A request's records are appended to one partition as one frame, and waited for on the disk: all of them are
there or none is.  Whoever sends an idempotency key may send the same request again: the key is stored
beside the records, so a server that is started again remembers the newest of them too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

from penstock.connectors.log.producer import Producer
from penstock.connectors.log.topic import Log, Topic
from penstock.core.clock import Clock
from penstock.core.errors import ConnectorError
from penstock.core.keygroups import hash_value

_REMEMBERED = 100_000


class Spool:
    """Appends requests to a topic. Safe to use from many threads."""

    def __init__(self, log: Log, topic: str, partitions: int, clock: Clock) -> None:
        if topic not in log.topics():
            log.create_topic(topic, partitions)
        self._topic = log.topic(topic)
        self._producer = Producer(self._topic, fsync=True, clock=clock)
        self._lock = threading.Lock()
        self._turn = count()
        self._seen: list[OrderedDict[bytes, int]] = [OrderedDict() for _ in range(self._topic.partitions)]
        """The keys of each partition."""
        self._is_in_doubt = True
        """Whether the log may hold keys that are not remembered."""
        self._look()

    def append(self, records: Sequence[bytes], key: bytes | None) -> bool:
        """Make the records durable; ``False`` if a request with this key has brought its own before."""
        with self._lock:
            if self._is_in_doubt:
                self._look()
            partition = (next(self._turn) if key is None else hash_value(key)) % self._topic.partitions
            if key is not None and key in self._seen[partition]:
                return False
            if records:
                self._is_in_doubt = True
                self._producer.send_many(list(records), [key] * len(records), partition=partition)
                self._is_in_doubt = False
            if key is not None:
                self._remember(partition, key)
            return True

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._producer.close()

    def _look(self) -> None:
        """Remember what is in the log, durably: an append that failed may have left its records there."""
        self._producer.sync()
        for partition in range(self._topic.partitions):
            self._remember_partition(self._topic, partition)
        self._is_in_doubt = False

    def _remember(self, partition: int, key: bytes) -> None:
        seen = self._seen[partition]
        seen[key] = 1
        if len(seen) > _REMEMBERED:
            seen.popitem(last=False)

    def _remember_partition(self, topic: Topic, partition: int) -> None:
        reader = topic.reader(partition)
        try:
            end = reader.end_offset()
            at = max(reader.start_offset(), end - _REMEMBERED)
            while at < end:
                read = reader.read(at, 10_000)
                if read.num_rows == 0:
                    raise ConnectorError(f"partition {partition} of {topic.name!r} ends before offset {end}")
                for key in read.column(2).unique().to_pylist():
                    if key is not None:
                        self._remember(partition, key)
                at = read.column(0)[-1].as_py() + 1
        finally:
            reader.close()
