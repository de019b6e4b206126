"""A typed program that is right: type checkers in strict mode find nothing, and know what they should.

Read by ``test_typed_programs.py``, which never runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_type

import penstock
from penstock.columns import Count, Sum, col
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    AllWindowedStream,
    AsyncDataStream,
    AsyncFunction,
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CloseableIterator,
    CoMapFunction,
    ConnectedStreams,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowedStream,
)
from penstock.datastream.state import MapState, MapStateDescriptor, ValueState, ValueStateDescriptor
from penstock.datastream.window import GlobalWindows, TumblingEventTimeWindows

Click = tuple[str, int]
LATE = OutputTag("late", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing("10 s")
clicks = env.from_collection([("ann", 1), ("bob", 2)])
assert_type(clicks, DataStream[Click])
assert_type(env.from_collection([1], Types.STRING()), DataStream[str])
assert_type(env.from_collection([(1,)], [Types.INT()]), DataStream[Row])

# --- functions --------------------------------------------------------------------------------------


class Name(MapFunction[Click, str]):
    def map(self, value: Click) -> str:
        return value[0]


class Untyped(MapFunction):
    def map(self, value: Any) -> Any:
        return value


assert_type(clicks.map(Name()), DataStream[str])
assert_type(clicks.map(Untyped()), DataStream[Any])
assert_type(clicks.map(lambda click: click[1] + 1), DataStream[int])
assert_type(clicks.map(lambda click: click[0], Types.STRING()).flat_map(str.split), DataStream[str])
assert_type(clicks.filter(lambda click: click[1] > 1), DataStream[Click])
assert_type(clicks.map(Name()).union(clicks.map(lambda click: click[1])), DataStream[str | int])
assert_type(clicks.rebalance(), DataStream[Click])
assert_type(clicks.name("clicks").uid("clicks"), DataStream[Click])


class Sides(ProcessFunction[Click, int]):
    def process_element(
        self, value: Click, ctx: ProcessFunction.Context
    ) -> Iterator[int | tuple[OutputTag[str], str]]:
        yield value[1]
        yield LATE, value[0]


sides = clicks.process(Sides())
assert_type(sides, DataStream[int])
assert_type(sides.get_side_output(LATE), DataStream[str])

# --- keys, state, timers ----------------------------------------------------------------------------


class Totals(KeyedProcessFunction[str, Click, Click]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total: ValueState[int] = runtime_context.get_state(ValueStateDescriptor("t", Types.LONG()))
        self.seen = runtime_context.get_map_state(RULES)
        assert_type(self.seen, MapState[str, int])

    def process_element(self, value: Click, ctx: KeyedProcessFunction.Context[str]) -> Iterable[Click]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        return [(ctx.get_current_key(), total)]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[Click]:
        yield ctx.get_current_key(), timestamp


class Larger(ReduceFunction[Click]):
    def reduce(self, value1: Click, value2: Click) -> Click:
        return max(value1, value2)


keyed = clicks.key_by(lambda click: click[0])
assert_type(keyed, KeyedStream[Click, str])
assert_type(clicks.key_by("user"), KeyedStream[Click, Any])
assert_type(keyed.process(Totals()), DataStream[Click])
assert_type(keyed.reduce(Larger()), DataStream[Click])
assert_type(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])), DataStream[Click])

# --- windows ----------------------------------------------------------------------------------------


class Mean(AggregateFunction[Click, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Click, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Label(ProcessWindowFunction[float, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterator[str]:
        yield f"{key} {context.window().start} {max(elements)}"


minutes = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))
assert_type(minutes, WindowedStream[Click, str, TimeWindow])
assert_type(minutes.allowed_lateness(Duration.of_seconds(1)).aggregate(Mean()), DataStream[float])
assert_type(minutes.aggregate(Mean(), Label()), DataStream[str])
assert_type(minutes.reduce(lambda a, b: max(a, b)), DataStream[Click])
minutes.agg(Count("n"), Sum(col("price") * col("quantity"), "revenue")).print()
everything = clicks.window_all(GlobalWindows.create())
assert_type(everything.reduce(lambda a, b: a), DataStream[Click])
_: AllWindowedStream[Click] = everything

# --- two streams ------------------------------------------------------------------------------------


class Both(CoMapFunction[Click, str, str]):
    def map1(self, value: Click) -> str:
        return value[0]

    def map2(self, value: str) -> str | None:
        return value or None


class Meet(KeyedCoProcessFunction[str, Click, str, int]):
    def process_element1(
        self, value: Click, ctx: KeyedCoProcessFunction.Context[str]
    ) -> Iterable[int] | None:
        return None

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context[str]) -> list[int]:
        return [len(value)]


class Check(BroadcastProcessFunction[Click, str, Click]):
    def process_element(self, value: Click, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Click]:
        if value[1] > (ctx.get_broadcast_state(RULES).get("least") or 0):
            yield value

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(value, 1)


names = env.read_text_file("names.txt")
assert_type(names, DataStream[str])
connected = clicks.connect(names)
assert_type(connected, ConnectedStreams[Click, str])
assert_type(connected.map(Both()), DataStream[str])
assert_type(connected.key_by(lambda click: click[0], lambda name: name).process(Meet()), DataStream[int])
assert_type(names.broadcast(), DataStream[str])
assert_type(names.broadcast(RULES), BroadcastStream[str])
assert_type(clicks.connect(names.broadcast(RULES)), BroadcastConnectedStream[Click, str])
assert_type(clicks.connect(names.broadcast(RULES)).process(Check()), DataStream[Click])


class Ask(AsyncFunction[str, int]):
    async def async_invoke(self, value: str) -> list[int]:
        return [len(value)]


assert_type(AsyncDataStream.unordered_wait(names, Ask(), Time.seconds(5)), DataStream[int])

# --- ends -------------------------------------------------------------------------------------------

timed = clicks.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_assigner(lambda click, _: click[1])
)
assert_type(timed, DataStream[Click])
assert_type(clicks.execute_and_collect(), CloseableIterator[Click])
assert_type(clicks.execute_and_collect("clicks", 5), list[Click])
assert_type(clicks.execute_and_collect(limit=5), list[Click])
assert_type(clicks.take(5, timeout="1 min"), list[Click])
with names.execute_and_collect() as found:
    for name in found:
        assert_type(name, str)


def counted(stream: DataStream[object]) -> DataStream[int]:
    """A stream of anything may be passed: streams are covariant."""
    return stream.map(lambda _: 1)


def of_anything(stream: penstock.datastream.DataStream) -> penstock.datastream.KeyedStream:
    """Programs without types stay right, also in strict mode."""
    return stream.map(Untyped()).key_by(lambda value: value)


counted(clicks)
of_anything(clicks)
