"""Streams as a sink, at least once: records are sent in batches, all of them by the barrier.

Kinesis refuses single records of a call (a shard has its limits); those are sent again before any newer one,
but behind those of the same call that were taken.  So records of a key may change places within a call.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kinesis.client import (
    THROTTLED,
    KinesisAccess,
    code_of,
    created_ms,
    errors,
    stream_argument,
)
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.retrying import doubling, wait
from penstock.formats.value_format import as_format

MOST_RECORDS, MOST_BYTES, MOST_RECORD_BYTES = 500, 5 * 1024 * 1024, 1024 * 1024
"""What AWS takes in one call, and as one record with its key."""
_LONGEST_KEY = 256
_PAUSES_S = (0.05, 2.0)
"""The first and the longest."""


@dataclass(frozen=True)
class KinesisSinkSettings:
    """What a builder gathered."""

    stream: str
    schema: Any
    access: KinesisAccess
    partition_key: Callable[[Any], str] | None
    """From a record; ``None``: one key for each subtask."""
    fail_on_error: bool = False
    most_records: int = MOST_RECORDS
    most_bytes: int = MOST_BYTES
    most_record_bytes: int = MOST_RECORD_BYTES
    longest_ms: int = 5000
    """In the buffer."""
    patience_ms: int = 120_000
    """How long records are sent again without any being taken."""

    def __post_init__(self) -> None:
        limits = (
            ("set_max_batch_size", self.most_records, MOST_RECORDS),
            ("set_max_batch_size_in_bytes", self.most_bytes, MOST_BYTES),
            ("set_max_record_size_in_bytes", self.most_record_bytes, self.most_bytes),
        )
        for name, given, most in limits:
            if not 0 < given <= most:
                raise ConfigError(f"{name}({given}) cannot be used: it is a number from 1 to {most}")
        if self.longest_ms <= 0:
            raise ConfigError("set_max_time_in_buffer_ms() takes a number of milliseconds above 0")


@dataclass(frozen=True, slots=True)
class _Entry:
    data: bytes
    key: str

    @property
    def size(self) -> int:
        return len(self.data) + len(self.key.encode())


class KinesisSink(Sink):
    """Writes the records of a stream to a Kinesis stream."""

    def __init__(self, settings: KinesisSinkSettings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"KinesisSink({self._settings.stream})"

    def check(self) -> None:
        with errors(f"Kinesis stream {self._settings.stream!r}"):
            created_ms(self._settings.access.open(), self._settings.stream)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return KinesisWriter(self._settings, context)


class KinesisWriter(SinkWriter):
    """Gathers records and sends them, a call at a time."""

    def __init__(self, settings: KinesisSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._format = as_format(settings.schema)
        self._clock = context.clock
        self._client = settings.access.open()
        self._own_key = f"{context.sink_id}-{context.subtask}"[-_LONGEST_KEY:]
        self._buffer: list[_Entry] = []
        self._bytes = 0
        self._oldest_ms = 0

    def write(self, batch: Batch) -> None:
        for data, key in zip(self._format.encode(batch), self._keys(batch), strict=True):
            entry = _Entry(data if isinstance(data, bytes) else data.as_py(), key)
            self._check(entry)
            full = len(self._buffer) >= self._settings.most_records
            if full or self._bytes + entry.size > self._settings.most_bytes:
                self._send()
            if not self._buffer:
                self._oldest_ms = self._clock.now_ms()
            self._buffer.append(entry)
            self._bytes += entry.size

    def _keys(self, batch: Batch) -> list[str]:
        choose = self._settings.partition_key
        return [self._own_key] * len(batch) if choose is None else [choose(row) for row in batch.to_rows()]

    def _check(self, entry: _Entry) -> None:
        if not isinstance(entry.key, str) or not 0 < len(entry.key) <= _LONGEST_KEY:
            raise ConnectorError(
                f"{entry.key!r:.100} cannot be the partition key of a Kinesis record: it is a text of 1 to "
                f"{_LONGEST_KEY} characters"
            )
        if entry.size > self._settings.most_record_bytes:
            raise ConnectorError(
                f"a record of {entry.size} bytes (with its key {entry.key!r:.100}) is too large for "
                f"{self._name}, which takes {self._settings.most_record_bytes}: make it smaller, or put it "
                "elsewhere and send where it is"
            )

    def flush(self, end_of_input: bool) -> None:
        self._send()

    def next_flush_ms(self) -> int | None:
        return self._oldest_ms + self._settings.longest_ms if self._buffer else None

    def on_time(self, now_ms: int) -> None:
        self._send()

    def _send(self) -> None:
        """Send the buffer, again and again until all is taken."""
        pauses, since = doubling(*_PAUSES_S), self._clock.monotonic()
        while self._buffer:
            refused, why = self._put(self._buffer)
            if not refused:
                break
            if self._settings.fail_on_error:
                raise ConnectorError(f"{self._name} refuses {len(refused)} records: {why}")
            if len(refused) < len(self._buffer):
                pauses, since = doubling(*_PAUSES_S), self._clock.monotonic()
            elif (self._clock.monotonic() - since) * 1000 > self._settings.patience_ms:
                raise ConnectorError(
                    f"{self._name} has taken no record for {self._settings.patience_ms // 1000} s: {why}. "
                    "Give it more shards, or choose partition keys that spread the records better"
                )
            self._buffer = refused
            wait(next(pauses))
        self._buffer, self._bytes = [], 0

    def _put(self, entries: list[_Entry]) -> tuple[list[_Entry], str]:
        """Send these; those that were refused, in order, and why the first was."""
        records = [{"Data": entry.data, "PartitionKey": entry.key} for entry in entries]
        with errors(self._name):
            try:
                answer = self._client.put_records(**stream_argument(self._settings.stream), Records=records)
            except Exception as error:
                if code_of(error) in THROTTLED:
                    return entries, str(error)
                raise
        pairs = list(zip(entries, answer["Records"], strict=True))
        refused = [(entry, said) for entry, said in pairs if said.get("ErrorCode")]
        why = f"{refused[0][1]['ErrorCode']}: {refused[0][1].get('ErrorMessage', '')}" if refused else ""
        return [entry for entry, _ in refused], why

    @property
    def _name(self) -> str:
        return f"the Kinesis stream {self._settings.stream!r}"


def any_key(record: Any) -> str:
    """A key by chance, so that records spread over all shards."""
    return uuid.uuid4().hex
