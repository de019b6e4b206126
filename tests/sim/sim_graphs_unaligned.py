"""Graphs whose checkpoints are unaligned: from the start, or when alignment takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
)
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import SimSink, SimSource

KEYS = 5
RATE = 500.0
UNTIMED = WatermarkStrategy.no_watermarks()


def switch_on(env: Env, timeout_ms: int = 0) -> None:
    """Unaligned checkpoints, tried aligned for ``timeout_ms``."""
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    env.get_checkpoint_config().set_aligned_checkpoint_timeout(timeout_ms)


def records(splits: int, each: int) -> list[list[tuple[int, int]]]:
    """(split, number) in order of the number."""
    return [[(split, number) for number in range(each)] for split in range(splits)]


class InOrder(KeyedProcessFunction):
    """Says of every record whether it came behind all earlier ones of its key and split."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_map_state(MapStateDescriptor("last"))
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        split, number = value[0], value[1]
        last = self._last.get(split)
        self._last.put(split, number)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield (ctx.get_current_key(), count)
        yield (split, number, "in order" if last is None or last < number else f"behind {last}")


def _chain(env: Env) -> None:
    source = SimSource(records(3, 200), rate=RATE)
    stream = env.from_source(source, UNTIMED, "records").uid("records")
    spread = stream.rebalance().map(lambda value: value).uid("spread")
    checked = spread.key_by(lambda value: value[1] % KEYS).process(CountOnly()).uid("count")
    direct = stream.key_by(lambda value: value[1] % KEYS).process(InOrder()).uid("order")
    checked.union(direct).rebalance().sink_to(SimSink("out")).uid("out")


class CountOnly(KeyedProcessFunction):
    """How many records of its key there were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield ("spread", ctx.get_current_key(), count)


def unaligned_chain(env: Env) -> None:
    switch_on(env)
    _chain(env)


def unaligned_timeout(env: Env) -> None:
    """Some checkpoints are through before the time is up, some are not."""
    switch_on(env, 8)
    _chain(env)


class Both(KeyedCoProcessFunction):
    """Adds up two streams; each record says how many of its own side came before it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts"))

    def _count(self, side: str, ctx: Any) -> Iterator[Any]:
        count = (self._counts.get(side) or 0) + 1
        self._counts.put(side, count)
        yield (ctx.get_current_key(), side, count)

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self._count("left", ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self._count("right", ctx)


def unaligned_inputs(env: Env) -> None:
    """Two inputs; one ends long before the other."""
    switch_on(env)
    left = env.from_source(SimSource(records(2, 240), rate=RATE), UNTIMED, "left").uid("left")
    right = env.from_source(SimSource(records(1, 40), rate=RATE), UNTIMED, "right").uid("right")
    both = left.connect(right).key_by(lambda value: value[1] % KEYS, lambda value: value[1] % KEYS)
    both.process(Both()).uid("both").rebalance().sink_to(SimSink("out")).uid("out")


def unaligned_window(env: Env) -> None:
    switch_on(env)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value[1] * 10
    )
    stream = env.from_source(SimSource(records(2, 240), rate=RATE), strategy, "records").uid("records")
    windows = stream.key_by(lambda value: value[1] % KEYS).window(TumblingEventTimeWindows.of(200))
    sums = windows.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1])).uid("windows")
    sums.rebalance().sink_to(SimSink("out")).uid("out")


def unaligned_chains(env: Env) -> None:
    """Steps with a parallelism of their own beside steps with that of the job: chains come and go with it."""
    switch_on(env)
    stream = env.from_source(SimSource(records(3, 200), rate=RATE), UNTIMED, "records").uid("records")
    first = stream.set_parallelism(2).map(lambda value: value).uid("first")
    second = first.map(lambda value: value).uid("second").set_parallelism(1)
    counted = second.key_by(lambda value: value[1] % KEYS).process(CountOnly()).uid("count")
    direct = first.key_by(lambda value: value[1] % KEYS).process(CountOnly()).uid("again")
    last = counted.map(lambda value: (*value, "last")).uid("last").set_parallelism(2)
    last.sink_to(SimSink("out")).uid("out").set_parallelism(1)
    direct.map(lambda value: value).uid("behind").sink_to(SimSink("direct")).uid("direct").set_parallelism(1)


class Limping(AsyncFunction):
    """Is slow in one subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seconds = 0.0005 if runtime_context.get_index_of_this_subtask() else 0.012

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(self._seconds)
        return [(*value, "x" * 100)]


def unaligned_limping(env: Env) -> None:
    """One subtask is much slower than those that the records are dealt to beside it."""
    switch_on(env)
    stream = env.from_source(SimSource(records(3, 150), rate=RATE), UNTIMED, "records").uid("records")
    wide = stream.map(lambda value: (*value, "x" * 100)).rebalance()
    slow = AsyncDataStream.unordered_wait(wide, Limping(), Time.seconds(60), 4).uid("limping")
    counted = slow.key_by(lambda value: value[1] % KEYS).process(CountOnly()).uid("count")
    counted.rebalance().sink_to(SimSink("out")).uid("out")


UNALIGNED_GRAPHS: dict[str, Callable[[Env], None]] = {
    "unaligned_chain": unaligned_chain,
    "unaligned_timeout": unaligned_timeout,
    "unaligned_inputs": unaligned_inputs,
    "unaligned_window": unaligned_window,
    "unaligned_chains": unaligned_chains,
    "unaligned_limping": unaligned_limping,
}
