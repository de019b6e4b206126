"""Streams that get columns from elsewhere: a database or service, a fixed table, a slowly changing one.

For a table that comes as a stream of changes see ``KeyedStream.temporal_join``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from penstock.connectors.combinators.table_versions import ReloadedTableSource, TableVersion
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.ids import MIN_TIME
from penstock.core.typeinfo import DeclaredType
from penstock.datastream._stream import DataStream, made
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.exchange.partition import Broadcast
from penstock.graph.nodes import Link
from penstock.operators.async_io.lookup import LookupCache, LookupFunction, LookupJoin
from penstock.operators.functions import KeySelector
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.table import TableJoinOperator

__all__ = ["LookupCache", "LookupFunction", "ReloadedTable", "StaticTable", "lookup_join", "table_join"]


class StaticTable:
    """A table that does not change while the job runs.

    ``rows``: a Spark, pandas or polars data frame, an Arrow table, or a list of rows, at most a million;
    it is read here, once.  ``key``: the field, or function of a row, that is looked up.
    """

    def __init__(self, rows: Any, key: Any) -> None:
        self.key = _key_of(key)
        self.initial = TableVersion.of(rows, MIN_TIME)
        self.source: ReloadedTableSource | None = None


class ReloadedTable:
    """A table that is loaded again every so often.

    ``load`` runs on the driver, where the Spark session is, and returns what ``StaticTable`` takes.  It
    runs once here, and then ``every`` so often as long as the job runs; such a job has no end of its own.
    """

    def __init__(self, load: Callable[[], Any], key: Any, every: DurationLike) -> None:
        self.key = _key_of(key)
        self.source: ReloadedTableSource | None = ReloadedTableSource(load, to_millis(every))
        self.initial = self.source.load()


def table_join(
    stream: DataStream,
    table: StaticTable | ReloadedTable,
    key: Any,
    function: Any,
    how: str = "inner",
    output_type: DeclaredType = None,
) -> DataStream:
    """``function(record, row)`` for each row of ``table`` whose key equals that of the record.

    ``key``: field name or function of the record.  ``how``: ``inner``, or ``left`` to call the function
    with ``None`` for a record without a row.
    """
    kind = JoinKind.of(how, JoinKind.INNER, JoinKind.LEFT)
    factory = made(TableJoinOperator, function, _key_of(key), table.key, kind, table.initial)
    links = tuple(replace(link, input_index=0) for link in stream._links)
    if table.source is not None:
        links += _versions(stream, table.source)
    return stream._add("Table Join", factory, links=links, stateful=True, output_type=output_type)


def lookup_join(
    stream: DataStream,
    lookup: Any,
    key: Any,
    function: Any,
    how: str = "inner",
    *,
    timeout: DurationLike = "10 s",
    capacity: int = 100,
    cache: LookupCache | None = None,
    output_type: DeclaredType = None,
) -> DataStream:
    """``function(record, row)`` for each row that ``lookup`` finds for the key of the record.

    ``lookup``: a ``LookupFunction``, an async function of the key, or a plain one, which runs in threads.
    Results come as the answers arrive; watermarks keep their place.
    """
    kind = JoinKind.of(how, JoinKind.INNER, JoinKind.LEFT)
    asking = LookupJoin(lookup, _key_of(key), function, kind, cache)
    return AsyncDataStream.unordered_wait(stream, asking, timeout, capacity, output_type).name("Lookup Join")


def _versions(stream: DataStream, source: ReloadedTableSource) -> tuple[Link, ...]:
    """The table as a second input; it has no event time and must not hold that of the stream back."""
    env = stream.get_execution_environment()
    timeless = WatermarkStrategy.no_watermarks().with_idleness("1 ms")
    versions = env.from_source(source, timeless, "table").set_parallelism(1)
    return tuple(replace(link, partitioning=Broadcast(), input_index=1) for link in versions._links)


def _key_of(key: Any) -> Callable[[Any], Any]:
    if isinstance(key, str):
        return partial(_field, key)
    if isinstance(key, int):
        return itemgetter(key)
    if isinstance(key, KeySelector):
        return key.get_key
    if callable(key):
        found: Callable[[Any], Any] = key
        return found
    raise ConfigError(f"a key is a field name, a position or a function of the record, not {key!r}")


def _field(name: str, record: Any) -> Any:
    """A field of a row, a mapping or an object."""
    return record[name] if hasattr(record, "__getitem__") else getattr(record, name)
