"""Reading one shard: a thread fetches while the task goes on."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.kinesis.client import (
    EXPIRED,
    INVALID,
    NOT_FOUND,
    THROTTLED,
    code_of,
    created_ms,
    errors,
    stream_argument,
    summary,
)
from penstock.connectors.kinesis.places import (
    AFTER_SEQUENCE,
    AT_SEQUENCE,
    SHARD_END,
    TRIM_HORIZON,
    Entry,
    Place,
    Shard,
    entries_of,
)
from penstock.connectors.source import EndOfSplit, OnTruncated, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import PositionGoneError
from penstock.formats.bad_records import BadRecords, Diverted, decode_batch
from penstock.formats.value_format import ValueFormat

_log = log_of(__name__)
_HOUR_MS = 3_600_000
_MOST_PAUSE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one call brought."""

    records: list[dict[str, Any]]
    known_ms: int | None
    """Everything that arrived before is among what was fetched so far; ``None``: nothing was learned."""
    at_tip: bool = False
    """There was nothing behind these records."""
    at_end: bool = False
    """There will never be: the shard is closed."""
    throttled: bool = False


class Fetcher:
    """Follows a shard by its iterators, which do not live long."""

    def __init__(self, client: Any, shard: Shard, most: int, on_truncated: OnTruncated) -> None:
        self._client = client
        self._shard = shard
        self._most = most
        self._on_truncated = on_truncated
        self._iterator: str | None = None
        self._retention_ms: int | None = None

    def fetch(self, place: Place, now_ms: int) -> Fetched:
        """The records from ``place`` on, which is where the last call ended."""
        with errors(self._name):
            try:
                return self._fetch(place, now_ms)
            except Exception as error:
                self._iterator = None
                if code_of(error) in THROTTLED:
                    return Fetched([], None, throttled=True)
                if code_of(error) == EXPIRED:
                    return Fetched([], None)
                if code_of(error) == NOT_FOUND and place.known_ms is not None:
                    self._gone(f"the {self._name} does not exist any more")
                    return Fetched([], None, at_end=True)
                if code_of(error) == INVALID and place.kind in (AT_SEQUENCE, AFTER_SEQUENCE):
                    return self._unknown(place)
                raise

    def _fetch(self, place: Place, now_ms: int) -> Fetched:
        if self._retention_ms is None:
            self._retention_ms = self._retention()
        if place.known_ms is not None and place.known_ms < now_ms - self._retention_ms:
            place = self._checked(place)
        if self._iterator is None:
            self._iterator = self._iterator_at(place)
        answer = self._client.get_records(ShardIterator=self._iterator, Limit=self._most)
        self._iterator = answer.get("NextShardIterator")
        records, behind = answer["Records"], int(answer.get("MillisBehindLatest") or 0)
        return Fetched(records, now_ms - behind, behind == 0 and not records, self._iterator is None)

    def _checked(self, place: Place) -> Place:
        """``place`` if its last record is still there, so that none behind it can be gone."""
        read_up_to = place.kind in (AT_SEQUENCE, AFTER_SEQUENCE)
        if read_up_to:
            at = self._iterator_at(place._replace(kind=AT_SEQUENCE))
            first = self._client.get_records(ShardIterator=at, Limit=1)["Records"]
            if first and first[0]["SequenceNumber"] == place.value:
                return place
        hours = (self._retention_ms or 0) // _HOUR_MS
        read = f"up to {place.value}" if read_up_to else "nothing"
        self._gone(
            f"the {self._name} keeps records for {hours} hours, and longer ago the job had read {read}"
        )
        self._iterator = None
        return Place(TRIM_HORIZON)

    def _unknown(self, place: Place) -> Fetched:
        """The shard says that the last record never was in it."""
        self._gone(f"the {self._name} does not know the record {place.value} that the job has read")
        if created_ms(self._client, self._shard.stream) != self._shard.created_ms:
            return Fetched([], None, at_end=True)  # made anew: its shards are other splits
        self._iterator = self._iterator_at(Place(TRIM_HORIZON))
        return Fetched([], None)

    def _gone(self, what: str) -> None:
        if self._on_truncated is OnTruncated.ERROR:
            raise PositionGoneError(
                f"{what}: records may have been deleted before they were read. To go on with what is left "
                'call set_on_truncated("earliest"); to prevent it let the stream keep records longer than '
                "the job may be down or behind"
            )
        _log.error("DATA LOSS: %s; reading goes on with what is left", what)

    def _iterator_at(self, place: Place) -> str:
        where = {**stream_argument(self._shard.stream), "ShardId": self._shard.name}
        return str(self._client.get_shard_iterator(**where, **place.argument())["ShardIterator"])

    def _retention(self) -> int:
        return int(summary(self._client, self._shard.stream)["RetentionPeriodHours"]) * _HOUR_MS

    @property
    def _name(self) -> str:
        return f"Kinesis stream {self._shard.stream!r} shard {self._shard.name}"


class ShardReader(SplitReader):
    """One fetch at a time; the next begins when the records of the last one are delivered."""

    def __init__(
        self,
        fetcher: Fetcher,
        shard: Shard,
        place: Place,
        schema: ValueFormat,
        bad: BadRecords,
        interval_ms: int,
        clock: Clock,
    ) -> None:
        self._fetcher = fetcher
        self._stop_ms = shard.stop_ms
        self._place = place
        self._schema = schema
        self._bad = bad
        self._interval_ms = interval_ms
        self._pause_ms = interval_ms
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "kinesis")
        self._under_way: Future[Fetched] | None = None
        self._records: deque[Entry] = deque()
        self._after: Fetched | None = None
        """The last fetch, while its records are not all delivered."""
        self._due_ms = 0

    def poll(self, max_rows: int) -> Batch | None:
        if self._place.kind == SHARD_END:
            raise EndOfSplit
        if not self._records:
            self._fetch()
        if not self._records:
            if self._place.kind == SHARD_END:
                raise EndOfSplit
            return None
        return self._deliver([self._records.popleft() for _ in range(min(max_rows, len(self._records)))])

    def _fetch(self) -> None:
        """Begin a fetch, or take in one that is done."""
        now = self._clock.now_ms()
        if self._under_way is None:
            if now >= self._due_ms:
                self._under_way = self._thread.submit(self._fetcher.fetch, self._place, now)
                self._due_ms = now + self._interval_ms
            return
        if not self._under_way.done():
            return
        under_way, self._under_way = self._under_way, None
        fetched = under_way.result()
        if fetched.throttled:
            self._due_ms = now + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, _MOST_PAUSE_MS)
            return
        self._pause_ms = self._interval_ms
        self._take(fetched)

    def _take(self, fetched: Fetched) -> None:
        ends = fetched.at_end or (self._stop_ms is not None and fetched.at_tip)
        for entry in (found for record in fetched.records for found in entries_of(record, self._place)):
            if self._stop_ms is not None and entry.arrived_ms > self._stop_ms:
                ends = True
                break
            self._records.append(entry)
        self._after = Fetched([], fetched.known_ms, at_end=ends)
        if not self._records:
            self._pass_over()

    def _deliver(self, records: list[Entry]) -> Batch | None:
        times = np.array([record.arrived_ms for record in records], np.int64)
        values = [record.data for record in records]
        batch = decode_batch(
            lambda start, stop: self._schema.decode(pa.array(values[start:stop], pa.binary())),
            times,
            self._bad,
            lambda index: (records[index].number, values[index]),
            self._schema.skips_none,
        )
        self._place = records[-1].behind()
        if not self._records:
            self._pass_over()
        return batch

    def _pass_over(self) -> None:
        """The last fetch is delivered: the place is what lies behind it."""
        after, self._after = self._after, None
        assert after is not None
        if after.at_end:
            self._place = Place(SHARD_END)
        elif after.known_ms is not None:
            self._place = self._place._replace(known_ms=after.known_ms)

    def position(self) -> Any:
        return tuple(self._place)

    def next_poll_ms(self) -> int | None:
        waits = not self._records and self._under_way is None and self._place.kind != SHARD_END
        return self._due_ms if waits else None

    def take_diverted(self) -> list[Diverted]:
        return self._bad.take()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
