"""A job that counts clicks per user, with every kind of state, for the tests of the state processor.

Clicks come from the topic ``clicks`` of the log in a directory, results go to the topic ``totals``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from progress import TIMEOUT_S, until

from penstock.columns import Count, Sum
from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.connectors.log import Consumer, Json, Log, LogSink, LogSource, Producer, Text
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

CLICK = Json(pa.schema([("user", pa.string()), ("hour", pa.int64())]))
COUNT = ValueStateDescriptor("count", Types.LONG())
HOURS = MapStateDescriptor("hours", Types.LONG(), Types.LONG())
TIMER = 10**9
HOUR = 1000


class Counting(KeyedProcessFunction):
    """For each user: a count, counts by hour, everything seen (of no declared type), and timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.hours = runtime_context.get_map_state(HOURS)
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        total = (self.count.value() or 0) + 1
        self.count.update(total)
        self.hours.put(value.hour, (self.hours.get(value.hour) or 0) + 1)
        self.seen.add((value.hour, "click"))
        ctx.timer_service().register_event_time_timer(TIMER + value.hour)
        yield f"{ctx.get_current_key()} {total}"


def click(place: Path, clicks: Iterable[tuple[str, int]]) -> None:
    """Append clicks (user and hour) to the log."""
    log = Log(place / "log")
    for name in {"clicks", "totals"} - set(log.topics()):
        log.create_topic(name)
    with Producer(log.topic("clicks")) as producer:
        producer.send_many([json.dumps({"user": user, "hour": hour}).encode() for user, hour in clicks])


def settings(place: Path, snapshot: str | None = None, **more: str) -> Configuration:
    """Frequent snapshots, kept after cancellation; ``snapshot`` is where to start from."""
    values = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "pipeline.auto-watermark-interval": "5 ms",
    }
    if snapshot is not None:
        values["execution.savepoint.path"] = snapshot
    return Configuration.from_dict({**values, **more})


def start(place: Path, config: Configuration, windows: bool = False) -> Any:
    """Start the job; ``windows`` adds a window of rows and one of columns to it."""
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    by_hour = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("hour")
    clicks = env.from_source(LogSource(place / "log", "clicks", CLICK), by_hour, "clicks").uid("clicks")
    totals = clicks.key_by("user").process(Counting()).name("counting clicks").uid("counting")
    totals.sink_to(LogSink(place / "log", "totals", Text())).uid("totals")
    if windows:
        hourly = clicks.key_by("user").window(TumblingEventTimeWindows.of(Time.milliseconds(HOUR)))
        hourly.reduce(lambda one, _: one).uid("rows").print()
        hourly.agg(Count("clicks"), Sum("hour", "sum")).uid("columns").print()
    return env.execute_async("click job")


def totals_of(place: Path) -> list[str]:
    """All committed results."""
    lines: list[str] = []
    with Consumer(Log(place / "log").topic("totals")) as consumer:
        while found := consumer.poll():
            for _, batch in found:
                lines += [value.decode() for value in batch.column("value").to_pylist()]
    return lines


def run_until(place: Path, client: Any, results: int) -> list[str]:
    """Wait for that many results, and some snapshots more; then cancel the job. Gives all results."""
    until(lambda: len(totals_of(place)) >= results, f"there are {results} results")
    desk = client._handle.coordinator.checkpoints
    seen = desk.completed
    until(lambda: desk.completed >= seen + 5, "there are more snapshots")
    client.cancel().result(TIMEOUT_S)
    return totals_of(place)
