"""Redis streams as a source: a split per stream, the id of the last entry read as position.

A stream can be read again as long as it keeps its entries.  One that is cut off (``MAXLEN``, ``XTRIM``) may
lose entries before the job has read them; the source notices, from Redis 7 on, by counting: the server says
how many entries were ever added and how many are left, so how many are gone, and the position knows how many
of them it has seen.  Begun in the middle, it does not know that until it has once come to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from penstock.connectors.redis.client import RedisConnection
from penstock.connectors.source import EndOfSplit, FixedSplits, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError, ConnectorError, PositionGoneError

_log = log_of(__name__)

_START = "0-0"


class OnTrimmed(Enum):
    """What to do when entries are gone that were not read."""

    ERROR = "error"
    EARLIEST = "earliest"
    """Go on with the oldest entry that is left."""


@dataclass(frozen=True, slots=True)
class StreamRange:
    """What a split is about."""

    stream: str
    start: str
    """Id behind which to begin."""
    before: int | None
    """Entries ever added up to there; ``None`` if that is not known."""
    end: str | None
    """Id of the last entry to read; ``None`` to go on for ever."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a stream stands."""

    first: str | None
    """Id of the oldest entry left."""
    last: str
    """The highest id ever given."""
    length: int
    added: int | None
    """Entries ever added; ``None`` if the server does not count them."""

    @property
    def gone(self) -> int:
        """Entries that are not there any more."""
        return 0 if self.added is None else self.added - self.length


class RedisStreamSource(Source):
    """Reads entries as dictionaries of text; the time in an entry's id becomes its event time.

    ``start``: ``"earliest"``, ``"latest"`` or the id of an entry behind which to begin.  ``bounded`` ends the
    job at the entries that are there when it starts.  ``binary`` leaves names and values as bytes.
    """

    def __init__(
        self,
        connection: RedisConnection,
        streams: str | Sequence[str],
        start: str = "earliest",
        bounded: bool = False,
        on_trimmed: OnTrimmed | str = OnTrimmed.ERROR,
        binary: bool = False,
    ) -> None:
        self._connection = connection
        self._streams = [streams] if isinstance(streams, str) else list(streams)
        self._start = start
        self._on_trimmed = OnTrimmed(on_trimmed)
        self._binary = binary
        self.bounded = bounded
        if not self._streams or len(set(self._streams)) < len(self._streams):
            raise ConfigError("a Redis source needs the names of its streams, each once")
        if start not in ("earliest", "latest"):
            order(start)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        client = self._connection.open()
        with self._connection.errors():
            ranges = [self._range(stream, standing(client, stream)) for stream in self._streams]
            client.close()
        return FixedSplits(Split(part.stream, part) for part in ranges)

    def _range(self, stream: str, now: Standing) -> StreamRange:
        end = now.last if self.bounded else None
        if self._start == "latest":
            return StreamRange(stream, now.last, now.added or 0, end)
        if self._start == "earliest":
            return StreamRange(stream, _START, now.gone, end)
        return StreamRange(stream, self._start, None, end)

    def from_end(self, split: Split) -> Split:
        client = self._connection.open()
        with self._connection.errors():
            now = standing(client, split.info.stream)
            client.close()
        return Split(split.id, StreamRange(split.info.stream, now.last, now.added or 0, split.info.end))

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        part: StreamRange = split.info
        last, seen = (part.start, part.before) if position is None else position
        return _StreamReader(self._connection, part, last, seen, self._on_trimmed, self._binary)


class _StreamReader(SplitReader):
    def __init__(
        self,
        connection: RedisConnection,
        part: StreamRange,
        last: str,
        seen: int | None,
        on_trimmed: OnTrimmed,
        binary: bool,
    ) -> None:
        self._connection = connection
        self._client = connection.open()
        self._part = part
        self._last = last
        self._seen = seen
        self._on_trimmed = on_trimmed
        self._binary = binary

    def poll(self, max_rows: int) -> Batch | None:
        end = self._part.end
        if end is not None and order(self._last) >= order(end):
            raise EndOfSplit
        with self._connection.errors():
            entries, now = self._read(max_rows)
            if self._made_anew(now):
                entries, now = self._read(max_rows)
        self._check_trimmed(now)
        if end is not None:
            entries = [entry for entry in entries if order(entry[0]) <= order(end)]
        if not entries:
            if end is not None:
                self._last = end  # the rest was deleted
                raise EndOfSplit
            return None
        self._last = entries[-1][0]
        if now.added is None:
            self._seen = None  # an upgraded server begins to count with the entries that are left
        elif self._last == now.last and now.added:
            self._seen = now.added
        elif self._seen is not None:
            self._seen += len(entries)
        times = np.array([order(entry[0])[0] for entry in entries], np.int64)
        return Batch.of_rows([entry[1] for entry in entries], times)

    def _read(self, max_rows: int) -> tuple[list[tuple[str, dict[Any, Any]]], Standing]:
        """Entries and how the stream stands, at one moment."""
        stream = self._part.stream
        pipeline = self._client.pipeline(transaction=True)
        pipeline.xread({stream: self._last}, count=max_rows)
        pipeline.xinfo_stream(stream)
        read, info = pipeline.execute(raise_on_error=False)
        if isinstance(read, Exception):
            raise read
        found: list[Any] = read[0][1] if read else []
        return [(entry.decode(), self._record(fields)) for entry, fields in found], _standing(info)

    def _record(self, fields: dict[bytes, bytes]) -> dict[Any, Any]:
        if self._binary:
            return fields
        try:
            return {name.decode(): value.decode() for name, value in fields.items()}
        except UnicodeDecodeError as e:
            raise ConnectorError(
                f"an entry of the Redis stream {self._part.stream!r} is no text ({e.reason}); "
                "read the stream with binary=True"
            ) from None

    def _check_trimmed(self, now: Standing) -> None:
        passed = now.first is None or order(now.first) > order(self._last)
        lost = 0 if self._seen is None else now.gone - self._seen
        if not passed or lost <= 0:
            return
        gone = (
            f"the Redis stream {self._part.stream!r} was cut off: {lost} entries behind {self._last} are gone"
        )
        if self._on_trimmed is OnTrimmed.ERROR:
            raise PositionGoneError(
                f"{gone} and were not read. Let it keep more (MAXLEN, MINID), or go on with what is left by "
                'on_trimmed="earliest"'
            )
        _log.error("DATA LOSS: %s; reading goes on with what is left", gone)
        self._seen = now.gone

    def _made_anew(self, now: Standing) -> bool:
        """Whether the stream is another one than that which was read: fewer entries were ever added to it."""
        if self._seen is None or now.added is None or now.added >= self._seen:
            return False
        if self._on_trimmed is OnTrimmed.ERROR:
            raise PositionGoneError(
                f"the Redis stream {self._part.stream!r} was deleted or made anew: the job has read up to "
                f"{self._last}, its entry number {self._seen}, and only {now.added} were ever added to what "
                "is there. What it had not read is gone; read the new one from its beginning with "
                'on_trimmed="earliest"'
            )
        _log.error(
            "DATA LOSS: the Redis stream %r was deleted or made anew; what was not read is gone, and it is "
            "read from its beginning",
            self._part.stream,
        )
        self._last, self._seen = _START, now.gone
        return True

    def position(self) -> tuple[str, int | None]:
        return self._last, self._seen

    def close(self) -> None:
        self._client.close()


def standing(client: Any, stream: str) -> Standing:
    """How a stream stands; one that is not there yet is empty."""
    pipeline = client.pipeline(transaction=False)
    pipeline.xinfo_stream(stream)
    return _standing(pipeline.execute(raise_on_error=False)[0])


def _standing(info: Any) -> Standing:
    if isinstance(info, Exception):
        if "no such key" in str(info):
            return Standing(None, _START, 0, 0)
        raise info
    first = info["first-entry"]
    return Standing(
        None if first is None else first[0].decode(),
        info["last-generated-id"].decode(),
        int(info["length"]),
        info.get("entries-added"),
    )


def order(entry: str) -> tuple[int, int]:
    """An id as its two numbers: the time in milliseconds, and the place within it."""
    time, _, place = entry.partition("-")
    try:
        return int(time), int(place or 0)
    except ValueError:
        raise ConfigError(f"{entry!r} is no id of a stream entry: write 1526919030474-0") from None
