"""Clicks per country and hour, by event time, and an alert as soon as an hour gets busy. Exactly once.

python hourly_counts.py

counts a few clicks.  For a topic that others write to:

penstock topic create clicks --partitions 4
penstock topic create hourly-counts
penstock topic create alerts
penstock run hourly_counts.py ~/.penstock/log 1000
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import (
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.log import Consumer, Json, Log, LogOffsets, LogSink, LogSource, Producer
from penstock.datastream.state import MapStateDescriptor

HOUR = 3_600_000
ALERTS = OutputTag("alerts")
CLICK = Json(pa.schema([("country", pa.string()), ("user", pa.int64())]))
CLICKS = [("de", 5), ("fr", 10), ("de", 20), ("de", 25), ("de", 70), ("fr", 150)]
"""Country and minute, for a first try."""


class HourlyCounts(KeyedProcessFunction):
    """Counts the clicks of each hour; says so early once there are ``threshold``, and in full at the end."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold

    def open(self, ctx: RuntimeContext) -> None:
        self.clicks = ctx.get_map_state(MapStateDescriptor("clicks", Types.LONG(), Types.LONG()))

    def process_element(self, click: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        hour = ctx.timestamp() // HOUR * HOUR
        clicks = (self.clicks.get(hour) or 0) + 1
        self.clicks.put(hour, clicks)
        if clicks == 1:
            ctx.timer_service().register_event_time_timer(hour + HOUR - 1)
        if clicks == self.threshold:
            yield ALERTS, {"country": ctx.get_current_key(), "hour": hour, "clicks": clicks}

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        hour = timestamp + 1 - HOUR
        yield {"country": ctx.get_current_key(), "hour": hour, "clicks": self.clicks.get(hour)}
        self.clicks.remove(hour)


def build(
    env: StreamExecutionEnvironment,
    log: str,
    threshold: int,
    source: LogSource | None = None,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
) -> KeyedStream:
    """Add the job to ``env``; gives the stream of clicks, keyed by country."""
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5))
    clicks = env.from_source(source or LogSource(log, "clicks", CLICK), by_time, "clicks").uid("clicks")
    by_country = clicks.key_by("country")
    counts = by_country.process(HourlyCounts(threshold)).name("hourly counts").uid("hourly-counts")
    counts_sink = LogSink(log, "hourly-counts", Json(), "country", guarantee)
    alerts_sink = LogSink(log, "alerts", Json(), "country", guarantee)
    counts.sink_to(counts_sink).uid("counts-sink")
    counts.get_side_output(ALERTS).sink_to(alerts_sink).uid("alerts-sink")
    return by_country


def first_try(log: Log) -> LogSource:
    """The topics, with a few clicks; a source that ends behind them."""
    for name in ("clicks", "hourly-counts", "alerts"):
        log.create_topic(name, partitions=2)
    with Producer(log.topic("clicks")) as producer:
        for country, minute in CLICKS:
            click = json.dumps({"country": country, "user": minute})
            producer.send(click.encode(), country.encode(), minute * 60_000)
    return LogSource(log.root, "clicks", CLICK, end=LogOffsets.latest())


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(500)
    if len(sys.argv) > 1:
        build(env, log=sys.argv[1], threshold=int(sys.argv[2]))
        env.execute("hourly-counts")
    else:
        topics = Log(tempfile.mkdtemp(prefix="penstock-log-"))
        print(f"topics are in {topics.root}")
        build(env, str(topics.root), threshold=3, source=first_try(topics))
        env.execute("hourly-counts")
        for topic in ("hourly-counts", "alerts"):
            with Consumer(topics.topic(topic)) as consumer:
                for _, rows in consumer.poll():
                    print("\n".join(f"{topic}: {row.decode()}" for row in rows.column("value").to_pylist()))
