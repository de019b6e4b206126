"""Which folder below the base path a record goes to.

Assigners work on batches, so that the common cases (one folder for all, one per hour) cost nothing per
record.

If nobody chose, files go to a folder per hour of writing, as in Flink.  Before that was so, the default
was the base path itself.  A job that began then goes on there, so that whoever reads its files finds the new
ones beside the old: its snapshots say nothing of buckets, and its files lie in the base path.  What was
decided once is noted in every snapshot.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from penstock.connectors.files.parquet_writer import conform
from penstock.connectors.files.part_files import PartNames
from penstock.connectors.files.partitions import folder_of, split_by_columns
from penstock.connectors.sink import WriterContext
from penstock.core.batch import Batch
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, ConnectorError, TimestampError
from penstock.core.ids import MIN_TIME
from penstock.storage.places import storage_of

_JAVA_TO_STRFTIME = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "DDD": "%j",
    "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S",
}  # fmt: skip
_PATTERN_TOKEN = re.compile(
    r"'(?P<quoted>[^']*)'|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<plain>[^A-Za-z']+)"
)
_NOTE = "default bucket"
_log = log_of(__name__)


class BucketAssigner(ABC):
    """Divides batches into buckets. A bucket is a relative folder; ``""`` is the base path itself."""

    @abstractmethod
    def assign(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        """The batch divided by bucket, keeping the order of records within each."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All files directly in the base path."""
        return BasePathBuckets()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None, event_time: bool = False
    ) -> BucketAssigner:
        """A folder per hour (or as the pattern says), by the time of writing or by event time."""
        return DateTimeBuckets(format_str, timezone_id, event_time)

    @staticmethod
    def partition_bucket_assigner(columns: Sequence[str], schema: pa.Schema | None = None) -> BucketAssigner:
        """A folder ``column=value`` per value of these columns, as Spark and Hive partition."""
        return PartitionBuckets(columns, schema)


class BasePathBuckets(BucketAssigner):
    """One bucket: the base path."""

    def assign(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        return [("", batch)]


class DateTimeBuckets(BucketAssigner):
    """A bucket per formatted time. Patterns are Java's; the zone is the machine's unless given."""

    def __init__(self, pattern: str, timezone_id: str | None, event_time: bool) -> None:
        self._format = strftime_pattern(pattern)
        self._zone_id = timezone_id
        self._event_time = event_time
        self._zone()

    def _zone(self) -> tzinfo | None:
        if self._zone_id is None:
            return None
        try:
            return ZoneInfo(self._zone_id)
        except (ZoneInfoNotFoundError, ValueError):
            raise ConfigError(
                f"there is no time zone {self._zone_id!r}; write it like Europe/Zurich"
            ) from None

    def assign(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        if not self._event_time:
            return [(self._text(now_ms // 1000), batch)]
        if batch.times is None or bool((batch.times == MIN_TIME).any()):
            raise TimestampError(
                "buckets by event time need a timestamp on every record; "
                "call assign_timestamps_and_watermarks before the sink",
                code=Code.NO_TIMESTAMP,
            )
        seconds, which = np.unique(batch.times // 1000, return_inverse=True)
        names = [self._text(second) for second in seconds.tolist()]
        return _divide(batch, np.array(names, dtype=object)[which].tolist())

    def _text(self, second: int) -> str:
        return datetime.fromtimestamp(second, UTC).astimezone(self._zone()).strftime(self._format)


class PartitionBuckets(BucketAssigner):
    """A folder ``country=DE/hour=3`` per value of some columns, which the files themselves do not have then.

    That is how Spark and Hive partition.  Rows are converted to columns of ``schema`` first.
    """

    def __init__(
        self, columns: Sequence[str], schema: pa.Schema | None = None, strict_decimals: bool = False
    ) -> None:
        self._columns = tuple(columns)
        self._schema = schema
        self._strict = strict_decimals

    def assign(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        columns = batch.columns if self._schema is None else conform(batch, self._schema, self._strict)
        if columns is None:
            raise ConnectorError(
                "partitions need records with columns; give the sink a schema, or declare the stream's type"
            )
        unknown = [name for name in self._columns if name not in columns.schema.names]
        if unknown:
            raise ConnectorError(
                f"the records have no column {', '.join(unknown)} to partition by; they have "
                f"{', '.join(columns.schema.names)}"
            )
        left = [name for name in columns.schema.names if name not in self._columns]
        return [
            (folder_of(self._columns, values), Batch(columns=part.select(left)))
            for values, part in split_by_columns(columns, self._columns)
        ]


class BucketsByFunction(BucketAssigner):
    """The bucket is what a function of the record returns."""

    def __init__(self, bucket_of: Callable[[Any], str]) -> None:
        self._bucket_of = bucket_of

    def assign(self, batch: Batch, now_ms: int) -> list[tuple[str, Batch]]:
        buckets = [self._bucket_of(value) for value in batch.to_rows()]
        for bucket in set(buckets):
            if not isinstance(bucket, str) or bucket.startswith("/") or ".." in bucket.split("/"):
                raise ConnectorError(
                    f"the bucket is {bucket!r}; it must be a relative path below the base path"
                )
        return _divide(batch, buckets)


def _divide(batch: Batch, buckets: list[str]) -> list[tuple[str, Batch]]:
    positions: dict[str, list[int]] = {}
    for i, bucket in enumerate(buckets):
        positions.setdefault(bucket, []).append(i)
    if len(positions) == 1:
        return [(buckets[0], batch)]
    return [(bucket, batch.take(np.array(index, np.int64))) for bucket, index in positions.items()]


def strftime_pattern(java_pattern: str) -> str:
    """Java's date pattern (``yyyy-MM-dd--HH``) as Python's (``%Y-%m-%d--%H``)."""
    parts = []
    end = 0
    for token in _PATTERN_TOKEN.finditer(java_pattern):
        if token.start() != end:
            break
        end = token.end()
        field = token["field"]
        if field is None:
            parts.append((token["quoted"] or token["plain"] or "'").replace("%", "%%"))
        elif field in _JAVA_TO_STRFTIME:
            parts.append(_JAVA_TO_STRFTIME[field])
        else:
            raise ConfigError(
                f"date pattern {java_pattern!r}: {field!r} is unknown; use {', '.join(_JAVA_TO_STRFTIME)}"
            )
    if end != len(java_pattern):
        raise ConfigError(f"date pattern {java_pattern!r} has an unclosed quote")
    return "".join(parts)


class DefaultBucket(Enum):
    """The two defaults."""

    HOUR = "hour"
    BASE_PATH = "base path"

    def assigner(self) -> BucketAssigner:
        """What divides records so."""
        if self is DefaultBucket.BASE_PATH:
            return BasePathBuckets()
        return BucketAssigner.date_time_bucket_assigner()


def buckets_of(
    chosen: BucketAssigner | None, base_path: str, names: PartNames, context: WriterContext
) -> tuple[BucketAssigner, list[Any]]:
    """What divides the records of a writer, and its notes."""
    if chosen is not None:
        return chosen, []
    default = _default(base_path, names, context)
    return default.assigner(), [(_NOTE, default.value)]


def _default(base_path: str, names: PartNames, context: WriterContext) -> DefaultBucket:
    """The default for a sink that starts, or goes on from a snapshot."""
    for note in context.restored_notes:
        return DefaultBucket(note[1])
    if context.restored_epoch is None or not _has_parts(base_path, names):
        return DefaultBucket.HOUR
    if context.subtask == 0:
        _log.warning(
            "the file sink %r goes on in %r itself, where its files are; a new job would write into a folder "
            "per hour. To choose, call with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()) or "
            "with_bucket_assigner(BucketAssigner.date_time_bucket_assigner()) of its builder",
            context.sink_id,
            base_path,
        )
    return DefaultBucket.BASE_PATH


def _has_parts(base_path: str, names: PartNames) -> bool:
    """Whether files of the sink lie in the base path, not below it."""
    storage = storage_of(base_path)
    if not storage.exists(base_path):
        return False
    base = f"{base_path.rstrip('/')}/"
    return any(names.is_kept(path.removeprefix(base)) for path in storage.list_files(base_path))
