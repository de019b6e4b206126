"""The five graphs of the exactly-once tests, each with the output it must have.

Results do not depend on parallelism or timing, so one golden list serves every way of running:
through, with crashes, resumed, at another parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common import Encoder, WatermarkStrategy
from penstock.connectors.log import Consumer, Log, LogSink, Text
from penstock.connectors.sink import Sink
from penstock.connectors.source import Source, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink, ParquetWriterFactory
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows

KEYS = 7
TOPIC = "out"
LOG_TEXT = Text()
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])

Build = Callable[[StreamExecutionEnvironment, Callable[[], Sink], int, "Pace"], None]


@dataclass(frozen=True)
class Pace:
    """How fast records come: at a rate, and no further than a good half before the gate is open.

    The gate is a file.  It makes sure that a job is still in the middle when a test disturbs it.
    """

    rate: float | None = None
    gate: Path | None = None

    def source(self, generate: Callable[[Any], Any], count: int, columns: bool = False) -> Source:
        """A source at this pace."""
        return GatedSource(generate, count, self.rate, columns, self.gate)


class GatedSource(DataGeneratorSource):
    """Waits at a good half of its records until a file appears."""

    def __init__(
        self, generate: Callable[[Any], Any], count: int, rate: float | None, columns: bool, gate: Path | None
    ) -> None:
        super().__init__(generate, count, rate, columns)
        self._gate = gate
        self._limit = count * 6 // 10

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return reader if self._gate is None else _GatedReader(reader, self._gate, self._limit, split.info[1])


class _GatedReader(SplitReader):
    def __init__(self, reader: SplitReader, gate: Path, limit: int, step: int) -> None:
        self._reader, self._gate, self._limit, self._step = reader, gate, limit, step

    def poll(self, max_rows: int) -> Batch | None:
        allowed = (self._limit - self._reader.position()) // self._step
        if allowed < max_rows and self._gate.exists():
            allowed = max_rows
        return self._reader.poll(min(max_rows, allowed)) if allowed > 0 else None

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()


def text_file_sink(directory: Path) -> Sink:
    """Lines of text, committed with each snapshot."""
    return FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).build()


def log_sink(root: Path) -> Sink:
    """A topic of two partitions."""
    log = Log(root)
    if TOPIC not in log.topics():
        log.create_topic(TOPIC, partitions=2)
    return LogSink(root, TOPIC, LOG_TEXT)


def parquet_sink(directory: Path) -> Sink:
    """Parquet files in a folder per key."""
    builder = FileSink.for_bulk_format(str(directory), ParquetWriterFactory(SCHEMA))
    return builder.with_bucket_assigner(lambda row: f"k={row['k']}").build()


def committed_files(directory: Path) -> list[Path]:
    """Files that a reader may see."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.is_file() and not any(p.startswith((".", "_")) for p in path.relative_to(directory).parts)
    )


def read_text(directory: Path) -> list[str]:
    """All committed lines, sorted."""
    return sorted(line for path in committed_files(directory) for line in path.read_text().splitlines())


def read_log(root: Path) -> list[str]:
    """All committed values of the topic, sorted."""
    lines: list[str] = []
    with Consumer(Log(root).topic(TOPIC)) as consumer:
        while found := consumer.poll():
            for _, batch in found:
                lines += [value.decode() for value in batch.column("value").to_pylist()]
    return sorted(lines)


def read_parquet(directory: Path) -> list[str]:
    """All committed rows as text, sorted."""
    lines: list[str] = []
    for path in committed_files(directory):
        table = pq.ParquetFile(path).read()
        lines += [f"{row['k']},{row['v']}" for row in table.to_pylist()]
    return sorted(lines)


# --- 1: a chain without state --------------------------------------------------------------------


def chain(env: StreamExecutionEnvironment, sink: Callable[[], Sink], count: int, pace: Pace) -> None:
    source = pace.source(lambda i: i, count)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream = stream.map(lambda i: i * 3).filter(lambda i: i % 2 == 0)
    stream.flat_map(lambda i: (f"{i}", f"{i}'")).sink_to(sink()).uid("out")


def chain_golden(count: int) -> list[str]:
    return sorted(text for i in range(count) if i * 3 % 2 == 0 for text in (f"{i * 3}", f"{i * 3}'"))


# --- 2: a repartition and keyed state -------------------------------------------------------------


class SumUp(KeyedProcessFunction):
    """Passes records on; when a key has all its records, emits its count and sum."""

    def __init__(self, expected: dict[int, int]) -> None:
        self._expected = expected

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, number = value
        count, total = self._sum.value() or (0, 0)
        self._sum.update((count + 1, total + number))
        yield f"{key}:{number}"
        if count + 1 == self._expected[key]:
            yield f"{key}={total + number}/{count + 1}"


def keyed(env: StreamExecutionEnvironment, sink: Callable[[], Sink], count: int, pace: Pace) -> None:
    source = pace.source(lambda i: (i % KEYS, i), count)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = dict(Counter(i % KEYS for i in range(count)))
    result = stream.key_by(lambda pair: pair[0]).process(SumUp(counts)).uid("sum")
    result.sink_to(sink()).uid("out")


def keyed_into_both(env: StreamExecutionEnvironment, out: Path, count: int, pace: Pace) -> None:
    """The same results into files and into a log, by one job."""
    source = pace.source(lambda i: (i % KEYS, i), count)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = dict(Counter(i % KEYS for i in range(count)))
    result = stream.key_by(lambda pair: pair[0]).process(SumUp(counts)).uid("sum")
    result.sink_to(text_file_sink(out / "file")).uid("file")
    result.sink_to(log_sink(out / "log")).uid("log")


def keyed_golden(count: int) -> list[str]:
    lines = [f"{i % KEYS}:{i}" for i in range(count)]
    for key in range(KEYS):
        numbers = [i for i in range(count) if i % KEYS == key]
        if numbers:
            lines.append(f"{key}={sum(numbers)}/{len(numbers)}")
    return sorted(lines)


# --- 3: two inputs, state and event-time timers ---------------------------------------------------


class Match(KeyedCoProcessFunction):
    """Joins orders with payments; a timer reports orders that nobody paid for."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._order = runtime_context.get_state(ValueStateDescriptor("order"))
        self._payment = runtime_context.get_state(ValueStateDescriptor("payment"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        if self._payment.value() is not None:
            yield f"{value[0]} paid {self._payment.value()}"
            self._payment.clear()
            return
        self._order.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 500)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[str]:
        if self._order.value() is None:
            self._payment.update(value[0])
            return
        self._order.clear()
        yield f"{value[0]} paid {value[0]}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        if self._order.value() is not None:
            self._order.clear()
            yield f"{ctx.get_current_key()} unpaid"


def _timed() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


def two_inputs(env: StreamExecutionEnvironment, sink: Callable[[], Sink], count: int, pace: Pace) -> None:
    orders = env.from_source(pace.source(lambda i: (i, i * 10), count), _timed(), "orders")
    payments = env.from_source(
        pace.source(lambda i: (i if i % 3 else -i - 1, i * 10 + 100), count), _timed(), "paid"
    )
    both = orders.uid("orders").connect(payments.uid("payments"))
    joined = both.key_by(lambda order: order[0], lambda payment: payment[0]).process(Match())
    joined.uid("match").sink_to(sink()).uid("out")


def two_inputs_golden(count: int) -> list[str]:
    return sorted(f"{i} paid {i}" if i % 3 else f"{i} unpaid" for i in range(count))


# --- 4: session windows ---------------------------------------------------------------------------


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value[2])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Describe(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        for count, total in elements:
            yield f"{key} {context.window().start}-{context.window().end} {count} {total}"


def session_time(i: int) -> int:
    """Bursts of 60 records, a second of silence between them."""
    return i * 5 + i // 60 * 1000


def sessions(env: StreamExecutionEnvironment, sink: Callable[[], Sink], count: int, pace: Pace) -> None:
    source = pace.source(lambda i: (i % KEYS, session_time(i), i), count)
    stream = env.from_source(source, _timed(), "clicks").uid("clicks")
    windows = stream.key_by(lambda click: click[0]).window(EventTimeSessionWindows.with_gap(200))
    result = windows.aggregate(CountAndSum(), Describe()).uid("sessions")
    result.sink_to(sink()).uid("out")


def sessions_golden(count: int) -> list[str]:
    open_: dict[int, tuple[int, int, int, int]] = {}
    lines = []
    for i in range(count):
        key, time = i % KEYS, session_time(i)
        if key in open_ and time < open_[key][1]:
            start, _, n, total = open_[key]
            open_[key] = (start, time + 200, n + 1, total + i)
            continue
        if key in open_:
            lines.append("{} {}-{} {} {}".format(key, *open_[key]))
        open_[key] = (time, time + 200, 1, i)
    return sorted([*lines, *("{} {}-{} {} {}".format(key, *session) for key, session in open_.items())])


# --- 5: columns into a two-phase Parquet sink -----------------------------------------------------


def make_columns(indices: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(indices % KEYS), pa.array(indices * 2)], schema=SCHEMA)


def columns(env: StreamExecutionEnvironment, sink: Callable[[], Sink], count: int, pace: Pace) -> None:
    source = pace.source(make_columns, count, columns=True)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "columns").uid("columns")
    spread = stream.rebalance().map_batches(lambda batch: batch).uid("same")
    spread.sink_to(sink()).uid("out")


def columns_golden(count: int) -> list[str]:
    return sorted(f"{i % KEYS},{2 * i}" for i in range(count))


GRAPHS: dict[str, tuple[Build, Callable[[int], list[str]]]] = {
    "chain": (chain, chain_golden),
    "keyed": (keyed, keyed_golden),
    "two_inputs": (two_inputs, two_inputs_golden),
    "sessions": (sessions, sessions_golden),
    "columns": (columns, columns_golden),
}

SINKS: dict[str, tuple[Callable[[Path], Sink], Callable[[Path], list[str]]]] = {
    "file": (text_file_sink, read_text),
    "log": (log_sink, read_log),
    "parquet": (parquet_sink, read_parquet),
}


def sink_of(graph: str, preferred: str = "file") -> str:
    """The columnar graph has its own sink; the others take either."""
    return "parquet" if graph == "columns" else preferred
