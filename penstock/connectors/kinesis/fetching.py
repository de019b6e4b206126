"""Getting the records of one shard. Used by one thread at a time, which may wait: it is not the task's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kinesis.client import (
    EXPIRED,
    INVALID,
    NOT_FOUND,
    THROTTLED,
    code_of,
    errors,
    stream_argument,
)
from penstock.connectors.kinesis.places import AFTER_SEQUENCE, AT_SEQUENCE, TRIM_HORIZON, Place, Shard
from penstock.connectors.kinesis.streams import created_ms, summary
from penstock.connectors.on_truncated import OnTruncated
from penstock.core.errors import PositionGoneError

_log = logging.getLogger("penstock")
_HOUR_MS = 3_600_000


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
