"""Streams as a source: a split per shard, the sequence number of the last record read as position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kinesis.client import KinesisAccess, created_ms, errors
from penstock.connectors.kinesis.places import SHARD_END, Place, Shard, at_time
from penstock.connectors.kinesis.reader import Fetcher, ShardReader
from penstock.connectors.kinesis.shards import ShardEnumerator, shard_of
from penstock.connectors.source import OnTruncated, Source, Split, SplitEnumerator, SplitReader
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError
from penstock.formats.bad_records import BadRecords, ErrorPolicy
from penstock.formats.value_format import as_format

_DEAL_MS = 1000
"""How often the driver looks whether children of shards may be dealt; it lists shards less often."""


@dataclass(frozen=True)
class KinesisSettings:
    """What a builder gathered."""

    streams: Sequence[str]
    schema: Any
    access: KinesisAccess
    start: Place
    bounded: bool = False
    on_truncated: OnTruncated = OnTruncated.ERROR
    policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    most_records: int = 10_000
    interval_ms: int = 200
    """Between calls for one shard: AWS allows five a second."""
    discovery_ms: int = 10_000

    def __post_init__(self) -> None:
        if not self.streams or len(set(self.streams)) < len(self.streams):
            raise ConfigError("a Kinesis source needs the names of its streams, each once")
        if not 0 < self.most_records <= 10_000 or self.interval_ms < 0 or self.discovery_ms <= 0:
            raise ConfigError(
                "a Kinesis source gets 1 to 10000 records a call, with a pause of 0 ms or more, and looks "
                f"for new shards after some milliseconds; got {self.most_records}, {self.interval_ms}, "
                f"{self.discovery_ms}"
            )


class KinesisSource(Source):
    """Reads streams; the time at which Kinesis got a record becomes its event time."""

    reports_finished = True
    discovery_interval_ms = _DEAL_MS

    def __init__(self, settings: KinesisSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._format = as_format(settings.schema)
        self._client: Any = None
        self.bounded = settings.bounded
        self.diverts_to = settings.policy.tag

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def __repr__(self) -> str:
        return f"KinesisSource({', '.join(self._settings.streams)})"

    def check(self) -> None:
        for stream in self._settings.streams:
            with errors(f"Kinesis stream {stream!r}"):
                created_ms(self._open(), stream)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        settings = self._settings
        return ShardEnumerator(
            self._open,
            settings.streams,
            settings.start,
            settings.bounded,
            settings.discovery_ms,
            self._clock,
            settings.on_truncated,
        )

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        settings, shard = self._settings, shard_of(split.info)
        place = shard.start if position is None else Place(*position)
        if settings.on_truncated is OnTruncated.EARLIEST and self._is_replaced(shard):
            place = Place(SHARD_END)
        said = f"Kinesis stream {shard.stream!r} shard {shard.name}, record"
        return ShardReader(
            Fetcher(self._open(), shard, settings.most_records, settings.on_truncated),
            shard,
            place,
            self._format,
            BadRecords(settings.policy, shard.stream, split.id, said),
            settings.interval_ms,
            clock,
        )

    def from_end(self, split: Split) -> Split:
        return Split(split.id, tuple(shard_of(split.info)._replace(start=at_time(self._clock.now_ms()))))

    def produced_type(self) -> Any | None:
        produced = getattr(self._settings.schema, "get_produced_type", None)
        return None if produced is None else produced()

    def _is_replaced(self, shard: Shard) -> bool:
        """Whether the stream was made anew since, and its shards are other splits now."""
        with errors(f"Kinesis stream {shard.stream!r}"):
            return created_ms(self._open(), shard.stream) != shard.created_ms

    def _open(self) -> Any:
        """The client of this process."""
        if self._client is None:
            self._client = self._settings.access.open()
        return self._client
