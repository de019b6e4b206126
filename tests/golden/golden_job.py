"""The job whose savepoints are kept per format version: every kind of state, and an output that tells it all.

Parallelism and timing do not change the output.  Records come up to a limit until a file appears; what
is emitted later is the golden output of whoever starts from a savepoint taken at the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns import Avg, Count, Max, Sum
from penstock.common import Types, WatermarkStrategy
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.connectors.source import Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream import (
    AggregateFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

COUNT, LIMIT, KEYS = 400, 240, 5
END = 10_000_000
PICKLED = Types.PICKLED_BYTE_ARRAY()


class Account:
    """An object that no codec knows: it is pickled."""

    def __init__(self, owner: str, total: int = 0) -> None:
        self.owner, self.total = owner, total


class Larger(ReduceFunction):
    """The larger of two."""

    def reduce(self, value1: int, value2: int) -> int:
        return max(value1, value2)


class Mean(AggregateFunction):
    """Sum and number, to their quotient."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class PairMean(Mean):
    """The mean of a key's numbers, with the key."""

    def add(self, value: Any, accumulator: Any) -> Any:
        return super().add(value[1], accumulator)


class EveryState(KeyedProcessFunction):
    """Keeps all kinds of keyed state, typed and pickled; says at the end what is in them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        get = runtime_context
        self._sum = get.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self._account = get.get_state(ValueStateDescriptor("account", PICKLED))
        self._list = get.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self._map = get.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self._max = get.get_reducing_state(ReducingStateDescriptor("max", Larger(), Types.LONG()))
        self._mean = get.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), PICKLED))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, number = value
        self._sum.update((self._sum.value() or 0) + number)
        account = self._account.value() or Account(key)
        account.total += number
        self._account.update(account)
        if number % 20 == 0:
            self._list.add(number)
        name = f"rest {number % 3}"
        self._map.put(name, (self._map.get(name) or 0) + 1)
        self._max.add(number)
        self._mean.add(number)
        timers = ctx.timer_service()
        timers.register_event_time_timer(END)
        timers.register_event_time_timer(number // 100 * 1000 + 999)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        key = ctx.get_current_key()
        if timestamp != END:
            yield f"timer {key} {timestamp}"
            return
        account = self._account.value()
        counts = " ".join(f"{name}={count}" for name, count in sorted(self._map.items()))
        yield f"value {key} {self._sum.value()} {account.owner} {account.total}"
        yield f"list {key} {sorted(self._list.get())}"
        yield f"map {key} {counts}"
        yield f"max {key} {self._max.get()} mean {self._mean.get()}"


class Remembers(FlatMapFunction):
    """Operator state: tells once what it was restored with."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_operator_list_state("hundreds")
        self._old = list(self._state.get())

    def flat_map(self, value: Any) -> Iterable[str]:
        number = value[1]
        if number % 20 == 0:
            self._state.add(number)
        old, self._old = self._old, []
        return [f"remembered {item}" for item in old]


class Describe(ProcessWindowFunction):
    """A window in a line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        window, numbers = context.window(), [number for _, number in elements]
        yield f"{self._name} {key} {window.start}-{window.end} {len(numbers)} {sum(numbers)}"


class GatedSource(DataGeneratorSource):
    """Waits at the limit until the gate, a file, is there; without a gate it does not wait."""

    def __init__(self, generate: Any, gate: Path | None, columns: bool = False) -> None:
        super().__init__(generate, COUNT, None, columns)
        self._gate = gate

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return reader if self._gate is None else _GatedReader(reader, self._gate, split.info[1])


class _GatedReader(SplitReader):
    def __init__(self, reader: SplitReader, gate: Path, step: int) -> None:
        self._reader, self._gate, self._step = reader, gate, step

    def poll(self, max_rows: int) -> Batch | None:
        allowed = (LIMIT - self._reader.position() + self._step - 1) // self._step
        if self._gate.exists():
            allowed = max_rows
        return self._reader.poll(min(max_rows, allowed)) if allowed > 0 else None

    def position(self) -> Any:
        return self._reader.position()


class LinesSink(Sink):
    """Appends lines to files of a directory, one per writer, without transactions."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create_writer(self, context: WriterContext) -> SinkWriter:
        self._directory.mkdir(parents=True, exist_ok=True)
        return _LinesWriter(self._directory / f"{context.sink_id}-{context.subtask}-{context.generation}")


class _LinesWriter(SinkWriter):
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, batch: Batch) -> None:
        with self._path.open("a") as file:
            file.writelines(f"{line}\n" for line in batch.to_rows())


def read_lines(directory: Path) -> list[str]:
    """All lines, sorted."""
    return sorted(line for path in directory.iterdir() for line in path.read_text().splitlines())


def make_columns(index: Any) -> pa.RecordBatch:
    """Records of the columnar part."""
    return pa.record_batch({"k": index % KEYS, "v": index * 2, "ts": index * 10})


def describe_row(row: Any) -> str:
    """A result of the columnar part in a line."""
    return f"columns {row.k} {row.window_start} {row.n} {row.total} {row.largest} {np.round(row.mean, 6)}"


def build(env: StreamExecutionEnvironment, out: Path, gate: Path | None) -> None:
    """Add the job to an environment."""
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v[1] * 10)
    source = GatedSource(lambda i: (f"key{i % KEYS}", i), gate)
    numbers = env.from_source(source, timed, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda pair: pair[0], Types.STRING())
    lines = keyed.process(EveryState()).uid("states")
    windows = keyed.window(TumblingEventTimeWindows.of(1000)).process(Describe("window")).uid("windows")
    bursts = keyed.window(EventTimeSessionWindows.with_gap(60)).process(Describe("session")).uid("bursts")
    means = keyed.window(TumblingEventTimeWindows.of(1500)).aggregate(PairMean()).uid("means")
    remembered = numbers.rebalance().flat_map(Remembers()).uid("remembers")
    by_column = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
    columnar = GatedSource(make_columns, gate, columns=True)
    columns = env.from_source(columnar, by_column, "columns").uid("columns")
    summed = (
        columns.key_by("k")
        .window(TumblingEventTimeWindows.of(1000))
        .agg(Count("n"), Sum("v", "total"), Max("v", "largest"), Avg("v", "mean"))
        .uid("sums")
    )
    everything = lines.union(windows, bursts, means.map(lambda mean: f"mean {mean}"), remembered)
    everything.union(summed.map(describe_row)).sink_to(LinesSink(out)).uid("out")
