"""The four workloads, written as a user would write them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from penstock.columns import Count, Sum
from penstock.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from penstock.connectors.builtin.discard import DiscardingSink
from penstock.connectors.files.parquet import ParquetFormat
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.batch import Batch
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_column(
    "ts_ms"
)


class TallySink(Sink):
    """Counts rows, and sums one column, so that results can be checked; keeps nothing."""

    def __init__(self, column: str | None = None) -> None:
        self.column = column
        self.rows = 0
        self.total = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _TallyWriter(self.column, context)

    def on_driver_message(self, message: Any) -> None:
        self.rows += message[0]
        self.total += message[1]


class _TallyWriter(SinkWriter):
    def __init__(self, column: str | None, context: WriterContext) -> None:
        self.column, self.context = column, context
        self.rows = self.total = 0

    def write(self, batch: Batch) -> None:
        self.rows += len(batch)
        if self.column is not None:
            self.total += int(batch.columns.column(self.column).to_numpy().sum())

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self.context.to_driver((self.rows, self.total))


class RunningCount(KeyedProcessFunction):
    """W3: a Python function with keyed state, one result per event."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(value[0], count)


def environment(checkpoints: Path | None, **settings: str) -> StreamExecutionEnvironment:
    config = Configuration()
    config.set_string("parallelism.default", "2")
    if checkpoints is not None:
        config.set_string("execution.checkpointing.interval", "1 s")
        config.set_string("execution.checkpointing.dir", str(checkpoints))
    for key, value in settings.items():
        config.set_string(key.replace("__", "-").replace("_", "."), value)
    return StreamExecutionEnvironment.get_execution_environment(config)


def windowed(data: Path, key: str, checkpoints: Path | None, **settings: str) -> tuple[float, TallySink]:
    """W1 (key country) and W2 (key user_id): count and sum per key and minute."""
    env = environment(checkpoints, penstock_batch_max__rows="65536", **settings)
    sink = TallySink("c")
    # A file to each reader, whole: parts of the two go up in event time one behind the other, not together.
    form = ParquetFormat([key, "amount", "ts_ms"])
    source = FileSource.for_bulk_file_format(form, str(data)).with_split_size("1 tb").build()
    (
        env.from_source(source, STRATEGY, "events")
        .key_by(key)
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .agg(Count("c"), Sum("amount", "s"))
        .sink_to(sink)
    )
    return env.execute("bench-window").get_net_runtime() / 1000, sink


def running_count(data: Path, checkpoints: Path | None, **settings: str) -> tuple[float, TallySink]:
    """W3."""
    env = environment(checkpoints, **settings)
    sink = TallySink()
    source = FileSource.parquet(str(data), columns=["user_id", "amount"])
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
        .key_by("user_id")
        .process(RunningCount(), Types.ROW([Types.LONG(), Types.LONG()]))
        .sink_to(sink)
    )
    return env.execute("bench-function").get_net_runtime() / 1000, sink


class LatencySink(Sink):
    """Gathers arrival time minus scheduled time, in milliseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _LatencyWriter(context)

    def on_driver_message(self, message: Any) -> None:
        self.samples.extend(message)


class _LatencyWriter(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self.context = context
        self.samples: list[tuple[float, float]] = []

    def write(self, batch: Batch) -> None:
        now = time.time() * 1000
        self.samples.extend((row[2], now - row[2]) for row in batch.to_rows())

    def flush(self, end_of_input: bool) -> None:
        if end_of_input and self.samples:
            self.context.to_driver(self.samples)


class Timetable:
    """Event ``i`` with the time it is due at, in milliseconds: a late source counts as latency, too."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.start: float | None = None

    def __call__(self, i: int) -> tuple[int, float]:
        if self.start is None:
            self.start = time.time() - i / self.rate
        return i * 7919 % 1000, (self.start + i / self.rate) * 1000


class LatencyCount(KeyedProcessFunction):
    """W4: the running count, passing the time stamp on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (value[0], count, value[1])


def latency(
    seconds: int, rate: int, checkpoints: Path | None, warm_s: float = 5.0
) -> tuple[float, float, int]:
    """p50 and p99 in milliseconds from a source of ``rate`` events a second to the sink."""
    late = delays(seconds, rate, checkpoints, warm_s)
    return late[len(late) // 2], late[int(len(late) * 0.99)], len(late)


def delays(seconds: int, rate: int, checkpoints: Path | None, warm_s: float = 5.0) -> list[float]:
    """How long each event took from when it was due to the sink, in milliseconds, sorted."""
    env = environment(checkpoints)
    sink = LatencySink()
    source = DataGeneratorSource(Timetable(rate), seconds * rate, rate)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "clock")
        .set_parallelism(1)
        .key_by(lambda value: value[0])
        .process(LatencyCount())
        .sink_to(sink)
    )
    env.execute("bench-latency")
    first = min(stamp for stamp, _ in sink.samples)
    return sorted(delay for stamp, delay in sink.samples if stamp >= first + warm_s * 1000)


def warm_up() -> None:
    """Start Spark and the Python workers before anything is measured."""
    env = environment(None)
    env.from_collection(list(range(10))).sink_to(DiscardingSink())
    env.execute("warm-up")
