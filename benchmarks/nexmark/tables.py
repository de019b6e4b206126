"""The events as tables: streams that can be replayed, bounded or at a rate, and what DuckDB reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import penstock.dataframe as pf
from benchmarks.nexmark.events import KINDS, ROUND, Feed
from penstock.common import Duration, WatermarkStrategy
from penstock.connectors.source import Source
from penstock.dataframe import DataFrame
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource

DELAY = Duration.of_seconds(4)
"""Watermarks stay behind by so much."""
SIDE_ROWS = 10_000
AT_ONCE = 1_000_000

MakeSource = Callable[["Rows", int | None, float | None], Source]


class Rows:
    """Events of one kind by their places among those of the kind; of all columns, or of some."""

    def __init__(self, kind: str, feed: Feed, columns: Sequence[str] | None = None) -> None:
        whole = KINDS[kind].schema
        self.kind = kind
        self.feed = feed
        self.schema = pa.schema([whole.field(name) for name in (columns or whole.names)])

    def __call__(self, indices: Any) -> pa.RecordBatch:
        kind = KINDS[self.kind]
        return kind.batch(kind.numbers(indices), self.feed, self.schema.names)

    def narrowed(self, columns: Collection[str]) -> Rows:
        """Of those columns that a query reads, as Flink's planner has it, too."""
        return Rows(self.kind, self.feed, [name for name in self.schema.names if name in columns])


def generated(rows: Rows, count: int | None, rate: float | None) -> Source:
    """Made where they are read: reader k of p makes every p-th, so that all advance together in time."""
    return DataGeneratorSource(rows, count, rate, columns=True)


def stream(
    env: Env,
    kind: str,
    feed: Feed,
    columns: Sequence[str] | None = None,
    rate: float | None = None,
    make_source: MakeSource = generated,
) -> DataFrame:
    """A table in an environment, of all columns or of some.

    ``rate`` is of events of all kinds in a second, however many are read.
    """
    rows = Rows(kind, feed, columns)
    count = None if feed.events is None else KINDS[kind].count(feed.events)
    own_rate = None if rate is None else rate * KINDS[kind].share / ROUND
    times = WatermarkStrategy.for_bounded_out_of_orderness(DELAY).with_timestamp_column("dateTime")
    made = env.from_source(make_source(rows, count, own_rate), times, kind)
    return pf.from_data_stream(made, rows.schema, has_event_time=True)


def table(kind: str, feed: Feed) -> pa.Table:
    """All events of a kind."""
    assert feed.events is not None, "a table ends"
    rows, count = Rows(kind, feed), KINDS[kind].count(feed.events)
    parts = [rows(np.arange(low, min(low + AT_ONCE, count))) for low in range(0, count, AT_ONCE)]
    return pa.Table.from_batches(parts, KINDS[kind].schema)


def side_input() -> pa.Table:
    """The table that q13 looks into."""
    keys = np.arange(SIDE_ROWS)
    return pa.table({"key": pa.array(keys), "value": pa.array([f"value-{key}" for key in keys])})
