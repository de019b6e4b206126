"""Finding shards, on the driver: parents are read to their ends before their children begin.

A shard that is split or merged is closed, and others go on with its keys.  Records of one key are in order
only if those come later, so a child waits until the readers of its parents say that they are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.connectors.kinesis.client import created_ms, errors, list_shards
from penstock.connectors.kinesis.places import TRIM_HORIZON, Place, Shard, at_time, split_id
from penstock.connectors.source import OnTruncated, Split, SplitEnumerator
from penstock.core.clock import Clock
from penstock.core.errors import ConnectorError, PositionGoneError

LATEST = "LATEST"


class ShardEnumerator(SplitEnumerator):
    """Lists shards now and then, and deals those whose parents are read."""

    def __init__(
        self,
        connect: Callable[[], Any],
        streams: Sequence[str],
        start: Place,
        bounded: bool,
        interval_ms: int,
        clock: Clock,
        on_truncated: OnTruncated = OnTruncated.ERROR,
    ) -> None:
        self._connect = connect
        self._client: Any = None
        self._streams = streams
        self._start = start
        self._bounded = bounded
        self._interval_ms = interval_ms
        self._clock = clock
        self._on_truncated = on_truncated
        self._lock = threading.Lock()
        self._created: dict[str, int] = {}
        self._seen: set[str] = set()
        self._unread: set[str] = set()
        """Seen and not read to the end: their children wait."""
        self._waiting: list[Shard] = []
        self._looked_ms: int | None = None
        self._looked_here = False

    def discover(self) -> Iterable[Split]:
        now = self._clock.now_ms()
        if self._looked_ms is None or (not self._bounded and self._is_due(now)):
            self._look(now)
        with self._lock:
            ready = [shard for shard in self._waiting if not self._unread.intersection(shard.parents)]
            self._waiting = [shard for shard in self._waiting if shard not in ready]
        return [Split(shard.id, tuple(shard)) for shard in ready]

    def _is_due(self, now: int) -> bool:
        return not self._looked_here or now - (self._looked_ms or 0) >= self._interval_ms

    def _look(self, now: int) -> None:
        if self._client is None:
            self._client = self._connect()
        found: list[Shard] = []
        for stream in self._streams:
            with errors(f"Kinesis stream {stream!r}"):
                created = created_ms(self._client, stream)
                known = stream in self._created
                self._check_same(stream, created)
                found += self._shards(stream, created, known, now)
        with self._lock:
            fresh = [shard for shard in found if shard.id not in self._seen]
            self._waiting += [shard for shard in fresh if shard.start.kind != LATEST]
            self._unread |= {shard.id for shard in fresh if shard.start.kind != LATEST}
            self._seen = {shard.id for shard in found} | self._unread  # names of those long gone are not kept
        self._looked_ms, self._looked_here = now, True

    def _shards(self, stream: str, created: int, known: bool, now: int) -> list[Shard]:
        """All shards of a stream, each with where to begin; nowhere, if it is closed and not wanted."""
        stop = now if self._bounded else None
        shards = []
        for listed in list_shards(self._client, stream):
            parents = [
                listed[name] for name in ("ParentShardId", "AdjacentParentShardId") if listed.get(name)
            ]
            start = self._start_of(listed, known, now)
            names = tuple(split_id(stream, created, parent) for parent in parents)
            shards.append(Shard(stream, listed["ShardId"], created, names, start, stop))
        return shards

    def _start_of(self, listed: dict[str, Any], known: bool, now: int) -> Place:
        if known:
            return Place(TRIM_HORIZON, None, self._looked_ms)  # it did not exist then: all of it is wanted
        if self._start.kind != LATEST:
            return self._start
        closed = "EndingSequenceNumber" in listed.get("SequenceNumberRange", {})
        return Place(LATEST) if closed else at_time(now)

    def _check_same(self, stream: str, created: int) -> None:
        before = self._created.setdefault(stream, created)
        if before == created:
            return
        if self._on_truncated is OnTruncated.ERROR:
            raise PositionGoneError(
                f"the Kinesis stream {stream!r} was deleted and made anew: what the job had not read is "
                'gone. Read the new one from its beginning with set_on_truncated("earliest")'
            )
        if self._looked_here:  # no reader of the old one may be left
            raise ConnectorError(
                f"the Kinesis stream {stream!r} was deleted and made anew: the job starts over"
            )
        with self._lock:
            gone = {name for name in self._unread if name.startswith(split_id(stream, before, ""))}
            self._unread -= gone
            self._waiting = [shard for shard in self._waiting if shard.id not in gone]
        self._created[stream] = created

    def on_finished(self, split_ids: Iterable[str]) -> None:
        with self._lock:
            self._unread -= set(split_ids)

    def is_exhausted(self) -> bool:
        return self._bounded and not self._waiting

    def expects_splits(self) -> bool:
        return bool(self._waiting)

    def snapshot(self) -> Any:
        with self._lock:
            waiting = [tuple(shard) for shard in self._waiting]
            return (self._looked_ms, dict(self._created), sorted(self._seen), sorted(self._unread), waiting)

    def restore(self, state: Any) -> None:
        self._looked_ms, self._created, seen, unread, waiting = state
        self._seen, self._unread = set(seen), set(unread)
        self._waiting = [shard_of(values) for values in waiting]


def shard_of(values: Any) -> Shard:
    """Back from plain tuples."""
    shard = Shard(*values)
    return shard._replace(start=Place(*shard.start))
