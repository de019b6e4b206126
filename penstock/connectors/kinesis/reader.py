"""Reading one shard: a thread fetches while the task goes on."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.decoding import decode_batch
from penstock.connectors.kinesis.fetching import Fetched, Fetcher
from penstock.connectors.kinesis.places import SHARD_END, Entry, Place, Shard, entries_of
from penstock.connectors.source import EndOfSplit, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.formats.bad_records import BadRecords, Diverted
from penstock.formats.value_format import ValueFormat

_MOST_PAUSE_MS = 10_000


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
